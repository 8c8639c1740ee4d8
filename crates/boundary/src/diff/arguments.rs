//! Compares the arguments of two calls: each difference by JSON pointer (RFC 6901), with the values of both sides.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// Longest pointer that is followed further, and longest name, in bytes; a value behind a longer one is compared as a
/// whole.
const POINTER_BYTES: usize = 200;
/// Largest value that is shown, in bytes of JSON.
const SHOWN_BYTES: usize = 2_000;
/// Limit below which a whole number is the same as integer and as floating point.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Receiver of a pointer and the values at it on both sides, if any.
pub(super) type Sink<'a> = &'a mut dyn FnMut(&str, Option<&Value>, Option<&Value>);

/// Reports each place that differs, in order of names and indexes.
pub(super) fn compare(a: &Value, b: &Value, differs: Sink<'_>) {
    walk(&mut String::new(), Some(a), Some(b), differs);
}

fn walk(pointer: &mut String, a: Option<&Value>, b: Option<&Value>, differs: Sink<'_>) {
    let deeper = pointer.len() <= POINTER_BYTES;
    match (a, b) {
        (Some(Value::Object(a)), Some(Value::Object(b))) if deeper && short(a) && short(b) => {
            for name in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                step(pointer, name, a.get(name), b.get(name), differs);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) if deeper => {
            for index in 0..a.len().max(b.len()) {
                step(pointer, &index.to_string(), a.get(index), b.get(index), differs);
            }
        }
        (Some(a), Some(b)) if same(a, b) => {}
        (a, b) => differs(pointer, a, b),
    }
}

fn step(pointer: &mut String, name: &str, a: Option<&Value>, b: Option<&Value>, differs: Sink<'_>) {
    let length = pointer.len();
    pointer.push('/');
    pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
    walk(pointer, a, b, differs);
    pointer.truncate(length);
}

fn short(members: &Map<String, Value>) -> bool {
    members.keys().all(|name| name.len() <= POINTER_BYTES)
}

/// True if two values are the same. Numbers are compared by value, without any tolerance: 50 is 50.0.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) if x.is_f64() != y.is_f64() => {
            let (x, y) = (x.as_f64(), y.as_f64());
            x == y && x.is_some_and(|x| x.abs() < EXACT)
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Value as it is shown: a large one by its size and hash.
pub(super) fn shown(value: &Value) -> Value {
    let text = value.to_string();
    if text.len() <= SHOWN_BYTES {
        return value.clone();
    }
    json!({"too_large": true, "bytes": text.len(), "sha256": hex::encode(Sha256::digest(text))})
}

/// Removes the values at these pointers from arguments.
pub(super) fn without<'a>(mut args: Value, pointers: impl Iterator<Item = &'a str>) -> Value {
    for pointer in pointers {
        let Some((parent, name)) = pointer.rsplit_once('/') else { continue };
        let name = name.replace("~1", "/").replace("~0", "~");
        match args.pointer_mut(parent) {
            Some(Value::Object(members)) => drop(members.remove(&name)),
            // Other items keep their indexes.
            Some(Value::Array(items)) => {
                if let Some(item) = name.parse().ok().and_then(|index: usize| items.get_mut(index)) {
                    *item = Value::Null;
                }
            }
            _ => {}
        }
    }
    args
}
