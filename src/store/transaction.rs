//! Transactions whose connections come back to their pool in a known state.
//!
//! The library counts a transaction once `BEGIN` is answered. Where that fails, or nobody waits for it any more (a deadline, a
//! client that has left, a process that was paused), it would hand back a connection with a transaction that nobody ends, and
//! the next one would go on in it. Here a connection comes back when its transaction is known to have ended, and is closed
//! otherwise.

use std::ops::{Deref, DerefMut};

use sqlx::{PgConnection, PgPool, Postgres, pool::PoolConnection};

/// An open transaction. Dropped, nothing of it is stored, and its connection is closed.
pub(super) struct Tx {
    connection: PoolConnection<Postgres>,
    ended: bool,
}

/// Begins a transaction.
pub(super) async fn begin(pool: &PgPool) -> Result<Tx, sqlx::Error> {
    begin_with(pool, "BEGIN").await
}

/// Begins a transaction by statements of ours.
pub(super) async fn begin_with(pool: &PgPool, statements: &'static str) -> Result<Tx, sqlx::Error> {
    let mut tx = Tx { connection: pool.acquire().await?, ended: false };
    sqlx::raw_sql(statements).execute(&mut *tx).await?;
    Ok(tx)
}

impl Tx {
    /// Commits.
    pub async fn commit(self) -> Result<(), sqlx::Error> {
        self.end("COMMIT").await
    }

    /// Rolls back. Where nothing is wrong that is better than to drop it: its connection stays.
    pub async fn rollback(self) -> Result<(), sqlx::Error> {
        self.end("ROLLBACK").await
    }

    async fn end(mut self, statement: &'static str) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(statement).execute(&mut *self).await?;
        self.ended = true;
        Ok(())
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if !self.ended {
            self.connection.close_on_drop();
        }
    }
}

impl Deref for Tx {
    type Target = PgConnection;
    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}
