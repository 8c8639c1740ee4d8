//! A finished review: its result and its findings, in one transaction, fenced by the lease.

use jiff::Timestamp;

use super::{
    StoreError,
    aggregates::ReviewStore,
    jobs::Lease,
    transaction::{Tx, begin},
};
use umbra_domain::{Assessment, EventId, Finding, FindingId, ReviewId, Reviewer, Trigger, verdict::DecidedBy};

/// What a review concluded, ready to be stored.
#[derive(Debug, Clone)]
pub struct NewResult {
    /// The assessment.
    pub assessment: Assessment,
    /// The rule behind it.
    pub decided_by: DecidedBy,
    /// The model's score, 0-100.
    pub score: Option<u8>,
    /// What to do.
    pub recommendation: String,
    /// Who reviewed.
    pub reviewer: Reviewer,
    /// The model's alias, where one answered.
    pub model: Option<String>,
    /// The version of the words by which it was asked.
    pub prompt_version: Option<i16>,
    /// Tokens read and written by the calls that brought it. What all its calls cost is their own rows' sum.
    pub tokens: (u64, u64),
    /// From lease to result.
    pub latency_ms: u64,
    /// What a reader should know: what was left out, why it is inconclusive.
    pub notes: Vec<String>,
    /// What it found.
    pub findings: Vec<NewFinding>,
    /// What a batch concluded of each of its events; empty for others.
    pub parts: Vec<NewPart>,
}

/// What a review of several events concluded of one.
#[derive(Debug, Clone)]
pub struct NewPart {
    /// The event.
    pub event: EventId,
    /// Its assessment.
    pub assessment: Assessment,
    /// The rule behind it.
    pub decided_by: DecidedBy,
    /// The model's score, 0-100.
    pub score: Option<u8>,
    /// What to do.
    pub recommendation: String,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// A finding with its names.
#[derive(Debug, Clone)]
pub struct NewFinding {
    /// Its id.
    pub id: FindingId,
    /// What was found.
    pub finding: Finding,
    /// Where it was found.
    pub place: Place,
    /// What to do about it.
    pub recommendation: String,
    /// What makes two findings the same fault, whoever's they are.
    pub fingerprint: String,
}

/// The circumstances of an event that a finding keeps.
#[derive(Debug, Clone)]
pub struct Place {
    /// Its agent.
    pub agent: String,
    /// Its task.
    pub task_id: Option<String>,
    /// The kind of task.
    pub task_type: Option<String>,
    /// The trigger by which it matched.
    pub trigger: Trigger,
}

impl ReviewStore<'_> {
    /// Stores the result and its findings; answers `None` if the lease was lost: then nothing is stored. Otherwise
    /// the result's number in the feed and the time.
    ///
    /// # Errors
    /// The database does not answer: the outcome is unknown, and the lease decides.
    pub async fn finish(
        self,
        review: ReviewId,
        lease: Lease,
        result: &NewResult,
    ) -> Result<Option<(i64, Timestamp)>, StoreError> {
        let mut tx = begin(&self.0.work).await?;
        let finished: Option<jiff_sqlx::Timestamp> = sqlx::query_scalar(
            "/* results.finish */
             UPDATE review SET state = 'done', finished_at = clock(), failure = NULL
             WHERE id = $1 AND worker = $2 AND attempt = $3 AND state = 'running' RETURNING finished_at",
        )
        .bind(review.0)
        .bind(lease.worker.0)
        .bind(lease.attempt)
        .fetch_optional(&mut *tx)
        .await?;
        let Some(finished) = finished else { return Ok(None) };
        // The feed's row is locked before occurrences are counted: the next statement sees every earlier finding.
        let base: i64 = sqlx::query_scalar(
            "/* results.feed */ UPDATE feed SET last = last + 1 + $1 WHERE name = 'result' RETURNING last - $1",
        )
        .bind(i64::try_from(result.findings.len()).unwrap_or(0))
        .fetch_one(&mut *tx)
        .await?;
        let notes = serde_json::to_string(&result.notes).unwrap_or_else(|_| "[]".into());
        sqlx::query(
            "/* results.result */
             INSERT INTO review_result (review_id, seq, assessment, score, recommendation, reviewer, model,
                                        input_tokens, output_tokens, cost_usd, latency_ms, notes, prompt_version,
                                        decided_by)
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, coalesce(sum(actual_usd), 0)::bigint, $10, $11, $12, $13
             FROM provider_call WHERE review_id = $1",
        )
        .bind(review.0)
        .bind(base)
        .bind(result.assessment.as_str())
        .bind(result.score.map(i16::from))
        .bind(&result.recommendation)
        .bind(result.reviewer.as_str())
        .bind(&result.model)
        .bind(i64::try_from(result.tokens.0).unwrap_or(i64::MAX))
        .bind(i64::try_from(result.tokens.1).unwrap_or(i64::MAX))
        .bind(i64::try_from(result.latency_ms).unwrap_or(i64::MAX))
        .bind(notes)
        .bind(result.prompt_version)
        .bind(result.decided_by.as_str())
        .execute(&mut *tx)
        .await?;
        if !result.findings.is_empty() {
            insert_findings(&mut tx, review, base, result).await?;
        }
        if !result.parts.is_empty() {
            insert_parts(&mut tx, review, &result.parts).await?;
        }
        tx.commit().await?;
        Ok(Some((base, finished.to_jiff())))
    }
}

async fn insert_findings(tx: &mut Tx, review: ReviewId, base: i64, result: &NewResult) -> Result<(), StoreError> {
    let all = &result.findings;
    let evidence = |of: fn(&umbra_domain::Evidence) -> i64| -> Vec<Option<i64>> {
        all.iter().map(|f| f.finding.evidence.as_ref().map(of)).collect()
    };
    sqlx::query(
        "/* results.findings */
         INSERT INTO finding (id, seq, review_id, event_id, shadow, agent, task_id, task_type, trigger, mode, severity,
             category, description, recommendation, field, quote, quote_start, quote_end, verified, source, rule,
             fingerprint, about, occurrences, created_at)
         SELECT f.id, $2 + f.o, r.id, f.event, r.shadow, f.agent, f.task, f.task_type, f.trigger, r.mode, f.severity,
             f.category, f.description, f.recommendation, f.field, f.quote, f.qs, f.qe, f.verified, f.source, f.rule, f.fingerprint,
             f.about,
             coalesce((SELECT p.occurrences FROM finding p WHERE p.agent = f.agent AND p.fingerprint = f.fingerprint
                           AND (p.mode < 2) = (r.mode < 2) ORDER BY p.seq DESC LIMIT 1), 0)
                 + CASE WHEN known THEN 0
                        ELSE dense_rank() OVER (PARTITION BY f.agent, f.fingerprint, known ORDER BY f.event) END,
             r.finished_at
         FROM review r,
         unnest($5::uuid[], $6::int2[], $7::text[], $8::text[], $9::text[], $10::text[], $11::int8[], $12::int8[],
                $13::bool[], $14::text[], $15::text[], $16::text[], $3::uuid[], $4::text[], $17::text[], $18::text[],
                $19::int2[], $20::text[], $21::text[]) WITH ORDINALITY
             f(id, severity, category, description, field, quote, qs, qe, verified, source, rule, fingerprint, event,
               agent, task, task_type, trigger, recommendation, about, o),
         -- An occurrence is an event, whichever shadows see it; what passive ones see is counted apart.
         LATERAL (SELECT EXISTS (SELECT 1 FROM finding p WHERE p.event_id = f.event AND p.agent = f.agent
                      AND p.fingerprint = f.fingerprint AND (p.mode < 2) = (r.mode < 2))) seen(known)
         WHERE r.id = $1",
    )
    .bind(review.0)
    .bind(base)
    .bind(all.iter().map(|f| f.finding.event_id.0).collect::<Vec<_>>())
    .bind(all.iter().map(|f| f.place.agent.as_str()).collect::<Vec<_>>())
    .bind(all.iter().map(|f| f.id.0).collect::<Vec<_>>())
    .bind(all.iter().map(|f| f.finding.severity.code()).collect::<Vec<_>>())
    .bind(all.iter().map(|f| f.finding.category.as_str()).collect::<Vec<_>>())
    .bind(all.iter().map(|f| f.finding.description.as_str()).collect::<Vec<_>>())
    .bind(all.iter().map(|f| f.finding.evidence.as_ref().map(|e| e.field.as_str())).collect::<Vec<_>>())
    .bind(all.iter().map(|f| f.finding.evidence.as_ref().map(|e| e.quote.as_str())).collect::<Vec<_>>())
    .bind(evidence(|e| i64::try_from(e.start).unwrap_or(i64::MAX)))
    .bind(evidence(|e| i64::try_from(e.end).unwrap_or(i64::MAX)))
    .bind(all.iter().map(|f| f.finding.verified).collect::<Vec<_>>())
    .bind(
        all.iter()
            .map(|f| match f.finding.source {
                umbra_domain::Source::Check => "check",
                umbra_domain::Source::Model => "model",
            })
            .collect::<Vec<_>>(),
    )
    .bind(all.iter().map(|f| f.finding.rule.as_str()).collect::<Vec<_>>())
    .bind(all.iter().map(|f| f.fingerprint.as_str()).collect::<Vec<_>>())
    .bind(all.iter().map(|f| f.place.task_id.as_deref()).collect::<Vec<_>>())
    .bind(all.iter().map(|f| f.place.task_type.as_deref()).collect::<Vec<_>>())
    .bind(all.iter().map(|f| f.place.trigger.code()).collect::<Vec<_>>())
    .bind(all.iter().map(|f| f.recommendation.as_str()).collect::<Vec<_>>())
    .bind(all.iter().map(|f| f.finding.about.as_str()).collect::<Vec<_>>())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

async fn insert_parts(tx: &mut Tx, review: ReviewId, parts: &[NewPart]) -> Result<(), StoreError> {
    let notes = |part: &NewPart| serde_json::to_string(&part.notes).unwrap_or_else(|_| "[]".into());
    sqlx::query(
        "/* results.parts */
         INSERT INTO review_assessment (review_id, event_id, assessment, score, recommendation, notes, decided_by)
         SELECT $1, p.* FROM unnest($2::uuid[], $3::text[], $4::int2[], $5::text[], $6::text[], $7::text[]) p",
    )
    .bind(review.0)
    .bind(parts.iter().map(|part| part.event.0).collect::<Vec<_>>())
    .bind(parts.iter().map(|part| part.assessment.as_str()).collect::<Vec<_>>())
    .bind(parts.iter().map(|part| part.score.map(i16::from)).collect::<Vec<_>>())
    .bind(parts.iter().map(|part| part.recommendation.as_str()).collect::<Vec<_>>())
    .bind(parts.iter().map(notes).collect::<Vec<_>>())
    .bind(parts.iter().map(|part| part.decided_by.as_str()).collect::<Vec<_>>())
    .execute(&mut **tx)
    .await?;
    Ok(())
}
