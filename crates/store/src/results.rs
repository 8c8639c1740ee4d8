//! Stores the result of a review with its findings, in one transaction, fenced by the lease.

use std::collections::HashSet;

use super::{
    StoreError,
    aggregates::ReviewStore,
    jobs::Lease,
    new_findings::{self, NewFindingRow},
    sql::{self, record},
    transaction::{Tx, begin},
};
use jiff::Timestamp;
use umbra_domain::{
    Assessment, EventId, Finding, FindingId, FindingSource, ReviewId, ReviewScope, Reviewer, Trigger,
    verdict::DecidedBy,
};

/// Result of a review, ready to be stored.
#[derive(Debug, Clone)]
pub struct NewResult {
    /// The assessment.
    pub assessment: Assessment,
    /// The rule behind the assessment.
    pub decided_by: DecidedBy,
    /// The model's score, 0-100.
    pub score: Option<u8>,
    /// Recommendation to the agent or its owner.
    pub recommendation: String,
    /// The reviewer: a model, or the built-in checks alone.
    pub reviewer: Reviewer,
    /// The model's alias, if a model answered.
    pub model: Option<String>,
    /// Version of the prompt.
    pub prompt_version: Option<i16>,
    /// Input and output tokens of the calls behind the result. The cost of all calls is the sum over their own rows.
    pub tokens: (u64, u64),
    /// Time from lease to result, in milliseconds.
    pub latency_ms: u64,
    /// Notes for readers: what was left out, why the review is inconclusive.
    pub notes: Vec<String>,
    /// Findings of the review.
    pub findings: Vec<NewFinding>,
    /// Assessments of a batch's events; empty for other reviews.
    pub parts: Vec<NewPart>,
}

/// Assessment of one event by a review of several.
#[derive(Debug, Clone)]
pub struct NewPart {
    /// The event.
    pub event: EventId,
    /// Assessment of the event.
    pub assessment: Assessment,
    /// The rule behind the assessment.
    pub decided_by: DecidedBy,
    /// The model's score, 0-100.
    pub score: Option<u8>,
    /// Recommendation for the event.
    pub recommendation: String,
    /// Notes for readers.
    pub notes: Vec<String>,
}

/// A finding with its id and its event's context, ready to be stored.
#[derive(Debug, Clone)]
pub struct NewFinding {
    /// Finding id.
    pub id: FindingId,
    /// The finding.
    pub finding: Finding,
    /// Context of the event.
    pub place: EventContext,
    /// Recommendation about the finding.
    pub recommendation: String,
    /// Fingerprint that findings of the same fault share, of any agent.
    pub fingerprint: String,
}

/// Context of an event that a finding keeps.
#[derive(Debug, Clone)]
pub struct EventContext {
    /// Agent of the event.
    pub agent: String,
    /// Task of the event.
    pub task_id: Option<String>,
    /// Type of the task.
    pub task_type: Option<String>,
    /// Trigger by which the event matched.
    pub trigger: Trigger,
}

/// A review that has just ended.
struct EndedReview {
    at: Timestamp,
    shadow: String,
    mode: i16,
    scope: ReviewScope,
}

record!(EndedReview: at, shadow, mode, scope);

impl ReviewStore<'_> {
    /// Stores the result and its findings; returns the result's feed number and the time, or `None` if the lease was
    /// lost: then nothing is stored.
    ///
    /// # Errors
    /// The database does not answer: the outcome is unknown. If the result was stored, the lease is over.
    pub async fn finish(
        self,
        review: ReviewId,
        lease: Lease,
        result: &NewResult,
    ) -> Result<Option<(i64, Timestamp)>, StoreError> {
        let mut tx = begin(&self.0.work).await?;
        let ended: Option<EndedReview> = sql::optional(
            &mut *tx,
            "/* results.finish */
             UPDATE review SET state = 'done', finished_at = clock(), failure = NULL
             WHERE id = $1 AND worker = $2 AND attempt = $3 AND state = 'running'
             RETURNING finished_at AS at, shadow, mode, scope",
            (review.0, lease.worker.0, lease.attempt),
        )
        .await?;
        let Some(ended) = ended else { return Ok(None) };
        // The feed's row is locked before occurrences are counted, so the next statement sees every earlier finding.
        let base: i64 = sql::one(
            &mut *tx,
            "/* results.feed */ UPDATE feed SET last = last + 1 + $1 WHERE name = 'result' RETURNING last - $1",
            (i64::try_from(result.findings.len()).unwrap_or(0),),
        )
        .await?;
        let notes = serde_json::to_string(&result.notes).unwrap_or_else(|_| "[]".into());
        sql::execute(
            &mut *tx,
            "/* results.result */
             INSERT INTO review_result (review_id, seq, assessment, score, recommendation, reviewer, model,
                                        input_tokens, output_tokens, cost_usd, latency_ms, notes, prompt_version,
                                        decided_by)
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, coalesce(sum(actual_usd), 0)::bigint, $10, $11, $12, $13
             FROM provider_call WHERE review_id = $1",
            (
                review.0,
                base,
                result.assessment.as_str(),
                result.score.map(i16::from),
                &result.recommendation,
                result.reviewer.as_str(),
                &result.model,
                i64::try_from(result.tokens.0).unwrap_or(i64::MAX),
                i64::try_from(result.tokens.1).unwrap_or(i64::MAX),
                i64::try_from(result.latency_ms).unwrap_or(i64::MAX),
                notes,
                result.prompt_version,
                result.decided_by.as_str(),
            ),
        )
        .await?;
        if !result.findings.is_empty() {
            insert_findings(&mut tx, review, &ended, base, &result.findings).await?;
        }
        if !result.parts.is_empty() {
            insert_parts(&mut tx, review, &result.parts).await?;
        }
        tx.commit().await?;
        Ok(Some((base, ended.at)))
    }
}

/// Stores the findings of a review. Findings that looks have made in its events already are adopted instead, and are
/// not new.
async fn insert_findings(
    tx: &mut Tx,
    review: ReviewId,
    ended: &EndedReview,
    base: i64,
    findings: &[NewFinding],
) -> Result<(), StoreError> {
    let known = adopt(tx, review, ended, findings).await?;
    let rows: Vec<NewFindingRow> = findings
        .iter()
        .zip(0..)
        .filter(|(_, at)| !known.contains(at))
        .map(|(found, at)| NewFindingRow {
            found,
            seq: base + 1 + at,
            shadow: &ended.shadow,
            mode: ended.mode,
            look: None,
        })
        .collect();
    new_findings::insert(tx, Some(review), Some(ended.at), &rows).await
}

/// Adopts looks' findings that this review repeats, by event, rule and field; for a review of a task, also those that
/// its steps repeat. Returns the indices of the findings that were known.
async fn adopt(
    tx: &mut Tx,
    review: ReviewId,
    ended: &EndedReview,
    findings: &[NewFinding],
) -> Result<HashSet<i64>, StoreError> {
    let of_checks = || findings.iter().zip(0_i64..).filter(|(found, _)| found.finding.source == FindingSource::Check);
    if of_checks().next().is_none() {
        return Ok(HashSet::new());
    }
    let field = |found: &NewFinding| found.finding.evidence.as_ref().map(|evidence| evidence.field.as_str().to_owned());
    sql::all(
        &mut **tx,
        "/* results.adopt */
         WITH u AS (
             SELECT * FROM unnest($2::int8[], $3::uuid[], $4::text[], $5::text[]) u(at, event, rule, field)
         ), known AS (
             SELECT u.at, f.id FROM u JOIN finding f ON f.event_id = u.event AND f.rule = u.rule
                 AND f.field IS NOT DISTINCT FROM u.field
             WHERE f.shadow = $6 AND f.collapse_key IS NOT NULL AND f.review_id IS NULL
             UNION
             SELECT u.at, f.id FROM u JOIN finding_occurrence o ON o.event_id = u.event
             JOIN finding f ON f.id = o.finding_id AND f.rule = u.rule AND f.field IS NOT DISTINCT FROM u.field
             WHERE f.shadow = $6 AND f.review_id IS NULL AND $7
         ), adopted AS (
             UPDATE finding f SET review_id = $1 FROM (SELECT DISTINCT id FROM known) k WHERE f.id = k.id
         )
         SELECT DISTINCT at FROM known",
        (
            review.0,
            of_checks().map(|(_, at)| at).collect::<Vec<_>>(),
            of_checks().map(|(found, _)| found.finding.event_id.0).collect::<Vec<_>>(),
            of_checks().map(|(found, _)| found.finding.rule.as_str()).collect::<Vec<_>>(),
            of_checks().map(|(found, _)| field(found)).collect::<Vec<_>>(),
            &ended.shadow,
            ended.scope == ReviewScope::Trajectory,
        ),
    )
    .await
}

async fn insert_parts(tx: &mut Tx, review: ReviewId, parts: &[NewPart]) -> Result<(), StoreError> {
    let notes = |part: &NewPart| serde_json::to_string(&part.notes).unwrap_or_else(|_| "[]".into());
    sql::execute(
        &mut **tx,
        "/* results.parts */
         INSERT INTO review_assessment (review_id, event_id, assessment, score, recommendation, notes, decided_by)
         SELECT $1, p.* FROM unnest($2::uuid[], $3::text[], $4::int2[], $5::text[], $6::text[], $7::text[]) p",
        (
            review.0,
            parts.iter().map(|part| part.event.0).collect::<Vec<_>>(),
            parts.iter().map(|part| part.assessment.as_str()).collect::<Vec<_>>(),
            parts.iter().map(|part| part.score.map(i16::from)).collect::<Vec<_>>(),
            parts.iter().map(|part| part.recommendation.as_str()).collect::<Vec<_>>(),
            parts.iter().map(notes).collect::<Vec<_>>(),
            parts.iter().map(|part| part.decided_by.as_str()).collect::<Vec<_>>(),
        ),
    )
    .await
}
