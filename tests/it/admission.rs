//! Admission over real connections: slow senders, and a server that is full.
//!
//! `UMBRA_SABOTAGE=1` lifts the bound on the bodies of one key, and the tests about it must fail.

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

use crate::support::{Umbra, sabotage, until};

/// Makes a key for the ingest of these agents, and waits until it works.
async fn ingest_key(umbra: &Umbra, agents: &str) -> String {
    let made = umbra.cli(&["keys", "create", "--name", "k", "--scope", "ingest", "--agent", agents, "--json"], None);
    let made: Value = serde_json::from_slice(&made.stdout).expect("JSON");
    let key = made["key"].as_str().unwrap_or_default().to_owned();
    until("the key to work", async || (post(umbra, &key, agents).await == 202).then_some(())).await;
    key
}

/// Posts one event of this agent with this key, and returns the status.
async fn post(umbra: &Umbra, key: &str, agent: &str) -> u16 {
    let bearer = format!("Bearer {key}");
    // A new connection each time: an earlier one must not let honest senders in.
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json"), ("connection", "close")];
    let event = json!({"agent": agent, "output": "x"}).to_string().into_bytes();
    umbra.send(Method::POST, "/v1/events", &headers, Some(event)).await.status.as_u16()
}

/// Begins a request to this path with this key: sends the first byte of a body of 100,000.
async fn drip(umbra: &Umbra, key: &str, path: &str) -> TcpStream {
    let mut socket = TcpStream::connect(umbra.base.trim_start_matches("http://")).await.expect("a connection");
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: 100000\r\n\r\n{{"
    );
    socket.write_all(head.as_bytes()).await.expect("it reads");
    socket
}

/// Reads the status line of the answer on a connection.
async fn status_line(socket: &mut TcpStream) -> String {
    let mut answer = [0_u8; 32];
    let read = socket.read(&mut answer).await.unwrap_or_default();
    String::from_utf8_lossy(answer.get(..read).unwrap_or_default()).lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn slow_bodies_of_one_key_do_not_block_other_keys() {
    // Fewer places than slow bodies in each class; as many connections as slow bodies and a few more.
    let bodies = if sabotage() { 1_000 } else { 8 };
    let settings = format!(
        "server: {{ingest_concurrency: 2, decide_concurrency: 2, max_connections: 24, max_bodies_per_caller: {bodies}, \
         body_timeout: 60s}}"
    );
    let umbra = Umbra::with().settings(&settings).go().await;
    let dripping = ingest_key(&umbra, "w").await;
    let honest = ingest_key(&umbra, "h").await;
    let mut answers = JoinSet::new();
    for path in ["/v1/events", "/v1/sessions"].into_iter().cycle().take(38) {
        let mut socket = drip(&umbra, &dripping, path).await;
        answers.spawn(async move { status_line(&mut socket).await });
        if answers.len() > 8 && !sabotage() {
            // One of the slow bodies is one too many.
            let answer = answers.join_next().await.expect("an answer").expect("it is read");
            assert_eq!(answer, "HTTP/1.1 429 Too Many Requests");
        }
    }
    for _ in 0..5 {
        assert_eq!(post(&umbra, &honest, "h").await, 202);
    }
    // A body that ends gives its share back.
    drop(answers);
    until("the sender to be admitted again", async || (post(&umbra, &dripping, "w").await == 202).then_some(())).await;
}

/// Returns the 99th percentile over 500 requests of two kinds, each with its expected status: sent in turns, on open
/// connections, so that other load of the machine meets both.
async fn p99(kinds: [(bool, u16); 2], mut ask: impl AsyncFnMut(bool) -> u16) -> [Duration; 2] {
    let mut took = [(); 2].map(|()| Vec::with_capacity(500));
    for _ in 0..500 {
        for ((kind, status), took) in kinds.iter().zip(&mut took) {
            let asked = Instant::now();
            assert_eq!(ask(*kind).await, *status);
            took.push(asked.elapsed());
        }
    }
    took.map(|mut took| {
        took.sort_unstable();
        took[took.len() * 99 / 100]
    })
}

#[tokio::test]
async fn refusal_beside_a_thousand_open_bodies_stays_fast() {
    const HELD: usize = 1_000;
    let bodies = if sabotage() { 2 * HELD } else { HELD };
    let settings = format!(
        "server: {{max_bodies_per_caller: {bodies}, max_in_flight_bytes: 256MiB, body_timeout: 10m, min_body_rate: 1KiB}}"
    );
    let umbra = Umbra::with().settings(&settings).go().await;
    let key = ingest_key(&umbra, "a").await;
    let mut held = Vec::with_capacity(HELD);
    for _ in 0..HELD {
        held.push(drip(&umbra, &key, "/v1/events").await);
    }
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let event = json!({"agent": "a", "output": "x"}).to_string().into_bytes();
    let post = async || umbra.send(Method::POST, "/v1/events", &headers, Some(event.clone())).await.status.as_u16();
    until("all to be held", async || (post().await == 429 || sabotage()).then_some(())).await;
    let ask = async |is_live: bool| {
        if is_live { umbra.send(Method::GET, "/livez", &[], None).await.status.as_u16() } else { post().await }
    };
    // A shared machine has a bad moment now and then: one of three rounds must be without.
    let mut rounds = Vec::new();
    let is_cheap = loop {
        let [live, refused] = p99([(true, 200), (false, 429)], ask).await;
        println!("beside {HELD} open bodies, p99 of 500: refusal {refused:?}, /livez {live:?}");
        rounds.push((refused, live));
        if refused <= Duration::from_millis(5).max(3 * live) || rounds.len() == 3 {
            break refused <= Duration::from_millis(5).max(3 * live);
        }
    };
    assert!(is_cheap, "refusals, and /livez: {rounds:?}");
    for mut socket in held {
        let mut byte = [0_u8; 1];
        let nothing = tokio::time::timeout(Duration::ZERO, socket.read(&mut byte)).await;
        assert!(nothing.is_err(), "a held body was ended");
    }
}
