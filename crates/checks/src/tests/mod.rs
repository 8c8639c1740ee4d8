//! Tests of the built-in checks: tables of texts with their expected hits, and properties that hold for any text.

mod apart;
mod commands;
mod contradictions;
mod dear;
mod declared;
mod derived;
mod dictated;
mod disguises;
mod endings;
mod events;
mod fences;
mod injection;
mod left_over;
mod literals;
mod loops;
mod names;
mod nested;
mod outputs;
mod outside_hosts;
mod people;
mod pii;
mod placeholders;
mod properties;
mod roles;
mod rules;
mod secrets;
mod shells;
mod snippets;
mod takeover;
mod tools;
mod triggers;

use umbra_domain::{CheckName, Event, Hit, Severity, ToolCall};

/// Creates an event whose output is `text`.
fn saying(text: &str) -> Event {
    Event { agent: "writer-agent".to_owned(), output: Some(text.to_owned()), ..Event::default() }
}

/// Creates an event in which an agent runs a command.
fn running(command: &str) -> Event {
    let tool =
        ToolCall { name: "bash".to_owned(), args: serde_json::json!({ "command": command }), ..ToolCall::default() };
    Event { agent: "writer-agent".to_owned(), tool: Some(tool), ..Event::default() }
}

/// Creates an event in which a tool returned `text`.
fn reading(text: &str) -> Event {
    let tool = ToolCall { name: "fetch".to_owned(), result: Some(text.to_owned()), ..ToolCall::default() };
    Event { agent: "writer-agent".to_owned(), tool: Some(tool), ..Event::default() }
}

/// Returns the hits of one check in an event, after screening.
fn hits(event: Event, check: CheckName) -> Vec<Hit> {
    let screened = super::screen(event);
    super::review(&screened.event, &screened.marks, &[check].into())
}

/// Returns rule and severity of the worst hit.
fn worst(hits: &[Hit]) -> Option<(&str, Severity)> {
    hits.iter().max_by_key(|hit| hit.severity).map(|hit| (hit.rule.as_str(), hit.severity))
}
