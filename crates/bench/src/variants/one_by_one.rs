//! Naive storage of events: one INSERT a request, through a pool, into our own table with all its indexes.

use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use uuid::Uuid;

use umbra_store::StoreError;

/// A pool that inserts events one by one.
#[derive(Debug, Clone)]
pub struct NaiveInsert(PgPool);

impl NaiveInsert {
    /// Connects a pool of this size to a schema of ours. Numbers come from a sequence, as with an identity column:
    /// cheaper than our feed, which keeps the order of commits.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn connect(options: PgConnectOptions, connections: u32) -> Result<Self, StoreError> {
        let pool = PgPoolOptions::new().max_connections(connections).test_before_acquire(false);
        let pool = pool.connect_with(options).await?;
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
