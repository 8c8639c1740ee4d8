//! One Postgres for the whole run, by the product's own supervisor; a schema for each test.

use std::{
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
};

use nix::sys::statvfs::statvfs;
use sqlx::{
    Connection, PgConnection, PgPool, Row,
    postgres::{PgPoolOptions, PgRow},
};
use tokio::sync::OnceCell;
use umbra_store::postgres::{PrivateOptions, PrivatePostgres};

static SERVER: OnceCell<PrivatePostgres> = OnceCell::const_new();
static SCHEMAS: AtomicU32 = AtomicU32::new(0);

/// Returns the data directory of the shared server: one for each run, since a server slows down with the schemas of
/// earlier ones.
pub fn data_dir() -> &'static Path {
    static DATA_DIR: LazyLock<PathBuf> = LazyLock::new(|| {
        // In memory if there is room: half of a migration's time goes into waiting for a disk.
        let memory = Path::new("/dev/shm");
        let free = statvfs(memory).map_or(0, |system| system.blocks_available() * system.fragment_size());
        let parent = if free >= 8 << 30 { memory } else { Path::new(env!("CARGO_TARGET_TMPDIR")) };
        parent.join(format!("umbra-tests-{}", std::process::id()))
    });
    &DATA_DIR
}

/// Removes the data directory when this process has ended, however it does: its end of the pipe closes.
fn remove_at_the_end() {
    let script = r#"cat; until rm -rf "$0"; do sleep 1; done"#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(data_dir()).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    std::mem::forget(shell.process_group(0).spawn().expect("a shell"));
}

async fn server() -> &'static PrivatePostgres {
    let start = || async {
        remove_at_the_end();
        let options = PrivateOptions {
            data_dir: data_dir().to_owned(),
            pg_bin: std::env::var_os("UMBRA_PG_BIN").map(PathBuf::from),
            search_path: std::env::var_os("PATH"),
            allow_download: true,
            pip_environment: std::env::vars_os()
                .filter(|(name, _)| name.to_str().is_some_and(umbra_store::postgres::is_for_pip))
                .collect(),
            ..PrivateOptions::default()
        };
        PrivatePostgres::open(&options, &|line| eprintln!("{line}")).await.expect("the shared Postgres starts")
    };
    SERVER.get_or_init(start).await
}

/// Schema of one test.
#[derive(Debug, Clone)]
pub struct Schema {
    /// Name of the schema.
    pub name: String,
    /// Connections for single statements: a new one costs more than most statements.
    pool: PgPool,
}

impl Schema {
    /// Returns a schema that was never used.
    pub async fn fresh() -> Self {
        let number = SCHEMAS.fetch_add(1, Ordering::Relaxed);
        let schema = Self::named(&format!("t{}_{number}", std::process::id())).await;
        schema.run(&format!("DROP SCHEMA IF EXISTS {} CASCADE", schema.name)).await;
        schema
    }

    /// Returns a schema of the shared server by its name.
    pub async fn named(name: &str) -> Self {
        let options = server().await.connect_options().options([("search_path", name)]);
        Self { name: name.to_owned(), pool: PgPoolOptions::new().max_connections(2).connect_lazy_with(options) }
    }

    /// Returns a connection that sees the schema.
    pub async fn connect(&self) -> PgConnection {
        let options = server().await.connect_options().options([("search_path", self.name.as_str())]);
        PgConnection::connect_with(&options).await.expect("the shared Postgres answers")
    }

    /// Runs statements.
    pub async fn run(&self, sql: &str) {
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).execute(&self.pool).await.expect(sql);
    }

    /// Returns the first column of the first row.
    pub async fn one<T>(&self, sql: &str) -> T
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        self.rows(sql).await.first().map(|row| row.get(0)).expect(sql)
    }

    /// Returns all rows.
    pub async fn rows(&self, sql: &str) -> Vec<PgRow> {
        sqlx::query(sqlx::AssertSqlSafe(sql.to_owned())).persistent(false).fetch_all(&self.pool).await.expect(sql)
    }

    /// Stops the database's clock of this schema at this moment (RFC 3339).
    pub async fn set_clock(&self, at: &str) {
        self.run(&clock_at(at)).await;
    }
}

/// Returns SQL that stops a database's clock at this moment (RFC 3339).
pub fn clock_at(at: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS hand (at timestamptz NOT NULL); DELETE FROM hand;
         INSERT INTO hand VALUES ('{at}');
         CREATE OR REPLACE FUNCTION clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT at FROM hand'"
    )
}
