//! One decision: its answer, its repetition, its outcome, and the keys that may ask.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    Umbra,
    boundary::{read, with, write},
};

#[tokio::test]
async fn unconfigured_boundary_audits_each_call_before_its_answer() {
    let umbra = Umbra::with().go().await;
    let first =
        umbra.decide(&with(write("c1", "writer"), &json!({"run": "r1", "session": "s1", "route": "mail"}))).await;
    assert_eq!(
        (&first["decision"], &first["execution"], &first["audit_seq"], &first["guard"]["verdict"]),
        (&json!("execute"), &json!("live"), &json!(1), &json!("allow")),
        "{first}"
    );
    let second = umbra.decide(&read("c2", "writer")).await;
    assert_eq!(
        (&second["decision"], &second["effect"], &second["audit_seq"]),
        (&json!("execute"), &json!("read"), &json!(2))
    );
    let rows = umbra.audit("run=r1").await;
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!(row["decision"], "execute");
    assert_eq!(row["args"], json!({"to": "a@example.com", "amount": 49.99}));
    for (key, value) in
        [("call_id", "c1"), ("agent", "writer"), ("session", "s1"), ("route", "mail"), ("tool", "mail.send_email")]
    {
        assert_eq!(row[key], value, "{row}");
    }
    assert!(row["hash"].as_str().is_some_and(|hash| hash.len() == 64) && row["args_sha256"].is_string(), "{row}");
    assert_eq!(umbra.audit("agent=nobody").await, Vec::<Value>::new());
}

#[tokio::test]
async fn repeated_call_replays_its_decision_and_reused_id_is_refused() {
    let umbra = Umbra::with().go().await;
    let call = write("c1", "writer");
    let first = umbra.decide(&call).await;
    // Fields that may differ in a retry make no other call.
    let again =
        umbra.post("/v1/decide", &with(call.clone(), &json!({"deadline_ms": 100, "traceparent": "00-1"}))).await;
    assert_eq!(again.headers["idempotent-replayed"], "true");
    assert_eq!((&again.body["decision_id"], &again.body["replayed"]), (&first["decision_id"], &json!(true)));
    let other = umbra.post("/v1/decide", &with(call.clone(), &json!({"arguments": {"to": "b@example.com"}}))).await;
    assert_eq!((other.status.as_u16(), &other.body["code"]), (422, &json!("idempotency_mismatch")), "{}", other.text);
    // The same id of another agent is another call.
    assert_eq!(umbra.decide(&write("c1", "other")).await["replayed"], false);
    // Sent many times at once, it is decided once.
    let race = write("race", "writer");
    let answers = join_all((0..20).map(|_| umbra.decide(&race))).await;
    let fresh = answers.iter().filter(|answer| answer["replayed"] == false).count();
    assert!(fresh == 1 && answers.iter().all(|answer| answer["decision_id"] == answers[0]["decision_id"]), "{fresh}");
    assert_eq!(umbra.audit("kind=decision").await.len(), 3);
}

#[tokio::test]
async fn outcome_is_stored_once_and_linked_to_its_decision() {
    let umbra = Umbra::with().go().await;
    umbra.decide(&with(write("c1", "writer"), &json!({"run": "r1"}))).await;
    let outcome = json!({"agent": "writer", "status": "ok", "result": {"id": "m1", "token": "ghp_abcdefghijklmnopqrstuvwxyz0123456789"}, "duration_ms": 12});
    let path = "/v1/calls/c1/outcome";
    let told = umbra.post(path, &outcome).await;
    assert_eq!(
        (told.status.as_u16(), &told.body["expected"], &told.body["audit_seq"]),
        (200, &json!(true), &json!(2)),
        "{}",
        told.text
    );
    let again = umbra.post(path, &outcome).await;
    assert_eq!((&again.body["replayed"], &again.body["audit_seq"]), (&json!(true), &json!(2)), "{}", again.text);
    let other = umbra.post(path, &json!({"agent": "writer", "status": "error", "error": "no"})).await;
    assert_eq!((other.status.as_u16(), &other.body["code"]), (422, &json!("idempotency_mismatch")));
    let unknown = umbra.post("/v1/calls/c2/outcome", &outcome).await;
    assert_eq!((unknown.status.as_u16(), &unknown.body["code"]), (404, &json!("not_found")));
    // The outcome of a call that was not to run is evidence.
    umbra.put("/v1/execution", &json!({"scope": "global", "execution": "shadow", "reason": "tried"})).await;
    umbra.decide(&write("c3", "writer")).await;
    let broken = umbra.post("/v1/calls/c3/outcome", &outcome).await;
    assert_eq!((broken.status.as_u16(), &broken.body["expected"]), (200, &json!(false)), "{}", broken.text);
    let rows = umbra.audit("kind=outcome").await;
    assert_eq!(rows.len(), 2);
    assert_eq!(
        (&rows[0]["run"], &rows[0]["tool"], &rows[0]["outcome"]["result"]["id"]),
        (&json!("r1"), &json!("mail.send_email"), &json!("m1"))
    );
    assert!(!rows[0].to_string().contains("ghp_abcdefghij"), "a secret is in the audit");
}

#[tokio::test]
async fn secrets_in_arguments_reach_neither_audit_nor_database() {
    let umbra = Umbra::with().go().await;
    let secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    umbra.decide(&with(write("c1", "writer"), &json!({"arguments": {"header": format!("Bearer {secret}")}}))).await;
    let row = &umbra.audit("").await[0];
    assert!(row["args"]["header"].as_str().is_some_and(|text| text.contains("[secret:")), "{row}");
    let stored: i64 = umbra
        .schema
        .one(&format!(
            "SELECT count(*) FROM audit a LEFT JOIN audit_payload p USING (seq) LEFT JOIN call c USING (seq)
             WHERE concat(a.*, p.*, c.*) LIKE '%{secret}%'"
        ))
        .await;
    assert_eq!(stored, 0);
    assert!(!umbra.log().contains("example.com"), "an argument is in the log");
}

#[tokio::test]
async fn invalid_call_is_refused_with_all_faults_and_not_audited() {
    let umbra = Umbra::with().go().await;
    let faults = umbra
        .post("/v1/decide", &json!({"call_id": " ", "agent": "a", "tool": {}, "argments": {}, "modes": "x"}))
        .await;
    assert_eq!((faults.status.as_u16(), &faults.body["code"]), (400, &json!("invalid_request")), "{}", faults.text);
    let pointers: Vec<&str> =
        faults.body["errors"].as_array().into_iter().flatten().filter_map(|e| e["pointer"].as_str()).collect();
    assert_eq!(pointers, ["/call_id", "/modes", "/tool/name", "/argments"], "{}", faults.text);
    let twice = br#"{"call_id": "c", "agent": "a", "tool": {"name": "t"}, "arguments": {"amount": 1, "amount": 2}}"#;
    let twice =
        umbra.send(Method::POST, "/v1/decide", &[("content-type", "application/json")], Some(twice.to_vec())).await;
    assert_eq!(twice.status, 400, "which of two amounts counts is not for us to guess: {}", twice.text);
    assert_eq!(umbra.audit("kind=all").await.len(), 0, "nothing of it is in the audit");
}

#[tokio::test]
async fn key_scopes_and_agents_limit_decisions_audit_and_overrides() {
    let umbra = Umbra::with().go().await;
    let make = |name: &str, scope: &str, agent: &str| {
        let made = umbra.cli(&["keys", "create", "--name", name, "--scope", scope, "--agent", agent, "--json"], None);
        let made: Value = serde_json::from_slice(&made.stdout).expect("a key");
        format!("Bearer {}", made["key"].as_str().unwrap_or_default())
    };
    let (decide, ingest, reader, admin) =
        (make("d", "decide", "writer-*"), make("i", "ingest", "*"), make("r", "read", "*"), make("a", "admin", "*"));
    crate::support::until("keys to be asked for", async || {
        (umbra.send(Method::GET, "/v1/status", &[], None).await.status == 401).then_some(())
    })
    .await;
    let status = async |key: &str, method: Method, path: &str, body: Value| {
        let headers = [("authorization", key), ("content-type", "application/json")];
        let body = (method != Method::GET).then(|| body.to_string().into_bytes());
        umbra.send(method, path, &headers, body).await.status.as_u16()
    };
    let none = Value::Null;
    let set = json!({"scope": "global", "execution": "shadow", "reason": "tried"});
    let outcome = |agent: &str| json!({"agent": agent, "status": "ok"});
    for (key, method, path, body, expected) in [
        (&decide, Method::POST, "/v1/decide", write("c", "writer-1"), 200),
        (&decide, Method::POST, "/v1/decide", write("c", "boss"), 403),
        (&ingest, Method::POST, "/v1/decide", write("c", "writer-1"), 403),
        (&decide, Method::POST, "/v1/calls/c/outcome", outcome("writer-1"), 200),
        (&decide, Method::POST, "/v1/calls/c/outcome", outcome("boss"), 403),
        (&decide, Method::GET, "/v1/audit", none.clone(), 403),
        (&decide, Method::GET, "/v1/execution", none.clone(), 403),
        (&decide, Method::GET, "/v1/execution/effective?agent=writer-1", none.clone(), 200),
        (&decide, Method::GET, "/v1/execution/effective?agent=boss", none.clone(), 403),
        (&decide, Method::PUT, "/v1/execution", set.clone(), 403),
        (&reader, Method::PUT, "/v1/execution", set.clone(), 403),
        (&reader, Method::GET, "/v1/audit", none.clone(), 200),
        (&reader, Method::GET, "/v1/execution", none, 200),
        (&admin, Method::PUT, "/v1/execution", set, 200),
    ] {
        assert_eq!(status(key, method.clone(), path, body).await, expected, "{method} {path}");
    }
}

#[tokio::test]
async fn arguments_above_the_limit_are_blocked_and_audited_by_size() {
    let umbra = Umbra::with().go().await;
    let sized = |id: &str, bytes: usize| with(write(id, "a"), &json!({"arguments": {"body": "x".repeat(bytes)}}));
    for (id, bytes) in [("c1", 70_000), ("c2", 1_000_000)] {
        assert_eq!(umbra.decide(&sized(id, bytes)).await["decision"], "execute", "{bytes}");
    }
    let refused = umbra.decide(&sized("c3", 1_200_000)).await;
    assert_eq!((&refused["decision"], &refused["reason"]), (&json!("block"), &json!("invalid_arguments")), "{refused}");
    let detail =
        "the arguments have 1200011 bytes as JSON, and 1048576 are allowed (boundary.max_arguments_bytes): send less";
    assert_eq!(refused["detail"], detail);
    let row = umbra.send(reqwest::Method::GET, "/v1/audit?decision=block", &[], None).await.text;
    let row: serde_json::Value = serde_json::from_str(&row).unwrap_or_default();
    assert_eq!((&row["call_id"], &row["args"]), (&json!("c3"), &json!({"bytes": 1_200_011})), "{row}");
}
