//! Calls while the database is away, hangs or takes nothing: which run, how long callers wait, and that the audit has
//! them later.

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::{collections::BTreeSet, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    acceptance::chaos::postgres,
    support::{
        Umbra,
        boundary::{read, with, write},
        outage::Frozen,
        until,
    },
};

const TOOLS: &str = "
tools:
  - {tool: pager.page, effect: write, on_unavailable: allow, responses: [{result: {paged: true}}]}
";

fn page(call_id: &str) -> Value {
    json!({"call_id": call_id, "agent": "oncall", "run": "r1", "tool": {"server": "pager", "name": "page"},
        "arguments": {"who": "anna"}})
}

/// Makes the audit refuse rows from now on, or no longer.
async fn refuse(umbra: &Umbra, refuses: bool) {
    let sql = if refuses {
        "CREATE OR REPLACE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN RAISE EXCEPTION ''could not extend file'' USING ERRCODE = ''53100''; END';
         CREATE TRIGGER full_disk BEFORE INSERT ON audit FOR EACH STATEMENT EXECUTE FUNCTION full_disk()"
    } else {
        "DROP TRIGGER full_disk ON audit"
    };
    umbra.schema.run(sql).await;
}

#[tokio::test]
async fn allowed_call_runs_during_an_outage_and_is_merged_later() {
    let files = TempDir::new().expect("a directory");
    let server = postgres(files.path()).await;
    let mut umbra = Umbra::with()
        .tools(TOOLS)
        .settings("boundary: {deadline: 500ms}")
        .env("UMBRA__STORAGE__DATA_DIR", files.path().display().to_string())
        .env("UMBRA__DATABASE__SCHEMA", "umbra")
        .go()
        .await;
    umbra.unchecked();
    assert_eq!(umbra.decide(&page("live")).await["decision"], "execute");
    // If it is back before the outage was noticed, it is killed again.
    let gone = |n: usize| {
        if n.is_multiple_of(20)
            && let Some(pid) = server.status().pid
        {
            let _ = kill(Pid::from_raw(i32::try_from(pid).expect("a pid")), Signal::SIGKILL);
        }
    };
    let mut alone = BTreeSet::new();
    for n in 0..400 {
        if n % 20 == 0 && !alone.is_empty() {
            break;
        }
        gone(n);
        let id = format!("away-{n}");
        let answer = umbra.decide(&page(&id)).await;
        assert_eq!(answer["decision"], "execute", "{answer}");
        if answer["warning"].is_string() {
            assert!(answer.get("audit_seq").is_none(), "{answer}");
            alone.insert(id);
        }
        // A call that its contract does not name is not run meanwhile, or was decided properly.
        let mail = umbra.decide(&write(&format!("mail-{n}"), "oncall")).await;
        assert!(mail["decision"] == "block" || mail["audit_seq"].is_i64(), "{mail}");
    }
    assert!(!alone.is_empty(), "the database was never away");
    let back = async || {
        until("the database to be back", async || {
            let answer = umbra.try_post("/v1/decide", &page("back")).await?.1;
            answer["audit_seq"].is_i64().then_some(())
        })
        .await;
    };
    back().await;
    let ran = async || {
        let mut rows = umbra.audit("kind=merged").await;
        let ran = |row: &Value| row["decision"] == "execute" && row["call_id"].as_str() != Some("back");
        rows.retain(ran);
        rows
    };
    let merged = until("the calls to be merged", async || {
        let rows = ran().await;
        (rows.len() >= alone.len()).then_some(rows)
    })
    .await;
    let ids: BTreeSet<String> =
        merged.iter().map(|row| row["call_id"].as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!((ids, merged.len()), (alone.clone(), alone.len()));
    assert!(merged.iter().all(|row| row["args"]["who"] == "anna" && row["decided_at"].is_string()), "{merged:?}");
    let verified = umbra.cli(&["audit", "verify"], None);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    // In shadow it does not run.
    let set = json!({"scope": "global", "execution": "shadow", "reason": "drill"});
    assert_eq!(umbra.put("/v1/execution", &set).await.status, 200);
    assert_eq!(umbra.decide(&page("shadow")).await["decision"], "stub");
    let mut refused = 0;
    for n in 0..400 {
        if n % 20 == 0 && refused > 0 {
            break;
        }
        gone(n);
        let answer = umbra.decide(&page(&format!("shadow-{n}"))).await;
        assert_ne!(answer["decision"], "execute", "{answer}");
        refused += usize::from(answer["decision"] == "block" && answer["reason"].is_string());
    }
    assert!(refused > 0, "the database was never away");
    back().await;
    assert_eq!(ran().await.len(), alone.len());
}

#[tokio::test]
async fn clock_jump_during_an_outage_ends_no_shadow_override() {
    // The database's clock is far behind the machine's: by the latter the override has long expired.
    let umbra = Umbra::with().tools(TOOLS).clock("2020-03-01T12:00:00Z").go().await;
    let set =
        json!({"scope": "global", "execution": "shadow", "reason": "drill", "expires_at": "2999-01-01T00:00:00Z"});
    assert_eq!(umbra.put("/v1/execution", &set).await.status, 200);
    umbra.schema.run("UPDATE execution_override SET expires_at = '2020-03-01T13:00:00Z'").await;
    assert_eq!(umbra.decide(&page("before")).await["decision"], "stub");
    refuse(&umbra, true).await;
    let answer = umbra.decide(&page("away")).await;
    assert_eq!((&answer["decision"], &answer["reason"]), (&json!("block"), &json!("unavailable")), "{answer}");
    refuse(&umbra, false).await;
}

#[tokio::test]
async fn override_set_by_the_server_holds_during_an_outage() {
    for decided_before in [true, false] {
        let umbra = Umbra::with().tools(TOOLS).go().await;
        if decided_before {
            assert_eq!(umbra.decide(&page("before")).await["decision"], "execute");
        }
        let set = async |execution: Value| {
            let body = json!({"scope": "tool", "value": "pager.*", "execution": execution, "reason": "drill"});
            assert_eq!(umbra.put("/v1/execution", &body).await.status, 200);
        };
        set(json!("shadow")).await;
        refuse(&umbra, true).await;
        let answer = umbra.decide(&page("away")).await;
        assert_eq!((&answer["decision"], &answer["execution"]), (&json!("block"), &json!("shadow")), "{answer}");
        refuse(&umbra, false).await;
        set(Value::Null).await;
        refuse(&umbra, true).await;
        let read = with(
            read("lifted", "oncall"),
            &json!({"tool": {"server": "pager", "name": "get_page",
            "annotations": {"readOnlyHint": true}}}),
        );
        let answer = umbra.decide(&read).await;
        assert_eq!((&answer["decision"], &answer["execution"]), (&json!("execute"), &json!("live")), "{answer}");
        refuse(&umbra, false).await;
    }
}

#[tokio::test]
async fn allowed_call_is_blocked_if_it_cannot_be_noted_on_disk() {
    let umbra = Umbra::with().tools(TOOLS).go().await;
    assert_eq!(umbra.decide(&page("before")).await["decision"], "execute");
    refuse(&umbra, true).await;
    let noted = umbra.decide(&page("noted")).await;
    assert!(noted["decision"] == "execute" && noted["warning"].is_string(), "{noted}");
    // The audit's folder is replaced by a file.
    let (folder, aside) = (umbra.file("audit"), umbra.file("aside"));
    std::fs::rename(&folder, &aside).expect("it is moved");
    std::fs::write(&folder, "a file").expect("a file");
    let refused = umbra.decide(&page("unnoted")).await;
    assert_eq!((&refused["decision"], &refused["reason"]), (&json!("block"), &json!("unavailable")), "{refused}");
    std::fs::remove_file(&folder).expect("it goes");
    std::fs::rename(&aside, &folder).expect("it is back");
    refuse(&umbra, false).await;
    let merged = until("the call to be merged", async || {
        let rows = umbra.audit("kind=merged").await;
        (!rows.is_empty()).then_some(rows)
    })
    .await;
    assert!(merged.len() == 1 && merged[0]["call_id"] == "noted", "{merged:?}");
}

/// Returns the files that wait to be merged, in order.
fn segments(audit: &std::path::Path) -> Vec<std::path::PathBuf> {
    umbra::spool::segments_in(&audit.join("unmerged")).expect("a folder")
}

/// Returns the answer to a caller, as the audit must have it.
fn told(answer: &Value) -> [String; 4] {
    ["call_id", "decision", "reason", "effect"].map(|key| answer[key].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn answers_of_an_outage_are_merged_once_in_order_after_a_kill() {
    let audit = TempDir::new().expect("a directory");
    let start = || Umbra::with().env("UMBRA__BOUNDARY__AUDIT__DIR", audit.path().display().to_string());
    let mut umbra = start().go().await;
    refuse(&umbra, true).await;
    let mut expected = Vec::new();
    for n in 0..12 {
        let id = format!("c{n}");
        let call = if n % 2 == 0 { write(&id, "a") } else { read(&id, "a") };
        let answer = umbra.decide(&call).await;
        assert_eq!(answer["decision"], if n % 2 == 0 { "block" } else { "execute" }, "{answer}");
        expected.push(told(&answer));
    }
    // It is killed with a line half written.
    umbra.kill();
    let file = segments(audit.path()).pop().expect("what waits");
    let mut text = std::fs::read(&file).unwrap_or_default();
    text.extend(b"0a1b2c3d {\"id\":\"0197a3c1-d2e4");
    std::fs::write(&file, text).expect("it is written");
    let two = start().on(&umbra.schema).go().await;
    expected.push(told(&two.decide(&write("c12", "a")).await));
    refuse(&two, false).await;
    let merged = until("the answers to be merged", async || {
        let rows = two.audit("kind=merged").await;
        (rows.len() >= expected.len()).then_some(rows)
    })
    .await;
    assert_eq!(merged.iter().map(told).collect::<Vec<_>>(), expected);
    let times: Vec<&str> = merged.iter().filter_map(|row| row["decided_at"].as_str()).collect();
    assert!(times.len() == expected.len() && times.is_sorted(), "{times:?}");
    // A read that ran may be reported; a refused call is decided when it is sent again.
    let outcome = json!({"agent": "a", "status": "ok", "result": {"id": "c1"}});
    let reported = two.post("/v1/calls/c1/outcome", &outcome).await;
    assert_eq!((reported.status.as_u16(), &reported.body["expected"]), (200, &json!(true)), "{}", reported.text);
    let against = two.post("/v1/calls/c0/outcome", &outcome).await;
    assert_eq!((against.status.as_u16(), &against.body["expected"]), (200, &json!(false)), "{}", against.text);
    let again = two.decide(&write("c2", "a")).await;
    assert_eq!((&again["decision"], &again["replayed"]), (&json!("execute"), &json!(false)), "{again}");
    assert_eq!(two.audit("kind=merged").await.len(), expected.len());
    let verified = two.cli(&["audit", "verify"], None);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[tokio::test]
async fn unreadable_lines_are_set_aside_reported_and_skipped() {
    let dir = TempDir::new().expect("a directory");
    let start = || Umbra::with().env("UMBRA__BOUNDARY__AUDIT__DIR", dir.path().display().to_string());
    let mut umbra = start().go().await;
    refuse(&umbra, true).await;
    for n in 0..4 {
        assert_eq!(umbra.decide(&write(&format!("c{n}"), "a")).await["decision"], "block");
    }
    umbra.kill();
    let (files, aside) = (segments(dir.path()), dir.path().join("unmerged/refused"));
    let text: String = files.iter().map(|file| std::fs::read_to_string(file).expect("the lines")).collect();
    let lines: Vec<&str> = text.lines().collect();
    // One is overwritten in its middle, one has another form; one is torn, which is no fault.
    let (overwritten, torn) = (lines[1].replacen("\"call_id\":", "\0\0\0\0", 1), &lines[2][..40]);
    let damaged = [lines[0], &overwritten, "{\"row\": {}}", lines[3], torn].join("\n");
    for file in &files {
        std::fs::remove_file(file).expect("it goes");
    }
    std::fs::write(&files[0], damaged).expect("they are written");
    refuse(&umbra, false).await;
    let two = start().on(&umbra.schema).go().await;
    let degraded = until("the lines to be told", async || {
        let ready = two.get("/readyz").await;
        (ready["status"] == "degraded").then_some(ready)
    })
    .await;
    assert!(degraded["detail"].as_str().is_some_and(|text| text.contains("unmerged/refused")), "{degraded}");
    let merged = two.audit("kind=merged").await;
    let ids: Vec<&str> = merged.iter().filter_map(|row| row["call_id"].as_str()).collect();
    assert_eq!(ids, ["c0", "c3"]);
    let kept = std::fs::read_to_string(&aside).expect("what was set aside");
    assert_eq!(kept, format!("{overwritten}\n{{\"row\": {{}}}}\n"));
    let counted = two.send(reqwest::Method::GET, "/metrics", &[], None).await.text;
    assert!(counted.contains("umbra_audit_refused_lines_total 1"), "{counted}");
    assert!(two.log().contains("unreadable lines"));
    let verified = two.cli(&["audit", "verify"], None);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    std::fs::remove_file(&aside).expect("it is moved away");
    until("it to be well", async || (two.get("/readyz").await["status"] == "ok").then_some(())).await;
}

#[tokio::test]
async fn unwritable_audit_folder_is_reported_and_blocks_in_an_outage() {
    let umbra = Umbra::with().settings("boundary: {execution: shadow}").go().await;
    let ready = async |status: &str| {
        until(status, async || {
            let ready = umbra.get("/readyz").await;
            (ready["status"] == status).then_some(ready)
        })
        .await
    };
    let failing = async || umbra.send(reqwest::Method::GET, "/metrics", &[], None).await.text;
    ready("ok").await;
    assert_eq!(umbra.decide(&read("before", "a")).await["decision"], "execute");
    let (folder, aside) = (umbra.file("audit"), umbra.file("aside"));
    std::fs::rename(&folder, &aside).expect("it is moved");
    std::fs::write(&folder, "no folder").expect("a file");
    let degraded = ready("degraded").await;
    assert!(degraded["detail"].as_str().is_some_and(|text| text.contains("boundary.audit.dir")), "{degraded}");
    assert!(failing().await.contains("umbra_audit_files_failing 1"));
    // While the database is there, it has them.
    assert!(umbra.decide(&read("stored", "a")).await["audit_seq"].is_i64());
    refuse(&umbra, true).await;
    let answer = umbra.decide(&read("unnoted", "a")).await;
    assert_eq!((&answer["decision"], &answer["reason"]), (&json!("block"), &json!("unavailable")), "{answer}");
    assert!(answer["detail"].as_str().is_some_and(|text| text.contains("folder")), "{answer}");
    std::fs::remove_file(&folder).expect("it goes");
    std::fs::rename(&aside, &folder).expect("it is back");
    ready("ok").await;
    assert!(failing().await.contains("umbra_audit_files_failing 0"));
    assert_eq!(umbra.decide(&read("noted", "a")).await["decision"], "execute");
    refuse(&umbra, false).await;
    let merged = until("the call to be merged", async || umbra.audit("kind=merged").await.pop()).await;
    assert_eq!(merged["call_id"], "noted");
    let log = umbra.log();
    assert_eq!(log.matches("cannot be written (decisions made").count(), 1, "{log}");
}

#[tokio::test]
async fn refused_audit_rows_are_reported_until_one_is_stored() {
    let umbra = Umbra::with().go().await;
    let complains = async || {
        let ready = umbra.get("/readyz").await;
        ready["detail"].as_str().is_some_and(|text| text.contains("refuses rows of the audit"))
    };
    umbra
        .schema
        .run(
            "CREATE FUNCTION rule() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''a rule''; END';
             CREATE TRIGGER rule BEFORE INSERT ON audit FOR EACH STATEMENT EXECUTE FUNCTION rule()",
        )
        .await;
    assert_eq!(umbra.decide(&write("c1", "a")).await["decision"], "block");
    until("it to be told", async || complains().await.then_some(())).await;
    // Longer than the writer waits for calls before it rests: a lack of calls is no stored row.
    let end = tokio::time::Instant::now() + Duration::from_secs(3);
    while tokio::time::Instant::now() < end {
        assert!(complains().await, "it is told no more, though nothing was stored");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    umbra.schema.run("DROP TRIGGER rule ON audit").await;
    assert_eq!(umbra.decide(&write("c2", "a")).await["decision"], "execute");
    until("it to be well", async || (!complains().await).then_some(())).await;
}

#[tokio::test]
async fn hung_database_delays_no_decision_beyond_its_deadline() {
    let files = TempDir::new().expect("a directory");
    let server = postgres(files.path()).await;
    let mut umbra = Umbra::with()
        .settings("boundary: {deadline: 500ms}")
        .env("UMBRA__STORAGE__DATA_DIR", files.path().display().to_string())
        .env("UMBRA__DATABASE__SCHEMA", "umbra")
        .go()
        .await;
    umbra.unchecked();
    umbra.decide(&write("before", "a")).await;
    let frozen = Frozen::freeze(server.status().pid.expect("a postmaster"));
    let mut expected = Vec::new();
    let mut slowest = std::time::Duration::ZERO;
    let began = std::time::Instant::now();
    for n in 0.. {
        let id = format!("c{n}");
        let call = if n % 2 == 0 { write(&id, "a") } else { read(&id, "a") };
        let call = if n % 3 == 0 { with(call, &json!({"deadline_ms": 100})) } else { call };
        let started = std::time::Instant::now();
        let answer = umbra.decide(&call).await;
        slowest = slowest.max(started.elapsed());
        assert_eq!(answer["decision"], if n % 2 == 0 { "block" } else { "execute" }, "{answer}");
        expected.push(told(&answer));
        // Longer than the pools wait.
        if began.elapsed() > std::time::Duration::from_secs(7) {
            break;
        }
    }
    drop(frozen);
    assert!(slowest < std::time::Duration::from_millis(1_500), "somebody waited {slowest:?}");
    let merged = until("the answers to be merged", async || {
        let answered = umbra.send(reqwest::Method::GET, "/v1/audit?kind=merged", &[], None).await;
        let rows: Vec<Value> = answered.text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        (answered.status == 200 && rows.len() >= expected.len()).then_some(rows)
    })
    .await;
    assert_eq!(merged.iter().map(told).collect::<Vec<_>>(), expected);
    // The answer to the caller is recorded also for decisions that were stored after all.
    for row in umbra.audit("").await {
        if row["kind"] == "decision" && row["call_id"] != "before" {
            assert!(merged.iter().any(|told| told["instead_of"] == row["id"]), "{row}");
        }
    }
}
