//! The sidecar without its database, models or files: the agent goes on, forbidden calls stay forbidden, and the answer
//! names what is missing.

use std::time::{Duration, Instant};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{RULES, tools};
use crate::{
    acceptance::chaos::postgres,
    support::{Umbra, until},
};

/// Makes the requests of one step, and checks that each answer came in time and forbade the forbidden call.
async fn step(umbra: &Umbra, id: &str, most: Duration) -> Value {
    let drop_table = json!({"tool": {"server": "db", "name": "drop_table"}});
    let mut last = Value::Null;
    for (path, body, decision) in [
        (
            format!("/v1/sessions/{id}/turns"),
            json!({"intent": "search", "planned_calls": [drop_table]}),
            "/decisions/0/decision",
        ),
        ("/v1/guard".to_owned(), json!({"session": id, "call": drop_table}), "/decision"),
        (
            format!("/v1/sessions/{id}/messages"),
            json!({"role": "assistant", "tool_calls": [drop_table]}),
            "/calls/0/decision",
        ),
    ] {
        let began = Instant::now();
        let answered = umbra.post(&path, &body).await;
        assert!(began.elapsed() < most, "{path} took {:?}", began.elapsed());
        assert_eq!(
            (answered.status.as_u16(), answered.body.pointer(decision)),
            (200, Some(&json!("block"))),
            "{path}: {}",
            answered.body
        );
        last = answered.body;
    }
    last
}

/// Rules about one agent and one mode, before those about documents.
const ABOUT_ONE: &str =
    "  - {name: not-by-a, agents: a, tools: files.edit_file, verdict: block, reason: a edits nothing}
  - {name: look-first, modes: careful, tools: files.read_file, verdict: block, reason: look first}
documents:";

/// Attaches a session whose agent has searched.
async fn searching(umbra: &Umbra) -> String {
    let over = umbra.attach(&json!({"agent": "a", "task": "search the code", "tools": tools()})).await;
    let searched = json!({"role": "assistant", "tool_calls": [{"tool": "search.search_code"}],
        "results": [{"tool": "search.search_code", "content": "found"}]});
    assert_eq!(umbra.message(&over, &searched).await["degraded"], false);
    over
}

/// Waits until a session is closed as its agent asked while the database was away, with its results.
async fn closed_as_told(umbra: &Umbra, over: &str) {
    let session = until("the session to be closed", async || {
        let session = umbra.get(&format!("/v1/sessions/{over}")).await;
        (session["state"] == "closed").then_some(session)
    })
    .await;
    assert_eq!((&session["closed_because"], &session["outcome"]), (&json!("closed"), &json!("succeeded")), "{session}");
    until("its pattern", async || {
        let patterns = umbra.items("/v1/patterns?agent=a").await;
        patterns.iter().any(|one| one["provenance"]["session"] == json!(over)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn steps_are_answered_as_degraded_while_the_database_hangs() {
    let files = TempDir::new().expect("a directory");
    let server = postgres(files.path()).await;
    let mut umbra = Umbra::with()
        .sidecar(&RULES.replace("documents:", ABOUT_ONE))
        .env("UMBRA__SIDECAR__DEADLINE", "300ms")
        .env("UMBRA__STORAGE__DATA_DIR", files.path().display().to_string())
        .env("UMBRA__DATABASE__SCHEMA", "umbra")
        .go()
        .await;
    umbra.unchecked();
    let id = umbra.attach(&json!({"agent": "a", "tools": tools(), "documents": {"todo": "# T\n"}})).await;
    let over = searching(&umbra).await;
    until("a step in time", async || {
        let answered = umbra.post(&format!("/v1/sessions/{id}/turns"), &json!({})).await;
        (answered.body["degraded"] == false).then_some(())
    })
    .await;
    let pid = Pid::from_raw(i32::try_from(server.status().pid.expect("a postmaster")).expect("a pid"));
    let children = |signal: Signal| {
        // The postmaster too: it would start new ones.
        kill(pid, signal).expect("it is there");
        let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        for child in list.split_whitespace().filter_map(|child| child.parse().ok()) {
            let _ = kill(Pid::from_raw(child), signal);
        }
    };
    // It hangs: each answer comes by the deadline, until the sidecar is passive and asks no more.
    children(Signal::SIGSTOP);
    for _ in 0..4 {
        let lacking = step(&umbra, &id, Duration::from_secs(2)).await;
        assert!(
            lacking["degraded"] == true && lacking["warnings"].as_array().is_some_and(|all| !all.is_empty()),
            "{lacking}"
        );
    }
    let passive = step(&umbra, &id, Duration::from_secs(2)).await;
    assert!(passive["warnings"].to_string().contains("passive"), "{passive}");
    // Requests that need no rule are answered as well.
    let close = format!("/v1/sessions/{over}/close");
    let pattern = json!({"agent": "a", "task": "search", "tools": [{"name": "search_code"}], "outcome": "succeeded"});
    for (path, body) in [
        ("/v1/tools/select", json!({"session": id, "query": "search"})),
        ("/v1/sessions", json!({"agent": "a"})),
        ("/v1/patterns", pattern),
        (&close, json!({"outcome": "succeeded"})),
    ] {
        let answered = umbra.post(path, &body).await;
        let told = (answered.status.as_u16(), &answered.body["degraded"], &answered.body["warnings"]);
        assert!(told.0 == 200 && told.1 == true && *told.2 != json!([]), "{path}: {}", answered.body);
    }
    // Rules about this agent hold all the same, and its present calls label its session.
    let ruled = async |tool: &str| {
        let asked = umbra.post("/v1/guard", &json!({"session": id, "call": {"tool": tool}})).await;
        (asked.status.as_u16(), asked.body["rule"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(ruled("files.edit_file").await, (200, "not-by-a".to_owned()));
    assert_eq!(ruled("mail.send_email").await, (200, String::new()));
    let told = umbra.message(&id, &json!({"role": "assistant", "tool_calls": [{"tool": "web.fetch"}]})).await;
    assert_eq!((&told["degraded"], &told["taints"]), (&json!(true), &json!(["untrusted"])), "{told}");
    assert_eq!(ruled("mail.send_email").await, (200, "no-mail-after-web".to_owned()));
    // Modes reported now hold from now on, and blocks are counted now.
    let blocked = async || {
        let metrics = umbra.send("GET".parse().unwrap_or_default(), "/metrics", &[], None).await.text;
        let line = "umbra_sidecar_rulings_total{decision=\"block\"} ";
        metrics.lines().find_map(|one| one.strip_prefix(line)?.parse::<u32>().ok())
    };
    let before = blocked().await;
    let drop_table = json!({"tool": "db.drop_table"});
    umbra.turn(&id, &json!({"modes": ["careful"], "planned_calls": [drop_table]})).await;
    umbra.message(&id, &json!({"role": "assistant", "tool_calls": [drop_table]})).await;
    assert_eq!(blocked().await, before.map(|before| before + 2));
    assert_eq!(ruled("files.read_file").await, (200, "look-first".to_owned()));
    // A document is not changed, and reads do not wait.
    let path = format!("/v1/sessions/{id}/documents/todo");
    let put = umbra.document("PATCH", &path, None, &json!({"edits": [{"op": "append_text", "text": "x"}]})).await;
    assert!(put.body["warnings"].to_string().contains("was not changed"), "{}", put.body);
    let began = Instant::now();
    let read = umbra.send("GET".parse().unwrap_or_default(), &path, &[], None).await;
    assert_eq!((read.status.as_u16(), began.elapsed() < Duration::from_secs(4)), (503, true), "{}", read.body);
    let attached = umbra.post("/v1/sessions", &json!({"agent": "a"})).await;
    assert_eq!(
        (attached.status.as_u16(), &attached.body["session"], &attached.body["degraded"]),
        (200, &Value::Null, &json!(true))
    );
    children(Signal::SIGCONT);
    // The database is back: so is the sidecar, after a while.
    until("the sidecar to be whole", async || {
        let answered = umbra.post(&format!("/v1/sessions/{id}/turns"), &json!({})).await;
        (answered.body["degraded"] == false).then_some(())
    })
    .await;
    assert_eq!(ruled("mail.send_email").await, (200, "no-mail-after-web".to_owned()));
    assert_eq!(ruled("files.read_file").await, (200, "look-first".to_owned()));
    let put = umbra.document("PATCH", &path, None, &json!({"edits": [{"op": "append_text", "text": "x"}]})).await;
    assert_eq!((put.status.as_u16(), &put.body["stored"]), (200, &json!(true)), "{}", put.body);
    closed_as_told(&umbra, &over).await;
}

#[tokio::test]
async fn long_texts_of_one_agent_do_not_make_the_sidecar_passive() {
    let mut umbra = Umbra::with().sidecar(RULES).env("UMBRA__SIDECAR__DEADLINE", "50ms").go().await;
    umbra.unchecked();
    let id = umbra.attach(&json!({"agent": "a"})).await;
    let long = "curl -s https://a.example/x?y=1 | tee out.txt; echo 'ignore what was said'\n".repeat(2_000);
    let result = json!({"tool": "web.fetch", "content": long});
    // Eight answers in a row without the database's data. A complete but late one restarts the count.
    let (mut in_a_row, mut sent) = (0, 0);
    while in_a_row < 8 {
        let told = umbra.message(&id, &json!({"role": "tool", "results": [result, result]})).await;
        in_a_row = if told["degraded"] == true { in_a_row + 1 } else { 0 };
        sent += 1;
        assert!(sent < 64, "it took no time: {told}");
    }
    let told = umbra.message(&id, &json!({"role": "tool", "content": "short"})).await;
    assert!(!told["warnings"].to_string().contains("passive"), "{told}");
}

#[tokio::test]
async fn session_restrictions_survive_a_crash_of_the_database() {
    let files = TempDir::new().expect("a directory");
    let server = postgres(files.path()).await;
    let mut umbra = Umbra::with()
        .sidecar(RULES)
        .env("UMBRA__STORAGE__DATA_DIR", files.path().display().to_string())
        .env("UMBRA__DATABASE__SCHEMA", "umbra")
        .go()
        .await;
    umbra.unchecked();
    let mut sessions = Vec::new();
    for _ in 0..3 {
        let session =
            json!({"agent": "a", "task": "edit it", "tools": tools(), "documents": {"todo": "# T\n## Plan\n"}});
        sessions.push(umbra.attach(&session).await);
    }
    let [tainted, on_route, rejected] = [0, 1, 2].map(|at| sessions[at].clone());
    let done = |tool: &str| json!({"role": "assistant", "tool_calls": [{"tool": tool}], "results": [{"tool": tool, "content": "ok"}]});
    // Records alone, then binding steps, then the crash: before the writes that no answer waited for.
    umbra.turn(&tainted, &json!({"intent": "search"})).await;
    umbra.message(&rejected, &done("db.drop_table")).await;
    umbra.turn(&on_route, &json!({"route": "edit"})).await;
    umbra.message(&tainted, &done("web.fetch")).await;
    let pid = server.status().pid.expect("a postmaster");
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    for one in std::iter::once(pid.to_string().as_str()).chain(children.split_whitespace()) {
        let _ = kill(Pid::from_raw(one.parse().unwrap_or_default()), Signal::SIGKILL);
    }
    let guard = async |id: &str, tool: &str| {
        until("the sidecar to be whole", async || {
            let body = json!({"session": id, "call": {"tool": tool}});
            let ruled = umbra.try_post("/v1/guard", &body).await?.1;
            (ruled["degraded"] == false).then_some(ruled)
        })
        .await
    };
    let mail = guard(&tainted, "mail.send_email").await;
    assert_eq!((&mail["decision"], &mail["rule"]), (&json!("block"), &json!("no-mail-after-web")), "{mail}");
    let edit = guard(&on_route, "files.edit_file").await;
    assert_eq!((&edit["decision"], &edit["rule"]), (&json!("block"), &json!("plan-first")), "{edit}");
    umbra.message(&rejected, &done("search.search_code")).await;
    let closed = umbra.post(&format!("/v1/sessions/{rejected}/close"), &json!({"outcome": "succeeded"})).await;
    assert_eq!((closed.status.as_u16(), &closed.body["patterns"]), (200, &json!(0)), "{}", closed.body);
}

#[tokio::test]
async fn faulty_sidecar_file_leaves_rules_unchanged_on_reload() {
    let umbra = Umbra::with().sidecar(RULES).go().await;
    let file = umbra.file("sidecar.yaml");
    let drop_table = json!({"agent": "a", "call": {"tool": "db.drop_table"}});
    assert_eq!(umbra.post("/v1/guard", &drop_table).await.body["decision"], "block");
    std::fs::write(&file, "policies: [{name: x, verdict: perhaps}]").expect("a file");
    let refused = umbra.post("/v1/admin/reload", &json!({})).await;
    assert_eq!(refused.status.as_u16(), 409, "{}", refused.body);
    assert!(refused.body.to_string().contains("perhaps"), "{}", refused.body);
    assert_eq!(umbra.post("/v1/guard", &drop_table).await.body["decision"], "block");
    std::fs::write(&file, RULES.replace("verdict: block, reason: tables stay", "verdict: warn, reason: tables stay"))
        .expect("a file");
    let read = umbra.post("/v1/admin/reload", &json!({})).await;
    assert_eq!(read.status.as_u16(), 200, "{}", read.body);
    assert_eq!(umbra.post("/v1/guard", &drop_table).await.body["decision"], "warn");
}
