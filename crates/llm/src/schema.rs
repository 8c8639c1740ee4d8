//! Narrows a JSON Schema to the part that every provider's constrained decoder accepts.
//!
//! The strictest common subset: every property required, no others allowed, no ranges, lengths or patterns,
//! nothing beside a `$ref`. Providers refuse a request with more (OpenAI's and Anthropic's guides on structured
//! outputs), and each refuses something else. Narrowing never makes the shape of a schema looser.

use serde_json::{Map, Value, json};

/// Keywords that shape a value and that every provider understands.
const KEPT: [&str; 10] =
    ["type", "description", "enum", "const", "items", "properties", "required", "anyOf", "$ref", "$defs"];

/// Returns the schema as it goes onto the wire.
pub(super) fn narrow(schema: &Value) -> Value {
    let Value::Object(given) = schema else { return schema.clone() };
    if let (Some(target), None) = (given.get("$ref"), given.get("$defs")) {
        return json!({ "$ref": target });
    }
    let mut kept = Map::new();
    for (keyword, value) in given {
        // `oneOf` is known to one provider only; its branches are exclusive here, so `anyOf` says the same.
        let keyword = if keyword == "oneOf" { "anyOf" } else { keyword.as_str() };
        if !KEPT.contains(&keyword) {
            continue;
        }
        let value = match (keyword, value) {
            ("properties" | "$defs", Value::Object(members)) => {
                Value::Object(members.iter().map(|(name, member)| (name.clone(), narrow(member))).collect())
            }
            ("anyOf", Value::Array(branches)) => Value::Array(branches.iter().map(narrow).collect()),
            ("items", item) => narrow(item),
            (_, other) => other.clone(),
        };
        kept.insert(keyword.to_owned(), value);
    }
    if let Some(Value::Object(members)) = kept.get("properties") {
        let names: Vec<Value> = members.keys().cloned().map(Value::String).collect();
        kept.insert("required".to_owned(), Value::Array(names));
        kept.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    Value::Object(kept)
}
