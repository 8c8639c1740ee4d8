//! Attributes of a span or a log, as JSON.

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use serde_json::{Map, Value};

use crate::json::lenient;

/// Deepest nesting of a value that is read.
const DEPTH: usize = 24;
/// Digits of a position in a list of flattened attributes.
const POSITION: usize = 20;

/// Attributes by name. Of a name that is given twice the last one counts.
#[derive(Debug, Default, Clone)]
pub(crate) struct Attributes(pub Map<String, Value>);

impl Attributes {
    pub fn of(attributes: &[KeyValue]) -> Self {
        Self(members(attributes, DEPTH))
    }

    /// Returns the first of these attributes that is there and says something.
    pub fn first<'a>(&'a self, names: &[String]) -> Option<&'a Value> {
        self.filled(names).next()
    }

    /// Returns those of these attributes that are there and say something.
    pub fn filled<'a, 'b>(&'a self, names: &'b [String]) -> impl Iterator<Item = &'a Value> + use<'a, 'b> {
        names.iter().filter_map(|name| self.0.get(name)).filter(|value| is_filled(value))
    }

    /// Returns the first of these attributes as text, which some senders write as JSON.
    pub fn text(&self, names: &[String]) -> Option<String> {
        let text = self.first(names).and_then(text_of)?;
        let quoted = text.starts_with('"').then(|| serde_json::from_str(&text).ok()).flatten();
        Some(quoted.unwrap_or(text))
    }

    /// Returns the first of these attributes as a number that is not negative.
    pub fn count(&self, names: &[String]) -> Option<u64> {
        self.first(names).and_then(count_of)
    }

    /// Returns those of these that are there, as an attribute or as a list of flattened ones (`name.0.role`).
    pub fn structured<'a>(&'a self, names: &'a [String]) -> impl Iterator<Item = Value> + 'a {
        names.iter().filter_map(|name| match self.0.get(name) {
            Some(value) if is_filled(value) => Some(value.clone()),
            _ => self.unflattened(name),
        })
    }

    /// Rebuilds `NAME.0.message.role`, `NAME.0.message.content`, … into a list of objects. Gaps between the positions
    /// are left out.
    fn unflattened(&self, name: &str) -> Option<Value> {
        let prefix = format!("{name}.");
        let mut root = Value::Null;
        for (key, value) in self.0.iter().filter(|(key, _)| key.starts_with(&prefix)) {
            let path = key.get(prefix.len()..)?;
            if path.bytes().next().is_some_and(|first| first.is_ascii_digit()) {
                place(&mut root, path, value, DEPTH);
            }
        }
        (!root.is_null()).then(|| listed(root))
    }
}

/// Puts a value at a path with dots. Positions in lists are members until all are known.
fn place(root: &mut Value, path: &str, value: &Value, depth: usize) {
    let (part, rest) = path.split_once('.').map_or((path, None), |(part, rest)| (part, Some(rest)));
    if !root.is_object() {
        *root = Value::Object(Map::new());
    }
    let name = if is_digits(part) { format!("{part:0>POSITION$}") } else { part.to_owned() };
    let slot = root.as_object_mut().map(|members| members.entry(name).or_insert(Value::Null));
    match (slot, rest) {
        (Some(slot), Some(rest)) if depth > 0 => place(slot, rest, value, depth - 1),
        (Some(slot), None) => *slot = value.clone(),
        _ => {}
    }
}

fn is_digits(part: &str) -> bool {
    (1..=POSITION).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
}

/// Makes lists of the objects whose members are positions.
fn listed(value: Value) -> Value {
    let Value::Object(members) = value else { return value };
    let is_list = members.keys().all(|name| name.len() == POSITION && is_digits(name));
    let mut members: Vec<(String, Value)> = members.into_iter().map(|(name, value)| (name, listed(value))).collect();
    members.sort_by(|(a, _), (b, _)| a.cmp(b));
    if is_list {
        members.into_iter().map(|(_, value)| value).collect()
    } else {
        Value::Object(members.into_iter().collect())
    }
}

fn members(attributes: &[KeyValue], depth: usize) -> Map<String, Value> {
    attributes.iter().map(|pair| (pair.key.clone(), value_of(pair.value.as_ref(), depth))).collect()
}

/// Returns a value as JSON; what is nested too deeply is left out.
pub(crate) fn value_of(value: Option<&AnyValue>, depth: usize) -> Value {
    let Some(value) = value.and_then(|value| value.value.as_ref()).filter(|_| depth > 0) else { return Value::Null };
    match value {
        any_value::Value::StringValue(text) => Value::String(text.replace('\0', "\u{fffd}")),
        any_value::Value::BoolValue(set) => Value::Bool(*set),
        any_value::Value::IntValue(number) => Value::from(*number),
        any_value::Value::DoubleValue(number) => Value::from(*number),
        any_value::Value::ArrayValue(list) => {
            list.values.iter().map(|value| value_of(Some(value), depth - 1)).collect()
        }
        any_value::Value::KvlistValue(list) => Value::Object(members(&list.values, depth - 1)),
        any_value::Value::BytesValue(bytes) => Value::String(String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}")),
        any_value::Value::StringValueStrindex(_) => Value::Null,
    }
}

/// Returns the body of a log as JSON.
pub(crate) fn body_of(body: Option<&AnyValue>) -> Value {
    value_of(body, DEPTH)
}

fn is_filled(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

/// Returns a value as text: JSON unless it is a text already.
pub(crate) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Returns a count, given as a number or as text.
pub(crate) fn count_of(value: &Value) -> Option<u64> {
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked just before")]
    (0.0..1e15).contains(&number).then_some(number as u64)
}

/// Reads a text as JSON if it is an object or a list; one that was cut is read as far as it goes.
pub(crate) fn parsed(value: Value) -> Value {
    match value {
        Value::String(text) => lenient(&text).unwrap_or(Value::String(text)),
        other => other,
    }
}
