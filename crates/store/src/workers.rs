//! Workers and their leases: one heartbeat per process. Silent workers count as dead, and their reviews are taken over.

use jiff::Timestamp;
use sqlx::postgres::types::PgInterval;
use uuid::Uuid;

use super::{
    StoreError,
    aggregates::QueueStore,
    sql::{self, uuids},
    transaction::begin,
};
use umbra_domain::{ReviewId, WorkerId};

/// Counts of a sweep of dead workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TakeoverCounts {
    /// Dead workers.
    pub workers: u64,
    /// Reviews that went back to the queue.
    pub reviews: u64,
    /// Provider calls of unknown outcome, charged at their holds.
    pub calls: u64,
}

impl QueueStore<'_> {
    /// Registers a worker.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn register_worker(self, worker: WorkerId) -> Result<(), StoreError> {
        sql::execute(&self.0.control, "INSERT INTO worker (id) VALUES ($1)", (worker.0,)).await
    }

    /// Records a sign of life; returns the database's time, or `None` if the worker was declared dead meanwhile: then
    /// it must start nothing more under this id.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn heartbeat(self, worker: WorkerId) -> Result<Option<Timestamp>, StoreError> {
        sql::optional(
            &self.0.control,
            "UPDATE worker SET heartbeat_at = clock() WHERE id = $1 RETURNING heartbeat_at",
            (worker.0,),
        )
        .await
    }

    /// Stores the status of a serving process (configuration in force, health of providers), as JSON.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn store_status(self, worker: WorkerId, standing: &str) -> Result<(), StoreError> {
        sql::execute(
            &self.0.control,
            "/* workers.standing */ UPDATE worker SET standing = $2 WHERE id = $1",
            (worker.0, standing),
        )
        .await
    }

    /// Returns the stored status of serving processes with a sign of life within `dead_after`, newest process first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn standings(self, dead_after: std::time::Duration) -> Result<Vec<String>, StoreError> {
        sql::all(
            &self.0.read,
            "/* workers.standings */ SELECT standing FROM worker
             WHERE standing IS NOT NULL AND heartbeat_at >= clock() - $1 ORDER BY started_at DESC, id DESC",
            (interval(dead_after),),
        )
        .await
    }

    /// Removes the worker and queues its reviews again; returns how many. `successor` is a fresh, unused id.
    ///
    /// # Errors
    /// The database does not answer: the sweep of another process takes over.
    pub async fn remove_worker(self, worker: WorkerId, successor: WorkerId) -> Result<u64, StoreError> {
        sql::execute(&self.0.control, "DELETE FROM worker WHERE id = $1", (worker.0,)).await?;
        Ok(self.take_over(worker.0, successor.0).await?.reviews)
    }

    /// Takes over from workers other than `own` that were silent for `dead_after`: charges their open calls at the
    /// holds and queues their reviews again. Any process may do it, and two at once do no harm.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn take_over_from_silent(
        self,
        own: WorkerId,
        dead_after: std::time::Duration,
        successor: impl Fn() -> WorkerId,
    ) -> Result<TakeoverCounts, StoreError> {
        let dead_after = interval(dead_after);
        let dead: Vec<Uuid> = sql::all(
            &self.0.control,
            "/* workers.dead */ SELECT id FROM worker WHERE heartbeat_at < clock() - $1 AND id <> $2
             UNION SELECT worker FROM review r WHERE state = 'running' AND NOT EXISTS
                (SELECT FROM worker w WHERE w.id = r.worker)",
            (dead_after, own.0),
        )
        .await?;
        let mut rescue = TakeoverCounts::default();
        for worker in dead {
            // The worker is removed first, and only if it is still silent: from here on its heartbeat fails and it
            // starts nothing.
            let mut tx = begin(&self.0.control).await?;
            let revived: bool = sql::one(
                &mut *tx,
                "SELECT EXISTS (SELECT FROM worker WHERE id = $1 AND heartbeat_at >= clock() - $2 FOR UPDATE)",
                (worker, dead_after),
            )
            .await?;
            if revived {
                continue;
            }
            sql::execute(&mut *tx, "DELETE FROM worker WHERE id = $1", (worker,)).await?;
            tx.commit().await?;
            rescue.workers += 1;
            let taken = self.take_over(worker, successor().0).await?;
            rescue.calls += taken.calls;
            rescue.reviews += taken.reviews;
        }
        Ok(rescue)
    }

    /// Queues again the reviews that a commit of unknown outcome may have leased to this living worker; returns their
    /// ids.
    ///
    /// # Errors
    /// The database does not answer: try again.
    pub async fn unlease(self, worker: WorkerId, reviews: &[ReviewId]) -> Result<Vec<ReviewId>, StoreError> {
        sql::all(
            &self.0.control,
            "/* workers.unlease */ UPDATE review SET state = 'queued', worker = NULL, attempt = 0, run_at = clock()
             WHERE id = ANY($2) AND worker = $1 AND state = 'running' AND attempt = 1
             RETURNING id",
            (worker.0, uuids(reviews)),
        )
        .await
    }

    /// Takes over a worker's reviews. First the leases move to an unused id, which fences the old worker's holds and
    /// results. Then its open calls are charged; none can be added any more. Then the reviews are queued. A crash in
    /// between leaves leases of an unknown worker, which the next sweep finds.
    async fn take_over(self, worker: Uuid, successor: Uuid) -> Result<TakeoverCounts, StoreError> {
        sql::execute(
            &self.0.control,
            "/* workers.fence */ UPDATE review SET worker = $2 WHERE worker = $1 AND state = 'running'",
            (worker, successor),
        )
        .await?;
        let orphans: Vec<(ReviewId, i16)> = sql::all(
            &self.0.control,
            "/* workers.orphans */ SELECT c.review_id, c.n FROM provider_call c JOIN review r ON r.id = c.review_id
             WHERE r.worker = $1 AND r.state = 'running' AND c.state = 'sent'",
            (successor,),
        )
        .await?;
        for (review, n) in &orphans {
            self.0.reviews().settle(*review, *n, None).await?;
        }
        let reviews = sql::count(
            &self.0.control,
            "/* workers.requeue */ UPDATE review SET state = 'queued', worker = NULL, run_at = clock()
             WHERE worker = $1 AND state = 'running'",
            (successor,),
        )
        .await?;
        Ok(TakeoverCounts { workers: 1, reviews, calls: orphans.len() as u64 })
    }
}

/// Converts a duration for Postgres.
pub(super) fn interval(duration: std::time::Duration) -> PgInterval {
    PgInterval { months: 0, days: 0, microseconds: i64::try_from(duration.as_micros()).unwrap_or(i64::MAX) }
}
