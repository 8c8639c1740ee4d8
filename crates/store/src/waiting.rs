//! Reviews that wait and take further events: batches of an agent, and reviews of a task. They are read in the accept
//! transaction, under the meters' locks, so two flushes never open two where one is enough.
//!
//! A review takes events until it is claimed. A review that a claim has locked is skipped, not waited for: it counts as
//! begun.

use std::collections::HashSet;

use jiff::Timestamp;

use super::{
    StoreError,
    aggregates::EventStore,
    intake::Flush,
    sql::{self, column, record, uuids},
};
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

record! {
    OpenBatch, row: review, version, agent, events, chars, run_at;
    not_before: column::<Option<_>>(row, "not_before")?.unwrap_or(Timestamp::UNIX_EPOCH),
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
        if of.is_empty() {
            return Ok(Vec::new());
        }
        let (versions, agents): (Vec<i32>, Vec<&str>) = of.iter().copied().unzip();
        sql::all(
            &mut *self.0,
            "/* waiting.batches */
             SELECT r.id AS review, r.version, r.agent, r.events, r.chars, r.not_before, r.run_at FROM review r
             JOIN unnest($1::int4[], $2::text[]) k(version, agent) ON (r.version, r.agent) = (k.version, k.agent)
             WHERE r.state = 'queued' AND r.scope = $3 AND r.started_at IS NULL AND r.run_at > (SELECT clock())
             ORDER BY r.id FOR UPDATE OF r SKIP LOCKED",
            (versions, agents, ReviewScope::Batch.code()),
        )
        .await
    }

    /// Returns the reviewed tasks among these (shadow, task) pairs, and locks their waiting reviews.
    ///
    /// # Errors
    /// Contention or a lost connection; nothing is stored.
    pub async fn reviewed_tasks(&mut self, of: &[(&str, &str)]) -> Result<Vec<ReviewedTask>, StoreError> {
        type Row = (String, String, ReviewId, bool, u32, Timestamp);
        if of.is_empty() {
            return Ok(Vec::new());
        }
        let (shadows, names): (Vec<&str>, Vec<&str>) = of.iter().copied().unzip();
        let rows: Vec<Row> = sql::all(
            &mut *self.0,
            "/* waiting.tasks */
             SELECT r.shadow, r.task_id, r.id, r.state = 'queued' AND r.started_at IS NULL, r.events, r.run_at
             FROM review r
             JOIN unnest($1::text[], $2::text[]) k(shadow, task) ON (r.shadow, r.task_id) = (k.shadow, k.task)
             WHERE r.scope = $3 AND r.state <> 'released' ORDER BY r.id",
            (shadows, names, ReviewScope::Trajectory.code()),
        )
        .await?;
        let waiting = uuids(rows.iter().filter(|row| row.3).map(|row| &row.2));
        let mut locked: Vec<ReviewId> = Vec::new();
        if !waiting.is_empty() {
            let lock = "/* waiting.lock */ SELECT id FROM review
                WHERE id = ANY($1) AND state = 'queued' AND started_at IS NULL ORDER BY id FOR UPDATE SKIP LOCKED";
            locked = sql::all(&mut *self.0, lock, (waiting,)).await?;
        }
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
                    task.waiting = Some((id, events, run_at));
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
        let (shadows, tasks): (Vec<&str>, Vec<&str>) = of.iter().copied().unzip();
        sql::all(
            &mut self.0.writer.take().await?,
            "/* waiting.begun */
             SELECT r.shadow, r.task_id FROM review r
             JOIN unnest($1::text[], $2::text[]) k(shadow, task) ON (r.shadow, r.task_id) = (k.shadow, k.task)
             WHERE r.scope = $3 AND r.state <> 'released'
             GROUP BY r.shadow, r.task_id HAVING count(*) = 1 AND bool_and(r.started_at IS NOT NULL)",
            (shadows, tasks, ReviewScope::Trajectory.code()),
        )
        .await
    }

    /// Makes batches due at once that wait only for more events, so any process with a free place runs them; returns
    /// how many.
    ///
    /// # Errors
    /// The database does not answer: they run at their planned time.
    pub async fn close_batches(self) -> Result<u64, StoreError> {
        sql::count(
            &mut self.0.writer.take().await?,
            "/* waiting.close */
             UPDATE review SET run_at = c.at FROM (SELECT clock() AS at OFFSET 0) c
             WHERE state = 'queued' AND scope = $1 AND started_at IS NULL AND run_at > c.at AND not_before <= c.at",
            (ReviewScope::Batch.code(),),
        )
        .await
    }
}
