//! Writer of contracts as YAML that reads back as the same contract.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::super::quantity::show_duration;
use umbra_domain::contract::{Arguments, OnUnavailable, Overlay, ToolContract};

/// Writes contracts as a tools file, without comments.
pub fn write(contracts: &[ToolContract]) -> String {
    let mut text = String::from("tools:\n");
    for contract in contracts {
        let mut lines = String::new();
        for (key, value) in entries(contract) {
            entry(&mut lines, 4, key, &value);
        }
        // The first key stands on the line of the item's dash.
        text.push_str("  - ");
        text.push_str(lines.trim_start());
    }
    text
}

/// Returns the keys of a contract that differ from their defaults, in the order of the example.
fn entries(contract: &ToolContract) -> Vec<(&'static str, Value)> {
    let mut entries = vec![
        ("tool", json!(contract.tool)),
        ("version", json!(contract.version)),
        ("effect", json!(contract.effect.as_str())),
    ];
    let mut add = |key, value: Option<Value>| entries.extend(value.map(|value| (key, value)));
    let trusted = contract.arguments == Arguments::Trusted;
    add("arguments", trusted.then(|| json!(contract.arguments.as_str())));
    add("input_schema", contract.input_schema.clone());
    add("output_schema", contract.output_schema.clone());
    let responses = contract.responses.iter().map(|response| {
        let mut fields = Map::new();
        fields.extend(response.when.as_ref().map(|when| ("when".to_owned(), json!(when))));
        fields.insert("result".to_owned(), response.result.clone());
        Value::Object(fields)
    });
    add("responses", list(responses));
    let faults = contract.faults.iter().map(|fault| {
        present(json!({"rate": fault.rate, "error": fault.error, "message": fault.message, "result": fault.result}))
    });
    add("faults", list(faults));
    add("overlay", contract.overlay.as_ref().map(overlay));
    let stale = present(json!({
        "live_mismatches": contract.stale.live_mismatches,
        "max_age": contract.stale.max_age.map(show_duration),
    }));
    add("stale", Some(stale).filter(|stale| *stale != json!({})));
    let on_unavailable =
        (contract.on_unavailable != OnUnavailable::Block).then(|| json!(contract.on_unavailable.as_str()));
    add("on_unavailable", on_unavailable);
    add("sandbox", contract.sandbox.as_ref().map(|sandbox| json!(sandbox)));
    add("taints", list(contract.taints.iter().map(|taint| json!(taint))));
    entries
}

fn list(items: impl Iterator<Item = Value>) -> Option<Value> {
    let items: Vec<Value> = items.collect();
    (!items.is_empty()).then_some(Value::Array(items))
}

/// Removes null members from a mapping.
fn present(value: Value) -> Value {
    match value {
        Value::Object(entries) => Value::Object(entries.into_iter().filter(|(_, value)| !value.is_null()).collect()),
        other => other,
    }
}

fn overlay(overlay: &Overlay) -> Value {
    let put = overlay.put.as_ref().map(|put| {
        let partial = put.partial.then_some(true);
        present(json!({
            "collection": put.collection, "key": put.key, "value": put.value, "partial": partial, "edits": put.edits,
            "from": put.from,
        }))
    });
    let delete = overlay.delete.as_ref().map(|delete| json!({"collection": delete.collection, "key": delete.key}));
    let reads = overlay.reads.iter().map(|read| {
        let at = Some(&read.at).filter(|at| !at.is_empty());
        present(json!({
            "tool": read.tool, "collection": read.collection, "key": read.key, "at": at,
            "result": read.result, "on_missing": read.on_missing,
        }))
    });
    let lists = overlay.lists.iter().map(|list| {
        let items = Some(&list.items).filter(|items| !items.is_empty());
        let key = Some(&list.key).filter(|key| !key.is_empty());
        present(json!({
            "tool": list.tool, "collection": list.collection, "items": items, "key": key, "more": list.more,
            "when": list.when, "line": list.line,
        }))
    });
    present(json!({"put": put, "delete": delete, "reads": list(reads), "lists": list(lists)}))
}

/// Writes `key: value`, with nested values below it.
fn entry(text: &mut String, indent: usize, key: &str, value: &Value) {
    // Writing to a String cannot fail.
    let _ = write!(text, "{:indent$}{}:", "", name(key));
    below(text, indent + 2, value);
}

/// Writes a value after its key or dash.
fn below(text: &mut String, indent: usize, value: &Value) {
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            text.push('\n');
            for (key, value) in entries {
                entry(text, indent, key, value);
            }
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            text.push('\n');
            for item in items {
                let mut lines = String::new();
                below(&mut lines, indent + 2, item);
                let _ = writeln!(text, "{:indent$}- {}", "", lines.trim());
            }
        }
        Value::String(word) => {
            let _ = writeln!(text, " {}", name(word));
        }
        Value::Array(items) => {
            let item = |item: &Value| item.as_str().map_or_else(|| item.to_string(), name);
            let _ = writeln!(text, " [{}]", items.iter().map(item).collect::<Vec<_>>().join(", "));
        }
        // JSON is YAML.
        plain => {
            let _ = writeln!(text, " {plain}");
        }
    }
}

/// Quotes a word that YAML could read as something else.
fn name(key: &str) -> String {
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let plain = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '*' | '/'))
        && !words.contains(&key.to_lowercase().as_str());
    if plain { key.to_owned() } else { json!(key).to_string() }
}
