//! Stored events, with their dispositions.

use std::collections::HashMap;

use jiff::Timestamp;
use sqlx::QueryBuilder;

use super::{
    StoreError,
    aggregates::EventStore,
    paging::{Page, Seek, Span, equals},
    sql::{self, uuids},
};
use umbra_domain::{Disposition, EventId, Outcome, ReviewId, SkipReason, Trigger, clock::first_id_at, disposition};

/// An event's row.
#[derive(Debug, Clone)]
pub struct EventRow {
    /// Event id, which contains the time of receipt.
    pub id: EventId,
    /// The stored event, its triggers and marks, as JSON.
    pub payload: Vec<u8>,
    /// Disposition for each matched shadow. A queued pair whose review was given up shows as skipped; a skipped pair
    /// whose review was requested later shows as queued.
    pub dispositions: Vec<Disposition>,
    /// True if the contents were erased on request. The payload still names agent and task.
    pub erased: bool,
}

/// Filter of a list of events. A field that is `None` admits all.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// Of this agent.
    pub agent: Option<String>,
    /// Of this task.
    pub task_id: Option<String>,
    /// Of one of these agents.
    pub agents: Option<Vec<String>>,
    /// Received in this span.
    pub span: Span,
}

type Row = (i64, EventId, Vec<i32>, Vec<i16>, Vec<i16>, Vec<u8>, bool);
const COLUMNS: &str =
    "SELECT seq, id, shadows, outcomes, triggers, payload, erased_at IS NOT NULL FROM event WHERE true";

impl EventStore<'_> {
    /// Returns the payload of an event, for a worker; `None` if it is gone or erased.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn payload(self, id: EventId) -> Result<Option<Vec<u8>>, StoreError> {
        sql::optional(&self.0.work, "SELECT payload FROM event WHERE id = $1 AND erased_at IS NULL", (id.0,)).await
    }

    /// Returns one event.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn get(self, id: EventId) -> Result<Option<EventRow>, StoreError> {
        let mut query = QueryBuilder::new(COLUMNS);
        query.push(" AND id = ").push_bind(id.0);
        let rows = self.add_dispositions(sql::built(&self.0.read, &mut query).await?).await?;
        Ok(rows.into_iter().next().map(|(_, row)| row))
    }

    /// Returns a page of events, in order of receipt.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list(self, filter: &EventFilter, seek: Seek) -> Result<Page<EventRow>, StoreError> {
        let mut query = QueryBuilder::new(COLUMNS);
        equals(&mut query, "agent", filter.agent.as_deref());
        equals(&mut query, "task_id", filter.task_id.as_deref());
        if let Some(agents) = &filter.agents {
            query.push(" AND agent = ANY(").push_bind(agents).push(")");
        }
        if let Some(since) = filter.span.since {
            query.push(" AND id >= ").push_bind(first_id_at(since));
        }
        if let Some(until) = filter.span.until {
            query.push(" AND id < ").push_bind(first_id_at(until));
        }
        seek.push(&mut query, "seq");
        let rows = sql::built(&self.0.read, &mut query).await?;
        Ok(seek.page(self.add_dispositions(rows).await?))
    }

    /// Adds dispositions to rows, with the names of shadows and their reviews.
    async fn add_dispositions(self, rows: Vec<Row>) -> Result<Vec<(i64, EventRow)>, StoreError> {
        let ids = uuids(rows.iter().map(|row| &row.1));
        let versions: Vec<i32> = rows.iter().flat_map(|row| row.2.iter().copied()).collect();
        if versions.is_empty() {
            return Ok(rows.into_iter().map(|row| bare(row, Vec::new())).collect());
        }
        let names: Vec<(i32, String, String)> = sql::all(
            &self.0.read,
            "SELECT id, name, config::json->>'mode' FROM shadow_version WHERE id = ANY($1)",
            (versions,),
        )
        .await?;
        let names: HashMap<i32, (String, String)> =
            names.into_iter().map(|(id, name, mode)| (id, (name, mode))).collect();
        let reviews: Vec<(EventId, i32, ReviewId, Option<SkipReason>)> = sql::all(
            &self.0.read,
            "SELECT e.event_id, e.shadow, r.id, r.reason FROM review_event e JOIN review r ON r.id = e.review_id
             WHERE e.event_id = ANY($1) ORDER BY r.state NOT IN ('released', 'failed'), r.seq",
            (ids,),
        )
        .await?;
        let reviews: HashMap<(EventId, i32), (ReviewId, Option<SkipReason>)> =
            reviews.into_iter().map(|(event, shadow, review, reason)| ((event, shadow), (review, reason))).collect();
        rows.into_iter()
            .map(|row| {
                let pairs = row.2.iter().zip(&row.3).zip(&row.4);
                let dispositions = pairs
                    .map(|((version, outcome), trigger)| {
                        disposition(&names, reviews.get(&(row.1, *version)), *version, *outcome, *trigger)
                    })
                    .collect::<Result<_, _>>()?;
                Ok(bare(row, dispositions))
            })
            .collect()
    }
}

fn bare(row: Row, dispositions: Vec<Disposition>) -> (i64, EventRow) {
    (row.0, EventRow { id: row.1, payload: row.5, dispositions, erased: row.6 })
}

fn disposition(
    names: &HashMap<i32, (String, String)>,
    review: Option<&(ReviewId, Option<SkipReason>)>,
    version: i32,
    outcome: i16,
    trigger: i16,
) -> Result<Disposition, StoreError> {
    let broken = |problem: String| StoreError::Inconsistent { table: "event", problem };
    let (shadow, mode) = names.get(&version).ok_or_else(|| broken(format!("unknown shadow version {version}")))?;
    let given_up = review.and_then(|(_, reason)| *reason);
    let (outcome, reason) = match (outcome, given_up) {
        (disposition::QUEUED_CODE | disposition::BATCHED_CODE, Some(reason)) => (Outcome::Skipped, Some(reason)),
        (disposition::QUEUED_CODE, None) => (Outcome::Queued, None),
        (disposition::BATCHED_CODE, None) => (Outcome::Batched, None),
        // Skipped at first, and reviewed on a later request.
        (_, None) if review.is_some() => (Outcome::Queued, None),
        (code, _) => (Outcome::Skipped, SkipReason::from_code(code)),
    };
    Ok(Disposition {
        shadow: shadow.clone(),
        trigger: Trigger::from_code(trigger).ok_or_else(|| broken(format!("unknown trigger {trigger}")))?,
        mode: umbra_domain::Mode::parse(mode).ok_or_else(|| broken(format!("unknown mode {mode}")))?,
        outcome,
        reason,
        review_id: review.map(|(id, _)| *id),
    })
}

/// Returns the time of receipt of an event, which its id contains.
pub fn received_at(id: EventId) -> Timestamp {
    let bytes = id.0.as_bytes();
    let millis = bytes[..6].iter().fold(0_i64, |sum, byte| (sum << 8) | i64::from(*byte));
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH)
}
