//! Reviews that wait and take further events: batches of an agent, and reviews of a task. In the accept transaction,
//! under the meters' locks, so that two flushes never open two where one would do.
//!
//! A review takes events as long as nobody has claimed it. What a claim holds is passed over, not waited for: it
//! counts as begun.

use std::collections::HashSet;

use jiff::Timestamp;
use uuid::Uuid;

use super::{StoreError, aggregates::EventStore, intake::Flush};
use umbra_domain::{ReviewId, ReviewScope};

/// A batch that waits for company.
#[derive(Debug, Clone)]
pub struct OpenBatch {
    /// The review.
    pub review: ReviewId,
    /// `shadow_version.id`.
    pub version: i32,
    /// The agent.
    pub agent: String,
    /// Events that hold it.
    pub events: u32,
    /// Characters of their texts.
    pub chars: u64,
    /// It runs no earlier, even when it is full.
    pub not_before: Timestamp,
    /// When it runs.
    pub run_at: Timestamp,
}

/// A task that a shadow has reviewed, or is going to.
#[derive(Debug, Clone)]
pub struct ReviewedTask {
    /// The shadow.
    pub shadow: String,
    /// The task.
    pub task: String,
    /// Its reviews, without the released.
    pub rounds: u32,
    /// The one that nobody has begun, with the events that hold it and when it runs. It is locked.
    pub waiting: Option<(ReviewId, u32, Timestamp)>,
}

impl Flush {
    /// Locks the batches of these (shadow version, agent) that wait.
    ///
    /// # Errors
    /// Contention or a lost connection; nothing is stored.
    pub async fn open_batches(&mut self, of: &[(i32, &str)]) -> Result<Vec<OpenBatch>, StoreError> {
        type Row = (Uuid, i32, String, i32, i64, Option<jiff_sqlx::Timestamp>, jiff_sqlx::Timestamp);
        if of.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<Row> = sqlx::query_as(
            "/* waiting.batches */
             SELECT r.id, r.version, r.agent, r.events, r.chars, r.not_before, r.run_at FROM review r
             JOIN unnest($1::int4[], $2::text[]) k(version, agent) ON (r.version, r.agent) = (k.version, k.agent)
             WHERE r.state = 'queued' AND r.scope = $3 AND r.started_at IS NULL AND r.run_at > (SELECT clock())
             ORDER BY r.id FOR UPDATE OF r SKIP LOCKED",
        )
        .bind(of.iter().map(|(version, _)| *version).collect::<Vec<_>>())
        .bind(of.iter().map(|(_, agent)| *agent).collect::<Vec<_>>())
        .bind(ReviewScope::Batch.code())
        .fetch_all(&mut *self.0)
        .await?;
        let batch = |(id, version, agent, events, chars, not_before, run_at): Row| OpenBatch {
            review: ReviewId(id),
            version,
            agent,
            events: u32::try_from(events).unwrap_or(0),
            chars: u64::try_from(chars).unwrap_or(0),
            not_before: not_before.map_or(Timestamp::UNIX_EPOCH, jiff_sqlx::Timestamp::to_jiff),
            run_at: run_at.to_jiff(),
        };
        Ok(rows.into_iter().map(batch).collect())
    }

    /// The reviews of these (shadow, task), and locks those that wait.
    ///
    /// # Errors
    /// Contention or a lost connection; nothing is stored.
    pub async fn reviewed_tasks(&mut self, of: &[(&str, &str)]) -> Result<Vec<ReviewedTask>, StoreError> {
        type Row = (String, String, Uuid, bool, i32, jiff_sqlx::Timestamp);
        if of.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<Row> = sqlx::query_as(
            "/* waiting.tasks */
             SELECT r.shadow, r.task_id, r.id, r.state = 'queued' AND r.started_at IS NULL, r.events, r.run_at
             FROM review r JOIN unnest($1::text[], $2::text[]) k(shadow, task) ON (r.shadow, r.task_id) = (k.shadow, k.task)
             WHERE r.scope = $3 AND r.state <> 'released' ORDER BY r.id",
        )
        .bind(of.iter().map(|(shadow, _)| *shadow).collect::<Vec<_>>())
        .bind(of.iter().map(|(_, task)| *task).collect::<Vec<_>>())
        .bind(ReviewScope::Trajectory.code())
        .fetch_all(&mut *self.0)
        .await?;
        let waiting: Vec<Uuid> = rows.iter().filter(|row| row.3).map(|row| row.2).collect();
        let locked: HashSet<Uuid> = if waiting.is_empty() {
            HashSet::new()
        } else {
            let locked = sqlx::query_scalar(
                "/* waiting.lock */ SELECT id FROM review WHERE id = ANY($1) AND state = 'queued' AND started_at IS NULL
                 ORDER BY id FOR UPDATE SKIP LOCKED",
            );
            locked.bind(waiting).fetch_all(&mut *self.0).await?.into_iter().collect()
        };
        let mut tasks: Vec<ReviewedTask> = Vec::new();
        for (shadow, task, id, _, events, run_at) in rows {
            let known = tasks.iter().position(|known| known.shadow == shadow && known.task == task);
            let place = known.unwrap_or_else(|| {
                tasks.push(ReviewedTask { shadow, task, rounds: 0, waiting: None });
                tasks.len() - 1
            });
            if let Some(task) = tasks.get_mut(place) {
                task.rounds += 1;
                if locked.contains(&id) {
                    task.waiting = Some((ReviewId(id), u32::try_from(events).unwrap_or(0), run_at.to_jiff()));
                }
            }
        }
        Ok(tasks)
    }
}

impl EventStore<'_> {
    /// Of these (shadow, task), those whose only review was begun: one that comes now comes late.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn begun_once(self, of: &[(&str, &str)]) -> Result<HashSet<(String, String)>, StoreError> {
        let found: Vec<(String, String)> = sqlx::query_as(
            "/* waiting.begun */
             SELECT r.shadow, r.task_id FROM review r
             JOIN unnest($1::text[], $2::text[]) k(shadow, task) ON (r.shadow, r.task_id) = (k.shadow, k.task)
             WHERE r.scope = $3 AND r.state <> 'released'
             GROUP BY r.shadow, r.task_id HAVING count(*) = 1 AND bool_and(r.started_at IS NOT NULL)",
        )
        .bind(of.iter().map(|(shadow, _)| *shadow).collect::<Vec<_>>())
        .bind(of.iter().map(|(_, task)| *task).collect::<Vec<_>>())
        .bind(ReviewScope::Trajectory.code())
        .fetch_all(&mut self.0.writer.take().await?)
        .await?;
        Ok(found.into_iter().collect())
    }

    /// Closes batches that wait for company alone: whoever has a place performs them at once. Answers how many.
    ///
    /// # Errors
    /// The database does not answer: they run when their time comes.
    pub async fn close_batches(self) -> Result<u64, StoreError> {
        let closed = sqlx::query(
            "/* waiting.close */
             UPDATE review SET run_at = c.at FROM (SELECT clock() AS at OFFSET 0) c
             WHERE state = 'queued' AND scope = $1 AND started_at IS NULL AND run_at > c.at AND not_before <= c.at",
        );
        Ok(closed.bind(ReviewScope::Batch.code()).execute(&mut self.0.writer.take().await?).await?.rows_affected())
    }
}
