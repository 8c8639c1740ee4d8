//! Inserts findings of reviews and of looks, and counts in how many events each fault was found.

use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use uuid::Uuid;

use super::{StoreError, results::NewFinding, sql, transaction::Tx};
use umbra_domain::{Evidence, FindingSource, ReviewId};

/// A finding with the other columns of its row.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewFindingRow<'a> {
    /// The finding.
    pub found: &'a NewFinding,
    /// Number in feed `result`.
    pub seq: i64,
    /// The shadow.
    pub shadow: &'a str,
    /// The rank of the shadow's mode.
    pub mode: i16,
    /// For a look: `shadow_version.id`, and the key that repeats share.
    pub look: Option<(i32, &'a [u8])>,
}

/// Inserts findings of one review, or of looks. The caller has locked the feed's row, so this statement sees every
/// earlier finding.
pub(super) async fn insert(
    tx: &mut Tx,
    review: Option<ReviewId>,
    at: Option<Timestamp>,
    rows: &[NewFindingRow<'_>],
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let evidence = |of: fn(&Evidence) -> usize| -> Vec<Option<i64>> {
        let place = |row: &NewFindingRow| row.found.finding.evidence.as_ref().map(of);
        rows.iter().map(|row| place(row).map(|at| i64::try_from(at).unwrap_or(i64::MAX))).collect()
    };
    let source = |row: &NewFindingRow| match row.found.finding.source {
        FindingSource::Check => "check",
        FindingSource::Model => "model",
    };
    sql::execute(
        &mut **tx,
        "/* new_findings.insert */
         INSERT INTO finding (id, seq, review_id, event_id, shadow, agent, task_id, task_type, trigger, mode, severity,
             category, description, recommendation, field, quote, quote_start, quote_end, verified, source, rule,
             fingerprint, version, collapse_key, about, occurrences, created_at)
         SELECT f.id, f.seq, $1, f.event, f.shadow, f.agent, f.task, f.task_type, f.trigger, f.mode, f.severity,
             f.category, f.description, f.recommendation, f.field, f.quote, f.qs, f.qe, f.verified, f.source, f.rule,
             f.fingerprint, f.version, f.key, f.about, earlier.events + CASE WHEN known THEN 0 ELSE dense_rank() OVER (
                 PARTITION BY f.agent, f.fingerprint, f.mode < 2, known ORDER BY f.event) END,
             coalesce($2, clock())
         FROM unnest($3::uuid[], $4::int8[], $5::uuid[], $6::text[], $7::text[], $8::text[], $9::text[], $10::int2[],
                $11::int2[], $12::int2[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::int8[],
                $19::int8[], $20::bool[], $21::text[], $22::text[], $23::text[], $24::int4[], $25::bytea[],
               $26::text[])
             f(id, seq, event, shadow, agent, task, task_type, trigger, mode, severity, category, description,
               recommendation, field, quote, qs, qe, verified, source, rule, fingerprint, version, key, about),
         LATERAL (SELECT coalesce(max(occurrences), 0) AS events FROM (
             SELECT occurrences FROM finding p WHERE p.agent = f.agent AND p.fingerprint = f.fingerprint
                 AND (p.mode < 2) = (f.mode < 2) ORDER BY p.seq DESC LIMIT 20) p) earlier,
         -- An occurrence is an event, whichever shadows see it; what passive ones see is counted apart.
         LATERAL (SELECT EXISTS (
             SELECT FROM finding p WHERE p.event_id = f.event AND p.agent = f.agent AND p.fingerprint = f.fingerprint
                 AND (p.mode < 2) = (f.mode < 2)
             UNION ALL SELECT FROM finding_occurrence o JOIN finding p ON p.id = o.finding_id
             WHERE o.event_id = f.event AND p.agent = f.agent AND p.fingerprint = f.fingerprint
                 AND (p.mode < 2) = (f.mode < 2))) seen(known)",
        (
            review.map(|review| review.0),
            at.map(ToSqlx::to_sqlx),
            rows.iter().map(|row| row.found.id.0).collect::<Vec<_>>(),
            rows.iter().map(|row| row.seq).collect::<Vec<_>>(),
            rows.iter().map(|row| row.found.finding.event_id.0).collect::<Vec<_>>(),
            rows.iter().map(|row| row.shadow).collect::<Vec<_>>(),
            rows.iter().map(|row| row.found.place.agent.as_str()).collect::<Vec<_>>(),
            rows.iter().map(|row| row.found.place.task_id.as_deref()).collect::<Vec<_>>(),
            rows.iter().map(|row| row.found.place.task_type.as_deref()).collect::<Vec<_>>(),
            rows.iter().map(|row| row.found.place.trigger.code()).collect::<Vec<_>>(),
            rows.iter().map(|row| row.mode).collect::<Vec<_>>(),
            rows.iter().map(|row| row.found.finding.severity.code()).collect::<Vec<_>>(),
            rows.iter().map(|row| row.found.finding.category.as_str()).collect::<Vec<_>>(),
            rows.iter().map(|row| row.found.finding.description.as_str()).collect::<Vec<_>>(),
            rows.iter().map(|row| row.found.recommendation.as_str()).collect::<Vec<_>>(),
            rows.iter().map(|row| row.found.finding.evidence.as_ref().map(|e| e.field.as_str())).collect::<Vec<_>>(),
            rows.iter().map(|row| row.found.finding.evidence.as_ref().map(|e| e.quote.as_str())).collect::<Vec<_>>(),
            evidence(|evidence| evidence.start),
            evidence(|evidence| evidence.end),
            rows.iter().map(|row| row.found.finding.verified).collect::<Vec<_>>(),
            rows.iter().map(source).collect::<Vec<_>>(),
            rows.iter().map(|row| row.found.finding.rule.as_str()).collect::<Vec<_>>(),
            rows.iter().map(|row| row.found.fingerprint.as_str()).collect::<Vec<_>>(),
            rows.iter().map(|row| row.look.map(|(version, _)| version)).collect::<Vec<_>>(),
            rows.iter().map(|row| row.look.map(|(_, key)| key)).collect::<Vec<_>>(),
            rows.iter().map(|row| row.found.finding.about.as_str()).collect::<Vec<_>>(),
        ),
    )
    .await
}

/// An event that repeats a finding of a look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Repeat {
    /// The finding.
    pub finding: Uuid,
    /// The event.
    pub event: Uuid,
    /// Number in feed `result`.
    pub seq: i64,
}

/// Inserts occurrences of findings, and adds them to the findings' counts.
pub(super) async fn repeat(tx: &mut Tx, repeats: &[Repeat]) -> Result<(), StoreError> {
    if repeats.is_empty() {
        return Ok(());
    }
    sql::execute(
        &mut **tx,
        "/* new_findings.repeat */
         WITH o AS (
             INSERT INTO finding_occurrence (finding_id, event_id, at, seq)
             SELECT finding, event, clock(), seq FROM unnest($1::uuid[], $2::uuid[], $3::int8[]) r(finding, event, seq)
             ON CONFLICT DO NOTHING RETURNING finding_id
         ), n AS (
             SELECT finding_id, count(*) AS events FROM o GROUP BY finding_id
         )
         UPDATE finding f SET occurrences = n.events + (SELECT max(occurrences) FROM (
             SELECT occurrences FROM finding p WHERE p.agent = f.agent AND p.fingerprint = f.fingerprint
                 AND (p.mode < 2) = (f.mode < 2) ORDER BY p.seq DESC LIMIT 20) p)
         FROM n WHERE f.id = n.finding_id",
        (
            repeats.iter().map(|repeat| repeat.finding).collect::<Vec<_>>(),
            repeats.iter().map(|repeat| repeat.event).collect::<Vec<_>>(),
            repeats.iter().map(|repeat| repeat.seq).collect::<Vec<_>>(),
        ),
    )
    .await
}
