//! The queue of reviews: leases jobs, puts them back and gives them up. Only ids, ranks and times of reviews matter
//! here.
//!
//! A job is finished, put back or given up only with its lease token (worker, attempt): a worker that lost the lease
//! changes nothing. No other work runs inside a transaction that holds a job's lock.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    StoreError,
    aggregates::QueueStore,
    sql::{self, column, record},
    transaction::begin,
    workers::interval,
};
use umbra_domain::{EventId, ReviewId, ReviewScope, SkipReason, Trigger, WorkerId};

/// A job that a worker has leased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The review.
    pub review: ReviewId,
    /// The lease token.
    pub lease: Lease,
    /// `shadow_version.id`.
    pub version: i32,
    /// The shadow's name.
    pub shadow: String,
    /// The watched agent.
    pub agent: String,
    /// The trigger.
    pub trigger: Trigger,
    /// Rank in the queue, by the shadow's mode; 0 is first.
    pub priority: i16,
    /// The event under review, the first of several.
    pub event: EventId,
    /// Scope: an event, a batch or a task.
    pub scope: ReviewScope,
    /// When a worker first leased the job.
    pub started_at: Timestamp,
}

record! {
    Job, row: review, version, shadow, agent, trigger, priority, event, scope, started_at;
    lease: Lease { worker: WorkerId(column(row, "worker")?), attempt: column(row, "attempt")? },
}

/// Lease token of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The holder.
    pub worker: WorkerId,
    /// Attempt, from 1.
    pub attempt: i32,
}

impl QueueStore<'_> {
    /// Leases due jobs, as many as there are places: `kept` for jobs of rank 0 alone, `general` for any rank.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn claim(self, worker: WorkerId, kept: i64, general: i64) -> Result<Vec<Job>, StoreError> {
        sql::all(
            &self.0.work,
            "/* jobs.claim */
             WITH urgent AS (
                 SELECT id FROM review WHERE state = 'queued' AND mode = 0 AND run_at <= (SELECT clock())
                 ORDER BY run_at, id LIMIT $2 + $3 FOR UPDATE SKIP LOCKED
             ), other AS (
                 SELECT id FROM review WHERE state = 'queued' AND mode > 0 AND run_at <= (SELECT clock())
                 ORDER BY mode, run_at, id
                 LIMIT $3 - greatest(0, (SELECT count(*) FROM urgent) - $2) FOR UPDATE SKIP LOCKED
             ), taken AS (
                 UPDATE review SET state = 'running', worker = $1, attempt = attempt + 1,
                     started_at = coalesce(started_at, clock())
                 WHERE id IN (SELECT id FROM urgent UNION ALL SELECT id FROM other)
                 RETURNING id AS review, worker, shadow, version, agent, trigger, mode AS priority, attempt, scope,
                     started_at
             )
             SELECT t.*, e.event_id AS event FROM taken t, LATERAL (
                 SELECT event_id FROM review_event WHERE review_id = t.review ORDER BY event_id LIMIT 1) e
             ORDER BY t.priority, t.review",
            (worker.0, kept, general),
        )
        .await
    }

    /// Leases one review if it is due.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn claim_one(self, worker: WorkerId, review: ReviewId) -> Result<Option<Job>, StoreError> {
        sql::optional(
            &self.0.work,
            "/* jobs.claim_one */
             WITH taken AS (
                 UPDATE review SET state = 'running', worker = $1, attempt = attempt + 1,
                     started_at = coalesce(started_at, clock())
                 WHERE id = $2 AND state = 'queued' AND run_at <= clock()
                 RETURNING id AS review, worker, shadow, version, agent, trigger, mode AS priority, attempt, scope,
                     started_at
             )
             SELECT t.*, e.event_id AS event FROM taken t, LATERAL (
                 SELECT event_id FROM review_event WHERE review_id = t.review ORDER BY event_id LIMIT 1) e",
            (worker.0, review.0),
        )
        .await
    }

    /// Puts a job back, to run again after `delay`; returns false if the lease was lost.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn put_back(
        self,
        review: ReviewId,
        lease: Lease,
        delay: Duration,
        failure: &str,
        counted: bool,
    ) -> Result<bool, StoreError> {
        sql::changed(
            &self.0.work,
            "/* jobs.put_back */
             UPDATE review SET state = 'queued', worker = NULL, run_at = clock() + $4, failure = $5,
                 attempt = CASE WHEN $6 THEN attempt ELSE attempt - 1 END
             WHERE id = $1 AND worker = $2 AND attempt = $3 AND state = 'running'",
            (review.0, lease.worker.0, lease.attempt, interval(delay), failure, counted),
        )
        .await
    }

    /// Gives a review up without an assessment. Its unit returns, once and to its own day, unless a call may have been
    /// charged: then the unit stays spent and the review is `failed`. Returns false if the lease was lost.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn give_up(
        self,
        review: ReviewId,
        lease: Lease,
        reason: SkipReason,
        failure: &str,
        zone: &str,
    ) -> Result<bool, StoreError> {
        let mut tx = begin(&self.0.work).await?;
        // Meters are locked before reviews: the order of locks is the same everywhere.
        sql::execute(
            &mut *tx,
            "/* jobs.give_up.lock */
             SELECT FROM meter m JOIN review r ON r.id = $1 AND m.shadow = r.shadow AND m.agent IN ('', r.agent)
                 AND (m.trigger = '' AND m.day = r.day OR m.begun_by = $1)
             ORDER BY m.shadow COLLATE \"C\", m.agent COLLATE \"C\", m.trigger COLLATE \"C\" FOR UPDATE OF m",
            (review.0,),
        )
        .await?;
        let state: Option<String> = sql::optional(
            &mut *tx,
            "/* jobs.give_up */
             WITH r AS (
                 UPDATE review SET finished_at = clock(), reason = $4, failure = $5,
                     state = CASE WHEN EXISTS (SELECT FROM provider_call c WHERE c.review_id = $1
                         AND (c.state <> 'settled' OR c.actual_usd > 0 OR c.actual_tokens > 0))
                         THEN 'failed' ELSE 'released' END
                 WHERE id = $1 AND worker = $2 AND attempt = $3 AND state = 'running'
                 RETURNING state, shadow, agent, day
             ), m AS (
                 UPDATE meter m SET used = used - 1 FROM r WHERE r.state = 'released' AND m.shadow = r.shadow
                     AND m.trigger = '' AND m.day = r.day AND m.agent IN ('', r.agent)
             ), c AS (
                 UPDATE meter m SET next_at = 'epoch', begun_by = NULL FROM r
                 WHERE m.shadow = r.shadow AND m.agent = r.agent AND m.begun_by = $1
             ), f AS (
                 UPDATE feed SET last = last + 1 FROM r WHERE feed.name = 'release'
             ), k AS (
                 INSERT INTO skip_count (shadow, reason, day, replica, n)
                 SELECT shadow, $4, (clock() AT TIME ZONE $6)::date, $2,
                        (SELECT count(*) FROM review_event WHERE review_id = $1) FROM r
                 ON CONFLICT (shadow, reason, day, replica) DO UPDATE SET n = skip_count.n + excluded.n
             )
             SELECT state FROM r",
            (review.0, lease.worker.0, lease.attempt, reason.code(), failure, zone),
        )
        .await?;
        tx.commit().await?;
        Ok(state.is_some())
    }

    /// Returns the number of releases so far. While it does not grow, a spent cap stays spent.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn releases(self) -> Result<i64, StoreError> {
        sql::one(&self.0.control, "/* jobs.releases */ SELECT last FROM feed WHERE name = 'release'", ()).await
    }

    /// Counts queued, running and due reviews, and measures how long the oldest has been due.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn queue_depth(self) -> Result<QueueDepth, StoreError> {
        let (queued, running, due, oldest): (i64, i64, i64, Option<f64>) = sql::one(
            &self.0.control,
            "/* jobs.depth */
             SELECT count(*) FILTER (WHERE state = 'queued'), count(*) FILTER (WHERE state = 'running'),
                    count(*) FILTER (WHERE state = 'queued' AND run_at <= c.at),
                    extract(epoch FROM max(c.at - run_at) FILTER (WHERE state = 'queued'))::float8
             FROM review, (SELECT clock() AS at OFFSET 0) c WHERE state IN ('queued', 'running')",
            (),
        )
        .await?;
        Ok(QueueDepth { queued, running, due, oldest_age_seconds: oldest.unwrap_or(0.0).max(0.0) })
    }
}

/// Depth of the queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueDepth {
    /// Queued reviews.
    pub queued: i64,
    /// Running reviews.
    pub running: i64,
    /// Queued reviews whose run time has come.
    pub due: i64,
    /// Time since the oldest run time of a queued review, in seconds; 0 if none is due.
    pub oldest_age_seconds: f64,
}
