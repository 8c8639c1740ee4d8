//! Servers that do less than `umbra serve`, for comparison: the same front, keys and rules, and a `POST /v1/events`
//! (and `POST /v1/decide`) that stores nothing, or one row a request. No writer and no review runs.

mod routes;

use std::{path::PathBuf, time::Duration};

use anyhow::Context;
use clap::{Args, ValueEnum};
use sqlx::postgres::PgPoolOptions;
use umbra::{
    api::{admission::Admission, auth::KeyRing, front},
    app::{App, CommandLineOverrides, Database, Setup, api_of, guard},
    lifecycle::Tasks,
    telemetry,
};
use umbra_config::Environment;
use umbra_domain::clock::Clock;

use crate::{BenchGlobalOptions, answer};

/// Connections of the naive server: as many as `umbra serve` has in all by default.
const POOL: u32 = 16;

/// Options of a variant's server.
#[derive(Debug, Args)]
pub struct VariantOptions {
    /// Variant to serve.
    #[arg(value_enum)]
    variant: Variant,
    /// Shadows file.
    #[arg(long, value_name = "FILE")]
    shadows: Option<PathBuf>,
}

/// An endpoint to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Variant {
    /// Parses, screens, matches, and stores nothing.
    Nodb,
    /// One INSERT a request.
    Naive,
}

/// Serves a variant until a signal, and prints its address once requests are answered.
///
/// # Errors
/// The database or the address cannot be used.
pub async fn serve(global: &BenchGlobalOptions, options: VariantOptions) -> anyhow::Result<()> {
    // A second installation is refused and harmless.
    drop(rustls::crypto::ring::default_provider().install_default());
    let overrides = CommandLineOverrides {
        shadows: options.shadows,
        data_dir: global.data_dir.clone(),
        ..CommandLineOverrides::default()
    };
    let setup = Setup::read(None, Environment::of_process(), overrides)?;
    setup.start_logs(setup.settings.logging.level.as_str());
    let tasks = Tasks::new();
    tasks.listen().context("installing signal handlers")?;
    let front = front::Front::bind(setup.settings.server.bind)?;
    let database = Database::open(&setup, &|line| tracing::info!("{line}")).await?;
    let App { flows, .. } = App::build(&setup, &database.store, Clock::system()).await?;
    let keys = KeyRing::open(database.store.clone(), flows.installation.clone()).await?;
    let guard = guard(&setup, &keys)?;
    let api = api_of(&setup, &flows, keys, telemetry::start_metrics(), &tasks, None);
    let address = front.local_addr();
    let admission = Admission::new(&setup.settings.server);
    let routes = match options.variant {
        Variant::Nodb => routes::without_storing(api, &admission),
        Variant::Naive => {
            let pool = PgPoolOptions::new().max_connections(POOL).test_before_acquire(false);
            let pool = pool.connect_with(database.store.connect_options()).await?;
            // Numbers come from a sequence, as with an identity column: cheaper than our feed, which keeps the order of
            // commits.
            sqlx::query("CREATE SEQUENCE IF NOT EXISTS one_by_one").execute(&pool).await?;
            routes::one_by_one(api, pool, &admission)
        }
    };
    front.serve((routes, axum::Router::new()), guard, flows.clock, &tasks, setup.settings.server);
    answer(&format!("listening on http://{address}"));
    tasks.soft().cancelled().await;
    let stopped = tasks.shutdown(Duration::from_secs(2)).await;
    database.close().await;
    stopped.map(drop).map_err(Into::into)
}
