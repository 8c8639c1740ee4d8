//! The texts of an event: as labelled sections for a prompt, and as stored fields for evidence.
//! In: a stored event. Out: sections with constant labels, fields by name. Never: a label that an agent wrote.

use std::{borrow::Cow, ops::Range};

use serde_json::{Map, Value};

use umbra_domain::{Event, FieldName, Hit, json::encoded_len};

/// Most sections of an event.
pub(super) const MAX_SECTIONS: usize = 8;

/// One text of the event, as shown to the model.
pub(super) struct EventSection<'a> {
    /// Constant name of the section.
    pub label: &'static str,
    /// Text of the section; JSON for `about` and `tool.args`.
    pub text: Cow<'a, str>,
    /// Strings within JSON text, to find a hit's place there.
    leaves: Vec<Leaf<'a>>,
}

/// A string within a section of JSON.
struct Leaf<'a> {
    field: FieldName,
    stored: &'a str,
    /// Position of its opening quote in the section's text, in bytes.
    opens: usize,
}

impl EventSection<'_> {
    /// Returns the byte range of a hit in this section's text.
    pub(super) fn place(&self, hit: &Hit) -> Option<Range<usize>> {
        if hit.field.as_str() == self.label {
            return self.text.get(hit.start..hit.end).map(|_| hit.start..hit.end);
        }
        let leaf = self.leaves.iter().find(|leaf| leaf.field == hit.field)?;
        // A quoted prefix is one closing quote longer than the text before the place.
        let at = |offset: usize| Some(leaf.opens + quoted(leaf.stored.get(..offset)?).len() - 1);
        Some(at(hit.start)?..at(hit.end)?)
    }
}

/// Returns the event's sections in reading order; empty ones are kept, absent ones are not.
pub(super) fn sections(event: &Event) -> Vec<EventSection<'_>> {
    let mut all = vec![EventSection { label: "about", text: Cow::Owned(about(event)), leaves: Vec::new() }];
    let tool = event.tool.as_ref();
    all.extend(plain("task", event.task.as_ref()));
    all.extend(plain("input", event.input.as_ref()));
    all.extend(plain("tool.name", tool.map(|tool| &tool.name)));
    all.extend(tool.filter(|tool| !tool.args.is_null()).map(|tool| arguments(&tool.args)));
    all.extend(plain("tool.result", tool.and_then(|tool| tool.result.as_ref())));
    all.extend(plain("tool.error", tool.and_then(|tool| tool.error.as_ref())));
    all.extend(plain("output", event.output.as_ref()));
    all
}

/// Returns the bytes of all sections' text, without building them.
pub(super) fn text_bytes(event: &Event) -> usize {
    let len = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let tool = event.tool.as_ref().map_or(0, |tool| {
        let args = if tool.args.is_null() { 0 } else { encoded_len(&tool.args) };
        tool.name.len() + args + len(&tool.result) + len(&tool.error)
    });
    about(event).len() + len(&event.task) + len(&event.input) + tool + len(&event.output)
}

/// Returns the stored fields in the order in which a quote is looked up: acts of the agent before texts it was given.
pub(super) fn stored_texts(event: &Event) -> Vec<(FieldName, &str)> {
    let mut texts = Vec::new();
    event.for_each_text(|field, text| texts.push((field, text)));
    if let Some(tool) = &event.tool {
        texts.push((FieldName::fixed("tool.name"), tool.name.as_str()));
    }
    texts.sort_by_key(|(field, _)| match field.as_str() {
        "output" => 0,
        "tool.name" => 2,
        "tool.result" | "tool.error" => 3,
        "input" => 4,
        "task" => 5,
        _ => 1,
    });
    texts
}

/// Returns the stored text of any field that a hit may name.
pub(super) fn stored_text<'a>(event: &'a Event, field: &FieldName) -> Option<&'a str> {
    if let Some(path) = field.as_str().strip_prefix("metadata.") {
        return within(&event.metadata, path);
    }
    if field.as_str() == "tool.name" {
        return event.tool.as_ref().map(|tool| tool.name.as_str());
    }
    event.text(field)
}

/// Returns the constant name by which a field is mentioned outside the fence.
pub(super) fn public_place(field: &FieldName) -> &'static str {
    const FIXED: [&str; 6] = ["task", "input", "tool.name", "tool.result", "tool.error", "output"];
    if let Some(name) = FIXED.into_iter().find(|name| *name == field.as_str()) {
        return name;
    }
    if field.is_tool_argument() { "tool.args" } else { "metadata" }
}

/// Returns the circumstances that the sender reports, as one JSON object: they are the sender's words, hence data.
fn about(event: &Event) -> String {
    let text = |value: &Option<String>| value.as_deref().map(Value::from);
    let facts = [
        ("agent", Some(Value::from(event.agent.as_str()))),
        ("attempt", event.attempt.map(Value::from)),
        ("exit_code", event.tool.as_ref().and_then(|tool| tool.exit_code).map(Value::from)),
        ("status", text(&event.status)),
        ("stop_reason", text(&event.stop_reason)),
        ("task_type", text(&event.task_type)),
    ];
    let known = facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(known.collect()).to_string()
}

fn plain<'a>(label: &'static str, text: Option<&'a String>) -> Option<EventSection<'a>> {
    text.map(|text| EventSection { label, text: Cow::Borrowed(text), leaves: Vec::new() })
}

fn arguments(args: &Value) -> EventSection<'_> {
    let mut section = EventSection { label: "tool.args", text: Cow::Borrowed(""), leaves: Vec::new() };
    let mut text = String::new();
    write_json(args, "tool.args", &mut text, &mut section.leaves);
    section.text = Cow::Owned(text);
    section
}

/// Writes compact JSON as `serde_json` would, and notes the start of each string.
fn write_json<'a>(value: &'a Value, path: &str, out: &mut String, leaves: &mut Vec<Leaf<'a>>) {
    match value {
        Value::String(stored) => {
            leaves.push(Leaf { field: FieldName(Cow::Owned(path.to_owned())), stored, opens: out.len() });
            out.push_str(&quoted(stored));
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                write_json(item, &format!("{path}.{index}"), out, leaves);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (index, (key, item)) in map.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                out.push_str(&quoted(key));
                out.push(':');
                write_json(item, &format!("{path}.{key}"), out, leaves);
            }
            out.push('}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
}

/// Returns the string at a path with dots; keys may hold dots themselves.
fn within<'a>(map: &'a Map<String, Value>, path: &str) -> Option<&'a str> {
    map.iter().find_map(|(key, value)| inside(value, path.strip_prefix(key.as_str())?))
}

fn inside<'a>(value: &'a Value, rest: &str) -> Option<&'a str> {
    match (value, rest.strip_prefix('.')) {
        (Value::String(text), None) if rest.is_empty() => Some(text),
        (Value::Object(map), Some(path)) => within(map, path),
        (Value::Array(items), Some(path)) => {
            items.iter().enumerate().find_map(|(index, item)| inside(item, path.strip_prefix(&index.to_string())?))
        }
        _ => None,
    }
}

/// Returns a text as a JSON string, with its quotes.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
