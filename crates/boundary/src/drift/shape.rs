//! Compares the shapes of a stub and a live result. Types count, values do not.

use std::fmt::Write as _;

use serde_json::Value;

/// Deepest level that is compared.
const MAX_DEPTH: usize = 12;
/// Most items of a list that are compared.
const MOST_ITEMS: usize = 20;

/// First difference in shape, in words. Additional members of the live result do not count; missing ones do if
/// `strict`. Null matches anything.
pub(super) fn difference(stub: &Value, live: &Value, strict: bool) -> Option<String> {
    below(stub, live, strict, &mut String::new(), 0)
}

fn below(stub: &Value, live: &Value, strict: bool, pointer: &mut String, depth: usize) -> Option<String> {
    if stub.is_null() || live.is_null() || depth > MAX_DEPTH {
        return None;
    }
    match (stub, live) {
        (Value::Object(stub), Value::Object(live)) => stub.iter().find_map(|(key, value)| {
            let length = pointer.len();
            pointer.push('/');
            pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
            let found = match live.get(key) {
                Some(live) => below(value, live, strict, pointer, depth + 1),
                None if strict && !value.is_null() => {
                    Some(format!("{pointer}: the stub has {}, and the live result has no such member", kind(value)))
                }
                None => None,
            };
            pointer.truncate(length);
            found
        }),
        (Value::Array(stub), Value::Array(live)) => {
            let first = stub.first()?;
            live.iter().take(MOST_ITEMS).enumerate().find_map(|(index, item)| {
                let length = pointer.len();
                // Writing to a String cannot fail.
                let _ = write!(pointer, "/{index}");
                let found = below(first, item, strict, pointer, depth + 1);
                pointer.truncate(length);
                found
            })
        }
        _ if kind(stub) == kind(live) => None,
        _ => {
            let place = if pointer.is_empty() { "the whole result" } else { pointer };
            Some(format!("{place}: the stub has {}, and the live result has {}", kind(stub), kind(live)))
        }
    }
}

/// Type in words; integers and floating point are one type.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}
