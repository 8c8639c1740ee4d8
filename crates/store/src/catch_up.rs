//! Stored events that no shadow has reviewed: finds them, newest first, and reserves reviews of them.

use jiff::Timestamp;
use sqlx::{AssertSqlSafe, QueryBuilder};

use super::{
    StoreError,
    aggregates::EventStore,
    intake::Flush,
    paging::{Seek, equals},
    sql::{self, record, uuids},
};
use umbra_domain::{EventId, SkipReason, clock::first_id_at};

/// An event without a review.
#[derive(Debug, Clone)]
pub struct Unreviewed {
    /// Number in feed `intake`.
    pub seq: i64,
    /// Event id.
    pub id: EventId,
    /// The stored event, as JSON.
    pub payload: Vec<u8>,
}

record!(Unreviewed: seq, id, payload);

/// Subquery for reviews of event `e` that are queued, running or done. A review that was given up does not count.
const REVIEWED: &str = "SELECT FROM review_event x JOIN review r ON r.id = x.review_id
                        WHERE x.event_id = e.id AND r.state IN ('queued', 'running', 'done')";

impl EventStore<'_> {
    /// Returns events since a time that have no review, newest first, without those that may be Umbra's own traffic.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn unreviewed(
        self,
        since: Timestamp,
        agent: Option<&str>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Unreviewed>, StoreError> {
        let mut query =
            QueryBuilder::new("/* catch_up.unreviewed */ SELECT seq, id, payload FROM event e WHERE id >= ");
        query.push_bind(first_id_at(since)).push(format_args!(" AND NOT EXISTS ({REVIEWED}) AND NOT "));
        query.push_bind(SkipReason::LoopGuard.code()).push(" = ANY(outcomes)");
        equals(&mut query, "agent", agent);
        Seek { from: before, descending: true, limit: limit.saturating_sub(1) }.push(&mut query, "seq");
        sql::built(&self.0.read, &mut query).await
    }
}

impl Flush {
    /// Returns those of these events that have got a review since they were found. To be called under the meters'
    /// locks, which every reservation for the same shadow holds until its commit.
    ///
    /// # Errors
    /// Contention or a lost connection; nothing is stored.
    pub async fn reviewed_among(&mut self, events: &[EventId]) -> Result<Vec<EventId>, StoreError> {
        let query = AssertSqlSafe(format!(
            "/* catch_up.reviewed */ SELECT e.id FROM unnest($1::uuid[]) e(id) WHERE EXISTS ({REVIEWED})"
        ));
        sql::all(&mut *self.0, query, (uuids(events),)).await
    }
}
