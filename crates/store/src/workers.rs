//! Leases are by worker: one heartbeat a process. The silent are dead, and what they held is taken over.

use jiff::Timestamp;
use sqlx::postgres::types::PgInterval;
use uuid::Uuid;

use super::{StoreError, aggregates::QueueStore, transaction::begin};
use umbra_domain::{ReviewId, WorkerId};

/// What a sweep of dead workers did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rescue {
    /// Workers found dead.
    pub workers: u64,
    /// Reviews that went back to the queue.
    pub reviews: u64,
    /// Provider calls whose outcome nobody knows: charged at their hold.
    pub calls: u64,
}

impl QueueStore<'_> {
    /// Registers a worker.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn enlist(self, worker: WorkerId) -> Result<(), StoreError> {
        sqlx::query("INSERT INTO worker (id) VALUES ($1)").bind(worker.0).execute(&self.0.control).await?;
        Ok(())
    }

    /// Says that the worker lives; answers the database's time, or `None` if it was declared dead meanwhile: then
    /// it must start nothing more under this id.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn heartbeat(self, worker: WorkerId) -> Result<Option<Timestamp>, StoreError> {
        let at: Option<jiff_sqlx::Timestamp> =
            sqlx::query_scalar("UPDATE worker SET heartbeat_at = clock() WHERE id = $1 RETURNING heartbeat_at")
                .bind(worker.0)
                .fetch_optional(&self.0.control)
                .await?;
        Ok(at.map(jiff_sqlx::Timestamp::to_jiff))
    }

    /// Files what a serving process has in force and how its providers do, as JSON.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn file_standing(self, worker: WorkerId, standing: &str) -> Result<(), StoreError> {
        sqlx::query("/* workers.standing */ UPDATE worker SET standing = $2 WHERE id = $1")
            .bind(worker.0)
            .bind(standing)
            .execute(&self.0.control)
            .await?;
        Ok(())
    }

    /// What the serving processes filed that gave a sign of life within `dead_after`, the newest process first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn standings(self, dead_after: std::time::Duration) -> Result<Vec<String>, StoreError> {
        Ok(sqlx::query_scalar(
            "/* workers.standings */ SELECT standing FROM worker
             WHERE standing IS NOT NULL AND heartbeat_at >= clock() - $1 ORDER BY started_at DESC, id DESC",
        )
        .bind(interval(dead_after))
        .fetch_all(&self.0.read)
        .await?)
    }

    /// Strikes the worker off and hands back what it still holds. `successor` is a fresh id that nobody uses.
    ///
    /// # Errors
    /// The database does not answer: the sweep of another process will do it.
    pub async fn dismiss(self, worker: WorkerId, successor: WorkerId) -> Result<u64, StoreError> {
        sqlx::query("DELETE FROM worker WHERE id = $1").bind(worker.0).execute(&self.0.control).await?;
        Ok(self.take_over(worker.0, successor.0).await?.reviews)
    }

    /// Takes over from workers other than `own` that were silent for `dead_after`: their open calls are charged at
    /// the hold, their reviews queued again. Any process may do it, and two at once do no harm.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn rescue(
        self,
        own: WorkerId,
        dead_after: std::time::Duration,
        successor: impl Fn() -> WorkerId,
    ) -> Result<Rescue, StoreError> {
        let dead_after = interval(dead_after);
        let dead: Vec<Uuid> = sqlx::query_scalar(
            "/* workers.dead */ SELECT id FROM worker WHERE heartbeat_at < clock() - $1 AND id <> $2
             UNION SELECT worker FROM review r WHERE state = 'running' AND NOT EXISTS
                (SELECT FROM worker w WHERE w.id = r.worker)",
        )
        .bind(dead_after)
        .bind(own.0)
        .fetch_all(&self.0.control)
        .await?;
        let mut rescue = Rescue::default();
        for worker in dead {
            // Struck off first, and only if still silent: from here on its heartbeat fails and it starts nothing.
            let mut tx = begin(&self.0.control).await?;
            let revived: bool = sqlx::query_scalar(
                "SELECT EXISTS (SELECT FROM worker WHERE id = $1 AND heartbeat_at >= clock() - $2 FOR UPDATE)",
            )
            .bind(worker)
            .bind(dead_after)
            .fetch_one(&mut *tx)
            .await?;
            if revived {
                continue;
            }
            sqlx::query("DELETE FROM worker WHERE id = $1").bind(worker).execute(&mut *tx).await?;
            tx.commit().await?;
            rescue.workers += 1;
            let taken = self.take_over(worker, successor().0).await?;
            rescue.calls += taken.calls;
            rescue.reviews += taken.reviews;
        }
        Ok(rescue)
    }

    /// Queues again the reviews that a commit of unknown outcome may have leased to this living worker; answers which.
    ///
    /// # Errors
    /// The database does not answer: try again.
    pub async fn unlease(self, worker: WorkerId, reviews: &[ReviewId]) -> Result<Vec<ReviewId>, StoreError> {
        let ids: Vec<Uuid> = reviews.iter().map(|id| id.0).collect();
        let freed: Vec<Uuid> = sqlx::query_scalar(
            "/* workers.unlease */ UPDATE review SET state = 'queued', worker = NULL, attempt = 0, run_at = clock()
             WHERE id = ANY($2) AND worker = $1 AND state = 'running' AND attempt = 1
             RETURNING id",
        )
        .bind(worker.0)
        .bind(ids)
        .fetch_all(&self.0.control)
        .await?;
        Ok(freed.into_iter().map(ReviewId).collect())
    }

    /// First the leases go to a name that nobody holds, which fences the old worker's holds and results; then its
    /// open calls can be counted and charged without one slipping in; then the reviews are queued. A crash in
    /// between leaves leases of an unknown worker, which the next sweep finds.
    async fn take_over(self, worker: Uuid, successor: Uuid) -> Result<Rescue, StoreError> {
        sqlx::query("/* workers.fence */ UPDATE review SET worker = $2 WHERE worker = $1 AND state = 'running'")
            .bind(worker)
            .bind(successor)
            .execute(&self.0.control)
            .await?;
        let orphans: Vec<(Uuid, i16)> = sqlx::query_as(
            "/* workers.orphans */ SELECT c.review_id, c.n FROM provider_call c JOIN review r ON r.id = c.review_id
             WHERE r.worker = $1 AND r.state = 'running' AND c.state = 'sent'",
        )
        .bind(successor)
        .fetch_all(&self.0.control)
        .await?;
        for (review, n) in &orphans {
            self.0.reviews().settle(ReviewId(*review), *n, None).await?;
        }
        let reviews = sqlx::query(
            "/* workers.requeue */ UPDATE review SET state = 'queued', worker = NULL, run_at = clock()
             WHERE worker = $1 AND state = 'running'",
        )
        .bind(successor)
        .execute(&self.0.control)
        .await?
        .rows_affected();
        Ok(Rescue { workers: 1, reviews, calls: orphans.len() as u64 })
    }
}

/// A duration as Postgres takes it.
pub(super) fn interval(duration: std::time::Duration) -> PgInterval {
    PgInterval { months: 0, days: 0, microseconds: i64::try_from(duration.as_micros()).unwrap_or(i64::MAX) }
}
