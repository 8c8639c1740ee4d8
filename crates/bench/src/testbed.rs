//! Testbed of a bench: a temporary directory, a private Postgres in it with fsync on, and the servers under test, each
//! a child process in a schema of its own.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, anyhow, bail};
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};
use umbra::{
    app::{CommandLineOverrides, Database, Setup},
    lifecycle::Tasks,
};
use umbra_config::Environment;

use crate::{BenchGlobalOptions, progress};

/// Longest time until a server must listen.
const START: Duration = Duration::from_mins(1);

const SHADOWS: &str = include_str!("shadows.yaml");

/// Temporary directory and database of a bench.
pub struct Testbed {
    /// The database that the servers share.
    pub database: Database,
    /// Settings of the bench itself.
    pub setup: Setup,
    /// Signals that end the bench early.
    tasks: Tasks,
    /// Program under test.
    pub umbra: PathBuf,
    scratch: TempDir,
}

impl Testbed {
    /// Measures in a testbed, until a signal comes.
    ///
    /// # Errors
    /// As [`Self::open`] and `measure`, or a signal came.
    pub async fn with<T>(
        global: &BenchGlobalOptions,
        measure: impl AsyncFnOnce(&Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let bed = Self::open(global).await?;
        let measured = bed.tasks.soft().run_until_cancelled(measure(&bed)).await;
        bed.database.close().await;
        measured.context("stopped")?
    }

    /// Creates the directory and starts Postgres.
    ///
    /// # Errors
    /// There is no program to measure, or Postgres cannot be started.
    async fn open(global: &BenchGlobalOptions) -> anyhow::Result<Self> {
        let umbra = match &global.umbra {
            Some(path) => path.clone(),
            None => std::env::current_exe()?.with_file_name("umbra"),
        };
        let umbra = umbra.canonicalize().map_err(|error| {
            let path = umbra.display();
            anyhow!(
                "{path} cannot be measured ({error}): build umbra with the same profile, or name another with --umbra"
            )
        })?;
        let tasks = Tasks::new();
        tasks.listen()?;
        let base = global.data_dir.clone().unwrap_or_else(std::env::temp_dir);
        fs::create_dir_all(&base)?;
        // Other users may pass through it, since root's Postgres runs as another user.
        let passable = fs::Permissions::from_mode(0o711);
        let scratch = tempfile::Builder::new().prefix("umbra-bench-").permissions(passable).tempdir_in(&base);
        let scratch = scratch.with_context(|| format!("making a directory in {}", base.display()))?;
        let overrides =
            CommandLineOverrides { data_dir: Some(scratch.path().to_owned()), ..CommandLineOverrides::default() };
        let mut setup = Setup::read(None, Environment::of_process(), overrides)?;
        setup.settings.database.url = None;
        setup.start_logs("warn");
        let database = Database::open(&setup, &progress).await?;
        Ok(Self { database, setup, tasks, umbra, scratch })
    }

    /// Returns a path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Writes a file into the directory and returns its path.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, name: &str, text: &str) -> anyhow::Result<PathBuf> {
        let path = self.path(name);
        fs::write(&path, text)?;
        Ok(path)
    }

    /// Copies a shadows file into the directory; without a file, the benches' own shadows.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn shadows(&self, file: Option<&Path>) -> anyhow::Result<PathBuf> {
        let text = match file {
            Some(path) => fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?,
            None => SHADOWS.to_owned(),
        };
        self.write("shadows.yaml", &text)
    }

    /// Starts the service in a schema of its own and waits until it listens.
    ///
    /// # Errors
    /// The server ends, or does not listen in time.
    pub async fn serve(&self, schema: &str, shadows: &Path, args: &[&str]) -> anyhow::Result<Server> {
        Server::start(&self.umbra, &[&["serve"], args].concat(), self.scratch.path(), schema, shadows).await
    }

    /// Starts a variant of the service, as [`Self::serve`] does.
    ///
    /// # Errors
    /// As [`Self::serve`].
    pub async fn serve_variant(&self, schema: &str, shadows: &Path, variant: &str) -> anyhow::Result<Server> {
        let program = std::env::current_exe().context("finding this program")?;
        Server::start(&program, &["serve-variant", variant], self.scratch.path(), schema, shadows).await
    }

    /// Connects to a server's schema.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn connect(&self, schema: &str) -> anyhow::Result<PgConnection> {
        let mut connection = PgConnection::connect_with(&self.database.store.connect_options()).await?;
        let quoted = schema.replace('"', "\"\"");
        // The service's own time-out is for requests; here a table holds everything that a bench posted.
        let settings = format!("SET statement_timeout = 0; SET search_path = \"{quoted}\"");
        sqlx::raw_sql(sqlx::AssertSqlSafe(settings)).execute(&mut connection).await?;
        Ok(connection)
    }

    /// Counts the rows of a table in a server's schema.
    ///
    /// # Errors
    /// The database does not answer, or has no such table.
    pub async fn rows(&self, schema: &str, table: &str) -> anyhow::Result<u64> {
        let mut connection = self.connect(schema).await?;
        let count = format!("SELECT count(*) FROM {table}");
        let count: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(count)).fetch_one(&mut connection).await?;
        connection.close().await?;
        Ok(u64::try_from(count)?)
    }
}

/// A server under test; it is killed when this is dropped.
#[derive(Debug)]
pub struct Server {
    /// Address that the server listens on.
    pub address: SocketAddr,
    /// Process id.
    pub pid: u32,
    _child: Child,
}

impl Server {
    /// Starts a program on the data directory `data`, in a schema of its own, and waits until it listens. It gets no
    /// variable of our environment: no other database, no model's key.
    async fn start(program: &Path, args: &[&str], data: &Path, schema: &str, shadows: &Path) -> anyhow::Result<Self> {
        let log = data.join(format!("{schema}.log"));
        let mut child = Command::new(program)
            .args(args)
            .arg("--data-dir")
            .arg(data)
            .arg("--shadows")
            .arg(shadows)
            .current_dir(data)
            .env_clear()
            .env("UMBRA__SERVER__BIND", "127.0.0.1:0")
            .env("UMBRA__DATABASE__SCHEMA", schema)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log)?)
            .kill_on_drop(true)
            .spawn()?;
        let pid = child.id().context("the server under test has ended at once")?;
        let out = child.stdout.take().context("no standard output")?;
        let mut lines = BufReader::new(out).lines();
        let listening = async {
            while let Some(line) = lines.next_line().await? {
                if let Some(address) = line.strip_prefix("listening on http://") {
                    return Ok(address.parse()?);
                }
            }
            bail!("the server under test ended: {}", fs::read_to_string(&log).unwrap_or_default().trim_end())
        };
        let address = timeout(START, listening).await.context("the server under test does not listen")??;
        Ok(Self { address, pid, _child: child })
    }
}
