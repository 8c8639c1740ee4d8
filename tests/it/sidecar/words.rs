//! Rules in words: a shadow is asked; its opinion raises a ruling and never lowers it. Without an opinion the other
//! rules decide, and the answer says so.

use serde_json::{Value, json};

use super::tools;
use crate::support::{
    Umbra,
    judge::verdict,
    model_server::{Answer, ModelServer},
    until,
};

const RULES: &str = "
policies:
  - {name: no-drop, tools: db.drop_table, verdict: block, reason: tables stay}
  - {name: careful, tools: web.*, verdict: warn, reason: the web is the web}
documents:
  - {name: plan-first, routes: plan, document: todo, needs: exists, verdict: block, reason: write a plan}
models:
  - {name: no-promises, tools: mail.*, shadow: promises, deadline: 10s, verdict: block, reason: promise nothing}
  - {name: polite, routes: answer, shadow: promises, deadline: 10s, verdict: warn, reason: be polite}
  - {name: in-time, tools: web.*, shadow: promises, deadline: 300ms, verdict: block, reason: ask first}
  - {name: rarely, tools: search.*, shadow: capped, deadline: 10s, verdict: block, reason: seldom asked}
";

const SHADOWS: &str = "
shadow_agents:
  - {name: promises, model: judge, mode: review, watch: [{agent: nobody, triggers: [task_complete]}],
     criteria: No money is promised., cost_control: {cooldown: 0s}}
  - {name: capped, model: judge, mode: review, watch: [{agent: nobody, triggers: [task_complete]}],
     criteria: It is polite., cost_control: {cooldown: 0s, max_reviews_per_day: 1}}
";

/// Starts a model that flags promises, does not answer about the web, and approves the rest.
async fn model() -> ModelServer {
    ModelServer::start(|seen| {
        if seen.user.contains("web.fetch") {
            return Answer::Hang;
        }
        let flagged = json!([{"severity": "critical", "category": "quality", "description": "It promises money.",
            "evidence_quote": "a full refund", "checklist_item": "criteria"}]);
        if seen.user.contains("a full refund") {
            Answer::Json(verdict(seen, "FLAG", 5, &flagged))
        } else {
            Answer::Json(verdict(seen, "APPROVE", 95, &json!([])))
        }
    })
    .await
}

async fn umbra(model: &ModelServer) -> Umbra {
    let url = model.openai_url();
    let settings = format!(
        "models:\n  judge: {{provider: openai, name: judge-1, base_url: '{url}', max_output_tokens: 800, timeout: 30s}}\n"
    );
    Umbra::with().shadows(SHADOWS).settings(&settings).sidecar(RULES).go().await
}

fn mail(text: &str) -> Value {
    json!({"tool": {"server": "mail", "name": "send_email"}, "arguments": {"text": text}})
}

#[tokio::test]
async fn model_opinion_blocks_or_allows_and_is_named() {
    let model = model().await;
    let umbra = umbra(&model).await;
    let refund = "You get a full refund tomorrow.";
    let id = umbra.attach(&json!({"agent": "a", "task_id": "t-1", "tools": tools()})).await;
    let planned = json!([mail(refund), mail("We look into it."), {"tool": "db.drop_table"}]);
    let turn = umbra.turn(&id, &json!({"planned_calls": planned})).await;
    let said: Vec<Value> = turn["decisions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| json!([one["decision"], one["rule"], one["checked_by"]]))
        .collect();
    assert_eq!(
        said,
        [json!(["block", "no-promises", "model"]), json!(["allow", null, null]), json!(["block", "no-drop", "rule"])],
        "{turn}"
    );
    assert_eq!((&turn["degraded"], &turn["turn"]), (&json!(false), &json!(1)), "{turn}");
    assert!(turn["directives"].to_string().contains("promise nothing"), "{turn}");
    // Only rulings that a model could change were asked about, each once.
    assert_eq!(model.count(), 2, "{:?}", model.seen().iter().map(|seen| &seen.user).collect::<Vec<_>>());
    // A call alone, with a session and without one; a message on its route.
    for session in [json!({"session": id}), json!({"agent": "a"})] {
        for (text, decision) in [(refund, "block"), ("We look into it.", "allow")] {
            let mut asked = session.clone();
            asked["call"] = mail(text);
            let ruled = umbra.post("/v1/guard", &asked).await.body;
            assert_eq!((&ruled["decision"], &ruled["degraded"]), (&json!(decision), &json!(false)), "{ruled}");
        }
    }
    let told = umbra.message(&id, &json!({"role": "assistant", "route": "answer", "content": refund})).await;
    assert_eq!(
        (&told["said"]["decision"], &told["said"]["rule"], &told["said"]["checked_by"], &told["message"]),
        (&json!("warn"), &json!("polite"), &json!("model"), &json!(1)),
        "{told}"
    );
    // A question is no step of the task.
    let steps = umbra.schema.one::<i64>("SELECT count(*) FROM event WHERE task_id = 't-1'").await;
    let asked = umbra.schema.one::<i64>("SELECT count(*) FROM event WHERE task_id IS NULL").await;
    assert!(steps <= 2 && asked >= 7, "{steps} and {asked}: of the task are interventions alone");
}

#[tokio::test]
async fn missing_model_opinion_leaves_other_rules_and_a_warning() {
    let model = model().await;
    let umbra = umbra(&model).await;
    let id = umbra.attach(&json!({"agent": "a", "tools": tools()})).await;
    let fetch = json!({"tool": {"server": "web", "name": "fetch"}, "arguments": {"url": "https://a.example"}});
    // Too late: the warning of the other rule holds.
    for (path, body, at) in [
        ("/v1/guard".to_owned(), json!({"session": id, "call": fetch}), ""),
        (format!("/v1/sessions/{id}/turns"), json!({"planned_calls": [fetch]}), "/decisions/0"),
    ] {
        let answered = umbra.post(&path, &body).await.body;
        let ruled = answered.pointer(at).cloned().unwrap_or_default();
        assert_eq!((&ruled["decision"], &ruled["rule"]), (&json!("warn"), &json!("careful")), "{answered}");
        assert_eq!(answered["degraded"], true);
        assert_eq!(answered["warnings"], json!(["the rule in-time was not judged: no answer in time"]), "{answered}");
    }
    // Its caps are reached.
    let search = json!({"agent": "a", "call": {"tool": {"server": "search", "name": "search_code"}}});
    let first = umbra.post("/v1/guard", &search).await.body;
    assert_eq!((&first["decision"], &first["degraded"]), (&json!("allow"), &json!(false)), "{first}");
    let second = umbra.post("/v1/guard", &search).await.body;
    assert_eq!((&second["decision"], &second["degraded"]), (&json!("allow"), &json!(true)), "{second}");
    assert!(second["warnings"][0].as_str().is_some_and(|said| said.contains("its caps are reached")), "{second}");
    // With any other fault of the model the loop goes on, and forbidden calls stay so.
    for fault in [
        Answer::error(500, "server_error", "later"),
        Answer::error(401, "invalid_key", "no"),
        Answer::Drop,
        Answer::Text("Sure! The verdict is allow.".to_owned()),
        Answer::Truncated("{\"nonce\":".to_owned()),
        Answer::Refused,
        Answer::Raw("<html>".to_owned()),
    ] {
        let shown = format!("{fault:?}");
        model.set(move |_| fault.clone());
        let turn =
            json!({"planned_calls": [mail("You get a full refund."), {"tool": "db.drop_table"}], "deadline_ms": 2_000});
        let answered = umbra.turn(&id, &turn).await;
        let said = &answered["decisions"];
        assert_eq!(
            (&said[0]["decision"], &said[1]["decision"]),
            (&json!("allow"), &json!("block")),
            "{shown}: {answered}"
        );
        assert!(
            answered["degraded"] == true && answered["warnings"].to_string().contains("no-promises"),
            "{shown}: {answered}"
        );
    }
}

#[tokio::test]
async fn turn_that_waits_for_a_model_blocks_no_other_turn() {
    let model = model().await;
    let umbra = umbra(&model).await;
    let id = umbra.attach(&json!({"agent": "a", "tools": tools()})).await;
    model.set(|_| Answer::Hang);
    let asks = json!({"planned_calls": [mail("Hello.")], "deadline_ms": 3_000});
    let waits = umbra.turn(&id, &asks);
    let goes_on = async {
        until("the model to be asked", async || (model.count() > 0).then_some(())).await;
        // Reviews have connections, the session is free, and steps made meanwhile count.
        let other = umbra.turn(&id, &json!({"route": "edit"})).await;
        assert_eq!((&other["turn"], &other["degraded"]), (&json!(1), &json!(false)), "{other}");
    };
    tokio::pin!(waits);
    tokio::select! {
        early = &mut waits => panic!("it did not wait: {early}"),
        () = goes_on => {}
    }
    let waited = waits.await;
    assert_eq!((&waited["turn"], &waited["decisions"][0]["decision"]), (&json!(2), &json!("allow")), "{waited}");
    assert_eq!(waited["degraded"], true, "it hung: {waited}");
}

#[tokio::test]
async fn interventions_become_events_and_metrics() {
    let model = model().await;
    let umbra = umbra(&model).await;
    let id = umbra.attach(&json!({"agent": "a", "task_id": "t-1", "tools": tools()})).await;
    let planned = json!([{"tool": "db.drop_table"}, {"tool": "web.fetch"}, mail("Hello.")]);
    umbra.turn(&id, &json!({"planned_calls": planned})).await;
    let told = until("shadows to be told", async || {
        let events = umbra.items("/v1/events?agent=a").await;
        let told = events.iter().filter(|one| one["metadata"]["sidecar.rule"].is_string());
        let told: Vec<Value> = told
            .map(|one| {
                let said = &one["metadata"];
                json!([
                    one["task_id"],
                    one["session_id"],
                    said["sidecar.rule"],
                    said["sidecar.decision"],
                    said["sidecar.tool"]
                ])
            })
            .collect();
        (told.len() == 2).then_some(told)
    })
    .await;
    for (rule, decision, tool) in [("no-drop", "block", "db.drop_table"), ("careful", "warn", "web.fetch")] {
        assert!(told.contains(&json!(["t-1", id, rule, decision, tool])), "{told:?}");
    }
    let metrics = umbra.send("GET".parse().unwrap_or_default(), "/metrics", &[], None).await.text;
    let counted = |metrics: &str, decision: &str, times: u32| {
        let line = format!("umbra_sidecar_rulings_total{{decision=\"{decision}\"}} {times}");
        assert!(metrics.lines().any(|one| one == line), "{line}: {metrics}");
    };
    for decision in ["allow", "warn", "block"] {
        counted(&metrics, decision, 1);
    }
    for (rule, decision) in [("no-drop", "block"), ("careful", "warn")] {
        let parts = [format!("rule=\"{rule}\""), format!("decision=\"{decision}\""), "mode=\"enforce\"".to_owned()];
        let counts = |line: &&str| {
            line.starts_with("umbra_sidecar_rules_total{")
                && line.ends_with("} 1")
                && parts.iter().all(|part| line.contains(part))
        };
        assert!(metrics.lines().any(|line| counts(&line)), "{rule}: {metrics}");
    }
    // So is a turn that only a document holds up.
    let held = umbra.turn(&id, &json!({"route": "plan"})).await;
    assert_eq!(held["decision"], "block", "{held}");
    let metrics = umbra.send("GET".parse().unwrap_or_default(), "/metrics", &[], None).await.text;
    for (decision, times) in [("allow", 1), ("warn", 1), ("block", 2)] {
        counted(&metrics, decision, times);
    }
    until("shadows to be told of the turn", async || {
        let events = umbra.items("/v1/events?agent=a").await;
        events.iter().any(|one| one["metadata"]["sidecar.rule"] == "plan-first").then_some(())
    })
    .await;
    let session = umbra.get(&format!("/v1/sessions/{id}")).await;
    assert_eq!(session["rulings"], json!({"allow": 1, "warn": 1, "block": 2}), "{session}");
}

#[tokio::test]
async fn a_shadow_without_a_model_judges_no_rule_in_words() {
    let shadows = SHADOWS.replace("model: judge", "model: checks");
    let umbra = Umbra::with().shadows(&shadows).sidecar(RULES).go().await;
    let asked = json!({"agent": "a", "call": mail("We look into it.")});
    let ruled = umbra.post("/v1/guard", &asked).await.body;
    assert_eq!((&ruled["decision"], &ruled["degraded"]), (&json!("allow"), &json!(true)), "{ruled}");
    assert!(ruled["warnings"][0].as_str().is_some_and(|said| said.contains(": no model judged rev_")), "{ruled}");
}

#[tokio::test]
async fn a_flag_on_anything_but_the_criteria_violates_no_rule() {
    let model = model().await;
    let umbra = umbra(&model).await;
    let told = async |category: &'static str, item: &'static str| {
        model.set(move |seen| {
            let found = json!([{"severity": "critical", "category": category, "description": "It is not all there.",
                "evidence_quote": "a full refund", "checklist_item": item}]);
            Answer::Json(verdict(seen, "FLAG", 5, &found))
        });
        let asked = json!({"agent": "a", "call": mail(&format!("You get a full refund, {category} {item}."))});
        umbra.post("/v1/guard", &asked).await.body
    };
    for (category, item, decision) in [
        ("completeness", "complete", "allow"),
        ("security", "safe", "allow"),
        ("quality", "criteria", "block"),
        ("custom", "no promises", "block"),
    ] {
        let ruled = told(category, item).await;
        assert_eq!((&ruled["decision"], &ruled["degraded"]), (&json!(decision), &json!(false)), "{item}: {ruled}");
        assert!(ruled["explain"].to_string().contains("FLAG by rev_"), "{ruled}");
    }
}
