//! Runs and sessions that were changed in the database without the key: they stay in shadow, and the change is
//! reported.

use serde_json::{Value, json};

use super::forged::{metrics, problems, ready};
use crate::support::{
    Umbra,
    boundary::{read, with, write},
};

const TAINTS: &str = "
policies:
  - {name: read-the-web, tools: web.fetch, verdict: allow, taints: untrusted}
  - {name: no-mail, tools: mail.send_email, when: '\"untrusted\" in session.taint', verdict: block, reason: it has read the web}
";

async fn set(umbra: &Umbra, session: &str, execution: Value) {
    let body = json!({"scope": "session", "value": session, "execution": execution, "reason": "rehearsal"});
    assert_eq!(umbra.put("/v1/execution", &body).await.status, 200);
}

fn of_run(id: &str, run: &str) -> Value {
    with(write(id, "worker"), &json!({"run": run}))
}

#[tokio::test]
async fn shadow_run_with_a_changed_row_stays_in_shadow() {
    let umbra = Umbra::with().env("UMBRA__BOUNDARY__AUDIT__READS", "none").go().await;
    for run in ["r9", "r5"] {
        assert_eq!(umbra.decide(&of_run(&format!("live-{run}"), run)).await["decision"], "execute");
    }
    umbra.schema.run("CREATE TABLE early AS TABLE boundary_run").await;
    set(&umbra, "s1", json!("shadow")).await;
    umbra.decide(&with(read("c0", "worker"), &json!({"run": "r0", "session": "s1"}))).await;
    umbra.decide(&with(read("c1", "worker"), &json!({"run": "r1", "parent_run": "r0", "session": "s1"}))).await;
    umbra.decide(&with(read("c5", "worker"), &json!({"run": "r5", "parent_run": "r0"}))).await;
    set(&umbra, "s1", Value::Null).await;
    let child = |id: &str, run: &str| with(write(id, "worker"), &json!({"run": run, "parent_run": "r0"}));
    assert_eq!((problems(&umbra), ready(&umbra).await["status"].clone()), ("[]".to_owned(), json!("ok")));
    umbra.schema.run("CREATE TABLE kept AS TABLE boundary_run").await;
    for (n, (sql, told)) in [
        ("UPDATE boundary_run SET execution = 'live', began = 'live', parent = NULL, started_by = NULL", Some("the run \\\"r0\\\"")),
        ("UPDATE boundary_run SET execution = 'live', began = 'live', parent = NULL, mac = NULL", None),
        // The row as it was while it was live, word for word.
        (
            "UPDATE boundary_run b SET execution = e.execution, began = e.began, parent = e.parent, started_by = e.started_by,
                 session = e.session, mac = e.mac FROM early e WHERE (b.agent, b.run) = (e.agent, e.run)",
            Some("the run \\\"r5\\\""),
        ),
        ("DELETE FROM boundary_run WHERE run <> 'r9'", None),
    ]
    .into_iter()
    .enumerate()
    {
        umbra.schema.run(sql).await;
        assert!(told.is_none_or(|told| problems(&umbra).contains(told)), "{sql}: {}", problems(&umbra));
        for (run, parent) in [("r0", Value::Null), ("r1", Value::Null), ("r5", Value::Null), ("r2", json!("r1"))] {
            let call = with(of_run(&format!("{run}-{n}"), run), &json!({"parent_run": parent}));
            let answer = umbra.decide(&call).await;
            // With an unknown parent it is unknown whether calls run.
            let stopped = [json!("no_contract"), json!("unknown_parent")].contains(&answer["reason"]);
            assert!(answer["decision"] == "block" && stopped, "{sql}: {answer}");
        }
        let answer = umbra.decide(&child(&format!("child-{n}"), &format!("new-{n}"))).await;
        assert_eq!(answer["decision"], "block", "{sql}: {answer}");
        if told.is_some() {
            let ready = ready(&umbra).await;
            assert!(ready["status"] == "degraded" && ready["detail"].to_string().contains("a run"), "{ready}");
        }
        umbra.schema.run("DELETE FROM boundary_run; INSERT INTO boundary_run SELECT * FROM kept").await;
        assert_eq!(problems(&umbra), "[]", "the control after {sql}");
        assert_eq!(umbra.decide(&of_run(&format!("live-{n}"), "r9")).await["decision"], "execute");
    }
    assert!(metrics(&umbra).await.contains("umbra_unauthentic_rows_total{table=\"boundary_run\"}"));
    assert!(umbra.log().contains("a run fails authentication by this server's key"));
}

#[tokio::test]
async fn session_with_a_changed_row_keeps_its_restrictions() {
    let umbra = Umbra::with().tools(TAINTS).env("UMBRA__BOUNDARY__AUDIT__READS", "none").go().await;
    let of = |call: Value| with(call, &json!({"session": "s1"}));
    let fetch = json!({"call_id": "f1", "agent": "desk", "session": "s1",
        "tool": {"server": "web", "name": "fetch", "annotations": {"readOnlyHint": true}}, "arguments": {"url": "https://example.com"}});
    assert_eq!(umbra.decide(&of(write("before", "desk"))).await["decision"], "execute");
    assert_eq!(umbra.decide(&fetch).await["decision"], "execute");
    let shell = with(of(read("shell", "desk")), &json!({"uninterceptable": ["a shell of its own"]}));
    assert_eq!(umbra.decide(&shell).await["decision"], "execute");
    assert_eq!((problems(&umbra), ready(&umbra).await["status"].clone()), ("[]".to_owned(), json!("ok")));
    for sql in ["UPDATE boundary_session SET taints = '{}', uninterceptable = '{}'", "DELETE FROM boundary_session"] {
        umbra.schema.run(sql).await;
        if sql.starts_with("UPDATE") {
            assert!(problems(&umbra).contains("the session \\\"s1\\\""), "{}", problems(&umbra));
        }
        let mail = umbra.decide(&of(write(&format!("mail-{}", sql.len()), "desk"))).await;
        assert_eq!((&mail["decision"], &mail["reason"]), (&json!("block"), &json!("policy")), "{sql}: {mail}");
        let refused = umbra
            .put("/v1/execution", &json!({"scope": "session", "value": "s1", "execution": "shadow", "reason": "r"}))
            .await;
        assert_eq!(refused.status, 409, "{sql}: {}", refused.text);
        if sql.starts_with("UPDATE") {
            let ready = ready(&umbra).await;
            assert!(ready["status"] == "degraded" && ready["detail"].to_string().contains("a session"), "{ready}");
        }
    }
    // Another session, and another agent's session of the same name, are not affected.
    let other = with(write("other", "desk"), &json!({"session": "s2"}));
    assert_eq!(umbra.decide(&other).await["decision"], "execute");
    assert_eq!(umbra.decide(&of(write("stranger", "other"))).await["decision"], "execute");
    assert!(metrics(&umbra).await.contains("umbra_unauthentic_rows_total{table=\"boundary_session\"}"));
}
