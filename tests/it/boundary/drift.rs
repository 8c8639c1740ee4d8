//! Drift: contracts with their proposals, calls without a decision, and an agent whose behaviour changed.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    Umbra,
    boundary::{read, with, write},
    model_server::{Answer, ModelServer},
    until,
};

const TOOLS: &str = "tools:
  - tool: mail.send_email
    effect: write
    output_schema: {type: object, required: [id], properties: {id: {type: string}}}
    responses: [{result: {id: \"{{ seq('m-') }}\"}}]
";

async fn ran(umbra: &Umbra, call_id: &str, result: Value) {
    assert_eq!(umbra.decide(&write(call_id, "writer")).await["decision"], "execute");
    let outcome = json!({"agent": "writer", "status": "ok", "result": result});
    let told = umbra.post(&format!("/v1/calls/{call_id}/outcome"), &outcome).await;
    assert_eq!(told.status, 200, "{}", told.text);
}

#[tokio::test]
async fn misfit_results_give_a_contract_proposal_that_can_be_loaded() {
    let hook = ModelServer::start(|_| Answer::Status(204, vec![], String::new())).await;
    let secret = ["whsec_", "C2FVsBQIhrscChlQIMV+b5sSYspob7oDazfjcmAM"].concat();
    let settings =
        format!("webhooks:\n  - {{name: h, url: '{}/hook', secret_env: HOOK, events: [boundary]}}\n", hook.url());
    let umbra = Umbra::with().tools(TOOLS).settings(&settings).env("HOOK", secret).go().await;
    for n in 1..=4 {
        ran(&umbra, &format!("c{n}"), json!({"message": {"id": format!("msg-{n}00{n}")}, "to": "a@example.com"})).await;
    }
    let drifted = until("a proposal", async || {
        let drift = umbra.get("/v1/drift").await;
        drift["contracts"][0]["results"].as_i64().filter(|results| *results == 4)?;
        Some(drift["contracts"][0].clone())
    })
    .await;
    assert_eq!((&drifted["contract"], &drifted["misfits"]), (&json!("mail.send_email@1"), &json!(4)), "{drifted}");
    assert!(drifted["stale"]["since"].is_string() && drifted["proposal_missing"].is_null(), "{drifted}");
    let yaml = drifted["proposal"].as_str().unwrap_or_default();
    assert!(yaml.contains("version: 2") && yaml.contains("{{ args.to }}"), "{yaml}");
    // Reported once, without text by a tool.
    until("a message", async || (hook.count() >= 1).then_some(())).await;
    let told = &hook.seen()[0];
    assert!(told.raw.contains("contract.stale") && told.raw.contains("mail.send_email@1"), "{}", told.raw);
    assert!(!told.raw.contains("example.com") && !told.raw.contains("msg-"), "{}", told.raw);
    // A new version is fresh, and the proposal fits the tool's results.
    std::fs::write(umbra.file("tools.yaml"), yaml).unwrap_or_default();
    let reloaded = umbra.send(Method::POST, "/v1/admin/reload", &[], None).await;
    assert_eq!(reloaded.status, 200, "{}", reloaded.text);
    ran(&umbra, "c9", json!({"message": {"id": "msg-9009"}, "to": "a@example.com"})).await;
    let contract = until("the new version to be looked at", async || {
        let contract = umbra.items("/v1/contracts").await.remove(0);
        (contract["live"]["results"] == 1).then_some(contract)
    })
    .await;
    assert_eq!(
        (&contract["contract"], &contract["stale"], &contract["live"]["misfits"]),
        (&json!("mail.send_email@2"), &Value::Null, &json!(0)),
        "{contract}"
    );
    assert_eq!(umbra.get("/v1/drift").await["contracts"], json!([]));
    assert_eq!(umbra.get("/v1/gate").await["pass"], true);
    assert_eq!(hook.count(), 1, "it is told once");
}

const REFUNDS: &str = "# Kept by the payments team.
tools:
  - tool: mail.send_email
    effect: write
    responses: [{result: {id: \"{{ seq('m-') }}\"}}]

  # Refunds, as the API gave them in March.
  - tool: pay.refund   # see the manual
    effect: destructive
    output_schema: {type: object, required: [tx_id, status], properties: {tx_id: {type: string}, amount: {type: number}, status: {enum: [refunded, pending_review]}}}
    responses:
      - {when: 'args.amount > 500.0', result: {tx_id: \"{{ seq('r-') }}\", status: pending_review}}
      - result: {tx_id: \"{{ seq('r-') }}\", status: refunded, amount: '{{ args.amount }}'}
    overlay:
      put: {collection: refunds, key: result.tx_id}
      reads: [{tool: pay.get_refund, key: args.id}]

# Reads.
effects:
  - {tool: crm.lookup, effect: read}
";

#[tokio::test(flavor = "multi_thread")]
async fn propose_write_keeps_predicates_overlay_and_other_lines() {
    let umbra = Umbra::with().tools(REFUNDS).go().await;
    let ask = |args: &[&str]| {
        let output = umbra.cli_in(&[("UMBRA_URL", &umbra.base)], args, None);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(ask(&["contracts", "propose"]), (Some(0), "no contract has drifted\n".to_owned(), String::new()));
    for n in 1..=3 {
        let call = json!({"call_id": format!("c{n}"), "agent": "payer", "tool": {"name": "pay.refund"},
            "arguments": {"amount": 8.0 + f64::from(n)}});
        assert_eq!(umbra.decide(&call).await["decision"], "execute");
        let result =
            json!({"tx_id": format!("t{n}"), "status": "refunded", "state": "done", "amount": (8 + n).to_string()});
        let outcome = json!({"agent": "payer", "status": "ok", "result": result});
        umbra.post(&format!("/v1/calls/c{n}/outcome"), &outcome).await;
    }
    until("a proposal", async || {
        let contracts = &umbra.get("/v1/drift").await["contracts"];
        (contracts[0]["misfits"] == 3).then_some(())
    })
    .await;
    let (_, yaml, _) = ask(&["contracts", "propose", "pay.refund"]);
    assert!(yaml.starts_with("tools:\n  - tool: pay.refund\n    version: 2\n"), "{yaml}");
    assert_eq!(ask(&["contracts", "propose", "mail.send_email"]).1, "no contract of mail.send_email has drifted\n");
    let file = umbra.file("tools.yaml").display().to_string();
    let (code, out, err) = ask(&["contracts", "propose", "--write", &file]);
    assert!(code == Some(0) && out.contains("pay.refund@2 written"), "{out} {err}");
    let written = std::fs::read_to_string(umbra.file("tools.yaml")).unwrap_or_default();
    let (before, after) = (REFUNDS.split_once("  - tool: pay").unwrap_or_default().0, "\n# Reads.\neffects:");
    assert!(written.starts_with(before) && written.contains(after), "{written}");
    for kept in ["args.amount > 500.0", "pending_review", "seq('r-')", "collection: refunds", "tool: pay.get_refund"] {
        assert!(written.contains(kept), "{kept}\n{written}");
    }
    assert_eq!(umbra.send(Method::POST, "/v1/admin/reload", &[], None).await.status, 200);
    let call = |id: &str, amount: f64| json!({"call_id": id, "agent": "payer", "tool": {"name": "pay.refund"}, "arguments": {"amount": amount}});
    let shadow = json!({"scope": "agent", "value": "payer", "execution": "shadow", "reason": "rehearse"});
    assert_eq!(umbra.put("/v1/execution", &shadow).await.status, 200);
    let stub = umbra.decide(&call("s1", 900.0)).await["stub"].clone();
    assert_eq!(
        (&stub["contract"], &stub["result"]["status"]),
        (&json!("pay.refund@2"), &json!("pending_review")),
        "{stub}"
    );
    assert_eq!(stub["result"]["state"], "done", "{stub}");
    let (code, _, err) = ask(&["contracts", "propose", "--write", "no.yaml"]);
    assert!(code == Some(1) && err.contains("no.yaml"), "{err}");
}

#[tokio::test]
async fn call_without_a_decision_is_unguarded_where_required() {
    let settings =
        "boundary: {require_decisions: {agents: ['writer*'], tools: ['mail.*', send_email, mcp__*, crm.*]}}\n";
    let shadows =
        "shadow_agents:\n  - {name: calls, model: checks, mode: review, watch: [{agent: '*', triggers: [all]}]}\n";
    let umbra = Umbra::with().tools(TOOLS).settings(settings).shadows(shadows).go().await;
    let event = |agent: &str, tool: &str, amount: f64, metadata: Value| {
        json!({"agent": agent, "metadata": metadata,
            "tool": {"name": tool, "args": {"to": "a@example.com", "amount": amount}, "result": "sent"}})
    };
    // Decided: named by its call, or with the same tool and arguments shortly before. The tool's name has several
    // forms.
    umbra.decide(&write("c1", "writer")).await;
    umbra.event(&event("writer", "mail.send_email", 1.0, json!({"call_id": "c1"}))).await;
    for tool in ["mail.send_email", "send_email", "mcp__mail__send_email"] {
        umbra.event(&event("writer", tool, 49.99, json!({}))).await;
    }
    // Not required, not run, or no call at all.
    umbra.event(&event("other", "mail.send_email", 1.0, json!({}))).await;
    umbra.event(&event("writer", "shell.run", 1.0, json!({}))).await;
    umbra.event(&event("writer", "mail.send_email", 1.0, json!({"decision": "block"}))).await;
    umbra.event(&json!({"agent": "writer", "output": "done"})).await;
    // Not decided: not with these arguments, not this tool, not this agent; a call id of another tool does not count.
    umbra.event(&event("writer", "mail.send_email", 499.99, json!({}))).await;
    umbra.event(&event("writer-2", "mail.send_email", 49.99, json!({"call_id": "c1"}))).await;
    umbra.event(&event("writer", "crm.delete_customer", 49.99, json!({"call_id": "c1"}))).await;
    let rows = until("unguarded calls", async || {
        let drift = umbra.get("/v1/drift").await;
        let rows = drift["unguarded"].as_array().cloned().unwrap_or_default();
        rows.iter().any(|row| row["tool"] == "crm.delete_customer").then_some(rows)
    })
    .await;
    let mut found: Vec<_> = rows
        .iter()
        .map(|row| {
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            (text("agent"), text("tool"), row["calls"].as_i64())
        })
        .collect();
    found.sort();
    let expected = [
        ("writer", "crm.delete_customer", Some(1)),
        ("writer", "mail.send_email", Some(1)),
        ("writer-2", "mail.send_email", Some(1)),
    ];
    assert_eq!(found, expected.map(|(agent, tool, calls)| (agent.to_owned(), tool.to_owned(), calls)));
    let event_id = rows[0]["last_event"].as_str().unwrap_or_default();
    assert_eq!(umbra.get(&format!("/v1/events/{event_id}")).await["id"], event_id);
    let gate = umbra.get("/v1/gate?environment=production").await;
    let unguarded = gate["reasons"].as_array().into_iter().flatten().filter(|one| one["rule"] == "unguarded_call");
    assert_eq!(unguarded.count(), 3, "{gate}");
    assert_eq!(umbra.items("/v1/contracts").await.len(), 1);
    let of_one = umbra.get("/v1/drift?agent=writer-2").await;
    assert_eq!(of_one["unguarded"].as_array().map(Vec::len), Some(1), "{of_one}");
    let metrics = umbra.send(Method::GET, "/metrics", &[], None).await.text;
    assert!(metrics.contains("umbra_unguarded_calls_total 3"), "{metrics}");
    // A shadow that watches the events has them as findings, one for each tool and agent.
    umbra.event(&event("writer", "mail.send_email", 499.99, json!({}))).await;
    let findings = until("findings", async || {
        let findings = umbra.items("/v1/findings").await;
        findings.iter().any(|finding| finding["occurrences"] == 2).then_some(findings)
    })
    .await;
    let said: Vec<_> = findings.iter().map(|finding| [&finding["watched_agent"], &finding["rule"]]).collect();
    let rule = "boundary.unguarded_call";
    assert_eq!(json!(said), json!([["writer", rule], ["writer-2", rule], ["writer", rule]]), "{findings:?}");
}

#[tokio::test]
async fn unguarded_calls_are_ignored_without_require_decisions() {
    let umbra = Umbra::with().go().await;
    umbra.event(&json!({"agent": "writer", "tool": {"name": "mail.send_email", "args": {}}})).await;
    until("the follower to have passed", async || {
        let behind: i64 = umbra
            .schema
            .one("SELECT f.last - s.seq FROM feed f, follower s WHERE f.name = 'intake' AND s.name = 'unguarded'")
            .await;
        (behind == 0).then_some(())
    })
    .await;
    assert_eq!(
        umbra.get("/v1/drift").await,
        json!({"contracts": [], "unguarded": [], "unexpected": [], "behaviour": null})
    );
}

#[tokio::test]
async fn changed_agent_behaviour_is_reported_with_its_sample_size() {
    let umbra = Umbra::with().clock("2026-02-27T12:00:00Z").go().await;
    let mut n = 0;
    let mut call = async |tool: &str, arguments: Value| {
        n += 1;
        let call = with(read(&format!("c{n}"), "writer"), &json!({"run": "r", "arguments": arguments}));
        umbra.decide(&with(call, &json!({"tool": {"server": "shop", "name": tool}}))).await;
    };
    for n in 0..40 {
        call("get_order", json!({"id": n, "region": "eu"})).await;
        call("refund", json!({"amount": 20 + n % 10, "currency": "EUR"})).await;
    }
    umbra.schema.set_clock("2026-02-28T11:00:00Z").await;
    call("get_order", json!({"id": 1, "region": "eu"})).await;
    let few = umbra.get("/v1/drift?agent=writer&window=6h").await;
    assert_eq!((&few["behaviour"]["drifted"], &few["behaviour"]["base"]["calls"]), (&Value::Null, &json!(80)), "{few}");
    assert!(few["behaviour"]["too_few"].as_str().is_some_and(|why| why.contains("1 in the recent one")), "{few}");
    for n in 0..40 {
        call("refund", json!({"amount": 200 + n % 10, "currency": if n % 2 == 0 { "EUR" } else { "USD" }})).await;
        call("delete_order", json!({"id": n})).await;
    }
    umbra.schema.set_clock("2026-02-28T12:00:00Z").await;
    let drift = umbra.get("/v1/drift?agent=writer&window=6h").await;
    let behaviour = &drift["behaviour"];
    assert_eq!((&behaviour["drifted"], &behaviour["recent"]["calls"]), (&json!(true), &json!(81)), "{drift}");
    assert_eq!(behaviour["recent"]["from"], "2026-02-28T06:00:00Z");
    assert_eq!((&behaviour["mix"]["drifted"], &behaviour["mix"]["tools"][0]["base"]), (&json!(true), &json!(0)));
    let arguments: Vec<_> =
        behaviour["arguments"].as_array().into_iter().flatten().map(|one| (&one["pointer"], &one["measure"])).collect();
    assert_eq!(arguments, [(&json!("/currency"), &json!("js")), (&json!("/amount"), &json!("ks"))], "{behaviour}");
    assert_eq!(behaviour["arguments"][1]["recent_quantiles"]["min"], 200.0);
    let new = &behaviour["sequences"]["new"][0];
    assert_eq!((&new["first"], &new["then"]), (&json!("shop.refund"), &json!("shop.delete_order")), "{behaviour}");
    // The same behaviour as before, and invalid windows.
    let same = umbra.get("/v1/drift?agent=nobody").await;
    assert!(same["behaviour"]["too_few"].is_string(), "{same}");
    for query in ["window=soon", "window=0s", "since=2026-02-28T11:59:00Z&window=1h", "agnt=x"] {
        let refused = umbra.send(Method::GET, &format!("/v1/drift?{query}"), &[], None).await;
        assert_eq!((refused.status.as_u16(), &refused.body["code"]), (400, &json!("bad_query")), "{}", refused.text);
    }
}
