//! Serves what `umbra bench ingest` compares the service with: the front, the keys and the rules of `umbra serve`,
//! and a `POST /v1/events` that does less. Nothing else runs: no writer, no reviews.

use std::time::Duration;

use anyhow::Context;

use super::{
    App, Database, Ready, Setup,
    serve::{admission, api_of, guard, limits},
};
use crate::{
    api::{auth::KeyRing, front, rivals},
    lifecycle::Tasks,
    telemetry,
};
use umbra_domain::clock::Clock;
use umbra_store::rivals::OneByOne;

/// Connections of the ordinary endpoint: as many as `umbra serve` has in all by default.
const POOL: u32 = 16;

/// An endpoint to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Rival {
    /// Parses, screens, matches, and stores nothing.
    Nodb,
    /// One INSERT a request.
    Naive,
}

/// Serves a rival until a signal. `ready` is called once requests are answered.
///
/// # Errors
/// In words: the database or the address cannot be used.
pub async fn serve_rival(setup: Setup, rival: Rival, ready: impl FnOnce(Ready)) -> anyhow::Result<()> {
    let tasks = Tasks::new();
    tasks.listen().context("installing signal handlers")?;
    let front = front::Front::bind(setup.settings.server.bind)?;
    let database = Database::open(&setup, &|line| tracing::info!("{line}")).await?;
    let App { pipeline, .. } = App::build(&setup, &database.store, Clock::system()).await?;
    let keys = KeyRing::open(database.store.clone(), pipeline.installation.clone()).await?;
    let guard = guard(&setup, &keys)?;
    let api = api_of(&setup, &pipeline, keys, telemetry::start_metrics(), &tasks, None);
    let address = front.local_addr();
    let clock = pipeline.clock.clone();
    let admission = admission(&setup);
    let site = match rival {
        Rival::Nodb => {
            let decisions = rivals::deciding_alone(api.clone(), &admission);
            front::Site::new(decisions, guard, clock).with(rivals::without_storing(api, &admission))
        }
        Rival::Naive => {
            let rows = OneByOne::beside(&database.store, POOL).await?;
            front::Site::of(rivals::one_by_one(api, rows, &admission), guard, clock)
        }
    };
    front.serve(site, &tasks, limits(&setup));
    ready(Ready { address });
    tasks.soft().cancelled().await;
    let stopped = tasks.shutdown(Duration::from_secs(2)).await;
    database.close().await;
    stopped.map(drop).map_err(Into::into)
}
