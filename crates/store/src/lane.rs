//! One connection that stays with its user from one use to the next.
//!
//! A pool asks each connection that comes back whether it still lives, and whoever wants it next waits for the answer:
//! one exchange with the database more behind each use. A writer that stores flush after flush keeps its connection
//! while each use ends well; one that ends otherwise goes back to the pool, which rolls back, asks or closes. So does
//! one that rests: who is seldom in use must not find it broken.

use std::sync::Arc;

use sqlx::{Postgres, pool::PoolConnection};
use tokio::{sync::Mutex, time::timeout};

use super::{
    error::unreached,
    pool::{Connection, Pool},
};

/// Where a connection is kept between uses.
pub(super) type Place = Option<PoolConnection<Postgres>>;

/// A pool of one connection, and the place where it is kept.
#[derive(Debug, Clone)]
pub(super) struct Lane {
    pool: Pool,
    kept: Arc<Mutex<Place>>,
}

impl Lane {
    /// Of a pool with one connection, which nobody else uses.
    pub fn of(pool: Pool) -> Self {
        Self { pool, kept: Arc::default() }
    }

    /// The connection, once nobody else uses it.
    ///
    /// # Errors
    /// None was had; nothing was sent.
    pub async fn take(&self) -> Result<Connection, sqlx::Error> {
        let patience = self.pool.raw().options().get_acquire_timeout();
        let turn = timeout(patience, Arc::clone(&self.kept).lock_owned()).await;
        let mut place = turn.map_err(|_| unreached(sqlx::Error::PoolTimedOut))?;
        match place.take() {
            Some(held) => Ok(Connection::new(held, self.pool.availability().clone(), Some(place))),
            None => Ok(self.pool.acquire().await?.kept_in(place)),
        }
    }

    /// Gives the connection back to its pool, unless somebody uses it.
    pub fn rest(&self) {
        if let Ok(mut place) = self.kept.try_lock() {
            drop(place.take());
        }
    }

    /// Its pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Hangs up a connection that is kept, and begins anew with an empty pool.
    pub fn renew(&self) {
        // A connection in use is hung up by its user.
        if let Ok(mut place) = self.kept.try_lock() {
            drop(place.take().map(PoolConnection::detach));
        }
        self.pool.renew();
    }

    /// Closes the connection, once nobody uses it.
    pub async fn close(&self) {
        drop(self.kept.lock().await.take());
        self.pool.close().await;
    }
}
