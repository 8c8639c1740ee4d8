//! Transactions that return their connections to the pool in a known state.
//!
//! The library counts a transaction once `BEGIN` is answered. If that fails, or the caller stops waiting (a deadline, a
//! client that has left, a paused process), the library would return a connection with an open transaction to the pool,
//! and the next user would continue in it. Here such a connection is closed. A transaction that has begun and is
//! dropped is rolled back before its connection is used again, as in the library.

use std::ops::{Deref, DerefMut};

use sqlx::{Database, Postgres, SqlSafeStr};
use sqlx_core::transaction::TransactionManager;

use super::pool::{Connection, Pool};

type Manager = <Postgres as Database>::TransactionManager;

/// A transaction. Dropping it stores nothing.
pub(super) struct Tx {
    connection: Connection,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// `BEGIN` was sent; the transaction may have begun.
    Beginning,
    Open,
    Ended,
}

/// Statement that begins an ordinary transaction.
pub(super) const BEGIN: &str = "BEGIN";

/// Begins a transaction.
pub(super) async fn begin(pool: &Pool) -> Result<Tx, sqlx::Error> {
    begin_with(pool, BEGIN).await
}

/// Begins a transaction with the given statements.
pub(super) async fn begin_with(pool: &Pool, statements: &'static str) -> Result<Tx, sqlx::Error> {
    begin_on(pool.acquire().await?, statements).await
}

/// Begins a transaction on an acquired connection.
pub(super) async fn begin_on(connection: Connection, statements: &'static str) -> Result<Tx, sqlx::Error> {
    let mut tx = Tx { connection, state: State::Beginning };
    tx.connection.guarded(|raw| Manager::begin(raw, Some(statements.into_sql_str()))).await?;
    tx.state = State::Open;
    Ok(tx)
}

impl Tx {
    /// Commits.
    pub async fn commit(mut self) -> Result<(), sqlx::Error> {
        self.connection.guarded(Manager::commit).await?;
        self.state = State::Ended;
        Ok(())
    }

    /// Rolls back and waits until that is done, so its locks are free.
    pub async fn rollback(mut self) -> Result<(), sqlx::Error> {
        self.connection.guarded(Manager::rollback).await?;
        self.state = State::Ended;
        Ok(())
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        match self.state {
            State::Beginning => self.connection.close_on_drop(),
            State::Open => Manager::start_rollback(self.connection.raw()),
            State::Ended => self.connection.keep(),
        }
    }
}

impl Deref for Tx {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}
