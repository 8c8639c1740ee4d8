//! Contracts in force over HTTP: their promises, their live results, and faults of a tools file.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    Umbra,
    boundary::{with, write},
    until,
};

const TOOLS: &str = "tools:
  - tool: mail.send_email
    version: 4
    effect: write
    output_schema: {type: object, required: [id], properties: {id: {type: string}}}
    responses: [{result: {id: \"{{ seq('m-') }}\"}}]
    stale: {live_mismatches: 2}
  - {tool: 'crm.get_*', effect: read, taints: [seen]}
";

/// Runs a call and reports its outcome.
async fn ran(umbra: &Umbra, call_id: &str, result: Value) {
    let decided = umbra.decide(&write(call_id, "writer")).await;
    assert_eq!(decided["decision"], "execute", "{decided}");
    let outcome = json!({"agent": "writer", "status": "ok", "result": result});
    let told = umbra.post(&format!("/v1/calls/{call_id}/outcome"), &outcome).await;
    assert_eq!(told.status, 200, "{}", told.text);
}

/// Waits until so many results were compared with the contract of sending mail, and returns it.
async fn held(umbra: &Umbra, results: i64) -> Value {
    until("results to be held against the contract", async || {
        let contract = umbra.items("/v1/contracts").await.remove(0);
        (contract["live"]["results"] == results).then_some(contract)
    })
    .await
}

#[tokio::test]
async fn contracts_in_force_are_listed_with_effect_and_responses() {
    let umbra = Umbra::with().tools(TOOLS).go().await;
    let contracts = umbra.items("/v1/contracts").await;
    assert_eq!(contracts.len(), 2);
    let (mail, crm) = (&contracts[0], &contracts[1]);
    assert_eq!(
        (&mail["contract"], &mail["effect"], &mail["answers"], &mail["responses"], &mail["stale"]),
        (&json!("mail.send_email@4"), &json!("write"), &json!(true), &json!(1), &Value::Null),
        "{mail}"
    );
    assert!(mail["source"].as_str().is_some_and(|file| file.ends_with("tools.yaml")), "{mail}");
    assert_eq!((&crm["tool"], &crm["version"], &crm["taints"]), (&json!("crm.get_*"), &json!(1), &json!(["seen"])));
}

#[tokio::test]
async fn contract_with_misfit_results_is_stale_until_confirmed() {
    let umbra = Umbra::with().tools(TOOLS).go().await;
    ran(&umbra, "c1", json!({"id": "m1"})).await;
    ran(&umbra, "c2", json!({"message": {"number": 2}})).await;
    let contract = held(&umbra, 2).await;
    assert_eq!((&contract["live"]["misfits"], &contract["stale"]), (&json!(1), &Value::Null), "{contract}");
    // A result that fits restarts the count, and a call that did not run shows nothing.
    ran(&umbra, "c3", json!({"id": "m3"})).await;
    umbra.put("/v1/execution", &json!({"scope": "global", "execution": "shadow", "reason": "tried"})).await;
    let stub = umbra.decide(&write("c4", "writer")).await;
    assert_eq!(stub["decision"], "stub");
    umbra.put("/v1/execution", &json!({"scope": "global", "execution": null, "reason": "over"})).await;
    for n in 5..=7 {
        ran(&umbra, &format!("c{n}"), json!({"message": {"number": n}})).await;
    }
    let contract = held(&umbra, 6).await;
    let why = contract["stale"]["why"].as_str().unwrap_or_default();
    assert!(why.contains("the whole result") && why.contains("required"), "{contract}");
    // Its stubs still answer, and say so.
    umbra.put("/v1/execution", &json!({"scope": "global", "execution": "shadow", "reason": "tried"})).await;
    let asked = std::cell::Cell::new(0);
    let explained = until("stubs to say so", async || {
        asked.set(asked.get() + 1);
        let stub = umbra.decide(&write(&format!("s{}", asked.get()), "writer")).await;
        assert_eq!(stub["decision"], "stub", "{stub}");
        stub["explain"].to_string().contains("may be wrong: the contract is stale since").then_some(stub)
    })
    .await;
    assert_eq!(explained["stub"]["contract"], "mail.send_email@4");
    // A person's confirmation, in the audit.
    let path = "/v1/contracts/mail.send_email%404/confirm";
    let refused = umbra.post(path, &json!({"reason": " "})).await;
    assert_eq!((refused.status.as_u16(), &refused.body["errors"][0]["pointer"]), (400, &json!("/reason")));
    let missing = umbra.post("/v1/contracts/mail.send_email%403/confirm", &json!({"reason": "r"})).await;
    assert_eq!((missing.status.as_u16(), &missing.body["code"]), (404, &json!("not_found")), "{}", missing.text);
    let confirmed = umbra.post(path, &json!({"reason": "the tool was mended"})).await;
    assert_eq!((confirmed.status.as_u16(), &confirmed.body["stale"]), (200, &Value::Null), "{}", confirmed.text);
    assert!(confirmed.body["live"]["confirmed_at"].is_string(), "{}", confirmed.text);
    let rows = umbra.audit("kind=approval").await;
    assert_eq!(
        (rows.len(), &rows[0]["contract"], &rows[0]["decision"], &rows[0]["note"]),
        (1, &json!("mail.send_email@4"), &json!("confirm"), &json!("the tool was mended"))
    );
}

#[tokio::test]
async fn lint_endpoint_lists_faults_with_line_and_column() {
    let umbra = Umbra::with().go().await;
    let lint = async |body: &str, media: &str| {
        umbra.send(Method::POST, "/v1/contracts/lint", &[("content-type", media)], Some(body.as_bytes().to_vec())).await
    };
    let good = lint(TOOLS, "application/yaml").await;
    assert_eq!((good.status.as_u16(), &good.body), (200, &json!({"contracts": 2, "faults": [], "warnings": []})));
    let bad = TOOLS.replace("version: 4", "version: none").replace("seq('m-')", "args.size");
    let bad = lint(&bad, "application/yaml").await;
    let places: Vec<_> = bad.body["faults"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|fault| (fault["line"].as_i64(), fault["column"].as_i64(), fault["key"].as_str()))
        .collect();
    assert_eq!(places.first(), Some(&(Some(3), Some(14), Some("tools[0].version"))), "{}", bad.text);
    assert_eq!((bad.status.as_u16(), &bad.body["contracts"]), (200, &json!(0)));
    // JSON is YAML; other media types are refused, and no file of the server is read.
    assert_eq!(lint(r#"{"tools": []}"#, "application/json").await.body["contracts"], 0);
    assert_eq!(lint(TOOLS, "text/plain").await.status, 415);
    let file = "tools:\n  - {tool: a, effect: read, input_schema: {openapi: /etc/passwd, operation: x}}\n";
    let file = lint(file, "application/yaml").await;
    assert_eq!(file.body["faults"].as_array().map(Vec::len), Some(1), "{}", file.text);
    let large = lint(&"#".repeat(2 * 1024 * 1024 + 1), "application/yaml").await;
    assert_eq!((large.status.as_u16(), &large.body["code"]), (413, &json!("body_too_large")), "{}", large.text);
}

#[tokio::test]
async fn contract_inference_reads_the_audit_or_posted_lines() {
    let umbra = Umbra::with().go().await;
    for n in 1..=5 {
        ran(&umbra, &format!("c{n}"), json!({"id": format!("msg-{n}00{n}"), "to": "a@example.com"})).await;
    }
    let audited = umbra
        .post("/v1/contracts/infer", &json!({"agent": "writer", "tool": "mail.send_email", "effect": "write"}))
        .await;
    assert_eq!((audited.status.as_u16(), &audited.body["contracts"]), (200, &json!(1)), "{}", audited.text);
    let yaml = audited.body["yaml"].as_str().unwrap_or_default();
    assert!(yaml.contains("effect: write") && yaml.contains("{{ args.to }}"), "{yaml}");
    // By default the effect is derived from the name, and the calls are those of any agent.
    let any = umbra.post("/v1/contracts/infer", &json!({"tool": "mail.send_email"})).await;
    assert!(any.body["yaml"].as_str().is_some_and(|yaml| yaml.contains("effect: write")), "{}", any.text);
    // The inferred contracts have no faults.
    let lint = [("content-type", "application/yaml")];
    let judged = umbra.send(Method::POST, "/v1/contracts/lint", &lint, Some(yaml.as_bytes().to_vec())).await;
    assert_eq!((&judged.body["contracts"], &judged.body["faults"]), (&json!(1), &json!([])), "{}", judged.text);
    let lines = (1..=4).map(|n| json!({"tool": "t", "args": {}, "result": {"n": n}}).to_string());
    let lines = lines.collect::<Vec<_>>().join("\n") + "\n";
    let ndjson = [("content-type", "application/x-ndjson")];
    let path = "/v1/contracts/infer?effect=read";
    let few = umbra.send(Method::POST, path, &ndjson, Some(lines.clone().into_bytes())).await;
    assert_eq!((&few.body["contracts"], &few.body["left_out"][0]["tool"]), (&json!(0), &json!("t")), "{}", few.text);
    let bad = umbra.send(Method::POST, path, &ndjson, Some(format!("{lines}{{\"tool\": 1}}").into_bytes())).await;
    let detail = bad.body["errors"][0]["detail"].as_str().unwrap_or_default();
    assert!(bad.status == 400 && detail.starts_with("line 5, column "), "{}", bad.text);
}

#[tokio::test]
async fn stub_for_another_agent_has_the_recorded_shape_not_values() {
    let umbra = Umbra::with().go().await;
    for n in 1..=5 {
        ran(&umbra, &format!("c{n}"), json!({"id": format!("msg-{n}00{n}"), "to": "a@example.com", "team": "Blue"}))
            .await;
    }
    let shadow = json!({"scope": "global", "execution": "shadow", "reason": "rehearse"});
    assert_eq!(umbra.put("/v1/execution", &shadow).await.status, 200);
    let stub = async |call_id: &str, agent: &str| {
        let call = with(write(call_id, agent), &json!({"arguments": {"to": "zoe@example.com"}}));
        let call =
            with(call, &json!({"tool": {"server": "mail", "name": "send_email", "output_schema": {"type": "object"}}}));
        umbra.decide(&call).await["stub"].clone()
    };
    let (own, other) = (stub("s1", "writer").await, stub("s2", "rehearsal-1").await);
    for stub in [&own, &other] {
        assert_eq!(stub["contract"], "mail.send_email@recorded", "{stub}");
        assert_eq!(stub["result"]["to"], "zoe@example.com", "{stub}");
        assert!(stub["result"]["id"].as_str().is_some_and(|id| id.starts_with("msg-shadow-")), "{stub}");
    }
    assert_eq!((&own["result"]["team"], &other["result"]["team"]), (&json!("Blue"), &json!("shadow")));
}

#[tokio::test]
async fn a_stub_names_the_sandbox_of_its_contract() {
    let tools = "tools:\n  - {tool: mail.send_email, effect: write, responses: [{result: {ok: true}}], sandbox: 'https://try.example.com'}\n";
    let umbra = Umbra::with().tools(tools).go().await;
    let live = umbra.decide(&write("c1", "writer")).await;
    assert_eq!((&live["decision"], &live["sandbox"]), (&json!("execute"), &Value::Null));
    let shadow = json!({"scope": "global", "execution": "shadow", "reason": "rehearse"});
    assert_eq!(umbra.put("/v1/execution", &shadow).await.status, 200);
    let stub = umbra.decide(&write("c2", "writer")).await;
    assert_eq!((&stub["decision"], &stub["sandbox"]), (&json!("stub"), &json!("https://try.example.com")));
    assert_eq!(umbra.decide(&write("c2", "writer")).await["sandbox"], "https://try.example.com", "asked again");
}
