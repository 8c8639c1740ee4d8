//! One Postgres for the whole run, by the product's own supervisor; a schema for each test.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use sqlx::{Connection, PgConnection, Row, postgres::PgRow};
use tokio::sync::OnceCell;
use umbra_store::postgres::{PrivateOptions, PrivatePostgres};

static SERVER: OnceCell<PrivatePostgres> = OnceCell::const_new();
static SCHEMAS: AtomicU32 = AtomicU32::new(0);

/// Returns the data directory of the shared server: one for each run, since a server slows down with the schemas of
/// earlier ones.
pub fn data_dir() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("postgres-{}", std::process::id()))
}

/// Removes the data directories of runs that are over.
fn remove_earlier_runs() {
    let entries = std::fs::read_dir(env!("CARGO_TARGET_TMPDIR")).into_iter().flatten().flatten();
    let is_over = |name: &str| {
        let process = name.strip_prefix("postgres-")?.parse::<u32>().ok()?;
        Some(!Path::new("/proc").join(process.to_string()).exists())
    };
    for entry in entries.filter(|entry| entry.file_name().to_str().and_then(is_over) == Some(true)) {
        drop(std::fs::remove_dir_all(entry.path()));
    }
}

async fn server() -> &'static PrivatePostgres {
    let start = || async {
        std::thread::spawn(remove_earlier_runs);
        let options = PrivateOptions {
            data_dir: data_dir(),
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
}

impl Schema {
    /// Returns a schema that was never used.
    pub async fn fresh() -> Self {
        let number = SCHEMAS.fetch_add(1, Ordering::Relaxed);
        let schema = Self { name: format!("t{}_{number}", std::process::id()) };
        schema.run(&format!("DROP SCHEMA IF EXISTS {} CASCADE", schema.name)).await;
        schema
    }

    /// Returns a connection that sees the schema.
    pub async fn connect(&self) -> PgConnection {
        let options = server().await.connect_options().options([("search_path", self.name.as_str())]);
        PgConnection::connect_with(&options).await.expect("the shared Postgres answers")
    }

    /// Runs statements.
    pub async fn run(&self, sql: &str) {
        let mut connection = self.connect().await;
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.expect(sql);
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
        let mut connection = self.connect().await;
        sqlx::query(sqlx::AssertSqlSafe(sql.to_owned())).fetch_all(&mut connection).await.expect(sql)
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
