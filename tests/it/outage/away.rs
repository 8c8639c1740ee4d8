//! Requests while the database is stopped, frozen, or behind a cut network.

use std::{
    net::TcpListener,
    process::Command,
    time::{Duration, Instant},
};

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    FIRST, KNOWN, SHADOWS, event, external, filed, holds, is_alive, load, postmaster, serving, spooling, timed,
};
use crate::support::{
    Umbra,
    boundary::write,
    outage::{Frozen, Relay, on},
    sabotage, until,
};

/// Checks that every request of an agent or a person is answered in time; unavailable data is 503 with `Retry-After`.
async fn answers(umbra: &Umbra, within: Duration) {
    let asked = async |method: Method, path: &str, body: Option<Value>| {
        let began = Instant::now();
        let json = [("content-type", "application/json")];
        let answered = umbra.send(method, path, &json, body.map(|body| body.to_string().into_bytes())).await;
        assert!(began.elapsed() < within, "{path} took {:?}", began.elapsed());
        answered
    };
    for path in ["/v1/events", "/v1/findings", "/v1/status", "/v1/trajectories", "/v1/breakers/a", "/v1/execution"] {
        let answered = asked(Method::GET, path, None).await;
        assert_eq!((answered.status.as_u16(), &answered.body["code"]), (503, &json!("database_unavailable")), "{path}");
        assert!(answered.headers.contains_key("retry-after"), "{path}");
    }
    let decided = asked(Method::POST, "/v1/decide", Some(write("c1", "a"))).await;
    assert_eq!((decided.status.as_u16(), &decided.body["decision"]), (200, &json!("block")), "{}", decided.text);
    let attached = asked(Method::POST, "/v1/sessions", Some(json!({"agent": "a"}))).await;
    assert_eq!((attached.status.as_u16(), &attached.body["degraded"]), (200, &json!(true)), "{}", attached.text);
    let review = json!({"target": "a", "trigger": "error", "output": "x"});
    assert_eq!(asked(Method::POST, "/v1/reviews", Some(review)).await.status, 503);
    let reset = asked(Method::POST, "/v1/breakers/a/reset", Some(json!({}))).await;
    assert_eq!(reset.status, 503, "{}", reset.text);
    assert_eq!(asked(Method::GET, "/livez", None).await.status, 200);
    let ready = asked(Method::GET, "/readyz", None).await;
    assert_eq!((ready.status.as_u16(), &ready.body["status"]), (200, &json!("degraded")), "{}", ready.text);
    assert!(ready.body["detail"].as_str().is_some_and(|text| text.contains("spool")), "{}", ready.text);
}

#[tokio::test]
async fn events_are_spooled_at_once_and_filed_after_the_outage() {
    let (mut database, data) = external().await;
    let umbra = spooling(&database.url(), &data).go().await;
    umbra.event(&event("a", 0)).await;
    database.stop().await;
    let (first, took) = timed(&umbra, &event("a", 1)).await;
    assert!(first.status == 202 && took < FIRST, "{took:?}: {}", first.text);
    assert_eq!((&first.body["spooled"], &first.body["durability"]), (&json!(true), &json!("local")), "{}", first.text);
    assert_eq!((&first.body["dispositions"], &first.body["triggers"][0]["name"]), (&json!([]), &json!("error")));
    for n in 2..20 {
        let (next, took) = timed(&umbra, &event("a", n)).await;
        assert!(next.status == 202 && took < KNOWN, "{took:?}: {}", next.text);
    }
    answers(&umbra, KNOWN).await;
    until("the metrics to say so", async || {
        let metrics = umbra.send(Method::GET, "/metrics", &[], None).await.text;
        (metrics.contains("umbra_database_away 1") && metrics.contains("umbra_spool_events 19")).then_some(())
    })
    .await;
    database.resume().await;
    filed(&umbra).await;
    let events = umbra.items("/v1/events?agent=a").await;
    let outputs: Vec<&str> = events.iter().filter_map(|event| event["output"].as_str()).collect();
    assert_eq!(outputs, (0..20).map(|n| format!("step {n} failed")).collect::<Vec<_>>());
    assert_eq!(events[1]["id"], first.body["id"]);
    assert_eq!(events[1]["received_at"], first.body["received_at"]);
    assert!(events.iter().all(|event| event["dispositions"][0]["outcome"] == "queued"), "{events:?}");
    umbra.drain().await;
    assert_eq!(umbra.items("/v1/reviews?state=done").await.len(), 20);
    // New events are stored at once.
    let after = umbra.event(&event("a", 20)).await;
    assert_eq!((&after["durability"], after.get("spooled")), (&json!("committed"), None), "{after}");
    assert_eq!(umbra.get("/readyz").await["status"], "ok");
}

#[tokio::test]
async fn no_request_waits_for_a_stopped_or_frozen_external_database() {
    let (mut database, data) = external().await;
    let umbra = serving(&database.url(), &data).go().await;
    umbra.event(&event("warm", 0)).await;
    let outage = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let frozen = Frozen::freeze(database.pid());
        tokio::time::sleep(Duration::from_secs(6)).await;
        drop(frozen);
    };
    let (told, ()) = tokio::join!(load(&umbra, "frozen", Duration::from_secs(8), Duration::from_secs(3)), outage);
    holds(&umbra, &told).await;
    let frozen = Frozen::freeze(database.pid());
    answers(&umbra, FIRST).await;
    answers(&umbra, KNOWN).await;
    drop(frozen);
    let stopping = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        database.stop().await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        database.resume().await;
    };
    filed(&umbra).await;
    let (told, ()) = tokio::join!(load(&umbra, "stopped", Duration::from_secs(6), Duration::from_secs(3)), stopping);
    holds(&umbra, &told).await;
    is_alive(&umbra).await;
}

#[tokio::test]
async fn no_request_waits_for_a_stopped_or_frozen_private_database() {
    let data = TempDir::new().expect("a directory");
    let start = Umbra::with()
        .shadows(SHADOWS)
        .env("UMBRA__STORAGE__DATA_DIR", data.path().display().to_string())
        .env("UMBRA__DATABASE__SCHEMA", "umbra")
        .env("UMBRA__DATABASE__DEADLINE", if sabotage() { "60s" } else { "2s" });
    let umbra = start.go().await;
    umbra.event(&event("warm", 0)).await;
    let postmaster = || postmaster(data.path());
    let outage = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let frozen = Frozen::freeze(postmaster());
        tokio::time::sleep(Duration::from_secs(5)).await;
        drop(frozen);
        tokio::time::sleep(Duration::from_secs(2)).await;
        let stop = nix::unistd::Pid::from_raw(i32::try_from(postmaster()).expect("a pid"));
        nix::sys::signal::kill(stop, nix::sys::signal::Signal::SIGINT).expect("it is told to stop");
    };
    let (told, ()) = tokio::join!(load(&umbra, "private", Duration::from_secs(11), Duration::from_secs(11)), outage);
    holds(&umbra, &told).await;
    is_alive(&umbra).await;
}

#[tokio::test]
async fn cut_connection_is_handled_like_a_stopped_database() {
    let (database, data) = external().await;
    let relay = Relay::to(&database.socket());
    let umbra = serving(&relay.url(), &data).go().await;
    umbra.event(&event("a", 0)).await;
    relay.cut(true);
    let (first, took) = timed(&umbra, &event("a", 1)).await;
    assert!(first.status == 202 && first.body["spooled"] == true && took < FIRST, "{took:?}: {}", first.text);
    answers(&umbra, KNOWN).await;
    relay.cut(false);
    filed(&umbra).await;
    assert_eq!(super::outputs(&umbra, "a").await, ["step 0 failed", "step 1 failed"]);
}

/// Network namespace with a cable to this one; both are removed when this is dropped.
struct Namespace {
    name: String,
    cable: String,
    net: u32,
}

impl Namespace {
    /// Makes a namespace, where this process may.
    fn make() -> Option<Self> {
        let (id, net) = (std::process::id(), std::process::id() % 250);
        let namespace = Self { name: format!("umbra-{id}"), cable: format!("um{}", id % 100_000), net };
        let Self { name, cable, .. } = &namespace;
        let made = ip(&format!("netns add {name}"))
            && ip(&format!("link add {cable} type veth peer name {cable}p netns {name}"))
            && ip(&format!("addr add 10.231.{net}.1/30 dev {cable}"))
            && ip(&format!("link set {cable} up"))
            && ip(&format!("-n {name} addr add 10.231.{net}.2/30 dev {cable}p"))
            && ip(&format!("-n {name} link set {cable}p up"));
        made.then_some(namespace)
    }

    /// Returns a listener inside of the namespace.
    fn listener(&self) -> TcpListener {
        let (path, address) = (format!("/run/netns/{}", self.name), format!("10.231.{}.2:5432", self.net));
        // A thread of its own: it is the thread that changes its namespace.
        let listening = std::thread::spawn(move || {
            let namespace = std::fs::File::open(path).expect("a namespace");
            nix::sched::setns(namespace, nix::sched::CloneFlags::CLONE_NEWNET).expect("we may");
            TcpListener::bind(address).expect("an address")
        });
        listening.join().expect("it listens")
    }

    /// Pulls the cable at the other end, or plugs it in.
    fn cut(&self, cut: bool) {
        assert!(ip(&format!("-n {} link set {}p {}", self.name, self.cable, if cut { "down" } else { "up" })));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&format!("link del {}", self.cable));
        ip(&format!("netns del {}", self.name));
    }
}

fn ip(args: &str) -> bool {
    Command::new("ip").args(args.split(' ')).output().is_ok_and(|done| done.status.success())
}

#[tokio::test]
async fn lost_network_link_is_handled_like_a_stopped_database() {
    let Some(namespace) = Namespace::make() else {
        eprintln!("no network namespace can be made here: the relay's story stands for this one");
        return;
    };
    let (database, data) = external().await;
    let relay = Relay::of(namespace.listener(), &database.socket());
    let umbra = serving(&relay.url(), &data).go().await;
    umbra.event(&event("a", 0)).await;
    namespace.cut(true);
    let (first, took) = timed(&umbra, &event("a", 1)).await;
    assert!(first.status == 202 && first.body["spooled"] == true && took < FIRST, "{took:?}: {}", first.text);
    answers(&umbra, KNOWN).await;
    namespace.cut(false);
    filed(&umbra).await;
    assert_eq!(super::outputs(&umbra, "a").await, ["step 0 failed", "step 1 failed"]);
}

#[tokio::test]
async fn events_without_a_spool_are_refused_at_once_in_an_outage() {
    let (mut database, data) = external().await;
    let umbra = on(&database.url(), data.path()).env("UMBRA__INGEST__SPOOL__ENABLED", "false").go().await;
    let events = json!({"events": [event("a", 1), event("a", 2), {"agent": "a"}]});
    let mixed = umbra.post("/v1/events/batch", &events).await;
    assert_eq!((mixed.status.as_u16(), &mixed.body["accepted"]), (200, &json!(2)), "{}", mixed.text);
    if !sabotage() {
        database.stop().await;
    }
    let (first, took) = timed(&umbra, &event("a", 3)).await;
    assert!(first.status == 503 && took < FIRST, "{took:?}: {}", first.text);
    let (next, took) = timed(&umbra, &event("a", 4)).await;
    assert!(next.status == 503 && took < KNOWN && next.headers.contains_key("retry-after"), "{took:?}: {}", next.text);
    // A client that reads only the status must not take it for stored.
    let batch = umbra.post("/v1/events/batch", &events).await;
    assert_eq!((batch.status.as_u16(), &batch.body["code"]), (503, &json!("database_unavailable")), "{}", batch.text);
    let ready = umbra.send(Method::GET, "/readyz", &[], None).await;
    assert_eq!((ready.status.as_u16(), &ready.body["status"]), (503, &json!("failing")), "{}", ready.text);
    database.resume().await;
    until("events to be stored again", async || {
        (umbra.post("/v1/events", &event("a", 5)).await.status == 202).then_some(())
    })
    .await;
    assert_eq!(super::outputs(&umbra, "a").await, ["step 1 failed", "step 2 failed", "step 5 failed"]);
}
