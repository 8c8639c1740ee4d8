//! Migrates the schema, and refuses databases that could lose acknowledged events.

use std::time::Duration;

use sqlx::{
    Connection, PgConnection, PgPool,
    migrate::{Migrate, MigrateError, Migrator},
};
use tokio::time::Instant;

use super::StoreError;

/// Longest wait for another process's migrations: an index on a big table takes its time.
const PATIENCE: Duration = Duration::from_mins(30);
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// Checksums and names of the migrations that `0001_initial.sql` replaced before 0.1.0, `SHA384  NAME` a line.
const REPLACED: &str = include_str!("../../../migrations/replaced.txt");

/// Returns every migration, compiled in. A binary older than the schema starts all the same, since migrations only
/// expand.
pub fn migrations() -> Migrator {
    let mut migrator = sqlx::migrate!("../../migrations");
    migrator.set_ignore_missing(true);
    migrator
}

/// Creates the schema if it is missing, and runs pending migrations. Safe from several processes at once.
pub(super) async fn run(pool: &PgPool, schema: &str) -> Result<(), StoreError> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if schema.is_empty() || schema.len() > 50 || !schema.chars().all(fits) || schema.starts_with("pg_") {
        return Err(StoreError::Refused(format!(
            "database.schema must be 1-50 of a-z, 0-9 and _, and not begin with pg_ (it is {schema:?})"
        )));
    }
    let create = sqlx::query(sqlx::AssertSqlSafe(format!("CREATE SCHEMA IF NOT EXISTS {schema}")));
    if let Err(error) = create.execute(pool).await {
        // Two first starts may collide; then the schema exists.
        let exists: bool = sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)")
            .bind(schema)
            .fetch_one(pool)
            .await?;
        if !exists {
            return Err(StoreError::Refused(format!(
                "the schema {schema} is missing, and Umbra's role may not create it ({}): let an administrator run \
                 CREATE SCHEMA {schema} AUTHORIZATION <Umbra's role>",
                StoreError::from(error)
            )));
        }
    }
    let mut connection = pool.acquire().await?.detach();
    wait_for_turn(&mut connection, schema).await?;
    adopt_replaced_schema(&mut connection, schema).await?;
    migrations().set_locking(false).run(&mut connection).await.map_err(migration_error)?;
    // Closing the connection releases the advisory lock.
    Ok(connection.close().await?)
}

/// Records `0001_initial.sql` in place of the migrations that it replaced, in a schema that has them all.
/// The first checksum tells such a schema from a newer one. Numbers do not: later migrations count from 2 again.
///
/// # Errors
/// [`StoreError::Refused`] where the schema has some of the replaced migrations, but not exactly all.
async fn adopt_replaced_schema(connection: &mut PgConnection, schema: &str) -> Result<(), StoreError> {
    let (replaced, names): (Vec<_>, Vec<_>) = REPLACED.lines().filter_map(|line| line.split_once("  ")).unzip();
    connection.ensure_migrations_table("_sqlx_migrations").await.map_err(migration_error)?;
    let applied = "SELECT encode(checksum, 'hex') FROM _sqlx_migrations ORDER BY version";
    let applied: Vec<String> = sqlx::query_scalar(applied).fetch_all(&mut *connection).await?;
    if applied.first().map(String::as_str) != replaced.first().copied() {
        return Ok(());
    }
    if applied != replaced {
        let newest = names.last().copied().unwrap_or_default();
        return Err(StoreError::Refused(format!(
            "the schema {schema} was made by a version of Umbra before 0.1.0 and lacks the last migration of those \
             versions, {newest}: start a version that has this migration once on this schema, and then this version; \
             or save the data with pg_dump and start with another database.schema"
        )));
    }
    let mut tx = connection.begin().await?;
    sqlx::query("DELETE FROM _sqlx_migrations").execute(&mut *tx).await?;
    migrations().set_locking(false).skip(&mut *tx, Some(1)).await.map_err(migration_error)?;
    tx.commit().await?;
    tracing::info!("the schema of a version before 0.1.0 is used as it is");
    Ok(())
}

fn migration_error(error: MigrateError) -> StoreError {
    match error {
        MigrateError::Execute(error) => StoreError::from(error),
        other => StoreError::Refused(format!("the schema cannot be brought up to date: {other}")),
    }
}

/// Waits until no other process migrates the schema, by polling: a lock wait within the database would run into the
/// limits on statements, which migrations keep.
async fn wait_for_turn(connection: &mut PgConnection, schema: &str) -> Result<(), StoreError> {
    let ask = format!("SELECT pg_try_advisory_lock(7818, hashtext('{schema}'))");
    let began = Instant::now();
    let mut told = false;
    while !sqlx::query_scalar::<_, bool>(sqlx::AssertSqlSafe(ask.as_str())).fetch_one(&mut *connection).await? {
        if began.elapsed() > PATIENCE {
            return Err(StoreError::Refused(format!(
                "another process has been migrating the schema {schema} for {} minutes: see in pg_stat_activity what \
                 it waits for, and start again when the migration is done",
                PATIENCE.as_secs() / 60
            )));
        }
        if !std::mem::replace(&mut told, true) {
            tracing::info!("another process is migrating the schema; waiting for it");
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
    Ok(())
}

/// Refuses a server that could lose acknowledged events, or a role that may bypass the schema. Returns true if there
/// are such faults and the operator has allowed them.
pub(super) async fn refuse_unsafe(pool: &PgPool, allow: bool) -> Result<bool, StoreError> {
    let (version, fsync, full_page_writes, synchronous_commit, privileged): (i32, String, String, String, bool) =
        sqlx::query_as(
            "SELECT current_setting('server_version_num')::int, current_setting('fsync'),
                    current_setting('full_page_writes'), current_setting('synchronous_commit'),
                    (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user)",
        )
        .fetch_one(pool)
        .await?;
    if version < 150_000 {
        return Err(StoreError::Refused(format!("Postgres {} is too old: 15 or newer is needed", version / 10_000)));
    }
    let mut faults = Vec::new();
    if fsync != "on" || full_page_writes != "on" {
        faults.push("fsync or full_page_writes is off, so a crash loses acknowledged events: switch both on");
    }
    if synchronous_commit == "off" {
        faults.push("synchronous_commit is off, so a crash loses acknowledged events: set it to on for Umbra's role");
    }
    if privileged {
        faults.push(
            "Umbra's role is a superuser: create a plain role (CREATE ROLE umbra LOGIN; CREATE DATABASE umbra OWNER \
             umbra)",
        );
    }
    if faults.is_empty() || allow {
        for fault in &faults {
            tracing::warn!("using this database although {fault}");
        }
        return Ok(!faults.is_empty());
    }
    Err(StoreError::Refused(format!(
        "this database is refused: {}. database.allow_unsafe: true allows it",
        faults.join("; ")
    )))
}
