//! Events of a backtest, as the API lists them.

use jiff::Timestamp;
use serde::Serialize;
use sqlx::QueryBuilder;
use utoipa::ToSchema;

use super::items::{Before, ItemFinding};
use crate::{
    StoreError,
    aggregates::BacktestStore,
    events::received_at,
    paging::{Page, Seek, equals},
    sql::{column, json, record},
};
use umbra_domain::{Assessment, AssessmentChange, BacktestId, EventId, ItemOutcome, Reviewer, SkipReason, Trigger};

/// An event of a backtest.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = BacktestItem)]
pub struct Item {
    /// The event.
    #[schema(value_type = String, example = "evt_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub event_id: EventId,
    /// Agent of the event.
    pub agent: String,
    /// Time of receipt.
    pub received_at: Timestamp,
    /// The trigger by which the version watches the event.
    pub trigger: Option<Trigger>,
    /// Outcome under the version.
    pub outcome: Option<ItemOutcome>,
    /// Why the event is skipped, or its review failed.
    pub reason: Option<SkipReason>,
    /// Assessment by the version.
    pub assessment: Option<Assessment>,
    /// The model's score, 0-100.
    pub score: Option<i16>,
    /// The reviewer: a model, or the built-in checks alone.
    pub reviewer: Option<Reviewer>,
    /// Findings of the review.
    pub findings: Vec<ItemFinding>,
    /// Notes for readers: what was left out, why the review is inconclusive.
    pub notes: Vec<String>,
    /// The real outcome under the shadow, before the backtest.
    pub before: Before,
    /// Difference from the real outcome.
    pub change: Option<AssessmentChange>,
}

record! {
    Item, row: event_id, agent, trigger, outcome, reason, assessment, score, reviewer, change;
    received_at: received_at(column(row, "event_id")?),
    findings: json(row, "findings")?,
    notes: json(row, "notes")?,
    before: Before {
        review: column(row, "before_review")?,
        version: column(row, "before_version")?,
        assessment: column(row, "before_assessment")?,
        reason: column(row, "before_reason")?,
    },
}

/// Filter of a backtest's events. A field that is `None` admits all.
#[derive(Debug, Clone, Default)]
pub struct ItemFilter {
    /// With this change.
    pub change: Option<AssessmentChange>,
    /// With this outcome.
    pub outcome: Option<ItemOutcome>,
    /// With this assessment by the version.
    pub assessment: Option<Assessment>,
    /// Of this agent.
    pub agent: Option<String>,
}

impl BacktestStore<'_> {
    /// Returns a page of a backtest's events, in order of receipt.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn items(self, id: BacktestId, filter: &ItemFilter, seek: Seek) -> Result<Page<Item>, StoreError> {
        let mut query = QueryBuilder::new(
            "/* backtests.list_items */
             SELECT seq, event_id, agent, trigger, outcome, reason, assessment, score, reviewer, findings, notes,
                    before_review, before_version, before_assessment, before_reason, change
             FROM backtest_item WHERE backtest = ",
        );
        query.push_bind(id.0);
        equals(&mut query, "change", filter.change.map(AssessmentChange::as_str));
        equals(&mut query, "outcome", filter.outcome.map(ItemOutcome::as_str));
        equals(&mut query, "assessment", filter.assessment.map(Assessment::as_str));
        equals(&mut query, "agent", filter.agent.as_deref());
        seek.fetch(&mut query, "seq", &self.0.read).await
    }
}
