//! Writer of contracts as YAML that reads back as the same contract.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::super::quantity::show_duration;
use umbra_domain::contract::{StaleLimits, ToolContract};

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

/// Keys of a contract, in the order of the example.
const KEYS: &str = "tool version effect arguments input_schema output_schema responses faults overlay stale \
                    on_unavailable sandbox taints";

/// Returns the keys of a contract that differ from their defaults.
fn entries(contract: &ToolContract) -> impl Iterator<Item = (&'static str, Value)> {
    let mut fields = json!(contract);
    let StaleLimits { live_mismatches, max_age } = contract.stale;
    if let Some(count) = live_mismatches {
        fields["stale"]["live_mismatches"] = count.into();
    }
    if let Some(age) = max_age {
        fields["stale"]["max_age"] = show_duration(age).into();
    }
    KEYS.split(' ').filter_map(move |key| Some((key, fields.get_mut(key)?.take())))
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
