//! Messages in the forms of Slack, Microsoft Teams and PagerDuty. In: the body of a signed webhook. Out: the JSON that
//! such a service takes.

use secrecy::ExposeSecret;
use serde_json::{Value, json};

use umbra_config::settings::WebhookFormat;

/// Most characters of a title; PagerDuty takes 1,024.
const TITLE_CHARS: usize = 500;
/// Most characters of a text; Slack takes 3,000.
const TEXT_CHARS: usize = 2_000;
/// Most characters of a key; PagerDuty takes 255.
const KEY_CHARS: usize = 255;

/// Words for a kind of message: kind, title, severity, key of what it is about, and true if it ends that.
type Words = (&'static str, &'static str, &'static str, &'static str, bool);

/// Each kind of message. Names in braces are members of its data.
const KINDS: [Words; 14] = [
    ("finding.created", "{severity} finding about {watched_agent}", "{severity}", "finding/{id}", false),
    ("verdict.decided", "Output of {watched_agent}: {verdict}", "warning", "verdict/{event_id}", false),
    ("breaker.opened", "Hold {agent} back: its breaker is open", "critical", "breaker/{agent}", false),
    ("breaker.half_open", "{agent} may try again: its breaker is half open", "info", "breaker/{agent}", false),
    ("breaker.still_open", "The breaker of {agent} is still open", "critical", "breaker/{agent}", false),
    ("breaker.closed", "{agent} may work: its breaker is closed", "info", "breaker/{agent}", true),
    ("reflexion.opened", "A fault of {agent} recurs", "warning", "reflexion/{id}", false),
    ("reflexion.closed", "A fault of {agent} recurs no more", "info", "reflexion/{id}", true),
    ("briefing.ready", "The briefing of {period} is ready", "info", "briefing/{path}", false),
    ("contract.stale", "The contract {contract} is stale: {why}", "warning", "contract/{contract}", false),
    ("call.unguarded", "{agent} called {tool} without a decision", "error", "unguarded/{agent}/{tool}", false),
    ("call.unexpected", "{agent} ran {tool} against the decision", "critical", "unexpected/{audit_seq}", false),
    ("approval.requested", "{agent} waits for approval of {tool}", "warning", "approval/{id}", false),
    ("approval.decided", "{tool} of {agent}: {state}", "info", "approval/{id}", true),
];

/// Members of the data that stand below the text, with their names for people.
const FACTS: [(&str, &str); 9] = [
    ("Agent", "watched_agent"),
    ("Agent", "agent"),
    ("Task", "task_id"),
    ("Tool", "tool"),
    ("Shadow", "shadow"),
    ("Rule", "rule"),
    ("Event", "event_id"),
    ("Review", "review_id"),
    ("Id", "id"),
];

/// A message in words.
struct Alert {
    title: String,
    text: String,
    severity: String,
    facts: Vec<(&'static str, String)>,
    /// Name of what it is about: a later message with the same key continues it.
    key: String,
    /// True if that is over.
    is_over: bool,
    at: Value,
    data: Value,
}

/// Returns the body of a message in the form of an endpoint.
pub(super) fn formatted(format: &WebhookFormat, body: &str) -> String {
    let form = match format {
        WebhookFormat::Standard => return body.to_owned(),
        WebhookFormat::Slack => slack,
        WebhookFormat::Teams => teams,
        WebhookFormat::PagerDuty(key) => return pager_duty(&Alert::of(body), key.expose_secret()).to_string(),
    };
    form(&Alert::of(body)).to_string()
}

impl Alert {
    fn of(body: &str) -> Self {
        let mut message: Value = serde_json::from_str(body).unwrap_or_default();
        let data = message["data"].take();
        let kind = message["type"].as_str().unwrap_or_default();
        let (_, title, severity, key, is_over) =
            KINDS.into_iter().find(|(known, ..)| *known == kind).unwrap_or(("", "Umbra: a message", "info", "", false));
        let title = filled(title, &data);
        let sentences = [&data["description"], &data["recommendation"]].into_iter();
        let reasons = data["reasons"].as_array().into_iter().flatten();
        let text: Vec<&str> = sentences
            .chain(reasons)
            .chain([&data["reason"]])
            .filter_map(Value::as_str)
            .filter(|text| !text.is_empty())
            .collect();
        let facts = FACTS.into_iter().filter_map(|(name, member)| Some((name, words(&data[member])?)));
        Self {
            title: cut(&capitalised(&title), TITLE_CHARS),
            text: cut(&text.join("\n"), TEXT_CHARS),
            severity: filled(severity, &data),
            facts: facts.collect(),
            key: cut(&filled(key, &data), KEY_CHARS),
            is_over,
            at: message["timestamp"].take(),
            data,
        }
    }
}

/// Returns the body for an incoming webhook of Slack.
fn slack(alert: &Alert) -> Value {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mark = match alert.severity.as_str() {
        "critical" | "error" => ":red_circle:",
        "warning" => ":large_yellow_circle:",
        _ => ":white_circle:",
    };
    let heading = format!("{mark} *{}*\n{}", escaped(&alert.title), escaped(&alert.text));
    let facts: Vec<String> = alert.facts.iter().map(|(name, value)| format!("{name}: {}", escaped(value))).collect();
    let mut blocks = vec![json!({"type": "section", "text": {"type": "mrkdwn", "text": heading.trim_end()}})];
    if !facts.is_empty() {
        let text = cut(&facts.join("  |  "), TEXT_CHARS);
        blocks.push(json!({"type": "context", "elements": [{"type": "mrkdwn", "text": text}]}));
    }
    json!({"text": escaped(&alert.title), "blocks": blocks})
}

/// Returns the body for a workflow of Microsoft Teams: a message with an Adaptive Card.
fn teams(alert: &Alert) -> Value {
    let colour = match alert.severity.as_str() {
        "critical" | "error" => "attention",
        "warning" => "warning",
        _ => "default",
    };
    let facts: Vec<Value> = alert.facts.iter().map(|(name, value)| json!({"title": name, "value": value})).collect();
    let card = json!({
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4",
        "body": [
            {"type": "TextBlock", "text": alert.title, "weight": "bolder", "color": colour, "wrap": true},
            {"type": "TextBlock", "text": alert.text, "wrap": true},
            {"type": "FactSet", "facts": facts},
        ],
    });
    json!({"type": "message",
        "attachments": [{"contentType": "application/vnd.microsoft.card.adaptive", "content": card}]})
}

/// Returns the body for the events API of PagerDuty, version 2.
fn pager_duty(alert: &Alert, routing_key: &str) -> Value {
    let action = if alert.is_over { "resolve" } else { "trigger" };
    let source = alert.facts.iter().find(|(name, _)| *name == "Agent").map_or("umbra", |(_, agent)| agent);
    json!({
        "routing_key": routing_key, "event_action": action, "dedup_key": alert.key,
        "payload": {
            "summary": alert.title, "source": source, "severity": alert.severity, "timestamp": alert.at,
            "component": "umbra", "custom_details": alert.data,
        },
    })
}

/// Puts members of the data in the place of their names in braces.
fn filled(template: &str, data: &Value) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once('{') {
        let (name, after) = behind.split_once('}').unwrap_or((behind, ""));
        text.push_str(before);
        text.push_str(&words(&data[name]).unwrap_or_else(|| "?".to_owned()));
        rest = after;
    }
    text + rest
}

fn words(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn capitalised(text: &str) -> String {
    let mut signs = text.chars();
    signs.next().map_or_else(String::new, |first| first.to_uppercase().chain(signs).collect())
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}
