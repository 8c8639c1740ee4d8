//! In doubt, no call changes anything.
//!
//! The test below kills, hangs, starves and turns clocks in shadow, and counts what a client would have run.
//! `UMBRA_SABOTAGE=1` makes the client fail open: it runs calls without a decision, and the test must fail.

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use futures_util::future::join_all;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use sqlx::Connection;
use tempfile::TempDir;

use crate::{
    acceptance::chaos::postgres,
    support::{
        Umbra,
        boundary::{read, with, write},
        sabotage,
        server::client,
        until,
    },
};

/// Counts of a client's calls.
#[derive(Debug, Default)]
struct Ran {
    calls: usize,
    reads: usize,
    changes: usize,
    stubs: usize,
    unanswered: usize,
    reasons: std::collections::BTreeMap<String, usize>,
}

/// Returns a call whose stub reports a sent mail.
fn sent(call_id: &str) -> Value {
    with(write(call_id, "writer"), &json!({"stub_override": {"id": "m1"}}))
}

/// Makes so many calls, every other one a change, and runs those that it may.
async fn calls(umbra: &Umbra, ran: &mut Ran, name: &str, count: usize) {
    let client = client();
    for start in (0..count).step_by(25) {
        let one = async |n: usize| {
            let changes = n % 2 == 1;
            let id = format!("{name}-{n}");
            let call = if changes { sent(&id) } else { read(&id, "writer") };
            let sent = client
                .post(format!("{}/v1/decide", umbra.base))
                .timeout(Duration::from_millis(1_500))
                .json(&call)
                .send()
                .await
                .ok();
            let answer = match sent {
                Some(response) if response.status() == 200 => response.json::<Value>().await.ok(),
                _ => None,
            };
            (changes, answer)
        };
        for (changes, answer) in join_all((start..count.min(start + 25)).map(one)).await {
            ran.calls += 1;
            let doubt = answer.as_ref().is_none_or(|answer| {
                matches!(answer["reason"].as_str(), Some("deadline" | "unavailable" | "overloaded"))
            });
            let runs = match &answer {
                Some(answer) => answer["decision"] == "execute",
                // A client without an answer may read, but change nothing.
                None => !changes,
            };
            ran.unanswered += usize::from(answer.is_none());
            if runs || (doubt && sabotage()) {
                *(if changes { &mut ran.changes } else { &mut ran.reads }) += 1;
            } else if let Some(answer) = answer {
                if answer["decision"] == "stub" {
                    ran.stubs += 1;
                    continue;
                }
                let reason = answer["reason"].as_str().unwrap_or_default();
                assert!(!reason.is_empty() && answer["detail"].is_string(), "a refusal without a reason: {answer}");
                *ran.reasons.entry(reason.to_owned()).or_default() += 1;
            }
        }
    }
}

/// Turns the database's clock forwards, past the end of an override that makes calls run, and backwards before it was
/// set.
async fn clock_jumps(umbra: &Umbra, owner: &mut sqlx::PgConnection, ran: &mut Ran) {
    let mut jump = async |at: &str| {
        let sql = crate::support::database::clock_at(at);
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut *owner).await.expect("a clock");
    };
    jump("2026-03-01T12:00:00Z").await;
    let mut live = json!({"scope": "agent", "value": "writer", "execution": "live", "reason": "a fix",
        "expires_at": "2999-01-01T00:00:00Z"});
    assert_eq!(umbra.put("/v1/execution", &live).await.status, 200);
    let mut tries = 0;
    until("the control: it makes a call run", async || {
        tries += 1;
        (umbra.decide(&sent(&format!("control-{tries}"))).await["decision"] == "execute").then_some(())
    })
    .await;
    jump("2999-01-02T00:00:00Z").await;
    calls(umbra, ran, "later", 100).await;
    jump("2026-02-28T12:00:00Z").await;
    calls(umbra, ran, "earlier", 100).await;
    live["execution"] = Value::Null;
    // An end in what was the past a moment ago is refused until the server has seen the clock.
    until("the override to be taken back", async || {
        (umbra.put("/v1/execution", &live).await.status == 200).then_some(())
    })
    .await;
    sqlx::raw_sql(
        "CREATE OR REPLACE FUNCTION clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT clock_timestamp()'",
    )
    .execute(owner)
    .await
    .expect("the clock is right again");
}

#[tokio::test]
async fn no_failure_lets_a_call_in_shadow_change_anything() {
    let files = TempDir::new().expect("a directory");
    let server = postgres(files.path()).await;
    let mut umbra = Umbra::with()
        .settings("boundary: {execution: shadow, deadline: 300ms}")
        .env("UMBRA__STORAGE__DATA_DIR", files.path().display().to_string())
        .env("UMBRA__DATABASE__SCHEMA", "umbra")
        .go()
        .await;
    umbra.unchecked();
    let mut ran = Ran::default();
    calls(&umbra, &mut ran, "healthy", 100).await;
    assert!(ran.reads == 50 && ran.stubs > 0 && ran.changes == 0, "{ran:?}");
    let options = server.connect_options().options([("search_path", "umbra")]);
    let mut owner = sqlx::PgConnection::connect_with(&options).await.expect("it answers");
    clock_jumps(&umbra, &mut owner, &mut ran).await;
    // The database takes no rows.
    let mut blocker = sqlx::PgConnection::connect_with(&options).await.expect("it answers");
    sqlx::raw_sql("BEGIN; LOCK TABLE audit").execute(&mut blocker).await.expect("a lock");
    calls(&umbra, &mut ran, "locked", 150).await;
    drop(blocker);
    // The database's disk is full.
    sqlx::raw_sql(
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN RAISE EXCEPTION ''could not extend file: No space left on device'' USING ERRCODE = ''53100''; END';
         CREATE TRIGGER full_disk BEFORE INSERT ON audit FOR EACH STATEMENT EXECUTE FUNCTION full_disk()",
    )
    .execute(&mut owner)
    .await
    .expect("a trigger");
    calls(&umbra, &mut ran, "full", 150).await;
    sqlx::raw_sql("DROP TRIGGER full_disk ON audit").execute(&mut owner).await.expect("the trigger goes");
    drop(owner);
    // Nothing can be written to the audit's folder.
    let (folder, aside) = (umbra.file("audit"), umbra.file("aside"));
    std::fs::rename(&folder, &aside).expect("it is moved");
    std::fs::write(&folder, "no folder").expect("a file");
    calls(&umbra, &mut ran, "folder", 50).await;
    std::fs::remove_file(&folder).expect("it goes");
    std::fs::rename(&aside, &folder).expect("it is back");
    // The database is killed.
    let pid = server.status().pid.expect("a postmaster");
    kill(Pid::from_raw(i32::try_from(pid).expect("a pid")), Signal::SIGKILL).expect("it is killed");
    calls(&umbra, &mut ran, "gone", 150).await;
    until("the database to be back", async || {
        let answer = umbra.try_post("/v1/decide", &sent("back")).await?.1;
        (answer["decision"] == "stub").then_some(())
    })
    .await;
    // The server hangs, and is killed.
    let process = Pid::from_raw(i32::try_from(umbra.pid()).expect("a pid"));
    kill(process, Signal::SIGSTOP).expect("it is stopped");
    calls(&umbra, &mut ran, "hung", 100).await;
    kill(process, Signal::SIGCONT).expect("it goes on");
    umbra.kill();
    calls(&umbra, &mut ran, "killed", 100).await;
    assert_eq!((ran.calls, ran.changes), (1_000, 0), "calls that changed something: {ran:?}");
    for reason in ["unavailable", "deadline"] {
        assert!(ran.reasons.get(reason).is_some_and(|count| *count > 0), "no {reason}: {ran:?}");
    }
    assert!(ran.unanswered >= 150, "the hung and the killed server answered: {ran:?}");
    println!("{ran:?}");
}

#[tokio::test]
async fn hung_database_lets_reads_run_and_blocks_writes_with_reason() {
    let umbra = Umbra::with().settings("boundary: {deadline: 300ms, queue_calls: 1, flush_calls: 1}").go().await;
    umbra.decide(&write("before", "a")).await;
    let mut blocker = umbra.schema.connect().await;
    sqlx::raw_sql("BEGIN; LOCK TABLE audit").execute(&mut blocker).await.expect("a lock");
    let started = std::time::Instant::now();
    let writes: Vec<Value> = (0..15).map(|n| write(&format!("w{n}"), "a")).collect();
    let reads: Vec<Value> = (0..5).map(|n| read(&format!("r{n}"), "a")).collect();
    // One after the other: reads beside them could take both places, in the statement and in the queue.
    let answers = join_all(writes.iter().map(|call| umbra.decide(call))).await;
    let executed = join_all(reads.iter().map(|call| umbra.decide(call))).await;
    assert!(started.elapsed() < Duration::from_secs(5), "they waited for the database");
    for answer in &executed {
        assert!(answer["decision"] == "execute" && answer["warning"].is_string(), "{answer}");
    }
    for answer in &answers {
        assert!(answer["decision"] == "block" && answer["detail"].is_string(), "{answer}");
        assert!(matches!(answer["reason"].as_str(), Some("deadline" | "overloaded" | "unavailable")), "{answer}");
    }
    let reasons: std::collections::BTreeSet<&str> =
        answers.iter().filter_map(|answer| answer["reason"].as_str()).collect();
    assert!(reasons.contains("deadline") && reasons.contains("overloaded"), "{reasons:?}");
    sqlx::raw_sql("ROLLBACK").execute(&mut blocker).await.expect("the lock goes");
    until("decisions to be had again", async || {
        let answer = umbra.decide(&write(&format!("after-{:?}", started.elapsed()), "a")).await;
        (answer["decision"] == "execute").then_some(())
    })
    .await;
}

#[tokio::test]
async fn late_decision_is_marked_undelivered_and_replayed_on_retry() {
    let umbra = Umbra::with().settings("boundary: {deadline: 400ms}").go().await;
    umbra.decide(&write("before", "a")).await;
    // Slower than the caller waits, but not so slow that it fails.
    umbra
        .schema
        .run(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.8); RETURN NULL; END';
             CREATE TRIGGER slow BEFORE INSERT ON audit FOR EACH STATEMENT EXECUTE FUNCTION slow()",
        )
        .await;
    let late = umbra.decide(&with(write("late", "a"), &json!({"run": "r1"}))).await;
    assert_eq!((&late["decision"], &late["reason"]), (&json!("block"), &json!("deadline")), "{late}");
    let marked = until("the mark", async || umbra.audit("kind=outcome").await.pop()).await;
    assert_eq!(
        (&marked["status"], &marked["call_id"], &marked["run"]),
        (&json!("undelivered"), &json!("late"), &json!("r1")),
        "{marked}"
    );
    umbra.schema.run("DROP TRIGGER slow ON audit").await;
    let retried = umbra.decide(&with(write("late", "a"), &json!({"run": "r1"}))).await;
    assert_eq!((&retried["decision"], &retried["replayed"]), (&json!("execute"), &json!(true)), "{retried}");
    assert_eq!(marked["decision_id"], retried["decision_id"]);
    // The audit has the first answer to its caller.
    let told = until("the answer to be merged", async || umbra.audit("kind=merged").await.pop()).await;
    assert_eq!(
        (&told["call_id"], &told["decision"], &told["reason"], &told["run"]),
        (&json!("late"), &json!("block"), &json!("deadline"), &json!("r1")),
        "{told}"
    );
    let stored = &umbra.audit("call_id=late").await[0];
    assert_eq!((&stored["decision"], &stored["id"]), (&json!("execute"), &told["instead_of"]), "{stored}");
}
