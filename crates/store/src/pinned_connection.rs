//! A single connection that its user keeps from one use to the next.
//!
//! A pool pings each returned connection, and the next user waits for the answer: one more round trip per use. A writer
//! that stores flush after flush therefore keeps its connection while each use ends well. After any other end, the
//! connection goes back to the pool, which rolls back, pings or closes it. An idle connection goes back as well, so a
//! rare user does not find it broken.

use std::sync::Arc;

use sqlx::{Postgres, pool::PoolConnection};
use tokio::{sync::Mutex, time::timeout};

use super::{
    error::unreached,
    pool::{Connection, Pool},
};

/// Slot for a connection between uses.
pub(super) type ConnectionSlot = Option<PoolConnection<Postgres>>;

/// A pool of one connection, and the slot in which it is kept.
#[derive(Debug, Clone)]
pub(super) struct PinnedConnection {
    pool: Pool,
    kept: Arc<Mutex<ConnectionSlot>>,
}

impl PinnedConnection {
    /// Wraps a pool with one connection, which has no other user.
    pub fn of(pool: Pool) -> Self {
        Self { pool, kept: Arc::default() }
    }

    /// Takes the connection, once it is free.
    ///
    /// # Errors
    /// No connection was available; nothing was sent.
    pub async fn take(&self) -> Result<Connection, sqlx::Error> {
        let patience = self.pool.raw().options().get_acquire_timeout();
        let turn = timeout(patience, Arc::clone(&self.kept).lock_owned()).await;
        let mut place = turn.map_err(|_| unreached(sqlx::Error::PoolTimedOut))?;
        match place.take() {
            Some(held) => Ok(Connection::new(held, self.pool.availability().clone(), Some(place))),
            None => Ok(self.pool.acquire().await?.kept_in(place)),
        }
    }

    /// Returns the connection to its pool, unless it is in use.
    pub fn release_idle(&self) {
        if let Ok(mut place) = self.kept.try_lock() {
            drop(place.take());
        }
    }

    /// Returns the pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Hangs up a kept connection, and starts with an empty pool.
    pub fn renew(&self) {
        // The user of a connection hangs it up.
        if let Ok(mut place) = self.kept.try_lock() {
            drop(place.take().map(PoolConnection::detach));
        }
        self.pool.renew();
    }

    /// Closes the connection, once it is free.
    pub async fn close(&self) {
        drop(self.kept.lock().await.take());
        self.pool.close().await;
    }
}
