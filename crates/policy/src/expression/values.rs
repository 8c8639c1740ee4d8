//! Conversion between JSON and the interpreter's values. Whole numbers stay whole; values without JSON are errors.

use std::collections::HashMap;

use cel::{
    common::{
        types::{CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt},
        value::Val,
    },
    objects::{Key, Map},
};
use serde_json::{Number, Value};

use super::EvalError;

/// Converts the value of a variable; its strings are borrowed.
pub(super) fn to_cel(value: &Value) -> Box<dyn Val + '_> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(flag) => Box::new(CelBool::from(*flag)),
        Value::Number(number) => {
            if let Some(whole) = number.as_i64() {
                Box::new(CelInt::from(whole))
            } else if let Some(whole) = number.as_u64() {
                Box::new(CelUInt::from(whole))
            } else {
                Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN)))
            }
        }
        Value::String(text) => Box::new(CelString::from(text.as_str())),
        Value::Array(items) => Box::new(CelList::from(items.iter().map(to_cel).collect::<Vec<_>>())),
        Value::Object(entries) => {
            let entries: HashMap<CelMapKey<'_>, Box<dyn Val + '_>> =
                entries.iter().map(|(key, value)| (CelMapKey::from(key.as_str()), to_cel(value))).collect();
            Box::new(CelMap::from(entries))
        }
    }
}

/// Converts an owned value, such as a function's result.
pub(super) fn to_value(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(flag) => cel::Value::Bool(*flag),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(whole), _) => cel::Value::Int(whole),
            (None, Some(whole)) => cel::Value::UInt(whole),
            (None, None) => cel::Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => cel::Value::from(text.as_str()),
        Value::Array(items) => cel::Value::List(items.iter().map(to_value).collect::<Vec<_>>().into()),
        Value::Object(entries) => {
            let entries: HashMap<Key, cel::Value> =
                entries.iter().map(|(key, value)| (Key::from(key.as_str()), to_value(value))).collect();
            cel::Value::Map(Map::from(entries))
        }
    }
}

/// Converts the result of an expression to JSON.
pub(super) fn to_json(value: &cel::Value) -> Result<Value, EvalError> {
    Ok(match value {
        cel::Value::Null => Value::Null,
        cel::Value::Bool(flag) => Value::Bool(*flag),
        cel::Value::Int(whole) => (*whole).into(),
        cel::Value::UInt(whole) => (*whole).into(),
        cel::Value::Float(number) => {
            Number::from_f64(*number).map(Value::Number).ok_or_else(|| no_json("an infinite number or none"))?
        }
        cel::Value::String(text) => Value::String(text.as_str().to_owned()),
        cel::Value::List(items) => Value::Array(items.iter().map(to_json).collect::<Result<_, _>>()?),
        cel::Value::Map(entries) => {
            let entries = entries.map.iter().map(|(key, value)| Ok((key.to_string(), to_json(value)?)));
            Value::Object(entries.collect::<Result<_, EvalError>>()?)
        }
        other => return Err(no_json(describe(other))),
    })
}

fn no_json(what: &str) -> EvalError {
    EvalError::Failed(format!("the expression gives {what}, which is not a JSON value"))
}

/// Returns the type of a value in words, for messages.
pub(super) fn describe(value: &cel::Value) -> &'static str {
    match value {
        cel::Value::List(_) => "a list",
        cel::Value::Map(_) => "a mapping",
        cel::Value::Int(_) | cel::Value::UInt(_) | cel::Value::Float(_) => "a number",
        cel::Value::String(_) => "text",
        cel::Value::Bytes(_) => "bytes",
        cel::Value::Bool(_) => "true or false",
        cel::Value::Null => "null",
        _ => "a value without a form in JSON",
    }
}
