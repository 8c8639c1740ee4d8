//! Erases the texts of an agent or a task. Rows and counters stay.
//!
//! In: an agent or a task. Out: counts of erased rows. Open reviews are ended first, with the lock order of every other
//! transaction (meters, reviews, feed), so nothing that was read before can be stored after. A unit returns only if its
//! review made no call, as when a review is given up: spent money does not return.

use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::{
    StoreError,
    aggregates::UpkeepStore,
    pool::Connection,
    sql::{self, record, uuids},
    transaction::{Tx, begin},
};
use umbra_domain::{EventId, ReviewId, SkipReason};

/// Text that replaces an erased text.
pub(super) const ERASED: &str = "[erased]";

/// Owner of the texts to erase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErasureScope {
    /// All work of this agent.
    Agent(String),
    /// All work in this task, by any agent.
    Task(String),
}

impl ErasureScope {
    pub(super) fn column(&self) -> &'static str {
        match self {
            Self::Agent(_) => "agent",
            Self::Task(_) => "task_id",
        }
    }

    /// Returns the agent's name or the task's id.
    pub fn name(&self) -> &str {
        match self {
            Self::Agent(name) | Self::Task(name) => name,
        }
    }
}

/// An event to erase.
#[derive(Debug, Clone)]
pub struct Erasable {
    /// Number in feed `intake`.
    pub seq: i64,
    /// Event id.
    pub id: EventId,
    /// Stored payload; empty if only ids were asked for.
    pub payload: Vec<u8>,
}

record!(Erasable: seq, id, payload);

/// Numbers of erased rows by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct ErasedCounts {
    /// Events whose contents were erased.
    pub events: u64,
    /// Waiting or running reviews that were ended.
    pub reviews_ended: u64,
    /// Results of reviews: their recommendations and notes.
    pub reviews: u64,
    /// Findings: their descriptions, recommendations, quotes, and people's notes.
    pub findings: u64,
    /// Verdicts: their reasons and recommendations.
    pub verdicts: u64,
    /// Rows of the audit: arguments, stubs, outcomes.
    pub audit: u64,
    /// Sessions of the sidecar, with their steps and documents.
    pub sessions: u64,
    /// Patterns.
    pub patterns: u64,
}

impl ErasedCounts {
    /// Adds other counts.
    pub fn add(&mut self, other: Self) {
        self.events += other.events;
        self.reviews_ended += other.reviews_ended;
        self.reviews += other.reviews;
        self.findings += other.findings;
        self.verdicts += other.verdicts;
        self.audit += other.audit;
        self.sessions += other.sessions;
        self.patterns += other.patterns;
    }
}

/// Reviews about these events: of the events themselves, and of the tasks that they are steps of.
const SPEAKING: &str = "SELECT review_id FROM review_event WHERE event_id = ANY($1)
    UNION SELECT t.id FROM event e JOIN review t ON t.task_id = e.task_id AND t.scope = 2 WHERE e.id = ANY($1)";

impl UpkeepStore<'_> {
    /// Returns the number of the newest event. Later events are outside an erasure that has begun.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn newest_event(self) -> Result<i64, StoreError> {
        sql::one(&self.0.work, "/* erasure.newest */ SELECT last FROM feed WHERE name = 'intake'", ()).await
    }

    /// Returns the next events of a range of numbers that are not erased, with payloads if wanted.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn erasable(
        self,
        whose: &ErasureScope,
        (after, last): (i64, i64),
        with_payload: bool,
        limit: i64,
    ) -> Result<Vec<Erasable>, StoreError> {
        let sql = format!(
            "/* erasure.events */ SELECT seq, id, {} FROM event WHERE {} = $1 AND seq > $2 AND seq <= $3
             AND erased_at IS NULL ORDER BY seq LIMIT $4",
            if with_payload { "payload" } else { "''::bytea AS payload" },
            whose.column()
        );
        sql::all(&self.0.work, AssertSqlSafe(sql), (whose.name(), after, last, limit)).await
    }

    /// Returns the reviews of the next `limit` events after a number, erased or not, and the last of these events'
    /// numbers; `None` if there are no more events.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn reviews_left_by(
        self,
        whose: &ErasureScope,
        after: i64,
        limit: i64,
    ) -> Result<Option<(i64, Vec<ReviewId>)>, StoreError> {
        let sql = format!(
            "/* erasure.reviews */ WITH e AS (
                 SELECT id, seq, task_id FROM event WHERE {} = $1 AND seq > $2 ORDER BY seq LIMIT $3)
             SELECT (SELECT max(seq) FROM e), ARRAY(
                 SELECT review_id FROM review_event WHERE event_id IN (SELECT id FROM e)
                 UNION SELECT id FROM review WHERE scope = 2 AND task_id IN (SELECT task_id FROM e))",
            whose.column()
        );
        let (last, reviews): (Option<i64>, Vec<ReviewId>) =
            sql::one(&self.0.work, AssertSqlSafe(sql), (whose.name(), after, limit)).await?;
        Ok(last.map(|last| (last, reviews)))
    }

    /// Waits until followers have finished the pages of reviews that they have read, such as to write files.
    ///
    /// # Errors
    /// The database does not answer, or is busy: try again.
    pub async fn outwait_followers(self) -> Result<(), StoreError> {
        sql::execute(&self.0.work, "/* erasure.followers */ SELECT FROM follower ORDER BY name FOR UPDATE", ()).await
    }

    /// Counts the rows that erasing these events would change.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn count_erasable(self, events: &[EventId]) -> Result<ErasedCounts, StoreError> {
        let sql = format!(
            "/* erasure.count */
             WITH r AS MATERIALIZED ({SPEAKING})
             SELECT (SELECT count(*) FROM review WHERE id IN (SELECT review_id FROM r) AND state IN ('queued', 'running')),
                    (SELECT count(*) FROM review_result d JOIN r USING (review_id) WHERE recommendation <> $2),
                    (SELECT count(*) FROM finding WHERE event_id = ANY($1) AND description <> $2),
                    (SELECT count(*) FROM verdict WHERE event_id = ANY($1) AND reasons <> '[]')"
        );
        let (reviews_ended, reviews, findings, verdicts) =
            sql::one(&self.0.work, AssertSqlSafe(sql), (uuids(events), ERASED)).await?;
        Ok(ErasedCounts {
            events: events.len() as u64,
            reviews_ended,
            reviews,
            findings,
            verdicts,
            ..ErasedCounts::default()
        })
    }

    /// Ends the open reviews of these events; returns how many. Their skips are counted under `replica`.
    ///
    /// # Errors
    /// The database does not answer, or is busy: try again, ended reviews stay ended.
    pub async fn end_reviews_of(self, events: &[EventId], replica: Uuid) -> Result<u64, StoreError> {
        let open = AssertSqlSafe(format!(
            "/* erasure.open */ SELECT id FROM review WHERE id IN ({SPEAKING}) AND state IN ('queued', 'running') ORDER BY id"
        ));
        let open: Vec<Uuid> = sql::all(&self.0.work, open, (uuids(events),)).await?;
        let mut ended = 0;
        for review in open {
            let mut tx = begin(&self.0.work).await?;
            ended += u64::from(end_review(&mut tx, review, replica).await?);
            tx.commit().await?;
        }
        Ok(ended)
    }

    /// Replaces the payloads of events by these, and erases all texts about the events, in one transaction.
    ///
    /// # Errors
    /// The database does not answer, or is busy: try again.
    pub async fn erase(self, events: &[(EventId, Vec<u8>)]) -> Result<ErasedCounts, StoreError> {
        let ids = uuids(events.iter().map(|(id, _)| id));
        let payloads: Vec<&[u8]> = events.iter().map(|(_, payload)| payload.as_slice()).collect();
        let mut tx = begin(&self.0.work).await?;
        let speaking = AssertSqlSafe(format!("/* erasure.speaking */ {SPEAKING} ORDER BY 1"));
        let reviews: Vec<Uuid> = sql::all(&mut *tx, speaking, (&ids,)).await?;
        let results = erase_review_texts(&mut tx, &reviews).await?;
        // Names of task types are the sender's words, so reflexions and scores with these names are deleted.
        for sql in [
            "/* erasure.reflexions */ DELETE FROM reflexion x USING finding f WHERE f.event_id = ANY($1)
             AND (x.agent, x.task_type, x.fingerprint) = (f.agent, f.task_type, f.fingerprint)",
            "/* erasure.otel */ DELETE FROM otel_record r USING otel_call c WHERE c.event_id = ANY($1)
             AND r.trace = c.trace",
            "/* erasure.otel_results */ DELETE FROM otel_result r USING otel_call c WHERE c.event_id = ANY($1)
             AND r.link = c.alias",
            "/* erasure.scores */ DELETE FROM agent_score WHERE event_id = ANY($1)",
            "/* erasure.backtests */ UPDATE backtest_item SET findings = NULL, notes = NULL WHERE event_id = ANY($1)",
            "/* erasure.webhooks */ DELETE FROM webhook_delivery d USING event e WHERE e.id = ANY($1)
             AND d.agent = e.agent AND d.task_id IS NOT DISTINCT FROM e.task_id",
            // The row stays, so that no second message is sent; a reader gets a briefing computed anew.
            "/* erasure.briefings */ UPDATE briefing b SET body = ''
             FROM (SELECT DISTINCT agent FROM event WHERE id = ANY($1)) e
             WHERE strpos(b.body, to_json(e.agent)::text) > 0",
        ] {
            sql::execute(&mut *tx, sql, (&ids,)).await?;
        }
        sql::execute(
            &mut *tx,
            "/* erasure.assessments */ UPDATE review_assessment SET recommendation = $2, notes = '[]'
             WHERE event_id = ANY($1)",
            (&ids, ERASED),
        )
        .await?;
        let findings = blank_findings(&mut tx, "event_id", &ids).await?;
        let verdicts = sql::count(
            &mut *tx,
            "/* erasure.verdicts */ UPDATE verdict SET reasons = '[]', recommendation = NULL
             WHERE event_id = ANY($1) AND (reasons <> '[]' OR recommendation IS NOT NULL)",
            (&ids,),
        )
        .await?;
        let erased = sql::count(
            &mut *tx,
            "/* erasure.payloads */ UPDATE event e SET payload = u.payload, erased_at = clock()
             FROM unnest($1::uuid[], $2::bytea[]) u(id, payload) WHERE e.id = u.id AND e.erased_at IS NULL",
            (&ids, payloads),
        )
        .await?;
        tx.commit().await?;
        Ok(ErasedCounts {
            events: erased,
            reviews_ended: 0,
            reviews: results,
            findings,
            verdicts,
            ..ErasedCounts::default()
        })
    }

    /// Lets Postgres reuse the space of erased rows now. Autovacuum does so in time anyway; until then erased texts
    /// stay on disk.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn vacuum_erased(self) -> Result<(), StoreError> {
        let mut connection = self.0.control.acquire().await?;
        connection.close_on_drop();
        sql::execute(&mut connection, "SET statement_timeout = 0", ()).await?;
        sqlx::raw_sql("VACUUM (SKIP_LOCKED) event, finding, review_result, review_assessment, verdict, review, agent_score, backtest_item,
             webhook_delivery, briefing, audit_payload, call, boundary_run, sidecar_session, sidecar_step,
             sidecar_document, sidecar_change, pattern, pattern_use")
            .execute(&mut connection)
            .await?;
        Ok(())
    }
}

/// Erases the texts of these reviews (results, failures, their findings' recommendations) and the undelivered messages
/// that name their findings; returns how many results changed. A finding's recommendation is that of its review, so it
/// may speak of other events.
pub(super) async fn erase_review_texts(tx: &mut Connection, reviews: &[Uuid]) -> Result<u64, StoreError> {
    for sql in [
        "/* erasure.failures */ UPDATE review SET failure = NULL WHERE id = ANY($1) AND failure IS NOT NULL",
        "/* erasure.messages */ DELETE FROM webhook_delivery d USING finding f WHERE f.review_id = ANY($1)
         AND d.agent = f.agent AND strpos(d.body, replace(f.id::text, '-', '')) > 0",
    ] {
        sql::execute(&mut *tx, sql, (reviews,)).await?;
    }
    sql::execute(
        &mut *tx,
        "/* erasure.recommendations */ UPDATE finding SET recommendation = $2
         WHERE review_id = ANY($1) AND recommendation <> $2",
        (reviews, ERASED),
    )
    .await?;
    sql::count(
        tx,
        "/* erasure.results */ UPDATE review_result SET recommendation = $2, notes = '[]'
         WHERE review_id = ANY($1) AND (recommendation <> $2 OR notes <> '[]')",
        (reviews, ERASED),
    )
    .await
}

/// Erases the texts of findings whose `column` has one of these values; returns how many changed.
pub(super) async fn blank_findings(tx: &mut Connection, column: &str, of: &[Uuid]) -> Result<u64, StoreError> {
    let sql = format!(
        "/* erasure.findings */ UPDATE finding SET description = $2, task_type = NULL, field = NULL, quote = NULL,
             quote_start = NULL, quote_end = NULL, note = NULL,
             -- Of a look, which has no review that would lose its words, and whose key stands for a value.
             recommendation = CASE WHEN review_id IS NULL THEN $2 ELSE recommendation END,
             collapse_key = CASE WHEN collapse_key IS NOT NULL THEN decode(replace(id::text, '-', ''), 'hex') END
         WHERE {column} = ANY($1) AND description <> $2"
    );
    sql::count(tx, AssertSqlSafe(sql), (of, ERASED)).await
}

/// Ends one review and charges its open calls at their holds; returns true if it was open.
async fn end_review(tx: &mut Tx, review: Uuid, replica: Uuid) -> Result<bool, StoreError> {
    // Meters are locked before reviews: the order of locks is the same everywhere.
    sql::execute(
        &mut **tx,
        "/* erasure.lock */
         SELECT FROM meter m WHERE m.trigger = '' AND (m.shadow, m.agent, m.day) IN (
             SELECT r.shadow, a.agent, r.day FROM review r, unnest(ARRAY['', r.agent]) a(agent) WHERE r.id = $1
             UNION SELECT c.shadow, '', c.day FROM provider_call c WHERE c.review_id = $1 AND c.state = 'sent')
         ORDER BY m.shadow COLLATE \"C\", m.agent COLLATE \"C\", m.day FOR UPDATE",
        (review,),
    )
    .await?;
    let ended = sql::count(
        &mut **tx,
        "/* erasure.end */
         WITH r AS (
             UPDATE review SET finished_at = clock(), reason = $2, failure = NULL,
                 state = CASE WHEN EXISTS (SELECT FROM provider_call c WHERE c.review_id = $1
                     AND (c.state <> 'settled' OR c.actual_usd > 0 OR c.actual_tokens > 0))
                     THEN 'failed' ELSE 'released' END
             WHERE id = $1 AND state IN ('queued', 'running')
             RETURNING state, shadow, version, agent, day
         ), m AS (
             UPDATE meter m SET used = used - 1 FROM r WHERE r.state = 'released' AND m.shadow = r.shadow
                 AND m.trigger = '' AND m.day = r.day AND m.agent IN ('', r.agent)
         ), f AS (
             UPDATE feed SET last = last + 1 FROM r WHERE r.state = 'released' AND feed.name = 'release'
         )
         INSERT INTO skip_count (shadow, reason, day, replica, n)
         SELECT r.shadow, $2, (clock() AT TIME ZONE
                coalesce(v.config::json->'cost_control'->>'time_zone', 'UTC'))::date, $3, 1
         FROM r JOIN shadow_version v ON v.id = r.version
         ON CONFLICT (shadow, reason, day, replica) DO UPDATE SET n = skip_count.n + 1",
        (review, SkipReason::Erased.code(), replica),
    )
    .await?;
    if ended == 0 {
        return Ok(false);
    }
    // The worker that made the call finds it settled, and its lease lost.
    sql::execute(
        &mut **tx,
        "/* erasure.settle */
         WITH c AS (
             UPDATE provider_call SET state = 'unknown', actual_usd = hold_usd, actual_tokens = hold_tokens
             WHERE review_id = $1 AND state = 'sent' RETURNING shadow, day, hold_usd, hold_tokens
         ), s AS (SELECT shadow, day, sum(hold_usd)::bigint AS usd, sum(hold_tokens)::bigint AS tokens
         FROM c GROUP BY 1, 2)
         UPDATE meter m SET held_usd = m.held_usd - s.usd, spent_usd = m.spent_usd + s.usd,
             held_tokens = m.held_tokens - s.tokens, spent_tokens = m.spent_tokens + s.tokens
         FROM s WHERE (m.shadow, m.agent, m.trigger, m.day) = (s.shadow, '', '', s.day)",
        (review,),
    )
    .await?;
    Ok(true)
}
