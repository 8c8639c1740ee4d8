//! What a tool says of itself, and whether to believe it. A server may change the words under which a tool was admitted, or
//! write orders to the model into them: both are reported once, as an event of their own, which shadows review like any other.

use std::collections::{BTreeMap, BTreeSet};

use rmcp::model::Tool;
use serde_json::{Value, json};

use super::guard::Guard;
use umbra_domain::{CheckName, Event, Severity, Trigger};
use umbra_store::{
    StoreError,
    mcp::{Pin, Seen},
};

/// Characters of a description that are kept and shown.
const SHOWN: usize = 16 * 1024;

/// Why a tool is not to be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    /// Its description speaks to the model as no description does.
    Orders,
    /// It is described otherwise than when it was pinned.
    Changed,
}

impl Doubt {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Orders => "its description gives orders to the model",
            Self::Changed => "it is described otherwise than when it was pinned",
        }
    }
}

/// Everything in a definition that a model reads, name by name: the description, and those within the schemas.
fn words(tool: &Tool) -> String {
    fn below(value: &Value, words: &mut String) {
        match value {
            Value::Object(members) => {
                for (key, value) in members {
                    match value {
                        Value::String(text) if key == "description" || key == "title" => {
                            words.push('\n');
                            words.push_str(text);
                        }
                        other => below(other, words),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| below(item, words)),
            _ => {}
        }
    }
    let mut words = tool.title.clone().unwrap_or_default();
    words.push('\n');
    words.push_str(tool.description.as_deref().unwrap_or_default());
    for schema in std::iter::once(&tool.input_schema).chain(&tool.output_schema) {
        schema.values().for_each(|value| below(value, &mut words));
    }
    let end = words.char_indices().nth(SHOWN).map_or(words.len(), |(end, _)| end);
    words.truncate(end);
    words.trim().to_owned()
}

/// The same with keys in order: in which order a server writes them says nothing.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<String, Value> =
                members.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(members.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// What is pinned: all that a model or the boundary goes by.
fn seen(tool: &Tool) -> Seen {
    let definition = json!([tool.title, tool.description, tool.input_schema, tool.output_schema, tool.annotations]);
    let hash = blake3::hash(sorted(definition).to_string().as_bytes()).as_bytes().to_vec();
    let description = umbra_checks::redact(&words(tool)).as_str().replace('\0', "");
    Seen { tool: tool.name.to_string(), hash, description }
}

/// Whether a description speaks to the model, or hides characters.
fn gives_orders(tool: &Tool) -> bool {
    let event = Event { input: Some(words(tool)), ..Event::default() };
    let stored = umbra_checks::screen(event);
    let which = BTreeSet::from([CheckName::Injection, CheckName::Hidden]);
    umbra_checks::review(&stored.event, &stored.marks, &which).iter().any(|hit| hit.severity >= Severity::Warning)
}

/// Where tools come from.
pub(super) struct Place<'a> {
    pub profile: &'a str,
    pub server: &'a str,
}

/// Compares tools with what is pinned, pins new ones, and reports once what is in doubt. Where the pins cannot be read it is
/// an error, with what is in doubt all the same.
pub(super) async fn judge(
    guard: &Guard,
    place: &Place<'_>,
    tools: &[Tool],
) -> Result<Vec<Option<Doubt>>, Vec<Option<Doubt>>> {
    let seen: Vec<Seen> = tools.iter().map(seen).collect();
    let orders: Vec<bool> = tools.iter().map(gives_orders).collect();
    let pins = match compared(guard, place, &seen).await {
        Ok(pins) => pins,
        Err(error) => {
            tracing::warn!(%error, "the pins of MCP tools cannot be compared now");
            return Err(orders.into_iter().map(|orders| orders.then_some(Doubt::Orders)).collect());
        }
    };
    let mut doubts = Vec::with_capacity(tools.len());
    for (seen, orders) in seen.iter().zip(orders) {
        let pinned = pins.pins.iter().find(|pin| pin.tool == seen.tool);
        let changed = pinned.is_some_and(|pin| pin.hash != seen.hash);
        let is_news = pins.new.contains(&seen.tool);
        if is_news && (changed || orders) {
            guard.observe(report(place, seen, pinned.filter(|_| changed), orders));
        }
        doubts.push(if orders { Some(Doubt::Orders) } else { changed.then_some(Doubt::Changed) });
    }
    Ok(doubts)
}

/// Pins what tools say now; answers the names of those that were pinned by this.
pub(super) async fn accept(guard: &Guard, place: &Place<'_>, tools: &[Tool]) -> Result<Vec<String>, StoreError> {
    let seen: Vec<Seen> = tools.iter().map(seen).collect();
    guard.store().contracts().pin_mcp_tools(place.profile, place.server, &seen, true).await
}

struct Compared {
    pins: Vec<Pin>,
    /// Seen, or seen so, for the first time.
    new: Vec<String>,
}

async fn compared(guard: &Guard, place: &Place<'_>, seen: &[Seen]) -> Result<Compared, StoreError> {
    let store = guard.store();
    let pins = store.contracts().mcp_pins(place.profile, place.server).await?;
    let pin = |seen: &Seen| pins.iter().find(|pin| pin.tool == seen.tool);
    let unknown: Vec<Seen> = seen.iter().filter(|seen| pin(seen).is_none()).cloned().collect();
    let unreported = |pin: &Pin, seen: &Seen| pin.hash != seen.hash && pin.changed.as_ref() != Some(&seen.hash);
    let changed: Vec<Seen> =
        seen.iter().filter(|seen| pin(seen).is_some_and(|pin| unreported(pin, seen))).cloned().collect();
    let mut new = Vec::new();
    if !unknown.is_empty() {
        new = store.contracts().pin_mcp_tools(place.profile, place.server, &unknown, false).await?;
    }
    if !changed.is_empty() {
        new.extend(store.contracts().note_changed_mcp_tools(place.profile, place.server, &changed).await?);
    }
    Ok(Compared { pins, new })
}

/// The event of a tool in doubt. What its server wrote is outside data, so the checks look at it as such.
fn report(place: &Place<'_>, seen: &Seen, was: Option<&Pin>, orders: bool) -> Event {
    let mut text = String::new();
    if let Some(was) = was {
        text = format!("When it was pinned it said:\n{}\n\nNow it says:\n", was.description);
    }
    text.push_str(&seen.description);
    let what = if was.is_some() { "changed since it was pinned" } else { "was seen for the first time" };
    let metadata = json!({"mcp": {
        "profile": place.profile,
        "server": place.server,
        "tool": seen.tool,
        "finding": if was.is_some() { "tool_changed" } else { "tool_poisoned" },
        "gives_orders": orders,
        "hash": hex::encode(&seen.hash),
        "pinned_hash": was.map(|was| hex::encode(&was.hash)),
    }});
    Event {
        // Each tool is an agent of its own: reviews of one agent are spaced out, and a server may poison many at once.
        agent: format!("mcp:{}.{}", place.server, seen.tool),
        triggers: vec![Trigger::SecurityRisk],
        task: Some(format!("The description of the MCP tool {}.{} {what}.", place.server, seen.tool)),
        input: Some(text),
        metadata: match metadata {
            Value::Object(members) => members,
            _ => serde_json::Map::new(),
        },
        ..Event::default()
    }
}
