//! `umbra migrate`: brings the schema up to date, without serving.

use serde_json::json;

use tokio::time::Instant;

use super::{CommandFailure, GlobalOptions};
use umbra_domain::clock::Clock;

pub(super) async fn run(global: &GlobalOptions) -> Result<(), CommandFailure> {
    let (_, database) = global.open().await?;
    let clock = Clock::system();
    let asked = Instant::now();
    clock.follow(database.store.now().await?, asked.elapsed());
    let made = database.store.upkeep().make_partitions(clock.now()).await?;
    let newest = umbra_store::migrations().iter().map(|migration| migration.version).max().unwrap_or(0);
    database.close().await;
    global.print(&json!({"schema_version": newest, "partitions_made": made}), || {
        format!("the schema is up to date (version {newest}); {made} partitions made")
    })
}
