//! Captures of real frameworks: each fact that is in the export is found, once.

use std::collections::BTreeSet;

use serde_json::Value;

use super::captures::{Capture, assembled, calls, captures, output, prompt, tool};
use crate::{CallKind, Trace};

/// Facts of a capture that are in its export, each with the result of the look-up.
#[derive(Default)]
struct Facts(Vec<(String, bool)>);

impl Facts {
    fn check(&mut self, name: impl Into<String>, found: bool) {
        self.0.push((name.into(), found));
    }

    /// Checks a fact if it is in the export.
    fn look_up(&mut self, name: &str, fact: &Value, found: impl Fn(&str) -> bool) {
        if fact["in_export"] == true {
            let value = fact["value"].as_str().map_or_else(|| fact["value"].to_string(), ToOwned::to_owned);
            self.check(format!("{name} {value:?}"), found(&value));
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn holds_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(own) => own.contains(text),
        Value::Array(items) => items.iter().any(|item| holds_text(item, text)),
        Value::Object(members) => members.values().any(|member| holds_text(member, text)),
        _ => false,
    }
}

fn facts_of(capture: &Capture, traces: &[Trace]) -> Facts {
    let mut facts = Facts::default();
    let expected = &capture.expected;
    let (models, tools) = (calls(traces, CallKind::Model), calls(traces, CallKind::Tool));
    for (call, fact) in models.iter().zip(list(&expected["model_calls"])) {
        let model = if fact["response_model"]["in_export"] == true { "response_model" } else { "request_model" };
        facts.look_up("model", &fact[model], |value| call.model.as_deref() == Some(value));
        facts.look_up("response id", &fact["response_id"], |value| call.response_id.as_deref() == Some(value));
        facts.look_up("output", &fact["output_text"], |value| output(call).contains(value));
        let usage = call.usage.unwrap_or_default();
        facts.look_up("input tokens", &fact["usage"]["input_tokens"], |value| usage.input.to_string() == value);
        facts.look_up("output tokens", &fact["usage"]["output_tokens"], |value| usage.output.to_string() == value);
    }
    for (call, fact) in tools.iter().zip(list(&expected["tool_calls"])) {
        let (name, args, result, error) = tool(call);
        facts.look_up("tool", &fact["name"], |value| name == value);
        facts.look_up("call id", &fact["call_id"], |value| call.tool_id.as_deref() == Some(value));
        facts.look_up("argument", &fact["arg_value"], |value| holds_text(&args, value));
        facts.look_up("result", &fact["result"], |value| result.contains(value));
        facts.look_up("error", &fact["error"], |value| error.contains(value) || result.contains(value));
        if fact["failure_is_marked"] == true {
            facts.check(format!("failure of {name}"), !error.is_empty());
        }
        facts.check(format!("request of {name}"), call.requested_by.is_some() || !has_requests(expected));
    }
    let all = || models.iter().chain(&tools);
    for fact in list(&expected["prompts"]) {
        facts.look_up("prompt", fact, |value| all().any(|call| prompt(call).contains(value)));
    }
    for fact in list(&expected["final_outputs"]) {
        facts.look_up("final output", fact, |value| models.iter().filter(|call| output(call) == value).count() == 1);
    }
    for fact in list(&expected["agents"]) {
        facts.look_up("agent", fact, |value| all().any(|call| call.agent.as_deref() == Some(value)));
    }
    let conversation = &expected["ids"]["conversation"];
    facts.look_up("conversation", conversation, |value| all().all(|call| call.conversation.as_deref() == Some(value)));
    facts.look_up("secret", &expected["secret"], |value| models.iter().any(|call| output(call).contains(value)));
    let sum = |of: fn(&crate::TokenUsage) -> u64| models.iter().filter_map(|call| call.usage.as_ref()).map(of).sum();
    let (input, output): (u64, u64) = (sum(|usage| usage.input), sum(|usage| usage.output));
    facts.check("input tokens in all", expected["usage_totals"]["input_tokens"] == input);
    facts.check("output tokens in all", expected["usage_totals"]["output_tokens"] == output);
    facts
}

/// True if model calls tell of the tool calls in them. Coding agents export texts alone.
fn has_requests(expected: &Value) -> bool {
    !expected["dialect"].as_str().unwrap().starts_with("claude-code")
}

#[test]
fn captures_become_their_calls_with_each_fact_once() {
    let mut missing = Vec::new();
    println!("{:30} {:>12} {:>12} {:>9} {:>14}", "capture", "model calls", "tool calls", "prompts", "facts");
    for capture in captures() {
        let traces = assembled(&capture.exports);
        let expected = &capture.expected;
        let mut facts = facts_of(&capture, &traces);
        let counted = |kind| calls(&traces, kind).len();
        let wanted = |name: &str| list(&expected[name]).len();
        let (models, tools) = (counted(CallKind::Model), counted(CallKind::Tool));
        let prompts: BTreeSet<&str> = traces.iter().flat_map(|trace| &trace.calls).map(prompt).collect();
        let prompts = prompts.iter().filter(|text| !text.is_empty()).count();
        let in_export = list(&expected["prompts"]).iter().filter(|fact| fact["in_export"] == true).count();
        let found = facts.0.iter().filter(|(_, found)| *found).count();
        println!(
            "{:30} {:>5} of {:>3} {:>5} of {:>3} {:>2} of {:>2} {:>6} of {:>3}",
            capture.name,
            models,
            wanted("model_calls"),
            tools,
            wanted("tool_calls"),
            prompts,
            in_export,
            found,
            facts.0.len()
        );
        facts.check("number of model calls", models == wanted("model_calls"));
        facts.check("number of tool calls", tools == wanted("tool_calls"));
        facts.check("number of prompts", prompts <= in_export.max(1));
        let failed = facts.0.into_iter().filter(|(_, found)| !found);
        missing.extend(failed.map(|(fact, _)| format!("{}: {fact}", capture.name)));
    }
    assert!(missing.is_empty(), "not found:\n{}", missing.join("\n"));
}
