//! Obstacles to production: each reason alone, all together, and none; on the command line and over HTTP alike.

use serde_json::{Value, json};

use crate::support::{
    Umbra,
    boundary::{read, write},
    model_server::{Answer, ModelServer},
    until,
};

const TOOLS: &str = "tools:
  - tool: mail.send_email
    effect: write
    output_schema: {type: object, required: [id], properties: {id: {type: string}}}
    responses: [{result: {id: \"{{ seq('m-') }}\"}}]
";
const SHADOW: (&str, &str) = ("UMBRA__BOUNDARY__EXECUTION", "shadow");
const SAFE: (&str, &str) = ("AGENT_SAFE_MODE", "yes");

/// Runs `umbra check --environment production`; returns its exit code, and rule and subject of each line.
fn check(umbra: &Umbra, env: &[(&str, &str)], args: &[&str]) -> (i32, Vec<String>) {
    let output = umbra.cli_in(env, &[&["check", "--environment", "production"], args].concat(), None);
    // The gate's lines are part of the answer, on standard output alone.
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!String::from_utf8_lossy(&output.stderr).contains("production: "));
    let lines = said.lines().filter_map(|line| line.strip_prefix("production: "));
    let lines = lines.filter(|line| *line != "passed");
    let named = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    (output.status.code().unwrap_or(-1), lines.map(named).collect())
}

/// Asks the gate over HTTP, with the server's own settings.
async fn gate(umbra: &Umbra) -> (bool, Vec<String>) {
    let gate = umbra.get("/v1/gate?environment=production").await;
    assert_eq!(gate["environment"], "production");
    let reasons = gate["reasons"].as_array().cloned().unwrap_or_default();
    let named = |reason: &Value| {
        assert!(reason["detail"].as_str().is_some_and(|detail| detail.len() > 20), "{reason}");
        format!("{}: {}", reason["rule"].as_str().unwrap_or_default(), reason["subject"].as_str().unwrap_or_default())
    };
    (gate["pass"] == true, reasons.iter().map(named).collect())
}

/// Runs a call and reports its outcome.
async fn ran(umbra: &Umbra, call_id: &str, result: Value) {
    let decided = umbra.decide(&write(call_id, "writer")).await;
    assert_eq!(decided["decision"], "execute", "{decided}");
    let outcome = json!({"agent": "writer", "status": "ok", "result": result});
    let told = umbra.post(&format!("/v1/calls/{call_id}/outcome"), &outcome).await;
    assert_eq!(told.status, 200, "{}", told.text);
}

fn live_until(end: &str) -> Value {
    json!({"scope": "global", "execution": "live", "reason": "a release", "expires_at": end})
}

#[tokio::test]
async fn each_obstacle_is_reported_alone_and_beside_the_others() {
    let umbra = Umbra::with().tools(TOOLS).clock("2026-03-01T12:00:00Z").go().await;
    ran(&umbra, "c0", json!({"id": "m1"})).await;
    umbra.decide(&read("r0", "writer")).await;
    // No reason: a tool that only reads needs no contract.
    let output = umbra.cli(&["check", "--environment", "production"], None);
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("production: passed"));
    assert_eq!(gate(&umbra).await, (true, vec![]));
    // Shadow, by the settings or by the environment's default; the variable is a reason of its own.
    assert_eq!(check(&umbra, &[SHADOW], &[]), (1, vec!["execution_shadow: boundary.execution".to_owned()]));
    let default = ("UMBRA__BOUNDARY__SHADOW_ENVIRONMENTS", "[production]");
    assert_eq!(check(&umbra, &[default], &[]), (1, vec!["execution_shadow: production".to_owned()]));
    assert_eq!(check(&umbra, &[SAFE], &[]), (1, vec!["safe_mode: AGENT_SAFE_MODE".to_owned()]));
    assert_eq!(check(&umbra, &[("AGENT_SAFE_MODE", "0")], &[]), (0, vec![]));
    // An unknown name passes, unless it resembles a known one: a typing error must not open the gate.
    let asked = |name: &'static str| {
        let output = umbra.cli(&["check", "--environment", name], None);
        (output.status.code(), String::from_utf8_lossy(&output.stdout).contains(": unknown_environment: "))
    };
    assert_eq!((asked("prodution"), asked("Production")), ((Some(1), true), (Some(0), false)));
    assert_eq!(asked("canary-eu"), (Some(0), false));
    // A live override that ends soon, if shadow comes after it.
    umbra.put("/v1/execution", &live_until("2026-03-01T14:00:00Z")).await;
    assert_eq!(check(&umbra, &[SHADOW], &[]), (1, vec!["override_expires: global".to_owned()]));
    assert_eq!(check(&umbra, &[], &[]), (0, vec![]));
    let sooner = ("UMBRA__BOUNDARY__GATE__EXPIRES_WITHIN", "1h");
    assert_eq!(check(&umbra, &[SHADOW, sooner], &[]), (0, vec![]));
    umbra.put("/v1/execution", &json!({"scope": "global", "execution": null, "reason": "over"})).await;
    // A stub that could reach production.
    let tool =
        |execution: Value| json!({"scope": "tool", "value": "mail.*", "execution": execution, "reason": "tried"});
    umbra.put("/v1/execution", &tool(json!("shadow"))).await;
    assert_eq!(gate(&umbra).await, (false, vec!["execution_shadow: tool:mail.*".to_owned()]));
    umbra.put("/v1/execution", &tool(Value::Null)).await;
    // A contract that live results no longer fit.
    for n in 1..=3 {
        assert_eq!(check(&umbra, &[], &[]).0, 0, "{n}");
        ran(&umbra, &format!("c{n}"), json!({"message_id": n})).await;
    }
    let stale = vec!["stale_contract: mail.send_email@1".to_owned()];
    until("the contract to be stale", async || (gate(&umbra).await == (false, stale.clone())).then_some(())).await;
    assert_eq!(check(&umbra, &[], &[]), (1, stale));
    // A tool that changes something, without a contract: called, or only listed.
    umbra
        .decide(&json!({"call_id": "d", "agent": "writer", "tool": {"server": "crm", "name": "delete_customer"}}))
        .await;
    umbra.put("/v1/execution", &live_until("2026-03-01T14:00:00Z")).await;
    let (code, all) = check(&umbra, &[SHADOW, SAFE], &[]);
    let expected = [
        "safe_mode: AGENT_SAFE_MODE",
        "override_expires: global",
        "no_contract: crm.delete_customer",
        "stale_contract: mail.send_email@1",
    ];
    assert_eq!((code, all), (1, expected.map(ToOwned::to_owned).to_vec()));
    umbra.put("/v1/execution", &json!({"scope": "global", "execution": null, "reason": "over"})).await;
    let (code, all) = check(&umbra, &[SHADOW, SAFE], &[]);
    assert_eq!((code, all.len(), all[1].as_str()), (1, 4, "execution_shadow: boundary.execution"), "{all:?}");
}

#[tokio::test]
async fn contract_without_an_answer_does_not_pass() {
    let umbra = Umbra::with().tools("tools:\n  - {tool: 'mail.*', effect: write}\n").go().await;
    umbra.decide(&write("c1", "writer")).await;
    assert_eq!(gate(&umbra).await, (false, vec!["no_contract: mail.*".to_owned()]));
    let refused = umbra.send(reqwest::Method::GET, "/v1/gate?environment=", &[], None).await;
    assert_eq!((refused.status.as_u16(), &refused.body["code"]), (400, &json!("bad_query")), "{}", refused.text);
}

#[tokio::test]
async fn unreachable_database_is_an_obstacle_and_an_absent_one_is_not() {
    let umbra = Umbra::with().tools(TOOLS).go().await;
    let away = ["--database-url", "postgres://nobody@127.0.0.1:1/nothing"];
    assert_eq!(check(&umbra, &[], &away), (1, vec!["database: database".to_owned()]));
    let empty = umbra.file("empty");
    let empty = ["--data-dir", empty.to_str().unwrap_or_default()];
    assert_eq!(check(&umbra, &[], &empty), (0, vec![]));
    let output = umbra.cli(&["--json", "check", "--environment", "production", away[0], away[1]], None);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert_eq!((output.status.code(), &document["gate"]["pass"]), (Some(1), &json!(false)), "{document}");
    assert_eq!(document["gate"]["reasons"][0]["rule"], "database");
    // Without the option there is no answer, and no database.
    assert!(umbra.cli(&["check", away[0], away[1]], None).status.success());
}

#[tokio::test]
async fn pinned_mcp_tools_count_before_their_first_call() {
    let settings = "mcp: {profiles: {dev: {agent: writer, upstreams: {files: {command: [none]}}}}}\n";
    let tools = "tools: [{tool: files.move_file, effect: write, output_schema: {type: object}}]\n";
    let umbra = Umbra::with().settings(settings).tools(tools).go().await;
    for (server, tool, description) in [
        ("files", "read_file", "Reads a file."),
        ("files", "move_file", "Moves a file."),
        ("files", "delete_file", "Deletes a file."),
        // A server that is not in the settings any more.
        ("gone", "delete_all", "Deletes everything."),
    ] {
        let pin = format!(
            "INSERT INTO mcp_pin (profile, server, tool, hash, description)
             VALUES ('dev', '{server}', '{tool}', sha256('x'), '{description}')"
        );
        umbra.schema.run(&pin).await;
    }
    assert_eq!(gate(&umbra).await, (false, vec!["no_contract: files.delete_file".to_owned()]));
}

#[tokio::test]
async fn server_is_not_ready_after_only_stubs_for_the_set_time() {
    let settings = "boundary: {execution: shadow, gate: {only_stubs_for: 1s}}\n";
    let umbra = Umbra::with().tools(TOOLS).settings(settings).go().await;
    let ready = async || umbra.send(reqwest::Method::GET, "/readyz", &[], None).await;
    let asked = std::cell::Cell::new(0);
    let stub = async || {
        asked.set(asked.get() + 1);
        assert_eq!(umbra.decide(&write(&format!("c{}", asked.get()), "writer")).await["decision"], "stub");
    };
    stub().await;
    assert_eq!(ready().await.status, 200);
    let refused = until("stubs to have lasted", async || {
        stub().await;
        let ready = ready().await;
        (ready.status == 503).then_some(ready)
    })
    .await;
    assert!(refused.text.contains("boundary.gate.only_stubs_for"), "{}", refused.text);
    // A call that changes something ends it.
    umbra.put("/v1/execution", &live_until("2999-01-01T00:00:00Z")).await;
    umbra.decide(&write("live", "writer")).await;
    assert_eq!(ready().await.status, 200);
}

#[tokio::test]
async fn gate_and_effective_execution_agree_on_wildcard_overrides() {
    let umbra = Umbra::with().tools(TOOLS).settings("boundary: {execution: shadow}").go().await;
    assert_eq!(gate(&umbra).await, (false, vec!["execution_shadow: boundary.execution".to_owned()]));
    let set = async |scope: &str, value: &str, execution: Value| {
        let body = json!({"scope": scope, "value": value, "execution": execution, "reason": "a release"});
        assert_eq!(umbra.put("/v1/execution", &body).await.status, 200);
    };
    let effective = async |query: &str| {
        umbra.get(&format!("/v1/execution/effective?{query}")).await["execution"].as_str() == Some("live")
    };
    // Every tool is live: no call of any caller is in shadow, and neither endpoint says so.
    set("tool", "*", json!("live")).await;
    set("session", "s1", json!("shadow")).await;
    assert!(effective("").await && effective("agent=writer&session=s1&tool=mail.send_email").await);
    assert_eq!(umbra.decide(&write("c1", "writer")).await["decision"], "execute");
    assert_eq!(gate(&umbra).await, (true, vec![]));
    // Among equals the stricter wins.
    set("tool", "mail.*", json!("shadow")).await;
    assert!(effective("").await && !effective("tool=mail.send_email").await);
    assert_eq!(gate(&umbra).await, (false, vec!["execution_shadow: tool:mail.*".to_owned()]));
    // An override of every agent that wins is reported once.
    set("tool", "mail.*", Value::Null).await;
    set("tool", "*", Value::Null).await;
    set("session", "s1", Value::Null).await;
    set("agent", "*", json!("shadow")).await;
    assert!(!effective("").await);
    assert_eq!(gate(&umbra).await, (false, vec!["execution_shadow: agent:*".to_owned()]));
}

#[tokio::test]
async fn call_that_ran_against_its_decision_fails_the_gate() {
    let hook = ModelServer::start(|_| Answer::Status(204, vec![], String::new())).await;
    let secret = ["whsec_", "C2FVsBQIhrscChlQIMV+b5sSYspob7oDazfjcmAM"].concat();
    let settings =
        format!("webhooks:\n  - {{name: h, url: '{}/hook', secret_env: HOOK, events: [boundary]}}\n", hook.url());
    let umbra = Umbra::with().tools(TOOLS).settings(&settings).env("HOOK", secret).go().await;
    let set = |execution: Value| json!({"scope": "global", "execution": execution, "reason": "drill"});
    umbra.put("/v1/execution", &set(json!("shadow"))).await;
    for n in 1..=2 {
        let stubbed = umbra.decide(&write(&format!("c{n}"), "writer")).await;
        assert_eq!(stubbed["decision"], "stub", "{stubbed}");
        let outcome = json!({"agent": "writer", "status": "ok", "result": {"id": "m1"}});
        let told = umbra.post(&format!("/v1/calls/c{n}/outcome"), &outcome).await;
        assert_eq!((told.status.as_u16(), &told.body["expected"]), (200, &json!(false)), "{}", told.text);
    }
    umbra.put("/v1/execution", &set(Value::Null)).await;
    let expected = (false, vec!["unexpected_call: mail.send_email".to_owned()]);
    until("the gate to know", async || (gate(&umbra).await == expected).then_some(())).await;
    assert_eq!(check(&umbra, &[], &[]), (1, expected.1.clone()));
    let drift = until("both to be counted", async || {
        let drift = umbra.get("/v1/drift?agent=writer").await;
        (drift["unexpected"][0]["calls"] == 2).then_some(drift)
    })
    .await;
    let last = umbra.audit("kind=outcome").await.pop().unwrap_or_default();
    assert_eq!((&drift["unexpected"][0]["tool"], &drift["unexpected"][0]["last_seq"]), (&last["tool"], &last["seq"]));
    let metrics = umbra.send(reqwest::Method::GET, "/metrics", &[], None).await.text;
    assert!(metrics.contains("umbra_unexpected_calls_total 2"), "{metrics}");
    until("a message", async || (hook.count() >= 1).then_some(())).await;
    assert!(hook.seen()[0].raw.contains("call.unexpected"), "{}", hook.seen()[0].raw);
    assert_eq!(hook.count(), 1, "it is told once a day");
    // A call that ran as decided is not unexpected.
    umbra.decide(&write("c3", "reader")).await;
    let outcome = json!({"agent": "reader", "status": "ok", "result": {"id": "m3"}});
    assert_eq!(umbra.post("/v1/calls/c3/outcome", &outcome).await.body["expected"], true);
    assert_eq!(umbra.get("/v1/drift?agent=reader").await["unexpected"], json!([]));
}
