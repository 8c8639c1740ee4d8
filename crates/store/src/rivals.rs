//! How events are stored ordinarily: one INSERT a request, through a pool. `umbra bench ingest` measures the writer
//! against it. In: an event's columns. Out: a durable row of our own table, with all its indexes, once this answers.
//! Never: a part of the service.

use sqlx::{PgPool, postgres::PgPoolOptions};
use uuid::Uuid;

use super::{Store, StoreError};

/// A pool that inserts events one by one.
#[derive(Debug, Clone)]
pub struct OneByOne(PgPool);

impl OneByOne {
    /// A pool of its own beside those of `store`, on the same schema, with `connections` connections. Numbers come
    /// from a sequence, as an identity column would give them: cheaper than our feed, which keeps the commits' order.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn beside(store: &Store, connections: u32) -> Result<Self, StoreError> {
        let options = store.writer.pool().connect_options().as_ref().clone();
        let pool = PgPoolOptions::new().max_connections(connections).test_before_acquire(false).connect_with(options);
        let pool = pool.await?;
        sqlx::query("CREATE SEQUENCE IF NOT EXISTS one_by_one").execute(&pool).await?;
        Ok(Self(pool))
    }

    /// Stores one event in a transaction of its own.
    ///
    /// # Errors
    /// The database does not answer, or refuses a value.
    pub async fn insert(&self, id: Uuid, agent: &str, task_id: Option<&str>, payload: &[u8]) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO event (id, seq, agent, task_id, shadows, outcomes, triggers, payload)
             VALUES ($1, nextval('one_by_one'), $2, $3, '{}', '{}', '{}', $4)",
        )
        .bind(id)
        .bind(agent)
        .bind(task_id)
        .bind(payload)
        .execute(&self.0)
        .await?;
        Ok(())
    }
}

impl Store {
    /// How many events a schema of this database holds.
    ///
    /// # Errors
    /// The database does not answer, or has no such schema.
    pub async fn events_in(&self, schema: &str) -> Result<i64, StoreError> {
        let quoted = schema.replace('"', "\"\"");
        let count = format!("SELECT count(*) FROM \"{quoted}\".event");
        Ok(sqlx::query_scalar(sqlx::AssertSqlSafe(count)).fetch_one(&self.control).await?)
    }

    /// How many rows the audit of a schema of this database has.
    ///
    /// # Errors
    /// The database does not answer, or has no such schema.
    pub async fn audited_in(&self, schema: &str) -> Result<i64, StoreError> {
        let quoted = schema.replace('"', "\"\"");
        let count = format!("SELECT count(*) FROM \"{quoted}\".audit");
        Ok(sqlx::query_scalar(sqlx::AssertSqlSafe(count)).fetch_one(&self.control).await?)
    }
}
