//! Patterns: ways in which tasks were done, their outcome counts, and the tasks counted for each.

use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use sqlx::{Postgres, QueryBuilder};
use uuid::Uuid;

use super::{
    StoreError,
    aggregates::PatternStore,
    follow::FollowerPage,
    numbers::number_rows,
    paging::{Page, Seek, equals},
    pool::Connection,
    sql::{self, record},
    transaction::{Tx, begin},
};
use umbra_domain::PatternId;

/// A transaction that stores reported patterns. Dropping it stores none.
pub struct PatternTransaction(Tx);

/// Patterns within a transaction. The first transaction to read a pattern's key has it exclusively.
pub struct Patterns<'t>(&'t mut Connection);

/// A row of a pattern.
#[derive(Debug, Clone, Copy)]
pub struct PatternRow<'p> {
    /// Key that all reports of the pattern share.
    pub key: &'p str,
    /// Pattern id.
    pub id: PatternId,
    /// The agent that did the tasks.
    pub agent: &'p str,
    /// Task of the first report.
    pub task_id: Option<&'p str>,
    /// Status of the pattern.
    pub state: &'p str,
    /// The pattern, as JSON.
    pub body: &'p str,
}

/// Successes that were counted for a pattern in a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedPattern {
    /// Key that all reports of the pattern share.
    pub key: String,
    /// Successes in the task that still count.
    pub successes: u32,
}

record!(CountedPattern: key, successes);

/// Changes of patterns since a time.
#[derive(Debug, Clone)]
pub struct PatternChanges {
    /// Number of all patterns.
    pub count: i64,
    /// Changed patterns as JSON, each with the time of the change, oldest first.
    pub rows: Vec<(Timestamp, String)>,
}

/// Filter and page of a list of patterns.
#[derive(Debug, Clone)]
pub struct PatternFilter {
    /// Of this agent; `None` for all.
    pub agent: Option<String>,
    /// In this state; `None` for all.
    pub state: Option<String>,
    /// Page of the list.
    pub seek: Seek,
}

impl PatternStore<'_> {
    /// Begins a transaction for reported patterns.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn begin_recording(self) -> Result<PatternTransaction, StoreError> {
        Ok(PatternTransaction(begin(&self.0.work).await?))
    }

    /// Returns the latest changes since a time, at most `limit`; without a time, since the beginning.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn since(self, since: Option<Timestamp>, limit: i64) -> Result<PatternChanges, StoreError> {
        let count = sql::one(&self.0.control, "/* patterns.count */ SELECT count(*) FROM pattern", ()).await?;
        let rows = sql::all(
            &self.0.control,
            "/* patterns.since */ SELECT changed_at, body FROM (
                 SELECT changed_at, body FROM pattern WHERE changed_at >= $1 ORDER BY changed_at DESC LIMIT $2) latest
             ORDER BY changed_at",
            (since.unwrap_or(Timestamp::UNIX_EPOCH).to_sqlx(), limit),
        )
        .await?;
        Ok(PatternChanges { count, rows })
    }

    /// Returns a page of patterns as JSON, in order of their first report.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list(self, filter: &PatternFilter) -> Result<Page<String>, StoreError> {
        let mut query =
            QueryBuilder::<Postgres>::new("/* patterns.list */ SELECT seq, body FROM pattern WHERE seq IS NOT NULL");
        equals(&mut query, "agent", filter.agent.as_deref());
        equals(&mut query, "state", filter.state.as_deref());
        filter.seek.push(&mut query, "seq");
        Ok(filter.seek.page(sql::built(&self.0.read, &mut query).await?))
    }

    /// Deletes patterns beyond `keep`: those of the agent with the most patterns that changed longest ago, so one agent
    /// with many reports does not displace the patterns of others.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn forget(self, keep: i64) -> Result<u64, StoreError> {
        sql::count(
            &self.0.control,
            "/* patterns.forget */ DELETE FROM pattern WHERE id IN (
                 SELECT id FROM (SELECT id, changed_at,
                     row_number() OVER (PARTITION BY agent ORDER BY changed_at DESC, id DESC) AS nth FROM pattern) p
                 ORDER BY nth, changed_at DESC, id DESC OFFSET $1)",
            (keep,),
        )
        .await
    }
}

impl PatternTransaction {
    /// Returns the patterns within this transaction.
    pub fn patterns(&mut self) -> Patterns<'_> {
        Patterns(&mut self.0)
    }

    /// Numbers the new patterns and commits.
    ///
    /// # Errors
    /// The database does not answer: the patterns may be stored all the same.
    pub async fn commit(mut self) -> Result<(), StoreError> {
        self.patterns().number().await?;
        Ok(self.0.commit().await?)
    }
}

impl FollowerPage {
    /// Returns the patterns within the transaction of the page.
    pub fn patterns(&mut self) -> Patterns<'_> {
        Patterns(&mut self.tx)
    }
}

impl Patterns<'_> {
    /// Locks the counts of these tasks until the end of the transaction. To be called before any pattern is locked.
    ///
    /// # Errors
    /// The database does not answer, or another transaction takes too long.
    pub async fn lock_tasks(&mut self, tasks: &[String]) -> Result<(), StoreError> {
        sql::execute(
            &mut *self.0,
            "/* patterns.tasks */ SELECT pg_advisory_xact_lock(7822, hashtext(current_schema() || t.id))
             FROM unnest($1::text[]) t(id)",
            (tasks,),
        )
        .await
    }

    /// Locks a pattern until the end of the transaction; returns its JSON, if it exists, and the database's time.
    ///
    /// # Errors
    /// The database does not answer, or another transaction takes too long.
    pub async fn known(&mut self, key: &str) -> Result<(Option<String>, Timestamp), StoreError> {
        sql::execute(
            &mut *self.0,
            "/* patterns.alone */ SELECT pg_advisory_xact_lock(7821, hashtext(current_schema() || $1))",
            (key,),
        )
        .await?;
        sql::one(&mut *self.0, "/* patterns.known */ SELECT (SELECT body FROM pattern WHERE key = $1), clock()", (key,))
            .await
    }

    /// True if any pattern of this agent was counted for the task.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn is_counted(&mut self, agent: &str, task: &str) -> Result<bool, StoreError> {
        sql::one(
            &mut *self.0,
            "/* patterns.is_counted */ SELECT EXISTS (SELECT FROM pattern_use WHERE task_id = $2 AND agent = $1)",
            (agent, task),
        )
        .await
    }

    /// True if this agent has, or had, a session for a task.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn has_session(&mut self, agent: &str, task: &str) -> Result<bool, StoreError> {
        sql::one(
            &mut *self.0,
            "/* patterns.has_session */ SELECT EXISTS (SELECT FROM sidecar_session WHERE task_id = $2 AND agent = $1)",
            (agent, task),
        )
        .await
    }

    /// Returns the counts for a task, of all agents, in order of keys.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn counted(&mut self, task: &str) -> Result<Vec<CountedPattern>, StoreError> {
        sql::all(
            &mut *self.0,
            "/* patterns.counted */ SELECT p.key, u.successes FROM pattern_use u JOIN pattern p ON p.id = u.pattern
             WHERE u.task_id = $1 ORDER BY p.key",
            (task,),
        )
        .await
    }

    /// Adds successes of a pattern in a task, or sets them to 0 without a number.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn count(
        &mut self,
        key: &str,
        agent: &str,
        task: &str,
        successes: Option<u32>,
    ) -> Result<(), StoreError> {
        sql::execute(
            &mut *self.0,
            "/* patterns.count */ INSERT INTO pattern_use AS u (pattern, agent, task_id, successes)
             SELECT id, $2, $3, coalesce($4, 0) FROM pattern WHERE key = $1
             ON CONFLICT (task_id, pattern) DO UPDATE SET used_at = clock(),
                 successes = CASE WHEN $4 IS NULL THEN 0 ELSE u.successes + $4 END",
            (key, agent, task, successes.map(|more| i32::try_from(more).unwrap_or(i32::MAX))),
        )
        .await
    }

    /// Numbers new patterns and locks their feed: the last statement of the transaction.
    ///
    /// # Errors
    /// The database does not answer, or another transaction takes too long.
    pub async fn number(&mut self) -> Result<(), StoreError> {
        sql::execute(&mut *self.0, number_rows!("patterns.number", "pattern", "pattern"), ()).await
    }

    /// Inserts or updates a pattern.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn write(&mut self, row: PatternRow<'_>) -> Result<(), StoreError> {
        let id: Uuid = row.id.0;
        sql::execute(
            &mut *self.0,
            "/* patterns.write */
             INSERT INTO pattern (id, key, agent, task_id, state, body) VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (key) DO UPDATE SET state = $5, body = $6, changed_at = clock()",
            (id, row.key, row.agent, row.task_id, row.state, row.body),
        )
        .await
    }
}
