//! Erases what remains about an agent or a task after its stored events are erased: texts of findings, reviews,
//! verdicts, backtests, briefings and breakers, and whole sessions, patterns, webhook messages, scores and reflexions.
//!
//! These rows are found by the agent or task that they name, since events are kept for a shorter time. Texts about an
//! event that is stored and not erased stay: it arrived after the erasure began.

use uuid::Uuid;

use sqlx::AssertSqlSafe;
use umbra_domain::ReviewId;

use super::{
    StoreError,
    aggregates::UpkeepStore,
    erasure::{ERASED, ErasedCounts, ErasureScope, blank_findings, erase_review_texts},
    pool::Connection,
    sql,
    transaction::begin,
};

/// Most rows in one transaction.
const STEP: i64 = 500;

/// Findings whose event is gone or erased.
const FINDINGS: &str = "FROM finding o WHERE description <> $2 AND NOT EXISTS
    (SELECT FROM event e WHERE e.id = o.event_id AND e.erased_at IS NULL)";
/// Ended reviews with a text, whose events are all gone or erased.
const REVIEWS: &str = "FROM review o WHERE state NOT IN ('queued', 'running')
    AND EXISTS (SELECT FROM review_result d WHERE d.review_id = o.id AND d.recommendation <> $2)
    AND NOT EXISTS (SELECT FROM review_event v JOIN event e ON e.id = v.event_id
                    WHERE v.review_id = o.id AND e.erased_at IS NULL)";

impl UpkeepStore<'_> {
    /// Counts the rows that erasing leftovers would change.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn count_leftovers(self, whose: &ErasureScope) -> Result<ErasedCounts, StoreError> {
        let column = whose.column();
        let sql = format!(
            "/* leftovers.count */
             SELECT (SELECT count(*) FROM (SELECT o.review_id {FINDINGS} AND o.{column} = $1
                         UNION SELECT o.id {REVIEWS} AND o.{column} = $1) r
                     JOIN review_result d ON d.review_id = r.review_id AND d.recommendation <> $2),
                    (SELECT count(*) {FINDINGS} AND o.{column} = $1),
                    (SELECT count(*) FROM verdict t WHERE t.reasons <> '[]' AND t.event_id IN
                         (SELECT x.event_id FROM review_event x WHERE x.review_id IN
                             (SELECT o.id {REVIEWS} AND o.{column} = $1))),
                    (SELECT count(*) FROM sidecar_session WHERE {column} = $1),
                    (SELECT count(*) FROM pattern WHERE {column} = $1)"
        );
        let (reviews, findings, verdicts, sessions, patterns) =
            sql::one(&self.0.work, AssertSqlSafe(sql), (whose.name(), ERASED)).await?;
        Ok(ErasedCounts { reviews, findings, verdicts, sessions, patterns, ..ErasedCounts::default() })
    }

    /// Returns the reviews with findings about the agent or in the task, even if they cover other agents or tasks as
    /// well.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn reviews_that_found(self, whose: &ErasureScope) -> Result<Vec<ReviewId>, StoreError> {
        let sql = format!(
            "/* leftovers.reviews_of */ SELECT DISTINCT review_id FROM finding WHERE {} = $1 AND review_id IS NOT NULL",
            whose.column()
        );
        sql::all(&self.0.work, AssertSqlSafe(sql), (whose.name(),)).await
    }

    /// Erases the leftovers. To be called once the events are erased and the followers have finished what they had
    /// read.
    ///
    /// # Errors
    /// The database does not answer, or is busy: try again, erased texts stay erased.
    pub async fn erase_leftovers(self, whose: &ErasureScope) -> Result<ErasedCounts, StoreError> {
        let mut counts = ErasedCounts::default();
        // Reviews come first: they are selected by their texts, which are erased with their findings as well.
        for (rows, review, of_findings) in [(REVIEWS, "id", false), (FINDINGS, "review_id", true)] {
            let sql = format!(
                "/* leftovers.page */ SELECT seq, id, {review} {rows} AND o.{} = $1 AND seq > $3 ORDER BY seq LIMIT $4",
                whose.column()
            );
            let mut after = 0;
            loop {
                let mut tx = begin(&self.0.work).await?;
                let page: Vec<(i64, Uuid, Option<Uuid>)> =
                    sql::all(&mut *tx, AssertSqlSafe(sql.as_str()), (whose.name(), ERASED, after, STEP)).await?;
                let Some((last, ..)) = page.last() else { break };
                after = *last;
                let ids: Vec<Uuid> = page.iter().map(|(_, id, _)| *id).collect();
                let reviews: Vec<Uuid> = page.iter().filter_map(|(.., review)| *review).collect();
                if of_findings {
                    counts.findings += erase_findings(&mut tx, &ids).await?;
                } else {
                    counts.verdicts += erase_reviews(&mut tx, &reviews).await?;
                }
                counts.reviews += erase_review_texts(&mut tx, &reviews).await?;
                tx.commit().await?;
            }
        }
        self.erase_by_name(whose).await?;
        counts.add(self.erase_sidecar(whose).await?);
        Ok(counts)
    }

    /// Deletes the sessions and patterns of an agent or task, and the uses counted for them.
    async fn erase_sidecar(self, whose: &ErasureScope) -> Result<ErasedCounts, StoreError> {
        let named = format!(
            "/* leftovers.sets */ SELECT DISTINCT body::jsonb ->> 'tools_digest' FROM sidecar_session
             WHERE {} = $1 AND body::jsonb ? 'tools_digest'",
            whose.column()
        );
        let sets: Vec<String> = sql::all(&self.0.work, AssertSqlSafe(named), (whose.name(),)).await?;
        let mut gone = [0, 0, 0];
        for (table, gone) in ["sidecar_session", "pattern", "pattern_use"].into_iter().zip(&mut gone) {
            let sql = format!("/* leftovers.sidecar */ DELETE FROM {table} WHERE {} = $1", whose.column());
            *gone = sql::count(&self.0.work, AssertSqlSafe(sql), (whose.name(),)).await?;
        }
        // Deletes the tools of these sessions, unless other sessions have the same set.
        sql::execute(
            &self.0.work,
            "/* leftovers.tools */ DELETE FROM sidecar_tools t WHERE digest = ANY($1)
             AND NOT EXISTS (SELECT FROM sidecar_session s WHERE s.body::jsonb ->> 'tools_digest' = t.digest)",
            (&sets,),
        )
        .await?;
        let [sessions, patterns, _] = gone;
        Ok(ErasedCounts { sessions, patterns, ..ErasedCounts::default() })
    }

    /// Erases rows that carry only the name: messages, scores, calls and prompts of hooks, backtest items, reflexions,
    /// notes on breakers.
    async fn erase_by_name(self, whose: &ErasureScope) -> Result<(), StoreError> {
        let column = whose.column();
        let mut tx = begin(&self.0.work).await?;
        let mut statements = vec![
            format!(
                "/* leftovers.messages */ DELETE FROM webhook_delivery
                 WHERE {column} = $1 AND kind IN ('finding.created', 'verdict.decided')"
            ),
            format!(
                "/* leftovers.scores */ DELETE FROM agent_score s USING review_event x, event e
                 WHERE e.{column} = $1 AND e.erased_at IS NOT NULL AND x.event_id = e.id
                   AND s.review_id = x.review_id AND s.event_id = e.id"
            ),
            format!("/* leftovers.hook_calls */ DELETE FROM hook_call WHERE {column} = $1"),
            format!("/* leftovers.prompts */ UPDATE hook_session SET task = NULL WHERE {column} = $1"),
        ];
        // The task of an item is unknown by now, so for a task all items go whose events are gone.
        let mine = match whose {
            ErasureScope::Agent(_) => "i.agent = $1",
            ErasureScope::Task(_) => "$1 <> ''",
        };
        statements.push(format!(
            "/* leftovers.backtests */ UPDATE backtest_item i SET findings = NULL, notes = NULL
             WHERE {mine} AND (findings IS NOT NULL OR notes IS NOT NULL)
               AND NOT EXISTS (SELECT FROM event e WHERE e.id = i.event_id)"
        ));
        if let ErasureScope::Agent(_) = whose {
            statements.extend([
                "/* leftovers.reflexions */ DELETE FROM reflexion WHERE agent = $1".to_owned(),
                "/* leftovers.breaker */ UPDATE breaker_agent SET note = NULL WHERE agent = $1".to_owned(),
            ]);
        }
        for sql in statements {
            sql::execute(&mut *tx, AssertSqlSafe(sql), (whose.name(),)).await?;
        }
        Ok(tx.commit().await?)
    }
}

async fn erase_findings(tx: &mut Connection, findings: &[Uuid]) -> Result<u64, StoreError> {
    for sql in [
        "/* leftovers.lessons */ DELETE FROM reflexion x USING finding f WHERE f.id = ANY($1)
         AND (x.agent, x.task_type, x.fingerprint) = (f.agent, f.task_type, f.fingerprint)",
        "/* leftovers.briefings */ UPDATE briefing b SET body = ''
         FROM (SELECT DISTINCT agent FROM finding WHERE id = ANY($1)) f
         WHERE strpos(b.body, to_json(f.agent)::text) > 0",
    ] {
        sql::execute(&mut *tx, sql, (findings,)).await?;
    }
    blank_findings(tx, "id", findings).await
}

/// Erases assessments and scores of reviews, and the texts of their verdicts; returns the number of changed verdicts.
async fn erase_reviews(tx: &mut Connection, reviews: &[Uuid]) -> Result<u64, StoreError> {
    sql::execute(
        &mut *tx,
        "/* leftovers.assessments */ UPDATE review_assessment SET recommendation = $2, notes = '[]'
         WHERE review_id = ANY($1)",
        (reviews, ERASED),
    )
    .await?;
    sql::execute(&mut *tx, "/* leftovers.reviews */ DELETE FROM agent_score WHERE review_id = ANY($1)", (reviews,))
        .await?;
    sql::count(
        tx,
        "/* leftovers.verdicts */ UPDATE verdict SET reasons = '[]', recommendation = NULL
         WHERE event_id IN (SELECT event_id FROM review_event WHERE review_id = ANY($1))
           AND (reasons <> '[]' OR recommendation IS NOT NULL)",
        (reviews,),
    )
    .await
}
