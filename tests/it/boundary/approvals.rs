//! Approvals from a person's view: listed, sent by webhook, answered, and the waiting call runs.

use serde_json::{Value, json};

use crate::support::{
    Umbra,
    boundary::with,
    model_server::{Answer, ModelServer},
    until,
};

const TOOLS: &str = "
policies:
  - {name: large-refund, tools: ['stripe.*', 'mail.*'], verdict: ask, reason: more than 100}
";

fn refund(call_id: &str, tool: &str) -> Value {
    json!({"call_id": call_id, "agent": "billing", "session": "s-1", "tool": {"name": tool},
        "arguments": {"charge": "ch_1", "amount": 499.99, "password": "hunter2-hunter2"}})
}

/// Waits for so many messages of a kind, and returns their data.
async fn told(receiver: &ModelServer, kind: &str, number: usize) -> Vec<Value> {
    until("the messages", async || {
        let bodies = receiver.seen().into_iter().filter_map(|seen| serde_json::from_str::<Value>(&seen.raw).ok());
        let of_kind: Vec<Value> = bodies.filter(|body| body["type"] == kind).map(|body| body["data"].clone()).collect();
        (of_kind.len() >= number).then_some(of_kind)
    })
    .await
}

#[tokio::test]
async fn waiting_call_is_listed_announced_and_runs_once_approved() {
    let receiver = ModelServer::start(|_| Answer::Status(204, vec![], String::new())).await;
    let secret = ["whsec_", "C2FVsBQIhrscChlQIMV+b5sSYspob7oDazfjcmAM"].concat();
    let settings = format!("webhooks:\n  - {{url: '{}/hook', secret_env: HOOK, events: [approval]}}\n", receiver.url());
    let umbra = Umbra::with().tools(TOOLS).settings(&settings).env("HOOK", secret).go().await;
    let asked = umbra.decide(&refund("a1", "mcp__stripe__refund")).await;
    let id = asked["approval"]["id"].as_str().unwrap_or_default().to_owned();
    umbra.decide(&with(refund("a2", "mail.send"), &json!({"agent": "writer"}))).await;
    // The same call again waits for the same approval.
    umbra.decide(&refund("a3", "mcp__stripe__refund")).await;

    let list = async |query: &str| umbra.get(&format!("/v1/approvals?{query}")).await["items"].clone();
    let pending = list("state=pending").await;
    assert_eq!(pending.as_array().map(Vec::len), Some(2), "{pending}");
    // The limit counts matching approvals: the newest is another tool's.
    for query in [
        "agent=billing",
        "tool=stripe.*&limit=1",
        "tool=stripe.*",
        "tool=stripe.refund",
        "state=pending&limit=500&agent=billing",
    ] {
        let found = list(query).await;
        assert_eq!((found.as_array().map(Vec::len), &found[0]["id"]), (Some(1), &json!(id)), "{query}: {found}");
    }
    for query in ["state=denied", "agent=nobody", "tool=github.*"] {
        assert_eq!(list(query).await, json!([]), "{query}");
    }
    let shown = umbra.get(&format!("/v1/approvals/{id}")).await;
    assert_eq!(
        (&shown["agent"], &shown["reason"], &shown["call_id"], &shown["session"], &shown["arguments"]["amount"]),
        (&json!("billing"), &json!("more than 100"), &json!("a1"), &json!("s-1"), &json!(499.99)),
        "{shown}"
    );
    assert!(!shown.to_string().contains("hunter2"), "{shown}");
    for (path, status) in [
        ("/v1/approvals/apr_0197a3c1d2e47f00a1b2c3d4e5f60718", 404),
        ("/v1/approvals?state=open", 400),
        ("/v1/approvals?tool=%5B", 400),
    ] {
        assert_eq!(umbra.send(reqwest::Method::GET, path, &[], None).await.status, status, "{path}");
    }

    let requested = told(&receiver, "approval.requested", 2).await;
    let mine = requested.iter().find(|data| data["id"] == id).cloned().unwrap_or_default();
    assert_eq!((&mine["arguments"]["charge"], &mine["state"]), (&json!("ch_1"), &json!("pending")), "{mine}");
    let path = format!("/v1/approvals/{id}");
    let approved = umbra.post(&path, &json!({"decision": "approve", "reason": "it is due"})).await;
    assert_eq!(
        (&approved.body["state"], &approved.body["note"], approved.body["answered_at"].is_string()),
        (&json!("approved"), &json!("it is due"), true),
        "{}",
        approved.text
    );
    let decided = told(&receiver, "approval.decided", 1).await;
    assert_eq!((&decided[0]["state"], &decided[0]["note"]), (&json!("approved"), &json!("it is due")), "{decided:?}");
    assert_eq!(umbra.decide(&refund("a1", "mcp__stripe__refund")).await["decision"], "execute");
    assert_eq!(umbra.get(&path).await["state"], "used");
    assert_eq!(told(&receiver, "approval.requested", 2).await.len(), 2, "each is told once");
}
