//! Replays of real exports: as many calls as there were, with all that the exports say of them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Capture, assembled, calls, capture, names, of_kind};
use crate::support::{Schema, Umbra};

/// Facts of a capture that were found, and that were looked for.
#[derive(Default)]
struct Facts {
    found: usize,
    missing: Vec<String>,
}

impl Facts {
    /// Looks for a fact that the export holds.
    fn expect(&mut self, what: &str, fact: &Value, found: impl Fn(&str) -> bool) {
        if fact["in_export"] != true {
            return;
        }
        let value = match &fact["value"] {
            Value::String(text) => text.clone(),
            Value::Null => return,
            other => other.to_string(),
        };
        if found(&value) { self.found += 1 } else { self.missing.push(format!("{what} {value:?}")) }
    }
}

/// Returns all texts in JSON, JSON within texts included.
fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(texts).collect::<Vec<_>>().join("\n"),
        Value::Object(members) => members.values().map(texts).collect::<Vec<_>>().join("\n"),
        other => other.to_string(),
    }
}

/// True if a text of an event is this one, but for the credential that is taken out.
fn says(event: &Value, text: &str) -> bool {
    let said = texts(event);
    let plain = |text: &str| text.replace("\\\"", "\"");
    match text.split_once("AKIA") {
        None => plain(&said).contains(&plain(text)),
        Some((before, after)) => {
            let after = after.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
            said.contains(before) && said.contains(after) && said.contains("[secret:")
        }
    }
}

/// Compares the events of a capture with what a person reads in it: its row of the table, and the differences.
fn compare(name: &str, capture: &Capture, events: &[Value]) -> (String, Vec<String>) {
    let expected = &capture.expected;
    let (models, tools) = (of_kind(events, "model"), of_kind(events, "tool"));
    let mut facts = Facts::default();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for tool in list(&expected["tool_calls"]) {
        facts.expect("tool", &tool["name"], |name| tools.iter().any(|event| event["tool"]["name"] == name));
        let name = tool["name"]["value"].as_str().unwrap_or_default().to_owned();
        let of_tool: Vec<&&Value> = tools.iter().filter(|event| event["tool"]["name"] == name.as_str()).collect();
        let any = |value: &str, field: &str| of_tool.iter().any(|event| says(&event["tool"][field], value));
        facts.expect(&format!("{name}: argument"), &tool["arg_value"], |value| any(value, "args"));
        facts.expect(&format!("{name}: result"), &tool["result"], |value| any(value, "result"));
        facts.expect(&format!("{name}: error"), &tool["error"], |value| any(value, "error") || any(value, "result"));
    }
    let prompts: BTreeSet<String> =
        models.iter().chain(&tools).filter_map(|event| event["task"].as_str().map(ToOwned::to_owned)).collect();
    for prompt in list(&expected["prompts"]) {
        facts.expect("prompt", &prompt, |value| prompts.iter().any(|task| task.contains(value)));
    }
    for output in list(&expected["final_outputs"]) {
        facts.expect("output", &output, |value| models.iter().any(|event| says(&event["output"], value)));
    }
    for agent in list(&expected["agents"]) {
        facts.expect("agent", &agent, |value| models.iter().chain(&tools).any(|event| event["agent"] == value));
    }
    let session = &expected["ids"]["conversation"];
    facts.expect("conversation", session, |value| models.iter().chain(&tools).all(|event| event["task_id"] == value));
    let totals = &expected["usage_totals"];
    for field in ["input", "output"] {
        let sum: u64 = models.iter().filter_map(|event| event["tokens"][field].as_u64()).sum();
        let name = format!("{field}_tokens");
        let all = list(&expected["model_calls"]).iter().all(|call| call["usage"][&name]["in_export"] == true);
        let fact = serde_json::json!({"value": totals[&name], "in_export": all});
        facts.expect(&name, &fact, |value| value == sum.to_string());
    }
    let wanted = |field: &str| expected[field].as_array().map_or(0, Vec::len);
    let found = [("model_calls", models.len()), ("tool_calls", tools.len())];
    let counts = found.map(|(field, count)| format!("{count} of {}", wanted(field)));
    let row = format!(
        "| {name} | {} | {} | {} of {} |",
        counts.join(" | "),
        prompts.len(),
        facts.found,
        facts.found + facts.missing.len()
    );
    let wrong = found.into_iter().filter(|(field, count)| *count != wanted(field));
    let wrong = wrong.map(|(field, count)| format!("{name}: {count} {field}"));
    let missing = facts.missing.into_iter().map(|fact| format!("{name}: no {fact}"));
    (row, wrong.chain(missing).collect())
}

/// Compares the events of all captures; prints the table.
async fn compare_all(umbra: &Umbra) -> Vec<String> {
    println!("| capture | model calls | tool calls | prompts | facts |\n| --- | --- | --- | --- | --- |");
    let (events, mut wrong) = (calls(umbra).await, Vec::new());
    for name in names() {
        let capture = capture(&name);
        let (row, differences) = compare(&name, &capture, &capture.events(&events));
        println!("{row}");
        wrong.extend(differences);
    }
    wrong
}

#[tokio::test]
async fn each_capture_gives_its_calls_once_with_all_that_it_says() {
    let schema = Schema::fresh().await;
    let umbra = Umbra::with().on(&schema).go().await;
    for name in names() {
        for body in &capture(&name).bodies {
            let answered = umbra.export(body).await;
            assert_eq!(answered.0, 200, "{name} {}: {}", body.path, answered.1);
        }
    }
    assembled(&schema).await;
    let wrong = compare_all(&umbra).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn late_results_and_usage_are_added_to_the_events_of_their_calls() {
    let schema = Schema::fresh().await;
    let umbra = Umbra::with().on(&schema).go().await;
    let captures: Vec<Capture> = names().iter().map(|name| capture(name)).collect();
    let most = captures.iter().map(|capture| capture.bodies.len()).max().unwrap_or_default();
    for round in 0..most {
        for body in captures.iter().filter_map(|capture| capture.bodies.get(round)) {
            assert_eq!(umbra.export(body).await.0, 200);
        }
        // All that is known so far is filed before more comes.
        assembled(&schema).await;
    }
    let wrong = compare_all(&umbra).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn task_lists_its_steps_in_the_time_of_the_agent_with_their_durations_and_parents() {
    let schema = Schema::fresh().await;
    let umbra = Umbra::with().on(&schema).go().await;
    let capture = capture("genai-latest-langgraph");
    // The last body first: spans come when they end, and in no order.
    for body in capture.bodies.iter().rev() {
        assert_eq!(umbra.export(body).await.0, 200);
        assembled(&schema).await;
    }
    let thread = capture.expected["ids"]["conversation"]["value"].as_str().expect("a thread");
    let task = umbra.get(&format!("/v1/trajectories/{thread}")).await;
    let mut steps = task["events"].as_array().expect("events").clone();
    steps.retain(|step| step["metadata"]["otel"]["kind"] != "end");
    let shown: Vec<&str> = steps
        .iter()
        .map(|step| step["tool"]["name"].as_str().or(step["metadata"]["otel"]["kind"].as_str()).expect("a kind"))
        .collect();
    assert_eq!(shown, ["model", "run_shell", "model", "read_file", "model", "model"]);
    for step in &steps {
        let otel = &step["metadata"]["otel"];
        assert!(step["duration_ms"].is_u64() && otel["parent_id"].is_string(), "{step}");
        assert_eq!(step["started_at"], step["occurred_at"], "{step}");
    }
    let newest = umbra.get(&format!("/v1/trajectories/{thread}?order=desc")).await;
    let times = |task: &Value| {
        let of = |step: &Value| step["occurred_at"].as_str().expect("a time").to_owned();
        task["events"].as_array().expect("events").iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(times(&newest), times(&task).into_iter().rev().collect::<Vec<_>>());
}

#[tokio::test]
async fn planted_keys_are_found_and_nowhere_stored() {
    let schema = Schema::fresh().await;
    let umbra = Umbra::with().on(&schema).go().await;
    let captures: Vec<(String, Capture)> = names().into_iter().map(|name| (name.clone(), capture(&name))).collect();
    for body in captures.iter().flat_map(|(_, capture)| &capture.bodies) {
        assert_eq!(umbra.export(body).await.0, 200);
    }
    assembled(&schema).await;
    umbra.drain().await;
    umbra.looked().await;
    let (events, findings) = (calls(&umbra).await, umbra.items("/v1/findings?limit=500").await);
    for (name, capture) in captures {
        let key = &capture.expected["secret"];
        if key["in_export"] != true {
            continue;
        }
        let stored: i64 = schema
            .one(&format!(
                "SELECT (SELECT count(*) FROM event WHERE strpos(convert_from(payload, 'UTF8'), '{0}') > 0)
                    + (SELECT count(*) FROM otel_record WHERE strpos(convert_from(record, 'UTF8'), '{0}') > 0)",
                key["value"].as_str().expect("a key")
            ))
            .await;
        assert_eq!(stored, 0, "{name} stores the key");
        let own: BTreeSet<String> = capture.events(&events).iter().map(|event| event["id"].to_string()).collect();
        let is_found = findings.iter().any(|finding| {
            own.contains(&finding["event_id"].to_string()) && finding["description"].to_string().contains("AWS")
        });
        assert!(is_found, "{name}: {findings:#?}");
    }
}
