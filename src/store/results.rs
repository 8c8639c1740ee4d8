//! A finished review: its result and its findings, in one transaction, fenced by the lease.

use jiff::Timestamp;

use super::{Store, StoreError, jobs::Lease};
use crate::domain::{Assessment, Finding, FindingId, ReviewId, Reviewer};

/// What a review concluded, ready to be stored.
#[derive(Debug, Clone)]
pub struct NewResult {
    /// The assessment.
    pub assessment: Assessment,
    /// The model's score, 0-100.
    pub score: Option<u8>,
    /// What to do.
    pub recommendation: String,
    /// Who reviewed.
    pub reviewer: Reviewer,
    /// The model's alias, where one answered.
    pub model: Option<String>,
    /// Tokens read and written by the calls that brought it. What all its calls cost is their own rows' sum.
    pub tokens: (u64, u64),
    /// From lease to result.
    pub latency_ms: u64,
    /// What a reader should know: what was left out, why it is inconclusive.
    pub notes: Vec<String>,
    /// What it found.
    pub findings: Vec<NewFinding>,
}

/// A finding with its names.
#[derive(Debug, Clone)]
pub struct NewFinding {
    /// Its id.
    pub id: FindingId,
    /// What was found.
    pub finding: Finding,
    /// What makes two findings the same fault, whoever's they are.
    pub fingerprint: String,
}

impl Store {
    /// Stores the result and its findings; answers `None` if the lease was lost: then nothing is stored. Otherwise
    /// the result's number in the feed and the time.
    ///
    /// # Errors
    /// The database does not answer: the outcome is unknown, and the lease decides.
    pub async fn finish(
        &self,
        review: ReviewId,
        lease: Lease,
        task_type: Option<&str>,
        result: &NewResult,
    ) -> Result<Option<(i64, Timestamp)>, StoreError> {
        let mut tx = self.work.begin().await?;
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
                                        input_tokens, output_tokens, cost_usd, latency_ms, notes)
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, coalesce(sum(actual_usd), 0)::bigint, $10, $11
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
        .execute(&mut *tx)
        .await?;
        if !result.findings.is_empty() {
            insert_findings(&mut tx, review, base, task_type, result).await?;
        }
        tx.commit().await?;
        Ok(Some((base, finished.to_jiff())))
    }
}

async fn insert_findings(
    tx: &mut sqlx::Transaction<'static, sqlx::Postgres>,
    review: ReviewId,
    base: i64,
    task_type: Option<&str>,
    result: &NewResult,
) -> Result<(), StoreError> {
    let all = &result.findings;
    let evidence = |of: fn(&crate::domain::Evidence) -> i64| -> Vec<Option<i64>> {
        all.iter().map(|f| f.finding.evidence.as_ref().map(of)).collect()
    };
    sqlx::query(
        "/* results.findings */
         INSERT INTO finding (id, seq, review_id, event_id, shadow, agent, task_id, task_type, trigger, mode, severity,
             category, description, recommendation, field, quote, quote_start, quote_end, verified, source, rule,
             fingerprint, occurrences, created_at)
         SELECT f.id, $2 + f.o, r.id, e.event_id, r.shadow, r.agent, r.task_id, $3, r.trigger, r.mode, f.severity,
             f.category, f.description, $4, f.field, f.quote, f.qs, f.qe, f.verified, f.source, f.rule, f.fingerprint,
             coalesce((SELECT p.occurrences FROM finding p WHERE p.agent = r.agent AND p.fingerprint = f.fingerprint
                       ORDER BY p.seq DESC LIMIT 1), 0)
                 + row_number() OVER (PARTITION BY f.fingerprint ORDER BY f.o), r.finished_at
         FROM review r JOIN review_event e ON e.review_id = r.id,
         unnest($5::uuid[], $6::int2[], $7::text[], $8::text[], $9::text[], $10::text[], $11::int8[], $12::int8[],
                $13::bool[], $14::text[], $15::text[], $16::text[]) WITH ORDINALITY
             f(id, severity, category, description, field, quote, qs, qe, verified, source, rule, fingerprint, o)
         WHERE r.id = $1",
    )
    .bind(review.0)
    .bind(base)
    .bind(task_type)
    .bind(&result.recommendation)
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
                crate::domain::Source::Check => "check",
                crate::domain::Source::Model => "model",
            })
            .collect::<Vec<_>>(),
    )
    .bind(all.iter().map(|f| f.finding.rule.as_str()).collect::<Vec<_>>())
    .bind(all.iter().map(|f| f.fingerprint.as_str()).collect::<Vec<_>>())
    .execute(&mut **tx)
    .await?;
    Ok(())
}
