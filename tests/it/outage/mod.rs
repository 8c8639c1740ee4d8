//! Outages of the database: no request hangs, and acknowledged events are filed once, in order, when it is back.
//!
//! `UMBRA_SABOTAGE=1` gives the service a deadline of a minute, switches the spool off or takes its files, and the
//! tests must fail.

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

mod away;
mod replica;
mod spool;
mod stop;

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    Umbra,
    outage::{External, on},
    sabotage,
    server::{Answered, Start},
    until,
};

/// Shadow without a model.
pub const SHADOWS: &str = "
shadow_agents:
  - {name: watcher, model: checks, mode: review, watch: [{agent: '*', triggers: [error]}], cost_control: {cooldown: 0s}}
";

/// Longest wait of the first request that meets an outage.
const FIRST: Duration = Duration::from_millis(2_500);
/// Longest wait for an answer once the outage is known.
const KNOWN: Duration = Duration::from_secs(1);

/// Returns a server on this database that keeps its files in `data`; under sabotage it waits for a minute.
fn serving(url: &str, data: &TempDir) -> Start {
    let start = on(url, data.path()).shadows(SHADOWS);
    if sabotage() { start.env("UMBRA__DATABASE__DEADLINE", "60s") } else { start }
}

/// Returns the same server; under sabotage it has no spool.
fn spooling(url: &str, data: &TempDir) -> Start {
    let start = on(url, data.path()).shadows(SHADOWS);
    if sabotage() { start.env("UMBRA__INGEST__SPOOL__ENABLED", "false") } else { start }
}

/// Returns an event that the shadow reviews.
fn event(agent: &str, n: usize) -> Value {
    json!({"agent": agent, "triggers": ["error"], "output": format!("step {n} failed")})
}

/// Posts an event; returns the answer and its time.
async fn timed(umbra: &Umbra, event: &Value) -> (Answered, Duration) {
    let began = Instant::now();
    let answered = umbra.post("/v1/events", event).await;
    (answered, began.elapsed())
}

/// Waits until nothing is spooled any more.
async fn filed(umbra: &Umbra) {
    until("the spool to be filed", async || {
        let answered = umbra.send(reqwest::Method::GET, "/v1/status", &[], None).await;
        (answered.status == 200 && answered.body["spool"]["events"] == 0).then_some(())
    })
    .await;
}

/// Answers to clients that post one event after the other.
#[derive(Debug, Default)]
struct Told {
    /// Acknowledged outputs, by the client's name.
    acknowledged: Vec<(String, Vec<String>)>,
    spooled: usize,
    /// Longest answer, and longest of those that were sent after the outage was known.
    slowest: (Duration, Duration),
    /// Answers that were neither 202 nor 503.
    odd: Vec<String>,
}

/// Number of clients of the load.
const CLIENTS: usize = 12;

/// Posts load for so long, by clients of this name; the outage is known once `known` has passed.
async fn load(umbra: &Umbra, name: &str, lasts: Duration, known: Duration) -> Told {
    let began = Instant::now();
    let client = async |n: usize| {
        let (name, mut told, mut acknowledged) = (format!("{name}-{n}"), Told::default(), Vec::new());
        for n in 0.. {
            let sent = began.elapsed();
            if sent > lasts {
                break;
            }
            // One in twenty is reviewed: the outage meets some of these reviews.
            let step = if n % 20 == 0 {
                event(&name, n)
            } else {
                json!({"agent": name, "output": format!("step {n} failed")})
            };
            let (answered, took) = timed(umbra, &step).await;
            told.slowest.0 = told.slowest.0.max(took);
            if sent > known {
                told.slowest.1 = told.slowest.1.max(took);
            }
            match answered.status.as_u16() {
                202 => acknowledged.push(format!("step {n} failed")),
                503 => assert!(answered.headers.contains_key("retry-after"), "{}", answered.text),
                _ => told.odd.push(answered.text.clone()),
            }
            told.spooled += usize::from(answered.body["spooled"] == true);
        }
        told.acknowledged.push((name, acknowledged));
        told
    };
    let mut all = Told::default();
    for told in join_all((0..CLIENTS).map(client)).await {
        all.acknowledged.extend(told.acknowledged);
        all.spooled += told.spooled;
        all.slowest = (all.slowest.0.max(told.slowest.0), all.slowest.1.max(told.slowest.1));
        all.odd.extend(told.odd);
    }
    all
}

/// Asserts that no client waited too long, and that everything was taken and is stored once and in order.
async fn holds(umbra: &Umbra, told: &Told) {
    assert!(told.odd.is_empty(), "{:?}", told.odd);
    assert!(told.slowest.0 < FIRST && told.slowest.1 < KNOWN, "somebody waited: {:?}", told.slowest);
    assert!(told.spooled > 0, "the database was never away");
    filed(umbra).await;
    for (agent, acknowledged) in &told.acknowledged {
        assert_eq!(
            outputs(umbra, agent).await,
            *acknowledged,
            "{agent}: lost, stored twice, or not in order of receipt"
        );
    }
}

/// Asserts that the server is as alive as before: fifty reviews are done within half a minute.
async fn is_alive(umbra: &Umbra) {
    let began = Instant::now();
    let events: Vec<Value> = (0..50).map(|n| event("alive", n)).collect();
    let posted = umbra.post("/v1/events/batch", &json!({"events": events})).await;
    assert_eq!(posted.body["accepted"], 50, "{}", posted.text);
    until("fifty reviews", async || {
        (umbra.items("/v1/reviews?agent=alive&state=done&limit=100").await.len() == 50).then_some(())
    })
    .await;
    assert!(began.elapsed() < Duration::from_secs(30), "fifty reviews took {:?}", began.elapsed());
}

/// Returns the outputs of an agent's events, in order of receipt.
async fn outputs(umbra: &Umbra, agent: &str) -> Vec<String> {
    let (mut stored, mut path) = (Vec::new(), format!("/v1/events?agent={agent}&limit=500"));
    loop {
        let page = umbra.get(&path).await;
        stored.extend(page["items"].as_array().into_iter().flatten().cloned());
        let Some(next) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/events?agent={agent}&limit=500&cursor={next}");
    }
    stored.iter().map(|event| event["output"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Returns all text in the spools below a data directory.
pub fn spooled_text(data: &std::path::Path) -> String {
    let folders = std::fs::read_dir(data.join("spool")).into_iter().flatten().flatten();
    let segments = folders.flat_map(|folder| umbra::spool::segments_in(&folder.path()).expect("a folder"));
    segments.map(|segment| std::fs::read_to_string(segment).expect("text")).collect()
}

/// Returns the process id of the private Postgres in this data directory.
fn postmaster(data: &std::path::Path) -> u32 {
    let pid = std::fs::read_dir(data).expect("files").flatten().find_map(|entry| {
        let text = std::fs::read_to_string(entry.path().join("postmaster.pid")).ok()?;
        text.lines().next()?.parse().ok()
    });
    pid.expect("a postmaster")
}

/// Starts a database, and makes a directory for a server's files.
pub async fn external() -> (External, TempDir) {
    (External::start().await, TempDir::new().expect("a directory"))
}
