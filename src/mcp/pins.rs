//! Pins tool descriptions and detects changes and orders in them. A server may change the text under which a tool was
//! admitted, or write orders to the model into it: both are reported once, as an event of their own, which shadows
//! review like any other.

use std::collections::BTreeSet;

use rmcp::model::Tool;
use serde_json::{Value, json};

use super::call_guard::CallGuard;
use umbra_domain::{CheckName, Event, Severity, Trigger};
use umbra_store::{
    StoreError,
    mcp::{PinnedTool, ReportedTool},
};

/// Most characters of a description that are kept and shown.
const SHOWN: usize = 16 * 1024;

/// Reason not to trust a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolDoubt {
    /// The description gives orders to the model, or hides characters.
    Orders,
    /// The definition differs from the pinned one.
    Changed,
}

impl ToolDoubt {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Orders => "its description gives instructions to the model",
            Self::Changed => "its description has changed since the tool was pinned",
        }
    }
}

/// Collects everything in a definition that a model reads: title, description, and those within the schemas.
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

/// Returns the hash and text to pin: of all that a model or the boundary goes by.
fn seen(tool: &Tool) -> ReportedTool {
    let mut definition = json!([tool.title, tool.description, tool.input_schema, tool.output_schema, tool.annotations]);
    // A server's order of keys has no meaning.
    definition.sort_all_objects();
    let hash = blake3::hash(definition.to_string().as_bytes()).as_bytes().to_vec();
    let description = umbra_checks::redact(&words(tool)).as_str().replace('\0', "");
    ReportedTool { tool: tool.name.to_string(), hash, description }
}

/// True if a description gives orders to the model, or hides characters.
fn gives_orders(tool: &Tool) -> bool {
    let event = Event { input: Some(words(tool)), ..Event::default() };
    let stored = umbra_checks::screen(event);
    let which = BTreeSet::from([CheckName::Injection, CheckName::Hidden]);
    umbra_checks::review(&stored.event, &stored.marks, &which).iter().any(|hit| hit.severity >= Severity::Warning)
}

/// Profile and server of tools.
pub(super) struct PinScope<'a> {
    pub profile: &'a str,
    pub server: &'a str,
}

/// Compares tools with their pins, pins new ones, and reports doubts once. If the pins cannot be read, the doubts are
/// returned as an error.
pub(super) async fn judge(
    guard: &CallGuard,
    place: &PinScope<'_>,
    tools: &[Tool],
) -> Result<Vec<Option<ToolDoubt>>, Vec<Option<ToolDoubt>>> {
    let seen: Vec<ReportedTool> = tools.iter().map(seen).collect();
    let orders: Vec<bool> = tools.iter().map(gives_orders).collect();
    let (pins, new) = match compared(guard, place, &seen).await {
        Ok(compared) => compared,
        Err(error) => {
            tracing::warn!(%error, "the descriptions of MCP tools cannot be compared with their pins");
            return Err(orders.into_iter().map(|orders| orders.then_some(ToolDoubt::Orders)).collect());
        }
    };
    let mut doubts = Vec::with_capacity(tools.len());
    for (seen, orders) in seen.iter().zip(orders) {
        let pinned = pins.iter().find(|pin| pin.tool == seen.tool);
        let changed = pinned.is_some_and(|pin| pin.hash != seen.hash);
        let is_news = new.contains(&seen.tool);
        if is_news && (changed || orders) {
            guard.observe(report(place, seen, pinned.filter(|_| changed), orders));
        }
        doubts.push(if orders { Some(ToolDoubt::Orders) } else { changed.then_some(ToolDoubt::Changed) });
    }
    Ok(doubts)
}

/// Pins the present definitions; returns the names of newly pinned tools.
pub(super) async fn accept(guard: &CallGuard, place: &PinScope<'_>, tools: &[Tool]) -> Result<Vec<String>, StoreError> {
    let seen: Vec<ReportedTool> = tools.iter().map(seen).collect();
    guard.store().contracts().pin_mcp_tools(place.profile, place.server, &seen, true).await
}

/// Returns the pins, and the names of the tools that are new, or changed for the first time.
async fn compared(
    guard: &CallGuard,
    place: &PinScope<'_>,
    seen: &[ReportedTool],
) -> Result<(Vec<PinnedTool>, Vec<String>), StoreError> {
    let store = guard.store();
    let pins = store.contracts().mcp_pins(place.profile, place.server).await?;
    let pin = |seen: &ReportedTool| pins.iter().find(|pin| pin.tool == seen.tool);
    let unknown: Vec<ReportedTool> = seen.iter().filter(|seen| pin(seen).is_none()).cloned().collect();
    let unreported =
        |pin: &PinnedTool, seen: &ReportedTool| pin.hash != seen.hash && pin.changed.as_ref() != Some(&seen.hash);
    let changed: Vec<ReportedTool> =
        seen.iter().filter(|seen| pin(seen).is_some_and(|pin| unreported(pin, seen))).cloned().collect();
    let mut new = Vec::new();
    if !unknown.is_empty() {
        new = store.contracts().pin_mcp_tools(place.profile, place.server, &unknown, false).await?;
    }
    if !changed.is_empty() {
        new.extend(store.contracts().note_changed_mcp_tools(place.profile, place.server, &changed).await?);
    }
    Ok((pins, new))
}

/// Returns the event of a tool in doubt. The server's text is the event's input, so the checks treat it as outside
/// data.
fn report(place: &PinScope<'_>, seen: &ReportedTool, was: Option<&PinnedTool>, orders: bool) -> Event {
    let mut text = String::new();
    if let Some(was) = was {
        text = format!("When it was pinned it said:\n{}\n\nNow it says:\n", was.description);
    }
    text.push_str(&seen.description);
    let what = if was.is_some() { "changed since it was pinned" } else { "was seen for the first time" };
    let mcp = json!({
        "profile": place.profile,
        "server": place.server,
        "tool": seen.tool,
        "finding": if was.is_some() { "tool_changed" } else { "tool_poisoned" },
        "gives_orders": orders,
        "hash": hex::encode(&seen.hash),
        "pinned_hash": was.map(|was| hex::encode(&was.hash)),
    });
    Event {
        // Each tool is an agent of its own: reviews of one agent are spaced out, and a server may poison many at once.
        agent: format!("mcp:{}.{}", place.server, seen.tool),
        triggers: vec![Trigger::SecurityRisk],
        task: Some(format!("The description of the MCP tool {}.{} {what}.", place.server, seen.tool)),
        input: Some(text),
        metadata: [("mcp".to_owned(), mcp)].into_iter().collect(),
        ..Event::default()
    }
}
