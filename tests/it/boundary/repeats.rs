//! Repeated `call_id`s: a lost answer can be had again, and no call runs twice by it.

use serde_json::{Value, json};

use crate::support::{
    Umbra,
    boundary::{read, with, write},
};

async fn outcome(umbra: &Umbra, call_id: &str, agent: &str) {
    let told = umbra.post(&format!("/v1/calls/{call_id}/outcome"), &json!({"agent": agent, "status": "ok"})).await;
    assert_eq!(told.status, 200, "{}", told.text);
}

fn refused(answer: &Value, reason: &str, first: &Value) {
    assert_eq!(
        (&answer["decision"], &answer["reason"], &answer["replayed"], &answer["decision_id"], &answer["audit_seq"]),
        (&json!("block"), &json!(reason), &json!(true), &first["decision_id"], &first["audit_seq"]),
        "{answer}"
    );
    let detail = answer["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("new call_id"), "it does not say what to do: {detail}");
}

#[tokio::test]
async fn finished_call_does_not_run_again() {
    let umbra = Umbra::with().go().await;
    for call in [write("c1", "a"), read("c2", "a")] {
        let first = umbra.decide(&call).await;
        // The answer was lost: no outcome was reported.
        for _ in 0..3 {
            let again = umbra.decide(&call).await;
            assert_eq!((&again["decision"], &again["replayed"]), (&json!("execute"), &json!(true)), "{again}");
        }
        let id = call["call_id"].as_str().unwrap_or_default();
        outcome(&umbra, id, "a").await;
        refused(&umbra.decide(&call).await, "call_finished", &first);
        assert_eq!(
            umbra.decide(&with(call.clone(), &json!({"call_id": format!("{id}-new")}))).await["decision"],
            "execute"
        );
        let rows = umbra.audit(&format!("call_id={id}&kind=all")).await;
        let kinds: Vec<&Value> = rows.iter().map(|row| &row["kind"]).collect();
        assert_eq!(kinds, ["decision", "outcome"], "a repetition is no decision");
    }
}

#[tokio::test]
async fn call_decided_live_does_not_run_after_the_switch_to_shadow() {
    let umbra = Umbra::with().go().await;
    let call = with(write("c1", "a"), &json!({"session": "s1"}));
    let first = umbra.decide(&call).await;
    assert_eq!(first["decision"], "execute");
    let set = async |execution: Value| {
        let body = json!({"scope": "session", "value": "s1", "execution": execution, "reason": "stop"});
        assert_eq!(umbra.put("/v1/execution", &body).await.status, 200);
    };
    set(json!("shadow")).await;
    let again = umbra.decide(&call).await;
    refused(&again, "execution_changed", &first);
    assert_eq!(again["execution"], "shadow");
    // Other calls are not affected, and when calls run again, the lost answer is what it was.
    let other = write("c2", "a");
    umbra.decide(&other).await;
    assert_eq!(umbra.decide(&other).await["decision"], "execute");
    set(json!(null)).await;
    assert_eq!(umbra.decide(&call).await["decision"], "execute");
    // A stub stays the stub that it was: nothing runs by it.
    set(json!("shadow")).await;
    let stub = with(write("c3", "a"), &json!({"session": "s1", "stub_override": {"id": "m1"}}));
    let stubbed = umbra.decide(&stub).await;
    set(json!(null)).await;
    let again = umbra.decide(&stub).await;
    assert_eq!((&again["decision"], &again["stub"]["result"]), (&json!("stub"), &stubbed["stub"]["result"]), "{again}");
    assert_eq!(umbra.audit("call_id=c1&kind=all").await.len(), 1);
}

#[tokio::test]
async fn approval_lets_one_call_run_once() {
    let rules = "policies: [{name: ask, tools: mail.send_email, verdict: ask, reason: somebody looks}]";
    let umbra = Umbra::with().tools(rules).go().await;
    let asked = umbra.decide(&write("q1", "a")).await;
    let path = format!("/v1/approvals/{}", asked["approval"]["id"].as_str().unwrap_or_default());
    assert_eq!(umbra.post(&path, &json!({"decision": "approve"})).await.status, 200);
    let first = umbra.decide(&write("q1", "a")).await;
    assert_eq!(first["decision"], "execute");
    outcome(&umbra, "q1", "a").await;
    for _ in 0..3 {
        refused(&umbra.decide(&write("q1", "a")).await, "call_finished", &first);
    }
    assert_eq!(umbra.decide(&write("q2", "a")).await["decision"], "ask");
    let rows = umbra.audit("call_id=q1").await;
    let decisions: Vec<&Value> = rows.iter().map(|row| &row["decision"]).collect();
    assert_eq!(decisions, ["ask", "execute"]);
}

#[tokio::test]
async fn unreadable_stored_answer_blocks_its_call_and_no_other() {
    let umbra = Umbra::with().go().await;
    assert_eq!(umbra.decide(&write("c1", "a")).await["decision"], "execute");
    let kept = umbra.schema.one::<String>("SELECT answer FROM call").await;
    umbra.schema.run("UPDATE call SET answer = '{}'").await;
    let (again, other) = (with(write("c1", "a"), &json!({"deadline_ms": 400})), write("c2", "a"));
    let (again, other) = tokio::join!(umbra.decide(&again), umbra.decide(&other));
    assert_eq!((&again["decision"], &again["reason"]), (&json!("block"), &json!("unavailable")), "{again}");
    assert!(again["detail"].as_str().is_some_and(|detail| detail.contains("cannot be read or written")), "{again}");
    assert_eq!(other["decision"], "execute", "{other}");
    let metrics = umbra.send(reqwest::Method::GET, "/metrics", &[], None).await.text;
    assert!(metrics.contains("umbra_decision_flushes_total{result=\"inconsistent\"}"), "{metrics}");
    umbra.schema.run(&format!("UPDATE call SET answer = '{kept}' WHERE call_id = 'c1'")).await;
    let again = umbra.decide(&write("c1", "a")).await;
    assert_eq!((&again["decision"], &again["replayed"]), (&json!("execute"), &json!(true)), "{again}");
}

#[tokio::test]
async fn unreadable_run_state_blocks_calls_of_that_run_only() {
    let tools = "effects: [{tool: mail.send_email, effect: write}]";
    let umbra = Umbra::with().settings("boundary: {execution: shadow}").tools(tools).go().await;
    let call = |id: &str, run: &str| with(write(id, "a"), &json!({"run": run, "stub_override": {"id": "m-1"}}));
    for run in ["r1", "r2"] {
        assert_eq!(umbra.decide(&call(&format!("{run}-1"), run)).await["decision"], "stub");
    }
    umbra.schema.run("UPDATE boundary_run SET state = '{}' WHERE run = 'r1'").await;
    let (stopped, other) = (call("r1-2", "r1"), call("r2-2", "r2"));
    let (stopped, other) = tokio::join!(umbra.decide(&stopped), umbra.decide(&other));
    assert_eq!((&stopped["decision"], &stopped["reason"]), (&json!("block"), &json!("unavailable")), "{stopped}");
    assert_eq!(other["decision"], "stub", "{other}");
    let metrics = umbra.send(reqwest::Method::GET, "/metrics", &[], None).await.text;
    assert!(metrics.contains("umbra_decision_flushes_total{result=\"inconsistent\"}"), "{metrics}");
}
