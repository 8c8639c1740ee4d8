//! Connection pool whose waits end once the database is away.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use futures_util::{
    FutureExt, StreamExt, TryFutureExt, TryStreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use sqlx::{
    Either, Execute, Executor, PgConnection, PgPool, Postgres, SqlStr,
    pool::PoolConnection,
    postgres::{PgConnectOptions, PgPoolOptions, PgQueryResult, PgRow, PgStatement, PgTypeInfo},
};
use sqlx_core::describe::Describe;
use tokio::{sync::OwnedMutexGuard, time::timeout};

use super::{
    availability::Availability,
    error::{is_absence, unreached},
    pinned_connection::ConnectionSlot,
};

/// Time after which a connection is overdue.
const SLOW_CONNECT: Duration = Duration::from_millis(200);

/// A pool that is replaced when the database goes away. Cheap to clone; all clones share it.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    current: Arc<RwLock<PgPool>>,
    availability: Availability,
}

/// A connection in use. Dropping it returns it to its pool.
#[derive(Debug)]
pub struct Connection {
    held: Option<PoolConnection<Postgres>>,
    availability: Availability,
    /// Slot of the lane that keeps the connection.
    place: Option<OwnedMutexGuard<ConnectionSlot>>,
    /// True if a statement was sent and has not ended.
    pending: bool,
}

impl Pool {
    /// Makes a pool that connects on first use.
    pub fn new(options: PgPoolOptions, target: PgConnectOptions, availability: Availability) -> Self {
        Self { current: Arc::new(RwLock::new(options.connect_lazy_with(target))), availability }
    }

    /// Returns the library's current pool, whose waits do not end with the database's availability.
    pub fn raw(&self) -> PgPool {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the circuit breaker of the database.
    pub fn availability(&self) -> &Availability {
        &self.availability
    }

    /// Returns the options of its connections.
    pub fn connect_options(&self) -> PgConnectOptions {
        self.raw().connect_options().as_ref().clone()
    }

    /// Replaces the pool by an empty one, so connections that may be stuck or broken are no longer waited for.
    pub fn renew(&self) {
        let old = self.raw();
        let new = old.options().clone().connect_lazy_with(old.connect_options().as_ref().clone());
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
    }

    /// Acquires a connection.
    ///
    /// # Errors
    /// No connection was available; nothing was sent.
    pub fn acquire(&self) -> BoxFuture<'_, Result<Connection, sqlx::Error>> {
        // Boxed: the future is large, and a part of every future that uses the database.
        self.connect().boxed()
    }

    async fn connect(&self) -> Result<Connection, sqlx::Error> {
        loop {
            self.availability.available().await?;
            let pool = self.raw();
            let error = match self.availability.guard(SLOW_CONNECT, pool.acquire()).await {
                Some(Ok(held)) => return Ok(Connection::new(held, self.availability.clone(), None)),
                Some(Err(error)) => error,
                None => continue,
            };
            // If the database is away, the probe reports it shortly.
            if !is_absence(&error) || timeout(SLOW_CONNECT, self.availability.lost()).await.is_err() {
                return Err(unreached(error));
            }
        }
    }

    /// Closes every connection.
    pub async fn close(&self) {
        self.raw().close().await;
    }
}

impl Connection {
    /// Wraps a connection of a pool, or of the lane that keeps it in `place`.
    pub(super) fn new(
        held: PoolConnection<Postgres>,
        availability: Availability,
        place: Option<OwnedMutexGuard<ConnectionSlot>>,
    ) -> Self {
        Self { held: Some(held), availability, place, pending: false }
    }

    /// Sets the lane's slot to which the connection returns.
    pub(super) fn kept_in(mut self, place: OwnedMutexGuard<ConnectionSlot>) -> Self {
        self.place = Some(place);
        self
    }

    /// Returns the connection to its lane. To be called after a use that ended well.
    pub(super) fn keep(&mut self) {
        if let Some(place) = &mut self.place {
            **place = self.held.take();
        }
    }

    /// Makes the connection close when it is dropped.
    pub(super) fn close_on_drop(&mut self) {
        if let Some(held) = &mut self.held {
            held.close_on_drop();
        }
    }

    /// Returns the library's connection, whose waits do not end with the database's availability.
    #[expect(clippy::expect_used, reason = "it is there until it is kept, and not used after that")]
    pub(super) fn raw(&mut self) -> &mut PgConnection {
        self.held.as_mut().expect("a connection in use")
    }

    /// Runs `ask` on the connection and returns its answer, within the deadline.
    pub(super) async fn guarded<'c, T, F>(
        &'c mut self,
        ask: impl FnOnce(&'c mut PgConnection) -> F,
    ) -> Result<T, sqlx::Error>
    where
        F: Future<Output = Result<T, sqlx::Error>> + Send,
    {
        let Self { held, availability, pending, .. } = self;
        let Some(held) = held else { return Err(unreached(sqlx::Error::PoolClosed)) };
        if availability.is_away() {
            return Err(unreached(sqlx::Error::PoolTimedOut));
        }
        *pending = true;
        let answer = Box::pin(availability.guard(availability.patience(), ask(held)));
        let Some(answered) = answer.await else {
            return Err(sqlx::Error::PoolTimedOut);
        };
        *pending = false;
        answered
    }
}

impl Drop for Connection {
    /// Hangs up if an answer is outstanding on a lane's only connection: its pool would wait for the answer.
    fn drop(&mut self) {
        if self.pending
            && self.place.is_some()
            && let Some(held) = self.held.take()
        {
            drop(held.detach());
        }
    }
}

impl<'c> Executor<'c> for &'c mut Connection {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Either<PgQueryResult, PgRow>, sqlx::Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let answer = self.guarded(|raw| raw.fetch_many(query).try_collect::<Vec<_>>());
        answer.map_ok(|rows| stream::iter(rows.into_iter().map(Ok))).try_flatten_stream().boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<PgRow>, sqlx::Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        self.guarded(|raw| raw.fetch_optional(query)).boxed()
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [PgTypeInfo],
    ) -> BoxFuture<'e, Result<PgStatement, sqlx::Error>>
    where
        'c: 'e,
    {
        self.guarded(|raw| raw.prepare_with(sql, parameters)).boxed()
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<Describe<Postgres>, sqlx::Error>>
    where
        'c: 'e,
    {
        self.guarded(|raw| raw.describe(sql)).boxed()
    }
}

impl<'p> Executor<'p> for &'_ Pool {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Either<PgQueryResult, PgRow>, sqlx::Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let pool = self.clone();
        let answer = async move {
            let mut connection = pool.acquire().await?;
            connection.guarded(|raw| raw.fetch_many(query).try_collect::<Vec<_>>()).await
        };
        answer.map_ok(|rows| stream::iter(rows.into_iter().map(Ok))).try_flatten_stream().boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<PgRow>, sqlx::Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let pool = self.clone();
        async move { pool.acquire().await?.guarded(|raw| raw.fetch_optional(query)).await }.boxed()
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [PgTypeInfo],
    ) -> BoxFuture<'e, Result<PgStatement, sqlx::Error>>
    where
        'p: 'e,
    {
        let pool = self.clone();
        async move { pool.acquire().await?.guarded(|raw| raw.prepare_with(sql, parameters)).await }.boxed()
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<Describe<Postgres>, sqlx::Error>>
    where
        'p: 'e,
    {
        let pool = self.clone();
        async move { pool.acquire().await?.guarded(|raw| raw.describe(sql)).await }.boxed()
    }
}
