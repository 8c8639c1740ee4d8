//! Calls in events without a decision. One process of a cluster at a time follows the events in order; results commit
//! with the follower's new number, so each call is counted once.

use std::time::Duration;

use jiff::Timestamp;
use jiff_sqlx::ToSqlx;

use super::{
    StoreError,
    aggregates::ContractStore,
    decisions::{Named, split},
    events::received_at,
    follow::{hold, move_on, skip},
    looks::{self, LookFinding},
    paging::Feed,
    sql,
    transaction::{Tx, begin},
    webhooks,
};
use umbra_domain::EventId;

/// Most of an agent's decisions, the latest, that are compared with an event.
const MOST_DECISIONS: i64 = 1_000;

/// Number, id, agent, payload, erased or not, matched shadows and triggers of an event.
type EventRow = (i64, EventId, String, Vec<u8>, bool, Vec<i32>, Vec<i16>);

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
        let tx = begin(&self.0.work).await?;
        let Some((mut tx, from)) = hold(tx, "unguarded").await? else { return Ok(None) };
        let (last, now): (i64, Timestamp) =
            sql::one(&mut *tx, "/* unguarded.last */ SELECT last, clock() FROM feed WHERE name = 'intake'", ()).await?;
        let mut until = last.min(from.saturating_add(most));
        let mut watching = UnguardedPage { tx, until, now, events: Vec::new(), more: until < last };
        if from == until {
            return Ok(Some(watching));
        }
        let rows: Vec<EventRow> = sql::all(
            &mut *watching.tx,
            "/* unguarded.events */ SELECT seq, id, agent, payload, erased_at IS NOT NULL, shadows, triggers FROM event
             WHERE seq > $1 AND seq <= $2 ORDER BY seq",
            (from, until),
        )
        .await?;
        for (seq, id, agent, payload, erased, shadows, triggers) in rows {
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
        skip(&self.0.work, "unguarded", Feed::Intake).await
    }
}

impl UnguardedPage {
    /// Returns those of these calls, by agent and id, that were decided, each with its tool if the audit has it.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn decided(&mut self, calls: &[Named]) -> Result<Vec<(Named, Option<String>)>, StoreError> {
        let rows: Vec<(String, String, Option<String>)> = sql::all(
            &mut *self.tx,
            "/* unguarded.decided */ SELECT agent, call_id, (SELECT tool FROM audit a WHERE a.seq = c.seq) FROM call c
             JOIN unnest($1::text[], $2::text[]) k(agent, call_id) USING (agent, call_id)",
            split(calls),
        )
        .await?;
        Ok(rows.into_iter().map(|(agent, id, tool)| ((agent, id), tool)).collect())
    }

    /// Returns an agent's decisions since a time, among its latest rows: the tool, and the payload as JSON.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn decisions(&mut self, agent: &str, since: Timestamp) -> Result<Vec<(String, String)>, StoreError> {
        sql::all(
            &mut *self.tx,
            "/* unguarded.decisions */ SELECT a.tool, coalesce(p.body, '{}') FROM (
                 SELECT seq, at, tool, kind FROM audit WHERE agent = $1 ORDER BY seq DESC LIMIT $3) a
             LEFT JOIN audit_payload p USING (seq)
             WHERE a.kind IN ('decision', 'merged') AND a.at >= $2 AND a.tool IS NOT NULL",
            (agent, since.to_sqlx(), MOST_DECISIONS),
        )
        .await
    }

    /// Counts a call without a decision; returns the time of the previous one of this tool by this agent.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn note(&mut self, agent: &str, tool: &str, event: EventId) -> Result<Option<Timestamp>, StoreError> {
        let at = received_at(event);
        sql::one(
            &mut *self.tx,
            "/* unguarded.note */ INSERT INTO unguarded_call (agent, tool, calls, first_at, last_at, last_event)
             VALUES ($1, $2, 1, $3, $3, $4)
             ON CONFLICT (agent, tool) DO UPDATE SET calls = unguarded_call.calls + 1,
                 last_at = greatest(unguarded_call.last_at, excluded.last_at), last_event = excluded.last_event
             RETURNING (SELECT last_at FROM unguarded_call o WHERE o.agent = $1 AND o.tool = $2)",
            (agent, tool, at.to_sqlx(), event.0),
        )
        .await
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
    pub async fn commit(self) -> Result<(), StoreError> {
        move_on(self.tx, "unguarded", self.until).await
    }
}
