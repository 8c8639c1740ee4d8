//! Two servers on one data directory share its private Postgres, and the second goes on when the first ends.

#![expect(clippy::unwrap_used, reason = "a test that meets an error fails")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;

use crate::support::{Schema, Umbra, until};

/// Returns the processes that work in the directory or below it, which include its Postgres.
fn processes_in(dir: &Path) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().join("cwd"));
    processes.filter_map(|cwd| fs::read_link(cwd).ok()).filter(|cwd| cwd.starts_with(dir)).collect()
}

/// Returns the postmaster's process id, as it has written it down.
fn postmaster(data: &Path) -> Option<String> {
    let clusters = fs::read_dir(data).ok()?.flatten();
    let mut noted = clusters.filter_map(|cluster| fs::read_to_string(cluster.path().join("postmaster.pid")).ok());
    noted.next()?.lines().next().map(ToOwned::to_owned)
}

async fn the_second_goes_on(end: impl FnOnce(&mut Umbra)) {
    let data = TempDir::new().unwrap();
    let dir = fs::canonicalize(data.path()).unwrap();
    let schema = Schema::named("umbra").await;
    let start = || Umbra::with().on(&schema).env("UMBRA__STORAGE__DATA_DIR", dir.display().to_string());
    let (mut first, mut second) = (start().go().await, start().go().await);
    first.unchecked();
    first.event(&json!({"agent": "a", "output": "to the first"})).await;
    second.event(&json!({"agent": "a", "output": "to the second"})).await;
    let before = postmaster(&dir).unwrap();
    end(&mut first);
    until("another postmaster", async || postmaster(&dir).filter(|now| *now != before)).await;
    // With an id: an answer 503 that leaves the result open is settled by sending the event again.
    let event = json!({"id": "mine", "agent": "a", "output": "after the first"});
    until("the second to accept events", async || {
        second.try_post("/v1/events", &event).await.filter(|(status, _)| *status == 202)
    })
    .await;
    // Accepted while its database was away, it is filed now.
    until("all three to be stored", async || {
        let listed = second.send(Method::GET, "/v1/events", &[], None).await;
        (listed.body["items"].as_array().map(Vec::len) == Some(3)).then_some(())
    })
    .await;
    second.doctor();
    second.unchecked();
    assert!(second.stop().success(), "{}", second.log());
    assert_eq!(processes_in(&dir), Vec::<PathBuf>::new(), "the last one stops the Postgres");
}

#[tokio::test]
async fn a_second_server_goes_on_when_the_first_is_stopped() {
    the_second_goes_on(|first| assert!(first.stop().success(), "{}", first.log())).await;
}

#[tokio::test]
async fn a_second_server_goes_on_when_the_first_is_killed() {
    the_second_goes_on(Umbra::kill).await;
}
