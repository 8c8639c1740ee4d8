//! Every line of SQL, one file per table family, and the private Postgres.
//!
//! In: plain values of `domain` and of the files here. Out: rows as plain values, or a [`StoreError`]. SQL is
//! unqualified: the schema is the connection's `search_path`. Time in SQL is our function `clock()` alone.
//! Nothing here decides: `budget` does, between [`intake::Flush::lock`] and [`intake::Flush::write`].

pub mod aggregates;
mod alone;
pub mod audit;
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
pub mod installation;
pub mod intake;
pub mod jobs;
pub mod keys;
mod lane;
mod leftovers;
pub mod looks;
pub mod mcp;
mod migrate;
mod new_findings;
mod numbers;
pub mod partitions;
pub mod patterns;
mod pool;
pub mod postgres;
pub mod reflexions;
pub mod repeats;
pub mod results;
pub mod retention;
pub mod reviews;
pub mod runs;
pub mod seek;
pub mod session_files;
pub mod sessions;
mod signed;
mod standing;
pub mod status;
pub mod steps;
pub mod task_costs;
pub mod trajectories;
mod transaction;
pub mod unguarded;
pub mod verdicts;
pub mod versions;
pub mod waiting;
pub mod wake;
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

use self::{availability::Availability, lane::Lane, pool::Pool};
pub use self::{error::StoreError, migrate::migrations, pool::Connection};

/// How long the attempt takes that only finds out why others failed.
const LAST_TRY: Duration = Duration::from_secs(2);
/// Time that connections get to close in.
const TO_CLOSE: Duration = Duration::from_secs(1);

/// Where the database is.
pub enum Target<'a> {
    /// A server of the operator's, by URL.
    Url(&'a str),
    /// Our own server in the data directory.
    Private(&'a postgres::PrivatePostgres),
}

/// How to use it.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// The schema that holds our tables; created when missing.
    pub schema: String,
    /// Connections of all pools together, at least 8.
    pub max_connections: u32,
    /// Start although fsync is off or the role is a superuser.
    pub allow_unsafe: bool,
    /// Longest wait for a database that does not answer.
    pub deadline: Duration,
}

/// The database, in pools that cannot starve each other.
#[derive(Debug, Clone)]
pub struct Store {
    /// Short transactions of the accept path; a paused process may not hold its locks for long. One connection: a
    /// process has one writer, and the pool would use two in turn, each with caches of its own to warm.
    writer: Lane,
    /// The same for decisions about calls of tools, for which an agent waits: events must not keep them waiting.
    decisions: Lane,
    /// The same for reservations of the past, and for looks of the checks, neither of which may keep the writer or reviews
    /// waiting.
    later: Pool,
    /// Claims, holds and results of reviews.
    work: Pool,
    /// Reads for the API and the command line.
    read: Pool,
    /// Heartbeats, housekeeping and the listener, never behind anything else.
    control: Pool,
    availability: Availability,
    schema: String,
    /// The database may lose acknowledged events, and the operator has allowed it.
    degraded: bool,
    /// Steps of sessions that wait for others of this process.
    turns: alone::Turns,
    /// Signs what goes into the audit.
    stamper: signed::Stamper,
}

impl Store {
    /// Connects, refuses a database that could lose acknowledged events, and brings the schema up to date.
    ///
    /// # Errors
    /// [`StoreError::Refused`] with what to do where the server is too old, `fsync` is off or the role is a
    /// superuser; otherwise what the database answered.
    pub async fn open(target: Target<'_>, options: &StoreOptions) -> Result<Self, StoreError> {
        let mut store = Self::connect(target, options).await?;
        store.degraded = migrate::refuse_unsafe(&store.control.raw(), options.allow_unsafe).await?;
        migrate::run(&store.control.raw(), &store.schema).await?;
        Ok(store)
    }

    /// Connects without touching the schema.
    ///
    /// # Errors
    /// The URL is malformed, or the server does not answer.
    pub async fn connect(target: Target<'_>, options: &StoreOptions) -> Result<Self, StoreError> {
        let connect = match target {
            Target::Url(url) => parse_url(url)?,
            Target::Private(server) => server.connect_options(),
        };
        let connect = connect.application_name("umbra").options([("search_path", options.schema.as_str())]);
        let bounded = |lock: &str, statement: &str, idle: &str| {
            connect.clone().options([
                ("lock_timeout", lock),
                ("statement_timeout", statement),
                ("idle_in_transaction_session_timeout", idle),
            ])
        };
        // What they ask for is found by its key. A plan that was made while a table was nearly empty would go on reading
        // all of it when it is not: until somebody analyses the table, which nobody does for a minute.
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
        // Half of the deadline is for the answer, half for the probe that says why there is none.
        let availability = Availability::new(options.deadline / 2);
        let pool = |connections: u32, tested: bool, with: PgConnectOptions| {
            let options = PgPoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(Duration::from_secs(5))
                // A read meets connections that a restart of the database has broken; the others meet them in
                // retries of their own.
                .test_before_acquire(tested);
            Pool::new(options, with, availability.clone())
        };
        let lane = || Lane::of(pool(1, false, short()));
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
            turns: alone::Turns::default(),
            stamper: signed::Stamper::default(),
        };
        match sqlx::query("SELECT 1").execute(&store.control.raw()).await {
            Ok(_) => Ok(store),
            Err(error) => Err(unreached(&connect, error).await),
        }
    }

    /// Whether the database may lose acknowledged events in a crash, by the operator's leave.
    pub fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Options of a connection to the schema, as the writer has them.
    pub fn connect_options(&self) -> PgConnectOptions {
        self.writer.pool().connect_options()
    }

    /// Closes every connection, or leaves those alone that do not close within a second.
    pub async fn close(&self) {
        let lanes = join(self.writer.close(), self.decisions.close());
        let pools = join(join(self.later.close(), self.work.close()), join(self.read.close(), self.control.close()));
        if timeout(TO_CLOSE, join(lanes, pools)).await.is_err() {
            tracing::debug!("connections that the database does not close are left alone");
        }
    }

    /// Begins anew with empty pools: connections of before an outage are no longer waited for.
    fn renew_pools(&self) {
        for lane in [&self.writer, &self.decisions] {
            lane.renew();
        }
        for pool in [&self.later, &self.work, &self.read, &self.control] {
            pool.renew();
        }
    }

    /// The database's time.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn now(&self) -> Result<jiff::Timestamp, StoreError> {
        let now: jiff_sqlx::Timestamp = sqlx::query_scalar("SELECT clock()").fetch_one(&self.control).await?;
        Ok(now.to_jiff())
    }
}

fn parse_url(url: &str) -> Result<PgConnectOptions, StoreError> {
    let form = "postgres://user:password@host:5432/name is the form";
    // The library takes any scheme for its own.
    if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(StoreError::Refused(format!("the database URL is not that of a Postgres: {form}")));
    }
    PgConnectOptions::from_str(url)
        .map_err(|_| StoreError::Refused(format!("the database URL is malformed: {form}, with signs percent-encoded")))
}

/// Says which server could not be used, and why.
async fn unreached(connect: &PgConnectOptions, error: sqlx::Error) -> StoreError {
    let error = match error {
        // The pool tries for a while and forgets what was in the way: one more try tells.
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
            "no Postgres can be reached at {place} ({cause}): start it, or correct the host and port of the URL"
        )),
        sqlx::Error::Database(refusal) => StoreError::Refused(format!(
            "the Postgres at {place} does not let us in ({}): check user, password and database name of the URL",
            refusal.message()
        )),
        other => other.into(),
    }
}
