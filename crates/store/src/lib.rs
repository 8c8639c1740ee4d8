//! The database: every line of SQL, one file per table family, and the private Postgres.
//!
//! In: plain values of `domain` and of the files here. Out: rows as plain values, or a [`StoreError`]. SQL is
//! unqualified: the schema is the connection's `search_path`. Time in SQL is our function `clock()` alone. Decisions
//! are made by `budget`, between [`intake::Flush::lock`] and [`intake::Flush::write`], not here.

pub mod aggregates;
pub mod audit;
mod audit_tables;
mod availability;
pub mod backtests;
pub mod baselines;
pub mod breakers;
pub mod briefings;
pub mod calls;
pub mod catch_up;
pub mod contracts;
mod coverage;
pub mod dead_letters;
pub mod decisions;
pub mod doctor;
pub mod documents;
pub mod erasure;
mod error;
pub mod events;
pub mod execution;
pub mod feedback;
mod filed_briefings;
pub mod findings;
pub mod follow;
pub mod gate;
pub mod gravest;
pub mod hooks;
pub mod installation;
pub mod intake;
pub mod jobs;
mod keyed_lock;
pub mod keys;
mod leftovers;
pub mod looks;
pub mod mcp;
mod migrate;
mod new_findings;
mod numbers;
pub mod otel;
pub mod paging;
pub mod partitions;
pub mod patterns;
mod pinned_connection;
mod pool;
pub mod postgres;
pub mod reflexions;
pub mod repeats;
pub mod results;
pub mod retention;
pub mod reviews;
pub mod runs;
pub mod session_files;
pub mod sessions;
mod signed;
mod sql;
pub mod status;
pub mod steps;
pub mod task_costs;
pub mod trajectories;
mod transaction;
pub mod unguarded;
pub mod verdicts;
pub mod versions;
pub mod waiting;
pub mod wake_ups;
pub mod webhooks;
pub mod windows;
pub mod workers;

use std::{str::FromStr, time::Duration};

use futures_util::future::join;
use sqlx::{
    ConnectOptions,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::time::timeout;

use self::{availability::Availability, pinned_connection::PinnedConnection, pool::Pool};
pub use self::{error::StoreError, migrate::migrations, pool::Connection};

/// Limit of the last attempt to connect, which only finds the cause of earlier failures.
const LAST_TRY: Duration = Duration::from_secs(2);
/// Limit for closing connections.
const TO_CLOSE: Duration = Duration::from_secs(1);

/// Location of the database.
pub enum DatabaseLocation<'a> {
    /// A server of the operator, by URL.
    Url(&'a str),
    /// The private server in the data directory.
    Private(&'a postgres::PrivatePostgres),
}

/// Options for using the database.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Schema that holds our tables; created when missing.
    pub schema: String,
    /// Connections of all pools together, at least 8.
    pub max_connections: u32,
    /// True to start although fsync is off or the role is a superuser.
    pub allow_unsafe: bool,
    /// Longest wait for a database that does not answer.
    pub deadline: Duration,
}

/// The database, in pools that cannot starve each other.
#[derive(Debug, Clone)]
pub struct Store {
    /// Short transactions of the accept path, with short limits, so a paused process does not hold locks for long. One
    /// connection: a process has one writer, and a pool would use two in turn, each with caches of its own to warm.
    writer: PinnedConnection,
    /// Transactions of decisions about calls, separate from the writer, since an agent waits for each of them.
    decisions: PinnedConnection,
    /// Reservations for stored events, and looks of the checks; separate, so they delay neither the writer nor reviews.
    later: Pool,
    /// Claims, holds and results of reviews.
    work: Pool,
    /// Reads for the API and the command line.
    read: Pool,
    /// Heartbeats, housekeeping and the listener, separate from all other work.
    control: Pool,
    availability: Availability,
    schema: String,
    /// True if the database may lose acknowledged events, and the operator has allowed it.
    degraded: bool,
    /// Locks for steps of sessions within this process.
    turns: keyed_lock::KeyedLock,
    /// Signs rows of the audit.
    stamper: signed::RowSigner,
}

impl Store {
    /// Connects, refuses a database that could lose acknowledged events, and brings the schema up to date.
    ///
    /// # Errors
    /// [`StoreError::Refused`] with what to do where the server is too old, `fsync` is off or the role is a
    /// superuser; otherwise the error of the database.
    pub async fn open(target: DatabaseLocation<'_>, options: &StoreOptions) -> Result<Self, StoreError> {
        let mut store = Self::connect(target, options).await?;
        store.degraded = migrate::refuse_unsafe(&store.control.raw(), options.allow_unsafe).await?;
        migrate::run(&store.control.raw(), &store.schema).await?;
        Ok(store)
    }

    /// Connects without touching the schema.
    ///
    /// # Errors
    /// The URL is malformed, or the server does not answer.
    pub async fn connect(target: DatabaseLocation<'_>, options: &StoreOptions) -> Result<Self, StoreError> {
        let connect = match target {
            DatabaseLocation::Url(url) => parse_url(url)?,
            DatabaseLocation::Private(server) => server.connect_options(),
        };
        let connect = connect.application_name("umbra").options([("search_path", options.schema.as_str())]);
        let bounded = |lock: &str, statement: &str, idle: &str| {
            connect.clone().options([
                ("lock_timeout", lock),
                ("statement_timeout", statement),
                ("idle_in_transaction_session_timeout", idle),
            ])
        };
        // These statements find rows by key. A plan that was made while a table was nearly empty would keep scanning
        // all of it as it grows, until autovacuum analyzes the table, about a minute later.
        let by_key = [
            ("plan_cache_mode", "force_generic_plan"),
            ("enable_seqscan", "off"),
            ("enable_hashjoin", "off"),
            ("enable_mergejoin", "off"),
            ("jit", "off"),
        ];
        let short = || bounded("1s", "5s", "2s").options(by_key);
        let total = options.max_connections.max(8);
        let work = (total - 6).div_ceil(2);
        // Half of the deadline is for the answer, half for the probe that finds out why there is none.
        let availability = Availability::new(options.deadline / 2);
        let pool = |connections: u32, tested: bool, with: PgConnectOptions| {
            let options = PgPoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(Duration::from_secs(5))
                // Reads have no retries, so a connection that a restart of the database broke must be found before. All
                // other users retry.
                .test_before_acquire(tested);
            Pool::new(options, with, availability.clone())
        };
        let lane = || PinnedConnection::of(pool(1, false, short()));
        let store = Self {
            writer: lane(),
            decisions: lane(),
            later: pool(1, false, short()),
            work: pool(work, false, bounded("5s", "10s", "5s")),
            read: pool(total - 6 - work, true, bounded("2s", "15s", "5s")),
            control: pool(3, false, bounded("2s", "30s", "5s")),
            availability: availability.clone(),
            schema: options.schema.clone(),
            degraded: false,
            turns: keyed_lock::KeyedLock::default(),
            stamper: signed::RowSigner::default(),
        };
        match sqlx::query("SELECT 1").execute(&store.control.raw()).await {
            Ok(_) => Ok(store),
            Err(error) => Err(unreached(&connect, error).await),
        }
    }

    /// True if the database may lose acknowledged events in a crash, as the operator has allowed.
    pub fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Returns the options of a connection to the schema, as the writer uses them.
    pub fn connect_options(&self) -> PgConnectOptions {
        self.writer.pool().connect_options()
    }

    /// Closes every connection; abandons those that do not close within a second.
    pub async fn close(&self) {
        let lanes = join(self.writer.close(), self.decisions.close());
        let pools = join(join(self.later.close(), self.work.close()), join(self.read.close(), self.control.close()));
        if timeout(TO_CLOSE, join(lanes, pools)).await.is_err() {
            tracing::debug!("connections that the database does not close are abandoned");
        }
    }

    /// Replaces all pools by empty ones, so connections from before an outage are no longer waited for.
    fn renew_pools(&self) {
        for lane in [&self.writer, &self.decisions] {
            lane.renew();
        }
        for pool in [&self.later, &self.work, &self.read, &self.control] {
            pool.renew();
        }
    }

    /// Returns the database's time.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn now(&self) -> Result<jiff::Timestamp, StoreError> {
        sql::one(&self.control, "SELECT clock()", ()).await
    }
}

fn parse_url(url: &str) -> Result<PgConnectOptions, StoreError> {
    let form = "write postgres://user:password@host:5432/name";
    // The library accepts any scheme.
    if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(StoreError::Refused(format!("the database URL is not the URL of a Postgres: {form}")));
    }
    PgConnectOptions::from_str(url).map_err(|_| {
        StoreError::Refused(format!("the database URL is malformed: {form}, with special characters percent-encoded"))
    })
}

/// Makes the error that names the unreachable server and the cause.
async fn unreached(connect: &PgConnectOptions, error: sqlx::Error) -> StoreError {
    let error = match error {
        // The pool retries for a while and loses the cause: one more attempt finds it.
        sqlx::Error::PoolTimedOut => match tokio::time::timeout(LAST_TRY, connect.connect()).await {
            Ok(Ok(_)) => error,
            Ok(Err(error)) => error,
            Err(_) => sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()),
        },
        other => other,
    };
    let place = connect
        .get_socket()
        .map_or_else(|| format!("{}:{}", connect.get_host(), connect.get_port()), |dir| dir.display().to_string());
    match error {
        sqlx::Error::Io(cause) => StoreError::Refused(format!(
            "no Postgres can be reached at {place} ({cause}): start Postgres, or correct the host and port of the URL"
        )),
        sqlx::Error::Database(refusal) => StoreError::Refused(format!(
            "the Postgres at {place} refuses the login ({}): check user, password and database name of the URL",
            refusal.message()
        )),
        other => other.into(),
    }
}
