//! Shapes of JSON in YAML: schemas, results, records. Nodes in, JSON out.

use serde_json::{Map, Number, Value, json};

use super::super::{
    fault::Faults,
    keys::Shape,
    tree::{Node, NodeValue},
};

/// Shape of any JSON value; null may be excluded.
pub(super) struct Json {
    /// True if null is a value too.
    pub null: bool,
}

impl Shape for Json {
    type Value = Value;

    fn read(&mut self, node: &Node, faults: &mut Faults) -> Option<Value> {
        to_json(node, faults)
    }

    fn schema(&mut self) -> Value {
        let mut types = vec!["object", "array", "string", "number", "boolean"];
        types.extend(self.null.then_some("null"));
        json!({"type": types})
    }
}

/// Shape of a JSON object.
pub(super) struct JsonObject;

impl Shape for JsonObject {
    type Value = Value;

    fn read(&mut self, node: &Node, faults: &mut Faults) -> Option<Value> {
        if !matches!(node.kind, NodeValue::Map(_)) {
            let message = format!("expected a JSON Schema, found {}", node.kind.describe());
            faults.fault(node.at, message, "write {type: object, ...}, or {openapi: FILE, operation: ID}");
            return None;
        }
        to_json(node, faults)
    }

    fn schema(&mut self) -> Value {
        json!({"type": "object"})
    }
}

/// Converts a node to JSON. The reader of the tree bounds its depth and size.
pub(super) fn to_json(node: &Node, faults: &mut Faults) -> Option<Value> {
    Some(match &node.kind {
        NodeValue::Null => Value::Null,
        NodeValue::Flag(flag) => Value::Bool(*flag),
        NodeValue::Text(text) => Value::String(text.clone()),
        NodeValue::Whole(number) => match (i64::try_from(*number), u64::try_from(*number)) {
            (Ok(number), _) => number.into(),
            (_, Ok(number)) => number.into(),
            _ => {
                faults.fault(node.at, format!("{number} is out of bounds"), "write a number of 64 bits, or a text");
                return None;
            }
        },
        NodeValue::Decimal(number) => {
            let value = Number::from_f64(*number).map(Value::Number);
            if value.is_none() {
                faults.fault(node.at, "this is not a number of JSON", "write a finite number, or a text");
            }
            value?
        }
        NodeValue::List(items) => {
            let values: Vec<_> = items.iter().filter_map(|item| to_json(item, faults)).collect();
            (values.len() == items.len()).then_some(Value::Array(values))?
        }
        NodeValue::Map(entries) => {
            let values: Map<_, _> =
                entries.iter().filter_map(|entry| Some((entry.key.clone(), to_json(&entry.value, faults)?))).collect();
            (values.len() == entries.len()).then_some(Value::Object(values))?
        }
    })
}
