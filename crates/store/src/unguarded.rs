//! Calls in events that no decision was asked for. Events are followed in order by one process of a cluster at a time; what
//! is found commits with the follower's new number: each is counted once.

use std::time::Duration;

use jiff::Timestamp;
use jiff_sqlx::ToSqlx;

use uuid::Uuid;

use super::{
    StoreError,
    aggregates::ContractStore,
    decisions::Named,
    events::received_at,
    looks::{self, Looked},
    transaction::{Tx, begin},
    webhooks,
};
use umbra_domain::EventId;

/// Decisions of an agent, the latest, among which that of an event is looked for.
const MOST_DECISIONS: i64 = 1_000;

/// Number, id, agent, payload, whether it was erased, matched shadows and triggers of an event.
type EventRow = (i64, Uuid, String, Vec<u8>, bool, Vec<i32>, Vec<i16>);

/// An event that is looked at.
#[derive(Debug, Clone)]
pub struct SeenEvent {
    /// Its id.
    pub id: EventId,
    /// Whose.
    pub agent: String,
    /// As stored, as JSON.
    pub payload: Vec<u8>,
    /// Matched shadows: `shadow_version.id`, and the trigger's code.
    pub pairs: Vec<(i32, i16)>,
}

/// Events that this process looks at. Dropped, they are looked at again.
pub struct Watching {
    tx: Tx,
    until: i64,
    /// The database's time.
    pub now: Timestamp,
    /// Those whose contents are there, in order of receipt.
    pub events: Vec<SeenEvent>,
    /// Whether more are there already.
    pub more: bool,
}

impl ContractStore<'_> {
    /// The next events of feed `intake`, of so many numbers at most, that were received `settled` ago or earlier; `None`
    /// where another process looks at them.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn begin_watching(self, most: i64, settled: Duration) -> Result<Option<Watching>, StoreError> {
        let mut tx = begin(&self.0.work).await?;
        let from: Option<i64> = sqlx::query_scalar(
            "/* unguarded.hold */ SELECT seq FROM follower WHERE name = 'unguarded' FOR UPDATE SKIP LOCKED",
        )
        .fetch_optional(&mut *tx)
        .await?;
        let Some(from) = from else {
            tx.rollback().await?;
            return Ok(None);
        };
        let (last, now): (i64, jiff_sqlx::Timestamp) =
            sqlx::query_as("/* unguarded.last */ SELECT last, clock() FROM feed WHERE name = 'intake'")
                .fetch_one(&mut *tx)
                .await?;
        let mut until = last.min(from.saturating_add(most));
        let mut watching = Watching { tx, until, now: now.to_jiff(), events: Vec::new(), more: until < last };
        if from == until {
            return Ok(Some(watching));
        }
        let rows: Vec<EventRow> = sqlx::query_as(
            "/* unguarded.events */ SELECT seq, id, agent, payload, erased_at IS NOT NULL, shadows, triggers FROM event
             WHERE seq > $1 AND seq <= $2 ORDER BY seq",
        )
        .bind(from)
        .bind(until)
        .fetch_all(&mut *watching.tx)
        .await?;
        for (seq, id, agent, payload, erased, shadows, triggers) in rows {
            let id = EventId(id);
            if received_at(id).saturating_add(settled).is_ok_and(|at| at > watching.now) {
                until = seq - 1;
                watching.more = false;
                break;
            }
            if !erased {
                let pairs = shadows.into_iter().zip(triggers).collect();
                watching.events.push(SeenEvent { id, agent, payload, pairs });
            }
        }
        watching.until = until;
        Ok(Some(watching))
    }

    /// Leaves out the events that are there: nothing is looked for in them.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn skip_watching(self) -> Result<(), StoreError> {
        sqlx::query(
            "/* unguarded.skip */ UPDATE follower f SET seq = feed.last FROM feed
             WHERE f.name = 'unguarded' AND feed.name = 'intake' AND f.seq < feed.last",
        )
        .execute(&self.0.work)
        .await?;
        Ok(())
    }
}

impl Watching {
    /// Those of these calls, by agent and id, that were decided; each with its tool, where the audit has it.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn decided(&mut self, calls: &[Named]) -> Result<Vec<(Named, Option<String>)>, StoreError> {
        let (agents, ids): (Vec<&str>, Vec<&str>) =
            calls.iter().map(|(agent, id)| (agent.as_str(), id.as_str())).unzip();
        let rows: Vec<(String, String, Option<String>)> = sqlx::query_as(
            "/* unguarded.decided */ SELECT agent, call_id, (SELECT tool FROM audit a WHERE a.seq = c.seq) FROM call c
             JOIN unnest($1::text[], $2::text[]) k(agent, call_id) USING (agent, call_id)",
        )
        .bind(agents)
        .bind(ids)
        .fetch_all(&mut *self.tx)
        .await?;
        Ok(rows.into_iter().map(|(agent, id, tool)| ((agent, id), tool)).collect())
    }

    /// An agent's decisions since a time, among its latest rows: the tool of each, and its payload as JSON.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn decisions(&mut self, agent: &str, since: Timestamp) -> Result<Vec<(String, String)>, StoreError> {
        let rows = sqlx::query_as(
            "/* unguarded.decisions */ SELECT a.tool, coalesce(p.body, '{}') FROM (
                 SELECT seq, at, tool, kind FROM audit WHERE agent = $1 ORDER BY seq DESC LIMIT $3) a
             LEFT JOIN audit_payload p USING (seq)
             WHERE a.kind IN ('decision', 'merged') AND a.at >= $2 AND a.tool IS NOT NULL",
        );
        Ok(rows.bind(agent).bind(since.to_sqlx()).bind(MOST_DECISIONS).fetch_all(&mut *self.tx).await?)
    }

    /// Counts an unguarded call; answers when the last one of this tool by this agent was, if there was one.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn note(&mut self, agent: &str, tool: &str, event: EventId) -> Result<Option<Timestamp>, StoreError> {
        let at = received_at(event);
        let before: Option<jiff_sqlx::Timestamp> = sqlx::query_scalar(
            "/* unguarded.note */ INSERT INTO unguarded_call (agent, tool, calls, first_at, last_at, last_event)
             VALUES ($1, $2, 1, $3, $3, $4)
             ON CONFLICT (agent, tool) DO UPDATE SET calls = unguarded_call.calls + 1,
                 last_at = greatest(unguarded_call.last_at, excluded.last_at), last_event = excluded.last_event
             RETURNING (SELECT last_at FROM unguarded_call o WHERE o.agent = $1 AND o.tool = $2)",
        )
        .bind(agent)
        .bind(tool)
        .bind(at.to_sqlx())
        .bind(event.0)
        .fetch_one(&mut *self.tx)
        .await?;
        Ok(before.map(jiff_sqlx::Timestamp::to_jiff))
    }

    /// Stores a message with what is found.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn enqueue(&mut self, message: &webhooks::Outgoing) -> Result<(), StoreError> {
        webhooks::enqueue(&mut self.tx, message).await
    }

    /// Stores findings; answers which are new. A repeat becomes an occurrence of the first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn find(&mut self, found: &[Looked]) -> Result<Vec<usize>, StoreError> {
        if found.is_empty() { Ok(Vec::new()) } else { looks::store(&mut self.tx, found).await }
    }

    /// Commits what was found, and that the events were looked at.
    ///
    /// # Errors
    /// The database does not answer: the events may come again.
    pub async fn done(mut self) -> Result<(), StoreError> {
        sqlx::query("/* unguarded.done */ UPDATE follower SET seq = $1 WHERE name = 'unguarded' AND seq < $1")
            .bind(self.until)
            .execute(&mut *self.tx)
            .await?;
        Ok(self.tx.commit().await?)
    }
}
