//! Stored events with their real outcome under a shadow, in order of receipt, from which a backtest is planned.

use jiff::Timestamp;
use sqlx::QueryBuilder;

use super::Before;
use crate::{
    StoreError,
    aggregates::BacktestStore,
    paging::equals,
    sql::{self, column, record},
};
use umbra_domain::{EventId, NanoUsd, Shadow, SkipReason, clock::first_id_at};

/// A stored event.
#[derive(Debug, Clone)]
pub struct StoredRow {
    /// Number in feed `intake`.
    pub seq: i64,
    /// Event id.
    pub id: EventId,
    /// The stored event, as JSON.
    pub payload: Vec<u8>,
    /// True if the event was skipped as Umbra's own traffic.
    pub is_own_traffic: bool,
    /// The real outcome under the shadow.
    pub before: Before,
}

record! {
    StoredRow, row: seq, id, payload, is_own_traffic;
    before: Before {
        review: column(row, "review")?,
        version: column(row, "version")?,
        assessment: column(row, "assessment")?,
        reason: column(row, "reason")?,
    },
}

/// Range of events in feed `intake`: from `after`, exclusive, to `last`, inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedRange {
    /// Number before the first event.
    pub after: i64,
    /// Number of the last event.
    pub last: i64,
    /// Number of events.
    pub events: u64,
    /// True if older events were left out.
    pub is_cut: bool,
}

impl BacktestStore<'_> {
    /// Returns the range of the newest events of a span, at most `max_events`.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn newest_range(
        self,
        span: (Timestamp, Timestamp),
        agent: Option<&str>,
        max_events: u32,
    ) -> Result<FeedRange, StoreError> {
        let mut query = QueryBuilder::new(
            "/* backtests.stretch */
             SELECT min(seq), max(seq), count(*) FROM (SELECT seq FROM event WHERE id >= ",
        );
        query.push_bind(first_id_at(span.0)).push(" AND id < ").push_bind(first_id_at(span.1));
        equals(&mut query, "agent", agent);
        query.push(" ORDER BY seq DESC LIMIT ").push_bind(i64::from(max_events) + 1).push(") e");
        let found: Vec<(Option<i64>, Option<i64>, i64)> = sql::built(&self.0.read, &mut query).await?;
        let Some(&(Some(first), Some(last), count)) = found.first() else {
            return Ok(FeedRange { after: 0, last: 0, events: 0, is_cut: false });
        };
        let is_cut = count > i64::from(max_events);
        // One event more than wanted was asked for; if it is there, it is the first and is left out.
        let after = if is_cut { first } else { first - 1 };
        Ok(FeedRange { after, last, events: u64::try_from(count - i64::from(is_cut)).unwrap_or(0), is_cut })
    }

    /// Returns a page of a range of events, in order of receipt.
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
        // The page is selected from narrow rows, so reviews and payloads are looked up for the page alone.
        let mut query =
            QueryBuilder::new("/* backtests.rows */ WITH page AS MATERIALIZED (SELECT seq, id FROM event WHERE id >= ");
        query.push_bind(first_id_at(span.0)).push(" AND id < ").push_bind(first_id_at(span.1));
        equals(&mut query, "agent", agent);
        query.push(" AND seq > ").push_bind(after).push(" AND seq <= ").push_bind(last);
        query.push(" ORDER BY seq LIMIT ").push_bind(i64::from(limit));
        query.push(
            ") SELECT p.seq, e.id, e.payload, o.own AS is_own_traffic, o.reason, r.id AS review, r.version, r.assessment
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
        sql::built(&self.0.read, &mut query).await
    }

    /// Returns the average cost of this shadow's reviews by a model, in money and tokens, over the newest thousand
    /// calls; `None` if it made no calls.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn past_cost(self, shadow: &Shadow) -> Result<Option<(NanoUsd, u64)>, StoreError> {
        let row: (i64, Option<i64>, Option<i64>) = sql::one(
            &self.0.read,
            "/* backtests.past_cost */
             SELECT count(DISTINCT review_id), sum(actual_usd)::bigint, sum(actual_tokens)::bigint
             FROM (SELECT review_id, actual_usd, actual_tokens FROM provider_call
                   WHERE shadow = $1 AND model = $2 AND state = 'settled' ORDER BY day DESC LIMIT 1000) c",
            (&shadow.name, &shadow.model),
        )
        .await?;
        let (reviews, Some(usd), Some(tokens)) = row else { return Ok(None) };
        let mean = |sum: i64| sum.checked_div(reviews).unwrap_or(0);
        Ok((reviews > 0).then(|| (NanoUsd(mean(usd)), u64::try_from(mean(tokens)).unwrap_or(0))))
    }
}
