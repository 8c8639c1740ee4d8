//! Calls in events without a decision. One process of a cluster at a time follows the events in order; results commit
//! with the follower's new number, so each call is counted once.

use std::time::Duration;

use jiff::Timestamp;
use jiff_sqlx::ToSqlx;

use uuid::Uuid;

use super::{
    StoreError,
    aggregates::ContractStore,
    decisions::Named,
    events::received_at,
    looks::{self, LookFinding},
    transaction::{Tx, begin},
    webhooks,
};
use umbra_domain::EventId;

/// Most of an agent's decisions, the latest, that are compared with an event.
const MOST_DECISIONS: i64 = 1_000;

/// Number, id, agent, payload, erased or not, matched shadows and triggers of an event.
type EventRow = (i64, Uuid, String, Vec<u8>, bool, Vec<i32>, Vec<i16>);

/// An event to search for calls without a decision.
#[derive(Debug, Clone)]
pub struct SeenEvent {
    /// Event id.
    pub id: EventId,
    /// Agent of the event.
    pub agent: String,
    /// The stored event, as JSON.
    pub payload: Vec<u8>,
    /// Matched shadows: `shadow_version.id`, and the trigger's code.
    pub pairs: Vec<(i32, i16)>,
}

/// A page of events that this process reads. Dropping it leaves the events to be read again.
pub struct UnguardedPage {
    tx: Tx,
    until: i64,
    /// The database's time.
    pub now: Timestamp,
    /// Events that are not erased, in order of receipt.
    pub events: Vec<SeenEvent>,
    /// True if more events are there already.
    pub more: bool,
}

impl ContractStore<'_> {
    /// Begins to read the next events of feed `intake`, at most `most` numbers, that were received at least `settled`
    /// ago; returns `None` while another process reads them.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn begin_watching(self, most: i64, settled: Duration) -> Result<Option<UnguardedPage>, StoreError> {
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
        let mut watching = UnguardedPage { tx, until, now: now.to_jiff(), events: Vec::new(), more: until < last };
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

    /// Skips all events up to now.
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

impl UnguardedPage {
    /// Returns those of these calls, by agent and id, that were decided, each with its tool if the audit has it.
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

    /// Returns an agent's decisions since a time, among its latest rows: the tool, and the payload as JSON.
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

    /// Counts a call without a decision; returns the time of the previous one of this tool by this agent.
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

    /// Stores a message in this transaction.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn enqueue(&mut self, message: &webhooks::OutgoingMessage) -> Result<(), StoreError> {
        webhooks::enqueue(&mut self.tx, message).await
    }

    /// Stores findings; returns the indices of the new ones. A repeat becomes an occurrence of the first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn find(&mut self, found: &[LookFinding]) -> Result<Vec<usize>, StoreError> {
        if found.is_empty() { Ok(Vec::new()) } else { looks::store(&mut self.tx, found).await }
    }

    /// Commits what was stored and the follower's new number.
    ///
    /// # Errors
    /// The database does not answer: the events may come again.
    pub async fn commit(mut self) -> Result<(), StoreError> {
        sqlx::query("/* unguarded.done */ UPDATE follower SET seq = $1 WHERE name = 'unguarded' AND seq < $1")
            .bind(self.until)
            .execute(&mut *self.tx)
            .await?;
        Ok(self.tx.commit().await?)
    }
}
