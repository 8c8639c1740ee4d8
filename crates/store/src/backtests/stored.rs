//! Stored events with what became of them under a shadow, in order of receipt: what a backtest is planned from.

use jiff::Timestamp;
use sqlx::{FromRow, QueryBuilder};
use uuid::Uuid;

use super::Before;
use crate::{StoreError, aggregates::BacktestStore, seek::equals};
use umbra_domain::{EventId, NanoUsd, ReviewId, Shadow, SkipReason, clock::first_id_at};

/// A stored event.
#[derive(Debug, Clone)]
pub struct StoredRow {
    /// Its number in the feed.
    pub seq: i64,
    /// Its id.
    pub id: EventId,
    /// The stored event, as JSON.
    pub payload: Vec<u8>,
    /// Whether it was skipped as Umbra's own traffic.
    pub is_own_traffic: bool,
    /// What really became of it under the shadow.
    pub before: Before,
}

#[derive(FromRow)]
struct Row {
    seq: i64,
    id: Uuid,
    payload: Vec<u8>,
    own: bool,
    reason: Option<i16>,
    review: Option<Uuid>,
    version: Option<String>,
    assessment: Option<String>,
}

/// Which events, in numbers of the feed: from the first, exclusive, to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Before the first.
    pub after: i64,
    /// The last.
    pub last: i64,
    /// How many.
    pub events: u64,
    /// Whether older ones were left out.
    pub is_cut: bool,
}

impl BacktestStore<'_> {
    /// The newest events of a span, so many at most.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn stretch(
        self,
        span: (Timestamp, Timestamp),
        agent: Option<&str>,
        max_events: u32,
    ) -> Result<Stretch, StoreError> {
        let mut query = QueryBuilder::new(
            "/* backtests.stretch */
             SELECT min(seq), max(seq), count(*) FROM (SELECT seq FROM event WHERE id >= ",
        );
        query.push_bind(first_id_at(span.0)).push(" AND id < ").push_bind(first_id_at(span.1));
        equals(&mut query, "agent", agent);
        query.push(" ORDER BY seq DESC LIMIT ").push_bind(i64::from(max_events) + 1).push(") e");
        let (first, last, count): (Option<i64>, Option<i64>, i64) =
            query.build_query_as().fetch_one(&self.0.read).await?;
        let (Some(first), Some(last)) = (first, last) else {
            return Ok(Stretch { after: 0, last: 0, events: 0, is_cut: false });
        };
        let is_cut = count > i64::from(max_events);
        // The one too many is the first: it tells that there are more.
        let after = if is_cut { first } else { first - 1 };
        Ok(Stretch { after, last, events: u64::try_from(count - i64::from(is_cut)).unwrap_or(0), is_cut })
    }

    /// A page of a stretch, in order of receipt.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn stored_rows(
        self,
        shadow: &str,
        span: (Timestamp, Timestamp),
        agent: Option<&str>,
        (after, last): (i64, i64),
        limit: u32,
    ) -> Result<Vec<StoredRow>, StoreError> {
        // The page is found by narrow rows: what hangs on an event is looked up for these alone.
        let mut query =
            QueryBuilder::new("/* backtests.rows */ WITH page AS MATERIALIZED (SELECT seq, id FROM event WHERE id >= ");
        query.push_bind(first_id_at(span.0)).push(" AND id < ").push_bind(first_id_at(span.1));
        equals(&mut query, "agent", agent);
        query.push(" AND seq > ").push_bind(after).push(" AND seq <= ").push_bind(last);
        query.push(" ORDER BY seq LIMIT ").push_bind(i64::from(limit));
        query.push(
            ") SELECT p.seq, e.id, e.payload, o.own, o.reason, r.id AS review, r.version, r.assessment
             FROM page p JOIN event e ON e.id = p.id
             CROSS JOIN LATERAL (
                 SELECT coalesce(bool_or(u.outcome = ",
        );
        query.push_bind(SkipReason::LoopGuard.code());
        query.push("), false) AS own, min(u.outcome) FILTER (WHERE u.outcome >= 10 AND u.shadow = ANY(ARRAY(");
        query.push("SELECT v.id FROM shadow_version v WHERE v.name = ").push_bind(shadow);
        query.push(
            "))) AS reason
                 FROM unnest(e.shadows, e.outcomes) u(shadow, outcome)) o
             LEFT JOIN LATERAL (
                 SELECT r.id, v.version, d.assessment FROM review_event x JOIN review r ON r.id = x.review_id
                 JOIN review_result d ON d.review_id = r.id JOIN shadow_version v ON v.id = r.version
                 WHERE x.event_id = e.id AND r.shadow = ",
        );
        query.push_bind(shadow).push(" ORDER BY r.seq DESC LIMIT 1) r ON true ORDER BY p.seq");
        let rows: Vec<Row> = query.build_query_as().fetch_all(&self.0.read).await?;
        Ok(rows.into_iter().map(Into::into).collect())
    }

    /// What this shadow's reviews by a model have cost, over the newest thousand calls: money and tokens of an average
    /// review; `None` where it made none.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn past_cost(self, shadow: &Shadow) -> Result<Option<(NanoUsd, u64)>, StoreError> {
        let row: (i64, Option<i64>, Option<i64>) = sqlx::query_as(
            "/* backtests.past_cost */
             SELECT count(DISTINCT review_id), sum(actual_usd)::bigint, sum(actual_tokens)::bigint
             FROM (SELECT review_id, actual_usd, actual_tokens FROM provider_call
                   WHERE shadow = $1 AND model = $2 AND state = 'settled' ORDER BY day DESC LIMIT 1000) c",
        )
        .bind(&shadow.name)
        .bind(&shadow.model)
        .fetch_one(&self.0.read)
        .await?;
        let (reviews, Some(usd), Some(tokens)) = row else { return Ok(None) };
        let mean = |sum: i64| sum.checked_div(reviews).unwrap_or(0);
        Ok((reviews > 0).then(|| (NanoUsd(mean(usd)), u64::try_from(mean(tokens)).unwrap_or(0))))
    }
}

impl From<Row> for StoredRow {
    fn from(row: Row) -> Self {
        let before = Before {
            review: row.review.map(ReviewId),
            version: row.version,
            assessment: row.assessment.as_deref().and_then(umbra_domain::Assessment::parse),
            reason: row.reason.and_then(SkipReason::from_code),
        };
        Self { seq: row.seq, id: EventId(row.id), payload: row.payload, is_own_traffic: row.own, before }
    }
}
