//! Planned and reviewed events of a backtest.

use serde::Serialize;
use utoipa::ToSchema;

use super::BacktestClaim;
use crate::{
    StoreError,
    aggregates::BacktestStore,
    sql::{self, column, record},
};
use umbra_domain::{
    Assessment, AssessmentChange, BacktestId, EventId, Finding, ItemOutcome, ReviewId, Reviewer, Severity, SkipReason,
    Trigger,
};

/// The real outcome of an event under the shadow, before the backtest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Before {
    /// Newest finished review of the event.
    #[serde(rename = "review_id")]
    #[schema(value_type = Option<String>)]
    pub review: Option<ReviewId>,
    /// Version of the shadow that the review ran under.
    pub version: Option<String>,
    /// Assessment of that review.
    pub assessment: Option<Assessment>,
    /// Why the event was not reviewed, although the shadow watched it.
    pub reason: Option<SkipReason>,
}

/// An event of a backtest's plan.
#[derive(Debug, Clone)]
pub struct NewItem {
    /// The event's number in the feed.
    pub seq: i64,
    /// The event.
    pub event: EventId,
    /// Agent of the event.
    pub agent: String,
    /// Trigger by which the version watches the event.
    pub trigger: Option<Trigger>,
    /// Waiting, skipped or not watched.
    pub outcome: ItemOutcome,
    /// Why the event is skipped.
    pub reason: Option<SkipReason>,
    /// The real outcome.
    pub before: Before,
}

/// An event that waits to be reviewed.
#[derive(Debug, Clone)]
pub struct WaitingItem {
    /// The event's number in the feed.
    pub seq: i64,
    /// The event.
    pub event: EventId,
    /// Trigger by which the version watches the event.
    pub trigger: Trigger,
    /// The stored event, as JSON; `None` if it is gone.
    pub payload: Option<Vec<u8>>,
    /// Assessment of the real review.
    pub before: Option<Assessment>,
}

record! {
    WaitingItem, row: seq, event, payload, before;
    trigger: column::<Option<_>>(row, "trigger")?.unwrap_or(Trigger::All),
}

/// Result of an event in a backtest.
#[derive(Debug, Clone)]
pub struct ItemResult {
    /// The event's number in the feed.
    pub seq: i64,
    /// Reviewed or failed.
    pub outcome: ItemOutcome,
    /// Why the review failed.
    pub reason: Option<SkipReason>,
    /// The assessment.
    pub assessment: Option<Assessment>,
    /// The model's score.
    pub score: Option<u8>,
    /// The reviewer: a model, or the built-in checks alone.
    pub reviewer: Option<Reviewer>,
    /// The findings.
    pub findings: Vec<Finding>,
    /// Notes for readers.
    pub notes: Vec<String>,
    /// Difference from the real outcome.
    pub change: Option<AssessmentChange>,
}

/// A finding of a backtest. Its quote is not kept, only the position in the stored event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize, ToSchema)]
pub struct ItemFinding {
    /// Severity.
    pub severity: Severity,
    /// Category.
    pub category: umbra_domain::FindingCategory,
    /// One or two sentences.
    pub description: String,
    /// Source: a check or the model.
    pub source: umbra_domain::FindingSource,
    /// The check's rule, or the model's checklist item.
    pub rule: String,
    /// True if the evidence stands in the text.
    pub verified: bool,
    /// The event's field.
    pub field: Option<String>,
    /// First byte of the evidence in the field.
    pub start: Option<usize>,
    /// One past its last byte.
    pub end: Option<usize>,
}

impl From<&Finding> for ItemFinding {
    fn from(finding: &Finding) -> Self {
        let evidence = finding.evidence.as_ref();
        Self {
            severity: finding.severity,
            category: finding.category,
            description: finding.description.clone(),
            source: finding.source,
            rule: finding.rule.clone(),
            verified: finding.verified,
            field: evidence.map(|evidence| evidence.field.as_str().to_owned()),
            start: evidence.map(|evidence| evidence.start),
            end: evidence.map(|evidence| evidence.end),
        }
    }
}

impl BacktestStore<'_> {
    /// Stores a page of the plan; returns false if the backtest is no longer being planned.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn file_items(self, id: BacktestId, items: &[NewItem]) -> Result<bool, StoreError> {
        // Items that are not to be reviewed have their change already.
        let change = |item: &NewItem| match item.outcome {
            ItemOutcome::Waiting => None,
            _ => AssessmentChange::between(item.before.assessment, None).map(AssessmentChange::as_str),
        };
        sql::one(
            &self.0.work,
            "/* backtests.items */
             WITH b AS (SELECT id FROM backtest WHERE id = $1 AND state = 'planning' FOR KEY SHARE), i AS (
                 INSERT INTO backtest_item (backtest, seq, event_id, agent, trigger, outcome, reason, before_review,
                                            before_version, before_assessment, before_reason, change)
                 SELECT b.id, i.* FROM b, unnest($2::bigint[], $3::uuid[], $4::text[], $5::int2[], $6::text[],
                     $7::int2[], $8::uuid[], $9::text[], $10::text[], $11::int2[], $12::text[]) i)
             SELECT EXISTS (SELECT FROM b)",
            (
                id.0,
                items.iter().map(|item| item.seq).collect::<Vec<_>>(),
                items.iter().map(|item| item.event.0).collect::<Vec<_>>(),
                items.iter().map(|item| item.agent.as_str()).collect::<Vec<_>>(),
                items.iter().map(|item| item.trigger.map(Trigger::code)).collect::<Vec<_>>(),
                items.iter().map(|item| item.outcome.as_str()).collect::<Vec<_>>(),
                items.iter().map(|item| item.reason.map(SkipReason::code)).collect::<Vec<_>>(),
                items.iter().map(|item| item.before.review.map(|id| id.0)).collect::<Vec<_>>(),
                items.iter().map(|item| item.before.version.as_deref()).collect::<Vec<_>>(),
                items.iter().map(|item| item.before.assessment.map(Assessment::as_str)).collect::<Vec<_>>(),
                items.iter().map(|item| item.before.reason.map(SkipReason::code)).collect::<Vec<_>>(),
                items.iter().map(change).collect::<Vec<_>>(),
            ),
        )
        .await
    }

    /// Returns events that wait to be reviewed, in order of receipt.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn waiting_items(
        self,
        claim: &BacktestClaim,
        after: i64,
        limit: i64,
    ) -> Result<Vec<WaitingItem>, StoreError> {
        sql::all(
            &self.0.work,
            "/* backtests.waiting */
             WITH page AS MATERIALIZED (
                 SELECT seq, event_id, trigger, before_assessment FROM backtest_item
                 WHERE backtest = $1 AND outcome = 'waiting' AND seq > $2 ORDER BY seq LIMIT $3)
             SELECT i.seq, i.event_id AS event, i.trigger, e.payload, i.before_assessment AS before
             FROM page i LEFT JOIN event e ON e.id = i.event_id ORDER BY i.seq",
            (claim.id.0, after, limit),
        )
        .await
    }

    /// Stores the results of events, each once, and renews the claim; returns false if the claim is lost, and stores
    /// nothing then.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn store_items(self, claim: &BacktestClaim, reviewed: &[ItemResult]) -> Result<bool, StoreError> {
        let json = |value: &dyn Fn() -> Result<String, serde_json::Error>| value().unwrap_or_else(|_| "[]".into());
        let kept = |one: &ItemResult| one.findings.iter().map(ItemFinding::from).collect::<Vec<_>>();
        let list = |words: Vec<String>| format!("{{{}}}", words.join(","));
        sql::one(
            &self.0.work,
            "/* backtests.store */
             WITH b AS (
                 UPDATE backtest SET heartbeat_at = clock() WHERE id = $1 AND worker = $2 AND state = 'running'
                 RETURNING id
             ), i AS (
                 UPDATE backtest_item i SET outcome = n.outcome, reason = n.reason, assessment = n.assessment,
                     score = n.score, reviewer = n.reviewer, severities = n.severities::int2[],
                     categories = n.categories::text[], findings = n.findings, notes = n.notes, change = n.change
                 FROM b, unnest($3::bigint[], $4::text[], $5::int2[], $6::text[], $7::int2[], $8::text[], $9::text[],
                                $10::text[], $11::text[], $12::text[], $13::text[])
                     n(seq, outcome, reason, assessment, score, reviewer, severities, categories, findings,
                       notes, change)
                 WHERE i.backtest = b.id AND i.seq = n.seq AND i.outcome = 'waiting')
             SELECT EXISTS (SELECT FROM b)",
            (
                claim.id.0,
                claim.worker,
                reviewed.iter().map(|one| one.seq).collect::<Vec<_>>(),
                reviewed.iter().map(|one| one.outcome.as_str()).collect::<Vec<_>>(),
                reviewed.iter().map(|one| one.reason.map(SkipReason::code)).collect::<Vec<_>>(),
                reviewed.iter().map(|one| one.assessment.map(Assessment::as_str)).collect::<Vec<_>>(),
                reviewed.iter().map(|one| one.score.map(i16::from)).collect::<Vec<_>>(),
                reviewed.iter().map(|one| one.reviewer.map(Reviewer::as_str)).collect::<Vec<_>>(),
                reviewed
                    .iter()
                    .map(|one| list(one.findings.iter().map(|f| f.severity.code().to_string()).collect()))
                    .collect::<Vec<_>>(),
                reviewed
                    .iter()
                    .map(|one| list(one.findings.iter().map(|f| f.category.as_str().to_owned()).collect()))
                    .collect::<Vec<_>>(),
                reviewed.iter().map(|one| json(&|| serde_json::to_string(&kept(one)))).collect::<Vec<_>>(),
                reviewed.iter().map(|one| json(&|| serde_json::to_string(&one.notes))).collect::<Vec<_>>(),
                reviewed.iter().map(|one| one.change.map(AssessmentChange::as_str)).collect::<Vec<_>>(),
            ),
        )
        .await
    }
}
