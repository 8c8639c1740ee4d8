//! Patterns: what was done for a task, and what came of it.

use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use sqlx::{Postgres, QueryBuilder, Row};
use uuid::Uuid;

use super::{
    Store, StoreError,
    transaction::{Tx, begin},
};
use crate::domain::PatternId;

/// A pattern that is being told, alone: nobody else tells the same one until this is written or dropped.
pub struct Telling {
    tx: Tx,
    key: String,
    /// As it is known, as JSON; none where it is new.
    pub known: Option<String>,
    /// The database's time.
    pub now: Timestamp,
}

/// A pattern as it is kept.
#[derive(Debug, Clone, Copy)]
pub struct PatternRow<'p> {
    /// Its id.
    pub id: PatternId,
    /// Who did it.
    pub agent: &'p str,
    /// The task of its events.
    pub task_id: Option<&'p str>,
    /// What became of it.
    pub state: &'p str,
    /// It, as JSON.
    pub body: &'p str,
}

/// What has changed of patterns.
#[derive(Debug, Clone)]
pub struct Changed {
    /// How many there are.
    pub count: i64,
    /// Those that changed, as JSON, with the time of the change; oldest first.
    pub rows: Vec<(Timestamp, String)>,
}

/// Which patterns are wanted.
#[derive(Debug, Clone, Default)]
pub struct PatternFilter {
    /// Of this agent.
    pub agent: Option<String>,
    /// In this state.
    pub state: Option<String>,
    /// Behind this one.
    pub after: Option<PatternId>,
    /// At most so many.
    pub limit: i64,
}

impl Store {
    /// Begins to tell a pattern.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn tell_pattern(&self, key: &str) -> Result<Telling, StoreError> {
        let mut tx = begin(&self.work).await?;
        sqlx::query("/* patterns.alone */ SELECT pg_advisory_xact_lock(7821, hashtext(current_schema() || $1))")
            .bind(key)
            .execute(&mut *tx)
            .await?;
        let known = sqlx::query_scalar("/* patterns.known */ SELECT body FROM pattern WHERE key = $1")
            .bind(key)
            .fetch_optional(&mut *tx)
            .await?;
        let now: jiff_sqlx::Timestamp = sqlx::query_scalar("SELECT clock()").fetch_one(&mut *tx).await?;
        Ok(Telling { tx, key: key.to_owned(), known, now: now.to_jiff() })
    }

    /// What has changed since, at most so many; with all of them where nothing is known yet.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn patterns_since(&self, since: Option<Timestamp>, limit: i64) -> Result<Changed, StoreError> {
        let count =
            sqlx::query_scalar("/* patterns.count */ SELECT count(*) FROM pattern").fetch_one(&self.control).await?;
        let rows = sqlx::query(
            "/* patterns.since */ SELECT changed_at, body FROM (
                 SELECT changed_at, body FROM pattern WHERE changed_at >= $1 ORDER BY changed_at DESC LIMIT $2) latest
             ORDER BY changed_at",
        )
        .bind(since.unwrap_or(Timestamp::UNIX_EPOCH).to_sqlx())
        .bind(limit)
        .fetch_all(&self.control)
        .await?;
        let row = |row: &sqlx::postgres::PgRow| {
            let at: jiff_sqlx::Timestamp = row.try_get("changed_at")?;
            Ok((at.to_jiff(), row.try_get("body")?))
        };
        Ok(Changed { count, rows: rows.iter().map(row).collect::<Result<_, sqlx::Error>>()? })
    }

    /// Patterns in order of their ids, as JSON.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn patterns(&self, filter: &PatternFilter) -> Result<Vec<String>, StoreError> {
        let mut query = QueryBuilder::<Postgres>::new("/* patterns.list */ SELECT body FROM pattern WHERE true");
        if let Some(agent) = &filter.agent {
            query.push(" AND agent = ").push_bind(agent);
        }
        if let Some(state) = &filter.state {
            query.push(" AND state = ").push_bind(state);
        }
        if let Some(PatternId(after)) = filter.after {
            query.push(" AND id > ").push_bind(after);
        }
        query.push(" ORDER BY id LIMIT ").push_bind(filter.limit);
        Ok(query.build_query_scalar().fetch_all(&self.read).await?)
    }

    /// Deletes the patterns that changed longest ago beyond so many.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn forget_patterns(&self, keep: i64) -> Result<u64, StoreError> {
        let gone = sqlx::query(
            "/* patterns.forget */ DELETE FROM pattern WHERE id IN (
                 SELECT id FROM pattern ORDER BY changed_at DESC OFFSET $1)",
        )
        .bind(keep)
        .execute(&self.control)
        .await?;
        Ok(gone.rows_affected())
    }
}

impl Telling {
    /// Keeps it.
    ///
    /// # Errors
    /// The database does not answer: it may be kept all the same.
    pub async fn write(mut self, row: PatternRow<'_>) -> Result<(), StoreError> {
        let id: Uuid = row.id.0;
        sqlx::query(
            "/* patterns.write */ INSERT INTO pattern (id, key, agent, task_id, state, body) VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (key) DO UPDATE SET state = $5, body = $6, changed_at = clock()",
        )
        .bind(id)
        .bind(&self.key)
        .bind(row.agent)
        .bind(row.task_id)
        .bind(row.state)
        .bind(row.body)
        .execute(&mut *self.tx)
        .await?;
        Ok(self.tx.commit().await?)
    }
}
