//! Reviews that wait and take further events: batches of an agent, and reviews of a task. They are read in the accept
//! transaction, under the meters' locks, so two flushes never open two where one is enough.
//!
//! A review takes events until it is claimed. A review that a claim has locked is skipped, not waited for: it counts as
//! begun.

use std::collections::HashSet;

use jiff::Timestamp;
use uuid::Uuid;

use super::{StoreError, aggregates::EventStore, intake::Flush};
use umbra_domain::{ReviewId, ReviewScope};

/// A batch that waits for more events.
#[derive(Debug, Clone)]
pub struct OpenBatch {
    /// The review.
    pub review: ReviewId,
    /// `shadow_version.id`.
    pub version: i32,
    /// The agent.
    pub agent: String,
    /// Number of its events.
    pub events: u32,
    /// Characters of the events' texts.
    pub chars: u64,
    /// Earliest run time, even for a full batch.
    pub not_before: Timestamp,
    /// Planned run time.
    pub run_at: Timestamp,
}

/// A task with a review by a shadow, waiting or begun.
#[derive(Debug, Clone)]
pub struct ReviewedTask {
    /// The shadow.
    pub shadow: String,
    /// The task.
    pub task: String,
    /// Number of its reviews, without the released.
    pub rounds: u32,
    /// The review that has not begun, locked, with its number of events and its run time.
    pub waiting: Option<(ReviewId, u32, Timestamp)>,
}

impl Flush {
    /// Locks and returns the waiting batches of these (shadow version, agent) pairs.
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

    /// Returns the reviewed tasks among these (shadow, task) pairs, and locks their waiting reviews.
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
    /// Returns those of these (shadow, task) pairs whose only review has begun: a step that comes now is late.
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

    /// Makes batches due at once that wait only for more events, so any process with a free place runs them; returns
    /// how many.
    ///
    /// # Errors
    /// The database does not answer: they run at their planned time.
    pub async fn close_batches(self) -> Result<u64, StoreError> {
        let closed = sqlx::query(
            "/* waiting.close */
             UPDATE review SET run_at = c.at FROM (SELECT clock() AS at OFFSET 0) c
             WHERE state = 'queued' AND scope = $1 AND started_at IS NULL AND run_at > c.at AND not_before <= c.at",
        );
        Ok(closed.bind(ReviewScope::Batch.code()).execute(&mut self.0.writer.take().await?).await?.rows_affected())
    }
}
