//! A stop has a deadline, also while the database is frozen.

use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{SHADOWS, event, external, serving};
use crate::support::{
    Umbra,
    outage::{Frozen, on},
    sabotage,
    server::{Answered, client},
    until,
};

/// Longest time of a stop: the drain, the end of background tasks, and of a private Postgres.
const STOP: Duration = Duration::from_secs(16);

/// Stops a server while one request waits for the database; returns the answer to the request, and the time of the
/// stop.
async fn stop_under_way(umbra: &Umbra) -> (Answered, Instant) {
    let body = event("a", 1).to_string().into_bytes();
    let json = [("content-type", "application/json")];
    let pending = umbra.send(reqwest::Method::POST, "/v1/events", &json, Some(body));
    let stopping = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        umbra.terminate();
        Instant::now()
    };
    tokio::join!(pending, stopping)
}

#[tokio::test]
async fn stop_ends_on_a_frozen_external_database_and_keeps_events() {
    let (database, data) = external().await;
    // Under sabotage requests may drain as long as they like, and wait for a minute.
    let drain = if sabotage() { "600s" } else { "5s" };
    let mut umbra = serving(&database.url(), &data).env("UMBRA__SERVER__DRAIN_TIMEOUT", drain).go().await;
    umbra.event(&event("a", 0)).await;
    let frozen = Frozen::freeze(database.pid());
    let (answered, told) = stop_under_way(&umbra).await;
    let status = umbra.stop();
    assert!(status.success() && told.elapsed() < STOP, "{status} after {:?}: {}", told.elapsed(), umbra.log());
    assert!(answered.status == 202 && answered.body["spooled"] == true, "{}", answered.text);
    drop(frozen);
    // The next start files it.
    umbra.restart().await;
    super::filed(&umbra).await;
    assert_eq!(super::outputs(&umbra, "a").await, ["step 0 failed", "step 1 failed"]);
    umbra.drain().await;
}

#[tokio::test]
async fn second_signal_ends_a_stop_at_once_on_a_frozen_database() {
    let (database, data) = external().await;
    let mut umbra = on(&database.url(), data.path())
        .env("UMBRA__SERVER__DRAIN_TIMEOUT", "600s")
        .env("UMBRA__DATABASE__DEADLINE", "60s")
        .go()
        .await;
    umbra.event(&event("a", 0)).await;
    let frozen = Frozen::freeze(database.pid());
    let client = client();
    let pending = client.post(format!("{}/v1/events", umbra.base)).json(&event("a", 1)).send();
    let stopped = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        if !sabotage() {
            umbra.terminate();
            until("the drain to begin", async || umbra.log().contains("draining").then_some(())).await;
        }
        umbra.terminate();
        let told = Instant::now();
        until("the server to end", async || (!umbra.is_running()).then_some(())).await;
        told.elapsed()
    };
    let (_, took) = tokio::join!(pending, stopped);
    assert!(took < Duration::from_secs(3), "it ended after {took:?}: {}", umbra.log());
    drop(frozen);
    umbra.restart().await;
}

#[tokio::test]
async fn stop_ends_on_a_frozen_private_database() {
    let data = TempDir::new().expect("a directory");
    let start = Umbra::with()
        .shadows(SHADOWS)
        .env("UMBRA__STORAGE__DATA_DIR", data.path().display().to_string())
        .env("UMBRA__DATABASE__SCHEMA", "umbra")
        .env("UMBRA__DATABASE__DEADLINE", "2s");
    let mut umbra = start.go().await;
    umbra.event(&event("a", 0)).await;
    let postmaster = super::postmaster(data.path());
    let frozen = Frozen::freeze(postmaster);
    if sabotage() {
        let process = nix::unistd::Pid::from_raw(i32::try_from(umbra.pid()).expect("a pid"));
        nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGSTOP).expect("it stops");
    }
    let told = Instant::now();
    let status = umbra.stop();
    assert!(status.success() && told.elapsed() < STOP, "{status} after {:?}: {}", told.elapsed(), umbra.log());
    drop(frozen);
    // It was asked to stop, and does so once it continues. The next start finds it well.
    until("Postgres to end", async || (!std::path::Path::new(&format!("/proc/{postmaster}")).exists()).then_some(()))
        .await;
    umbra.restart().await;
    umbra.event(&event("a", 1)).await;
    assert_eq!(super::outputs(&umbra, "a").await, ["step 0 failed", "step 1 failed"]);
    umbra.drain().await;
}
