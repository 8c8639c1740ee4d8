//! Kills under load: every acknowledged event is stored, once.
//!
//! `UMBRA_SABOTAGE=1` lets Postgres acknowledge before its log is on the disk, or answer no new connection, and the
//! tests must fail; a control beside the first proves in every run that such a loss would be seen.

#![expect(clippy::expect_used, clippy::disallowed_methods, reason = "a test that cannot go on fails")]

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection, Row};
use tempfile::TempDir;
use umbra_store::postgres::{PrivateOptions, PrivatePostgres};

use crate::{
    outage::spooled_text,
    support::{boundary::read, sabotage, server::client, until},
};

const SHADOWS: &str = "
shadow_agents:
  - {name: some, model: checks, mode: review, watch: [{agent: '*', triggers: [error]}],
     cost_control: {max_reviews_per_day: 200, cooldown: 0s}}
";

/// Server that is killed and started again on one port.
struct Victim {
    child: Child,
    port: u16,
}

fn start(files: &TempDir, port: u16) -> Victim {
    let err = std::fs::OpenOptions::new().create(true).append(true).open(files.path().join("err")).expect("a file");
    let child = Command::new(env!("CARGO_BIN_EXE_umbra"))
        .args(["serve", "--bind", &format!("127.0.0.1:{port}"), "--data-dir"])
        .arg(files.path().join("data"))
        .env_clear()
        .envs(["PATH", "HOME", "UMBRA_PG_BIN"].iter().filter_map(|name| Some((*name, std::env::var_os(name)?))))
        .env("UMBRA__SHADOWS__PATH", files.path().join("shadows.yaml"))
        .env("UMBRA__DATABASE__ALLOW_UNSAFE", "true")
        .env("UMBRA__DATABASE__MAX_CONNECTIONS", "8")
        .stdout(Stdio::null())
        .stderr(err)
        .spawn()
        .expect("umbra runs");
    Victim { child, port }
}

impl Victim {
    fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Victim {
    /// A failing test leaves nothing running.
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Acknowledged events by their own id.
type Ledger = Arc<Mutex<BTreeMap<String, String>>>;

pub async fn postgres(dir: &Path) -> PrivatePostgres {
    let options = PrivateOptions {
        data_dir: dir.to_owned(),
        pg_bin: std::env::var_os("UMBRA_PG_BIN").map(Into::into),
        search_path: std::env::var_os("PATH"),
        allow_download: true,
        ..PrivateOptions::default()
    };
    PrivatePostgres::open(&options, &|_| {}).await.expect("Postgres starts")
}

/// Runs one client: posts event after event, each under one id until it is acknowledged.
async fn client_loop(
    name: usize,
    port: u16,
    strict: bool,
    ledger: Ledger,
    stop: Arc<AtomicBool>,
    acked: Arc<AtomicUsize>,
) {
    let client = client();
    for n in 0.. {
        let id = format!("c{name}-{n}");
        let event =
            json!({"id": id, "agent": format!("agent-{name}"), "triggers": ["error"], "output": format!("{n}")});
        loop {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let sent = client.post(format!("http://127.0.0.1:{port}/v1/events")).json(&event).send().await;
            let Ok(response) = sent else {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            let status = response.status();
            let Ok(body) = response.json::<Value>().await else { continue };
            if status == 202 {
                let event = body["id"].as_str().unwrap_or_default().to_owned();
                ledger.lock().expect("a lock").insert(id, event);
                // Kills are timed by acknowledgements of the database: a spool goes on without it.
                if body["spooled"] != true {
                    acked.fetch_add(1, Ordering::Relaxed);
                }
                break;
            }
            assert!(!strict || status == 503, "an answer that is neither 202 nor 503: {status} {body}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Runs load under kills; returns how many acknowledged events are missing, and how many are stored twice.
async fn run(server_kills: usize, postgres_kills: usize, asynchronous: bool) -> (usize, usize, usize) {
    let files = TempDir::new().expect("a directory");
    std::fs::write(files.path().join("shadows.yaml"), SHADOWS).expect("a file");
    let postgres = postgres(&files.path().join("data")).await;
    let connect = async || {
        let options = postgres.connect_options().options([("search_path", "umbra")]);
        PgConnection::connect_with(&options).await
    };
    if asynchronous {
        let mut superuser = PgConnection::connect_with(&postgres.superuser_options()).await.expect("it answers");
        for setting in ["synchronous_commit = off", "wal_writer_delay = '10s'"] {
            let sql = format!("ALTER SYSTEM SET {setting}");
            sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut superuser).await.expect("a setting");
        }
        sqlx::query("SELECT pg_reload_conf()").execute(&mut superuser).await.expect("a reload");
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
    let mut victim = start(&files, port);
    let (ledger, stop, acked) = (Ledger::default(), Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..8)
        .map(|name| {
            let (ledger, stop, acked) = (Arc::clone(&ledger), Arc::clone(&stop), Arc::clone(&acked));
            tokio::spawn(client_loop(name, port, !asynchronous, ledger, stop, acked))
        })
        .collect();
    // Each kill comes in the middle of traffic: after some more acknowledgements than at the last.
    let progress = async |more: usize| {
        let target = acked.load(Ordering::Relaxed) + more;
        until("acknowledgements to go on", async || (acked.load(Ordering::Relaxed) >= target).then_some(())).await;
    };
    let every = server_kills.checked_div(postgres_kills).unwrap_or(usize::MAX).max(1);
    for round in 0..server_kills.max(postgres_kills) {
        progress(40 + round * 7 % 50).await;
        if round % every == 0 && round / every < postgres_kills {
            // Clients go on without it: the last killed one may not be back.
            until("a Postgres to kill", async || {
                let pid = i32::try_from(postgres.status().pid?).ok()?;
                kill(Pid::from_raw(pid), Signal::SIGKILL).ok()
            })
            .await;
            progress(20).await;
        }
        if round < server_kills {
            victim.kill();
            victim = start(&files, victim.port);
        }
    }
    progress(50).await;
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("a client saw nothing but 202 and 503");
    }
    // Liveness: after the last kill, spooled events are filed, and queued reviews are made.
    until("the spool to be filed", async || spooled_text(&files.path().join("data")).is_empty().then_some(())).await;
    let mut connection = connect().await.expect("it answers");
    until("the queue to be empty", async || {
        let left: i64 = sqlx::query_scalar("SELECT count(*) FROM review WHERE state IN ('queued', 'running')")
            .fetch_one(&mut connection)
            .await
            .ok()?;
        // A database that has lost rows promises nothing more.
        (left == 0 || asynchronous).then_some(())
    })
    .await;
    let stored = sqlx::query("SELECT agent, convert_from(payload, 'UTF8') AS payload FROM event")
        .fetch_all(&mut connection)
        .await
        .expect("rows");
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for row in stored {
        let payload: Value = serde_json::from_str(&row.get::<String, _>("payload")).expect("JSON");
        let name = row.get::<String, _>("agent").replace("agent-", "c");
        *times.entry(format!("{name}-{}", payload["event"]["output"].as_str().unwrap_or_default())).or_default() += 1;
    }
    let ledger = ledger.lock().expect("a lock").clone();
    let missing = ledger.keys().filter(|id| !times.contains_key(*id)).count();
    let doubled = times.values().filter(|n| **n > 1).count();
    victim.kill();
    if !asynchronous {
        doctor(&files);
    }
    drop(connection);
    postgres.stop().await.expect("it stops");
    (ledger.len(), missing, doubled)
}

/// Checks the invariants, once the last killed worker would have been taken over.
fn doctor(files: &TempDir) {
    let done = Command::new(env!("CARGO_BIN_EXE_umbra"))
        .args(["doctor", "--json", "--data-dir"])
        .arg(files.path().join("data"))
        .env("UMBRA__SHADOWS__PATH", files.path().join("shadows.yaml"))
        .output()
        .expect("umbra runs");
    assert!(
        done.status.success(),
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_kills_of_the_server_lose_and_duplicate_no_event() {
    let (acked, missing, doubled) = run(20, 5, sabotage()).await;
    println!("{acked} acknowledged, {missing} missing, {doubled} stored twice");
    assert_eq!((missing, doubled), (0, 0), "of {acked} acknowledged events");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_with_early_acknowledgement_loses_events() {
    let (acked, missing, _) = run(0, 5, true).await;
    println!("control: {acked} acknowledged, {missing} missing");
    assert!(missing > 0, "none of {acked} lost: the story beside this one proves nothing");
}

/// The writers keep their connections from one use to the next: one that the database has ended meanwhile is replaced
/// without an effect on clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terminated_writer_connections_are_replaced_without_errors() {
    let files = TempDir::new().expect("a directory");
    std::fs::write(files.path().join("shadows.yaml"), SHADOWS).expect("a file");
    let postgres = postgres(&files.path().join("data")).await;
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
    let mut victim = start(&files, port);
    let ask = async |path: &str, body: Value| {
        let sent = client().post(format!("http://127.0.0.1:{port}{path}")).json(&body).send().await.ok()?;
        let status = sent.status().as_u16();
        Some((status, sent.json::<Value>().await.ok()?))
    };
    until("the server to answer", async || {
        let (event, _) = ask("/v1/events", json!({"agent": "agent-0", "output": "first"})).await?;
        let (_, decision) = ask("/v1/decide", read("first", "agent-0")).await?;
        (event == 202 && decision["audit_seq"].is_i64()).then_some(())
    })
    .await;
    let mut superuser = PgConnection::connect_with(&postgres.superuser_options()).await.expect("it answers");
    if sabotage() {
        sqlx::query("ALTER ROLE umbra NOLOGIN").execute(&mut superuser).await.expect("the sabotage");
    }
    for round in 0..5 {
        let ended: i64 = sqlx::query_scalar(
            "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 5000)) FROM pg_stat_activity
             WHERE usename = 'umbra' AND backend_type = 'client backend'",
        )
        .fetch_one(&mut superuser)
        .await
        .expect("backends");
        assert!(ended >= 2, "{ended} connections were ended: those of the writers are not among them");
        let event = json!({"agent": "agent-0", "output": format!("{round}")});
        let (status, body) = ask("/v1/events", event).await.expect("an answer");
        assert!(status == 202 && body["durability"] == "committed", "round {round}: {status} {body}");
        let (status, body) = ask("/v1/decide", read(&format!("c{round}"), "agent-0")).await.expect("an answer");
        assert!(status == 200 && body["audit_seq"].is_i64(), "round {round}: {status} {body}");
    }
    victim.kill();
    postgres.stop().await.expect("it stops");
}
