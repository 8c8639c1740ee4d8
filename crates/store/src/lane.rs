//! One connection that stays with its user from one use to the next.
//!
//! A pool asks each connection that comes back whether it still lives, and whoever wants it next waits for the answer:
//! one exchange with the database more behind each use. A writer that stores flush after flush keeps its connection
//! while each use ends well; one that ends otherwise goes back to the pool, which rolls back, asks or closes. So does
//! one that rests: who is seldom in use must not find it broken.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

use sqlx::{PgConnection, PgPool, Postgres, pool::PoolConnection};
use tokio::{
    sync::{Mutex, OwnedMutexGuard},
    time::timeout,
};

type Place = Option<PoolConnection<Postgres>>;

/// A pool of one connection, and the place where it is kept.
#[derive(Debug, Clone)]
pub(super) struct Lane {
    pool: PgPool,
    kept: Arc<Mutex<Place>>,
}

/// A connection in use. Dropped, it goes back to its pool, unless it was kept.
pub(super) struct Lease {
    connection: Place,
    /// None where the pool is no lane's.
    place: Option<OwnedMutexGuard<Place>>,
}

impl Lane {
    /// Of a pool with one connection, which nobody else uses.
    pub fn of(pool: PgPool) -> Self {
        Self { pool, kept: Arc::default() }
    }

    /// The connection, once nobody else uses it.
    pub async fn take(&self) -> Result<Lease, sqlx::Error> {
        let patience = self.pool.options().get_acquire_timeout();
        let turn = timeout(patience, Arc::clone(&self.kept).lock_owned()).await;
        let mut place = turn.map_err(|_| sqlx::Error::PoolTimedOut)?;
        let connection = match place.take() {
            Some(connection) => connection,
            None => self.pool.acquire().await?,
        };
        Ok(Lease { connection: Some(connection), place: Some(place) })
    }

    /// Gives the connection back to its pool, unless somebody uses it.
    pub fn rest(&self) {
        if let Ok(mut place) = self.kept.try_lock() {
            drop(place.take());
        }
    }

    /// Its pool.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Closes the connection, once nobody uses it.
    pub async fn close(&self) {
        drop(self.kept.lock().await.take());
        self.pool.close().await;
    }
}

impl Lease {
    /// After a use that ended well: what the connection was asked, it has answered.
    pub fn keep(&mut self) {
        if let Some(place) = &mut self.place {
            **place = self.connection.take();
        }
    }

    /// After a use whose end is unknown.
    pub fn close(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.close_on_drop();
        }
    }
}

impl From<PoolConnection<Postgres>> for Lease {
    fn from(connection: PoolConnection<Postgres>) -> Self {
        Self { connection: Some(connection), place: None }
    }
}

#[expect(clippy::expect_used, reason = "it is there until it is kept, and nobody uses it after that")]
impl Deref for Lease {
    type Target = PgConnection;
    fn deref(&self) -> &PgConnection {
        self.connection.as_ref().expect("a connection in use")
    }
}

#[expect(clippy::expect_used, reason = "as above")]
impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.connection.as_mut().expect("a connection in use")
    }
}
