//! The shape of a tool from what it was seen to do: recorded calls in, a contract's schemas and response out. Ids become
//! minted ones, what only repeats an argument echoes it, times become the run's; the rest is what was seen most.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::template::literal;
use umbra_domain::{
    Effect,
    contract::{Response, ToolContract},
};

/// Fewest recorded calls from which a shape is inferred.
pub const LEAST_RECORDED: usize = 5;
/// Most that are looked at, the latest.
const MOST_RECORDED: usize = 200;
/// Deepest that a shape goes; what lies below is any value.
const MAX_DEPTH: usize = 12;
/// Most arguments that a field is compared with.
const MAX_PATHS: usize = 200;
/// Most items of a list that are shown.
const MOST_ITEMS: usize = 3;
/// Shortest text that is an id because no two calls gave the same.
const SHORTEST_ID: usize = 6;

/// A live call and its result.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Recorded {
    /// What the tool was given.
    pub args: Value,
    /// What it gave.
    pub result: Value,
}

/// The contract of a tool from calls of it, oldest first.
///
/// # Errors
/// Why nothing can be inferred: too few calls, or results that are null.
pub fn infer(tool: &str, effect: Effect, recorded: &[Recorded]) -> Result<ToolContract, String> {
    if recorded.len() < LEAST_RECORDED {
        let found = recorded.len();
        return Err(format!("{found} recorded results; at least {LEAST_RECORDED} are needed"));
    }
    shape_of(tool, effect, recorded)
}

/// The same from however few calls.
///
/// # Errors
/// Results that are null, or of several types.
pub fn shape_of(tool: &str, effect: Effect, recorded: &[Recorded]) -> Result<ToolContract, String> {
    let calls: Vec<&Recorded> = recorded.iter().skip(recorded.len().saturating_sub(MOST_RECORDED)).collect();
    let results: Vec<&Value> = calls.iter().map(|call| &call.result).collect();
    if results.iter().any(|result| result.is_null()) {
        return Err("some recorded results are null: a stub is never null".to_owned());
    }
    let kinds: BTreeSet<_> = results.iter().map(|result| kind(result)).collect();
    if kinds.len() > 1 {
        return Err("the recorded results are of several types".to_owned());
    }
    let arguments: Vec<&Value> = calls.iter().map(|call| &call.args).collect();
    let paths = calls.last().map(|call| paths(&call.args)).unwrap_or_default();
    let mut contract = ToolContract::new(tool, effect);
    contract.input_schema = Some(schema(&arguments, 0)).filter(|schema| schema["type"] == "object");
    contract.output_schema = Some(schema(&results, 0));
    let result = template(&results, &arguments, &paths, 0);
    contract.responses.push(Response { when: None, result });
    Ok(contract)
}

/// A schema that all of these values fit.
fn schema(values: &[&Value], depth: usize) -> Value {
    let kinds: BTreeSet<&str> = values.iter().map(|value| kind(value)).collect();
    let mut kinds: Vec<&str> = kinds.into_iter().collect();
    if kinds.contains(&"number") {
        kinds.retain(|kind| *kind != "integer");
    }
    if depth > MAX_DEPTH || kinds.is_empty() {
        return json!({});
    }
    let mut schema = Map::new();
    schema.insert("type".to_owned(), if let [one] = kinds.as_slice() { json!(one) } else { json!(kinds) });
    if kinds.contains(&"object") {
        let fields = fields(values);
        let required: Vec<&str> =
            fields.iter().filter(|(_, seen)| seen.len() == values.len()).map(|(name, _)| *name).collect();
        let properties: Map<String, Value> =
            fields.iter().map(|(name, seen)| ((*name).to_owned(), self::schema(seen, depth + 1))).collect();
        if !required.is_empty() {
            schema.insert("required".to_owned(), json!(required));
        }
        schema.insert("properties".to_owned(), Value::Object(properties));
    }
    if kinds.contains(&"array") {
        let items: Vec<&Value> = values.iter().filter_map(|value| value.as_array()).flatten().collect();
        if !items.is_empty() {
            schema.insert("items".to_owned(), self::schema(&items, depth + 1));
        }
    }
    Value::Object(schema)
}

/// The values of each field.
fn fields<'a>(values: &[&'a Value]) -> BTreeMap<&'a str, Vec<&'a Value>> {
    let mut fields: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for (name, value) in values.iter().filter_map(|value| value.as_object()).flatten() {
        fields.entry(name).or_default().push(value);
    }
    fields
}

/// What a result is made of; the values and the arguments are of the same calls, in the same order.
fn template(values: &[&Value], arguments: &[&Value], paths: &[String], depth: usize) -> Value {
    let Some(last) = values.last().copied() else { return Value::Null };
    if depth > MAX_DEPTH {
        return escaped(last);
    }
    if let Some(path) = paths.iter().find(|path| echoes(values, arguments, path)) {
        return Value::String(format!("{{{{ args{path} }}}}"));
    }
    if values.iter().all(|value| value.is_object()) {
        let mut entries = Map::new();
        for (name, seen) in fields(values) {
            // A field that some results lack is left out.
            if seen.len() == values.len() {
                entries.insert(name.to_owned(), template(&seen, arguments, paths, depth + 1));
            }
        }
        return Value::Object(entries);
    }
    if let Value::Array(items) = last {
        return Value::Array(items.iter().take(MOST_ITEMS).map(escaped).collect());
    }
    let texts: Vec<&str> = values.iter().filter_map(|value| value.as_str()).collect();
    if texts.len() == values.len()
        && let Some(minted) = minted(&texts)
    {
        return Value::String(minted);
    }
    escaped(most_common(values))
}

/// Whether a field always is what stands at a path of the arguments, and not only by being always the same.
fn echoes(values: &[&Value], arguments: &[&Value], path: &str) -> bool {
    let pointer = path.replace('.', "/");
    let varies = values.windows(2).any(|pair| pair.first() != pair.get(1));
    let long = values.first().is_some_and(|value| match value {
        Value::String(text) => text.len() >= SHORTEST_ID,
        Value::Number(_) => true,
        _ => false,
    });
    (varies || long)
        && values.len() == arguments.len()
        && values.iter().zip(arguments).all(|(value, arguments)| arguments.pointer(&pointer) == Some(value))
}

/// How texts that are no two the same are minted anew; none where they are no ids and no times.
fn minted(texts: &[&str]) -> Option<String> {
    if texts.iter().all(|text| text.parse::<jiff::Timestamp>().is_ok()) {
        return Some("{{ now() }}".to_owned());
    }
    let different: BTreeSet<_> = texts.iter().collect();
    let plain = |text: &str| {
        text.len() >= SHORTEST_ID && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':'))
    };
    if different.len() < texts.len()
        || !texts.iter().all(|text| plain(text) && text.contains(|c: char| c.is_ascii_digit()))
    {
        return None;
    }
    let prefix = common_prefix(texts);
    let rest = |text: &str| text.get(prefix.len()..).unwrap_or_default().to_owned();
    let counted = texts.iter().all(|text| rest(text).chars().all(|c| c.is_ascii_digit()));
    let mint = if counted && !prefix.is_empty() { "seq" } else { "uuid" };
    Some(format!("{{{{ {mint}('{prefix}shadow-') }}}}"))
}

/// What all texts begin with, up to the last joint.
fn common_prefix<'a>(texts: &[&'a str]) -> &'a str {
    let Some(first) = texts.first() else { return "" };
    let same = |length: &usize| {
        let start = first.get(..*length);
        start.is_some() && texts.iter().all(|text| text.get(..*length) == start)
    };
    let length = (0..=first.len()).rev().find(same).unwrap_or(0);
    let start = first.get(..length).unwrap_or_default();
    start.rfind(['-', '_', ':']).and_then(|joint| start.get(..=joint)).unwrap_or_default()
}

/// What was seen most; of several the latest.
fn most_common<'a>(values: &[&'a Value]) -> &'a Value {
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (index, value) in values.iter().enumerate() {
        let (count, at) = counts.entry(value.to_string()).or_default();
        *count += 1;
        *at = index;
    }
    let best = counts.into_values().max().map_or(0, |(_, at)| at);
    values.get(best).copied().unwrap_or(&Value::Null)
}

/// A value whose texts are no templates.
fn escaped(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(literal(text)),
        Value::Array(items) => Value::Array(items.iter().map(escaped).collect()),
        Value::Object(entries) => Value::Object(
            entries
                .iter()
                .filter(|(key, _)| !key.contains("{{"))
                .map(|(key, value)| (key.clone(), escaped(value)))
                .collect(),
        ),
        other => other.clone(),
    }
}

/// Paths of arguments that are no mappings, as `.a.b`, of names that an expression can say.
fn paths(arguments: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![(String::new(), arguments)];
    while let Some((path, value)) = waiting.pop() {
        if found.len() >= MAX_PATHS || path.len() > 200 {
            break;
        }
        let Value::Object(entries) = value else {
            if !path.is_empty() {
                found.push(path);
            }
            continue;
        };
        // The last is taken first.
        for (name, value) in entries.iter().rev().filter(|(name, _)| is_name(name)) {
            waiting.push((format!("{path}.{name}"), value));
        }
    }
    found
}

/// Whether an expression can say a name after a dot.
fn is_name(name: &str) -> bool {
    let words = [
        "in",
        "true",
        "false",
        "null",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ];
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !words.contains(&name)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
