//! Parameters of a tool, as words. In: a JSON Schema. Out: names and descriptions of its members, nested ones included.

use serde_json::Value;

/// Most parameters of one tool that count.
const MOST: usize = 64;
/// Greatest depth of nested members that count.
const DEPTH: usize = 4;

/// One argument of a tool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Parameter {
    /// Name of the argument.
    pub name: String,
    /// Description by the tool.
    pub description: String,
}

impl Parameter {
    /// Returns the members that a schema of arguments names, in its order.
    pub fn all_of(schema: &Value) -> Vec<Self> {
        let mut found = Vec::new();
        collect(schema, DEPTH, &mut found);
        found
    }
}

fn collect(schema: &Value, depth: usize, found: &mut Vec<Parameter>) {
    let members = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    for (name, member) in members {
        if found.len() == MOST {
            return;
        }
        let description = member.get("description").and_then(Value::as_str).unwrap_or_default();
        found.push(Parameter { name: name.clone(), description: description.to_owned() });
        if depth > 1 {
            collect(member, depth - 1, found);
            collect(member.get("items").unwrap_or(&Value::Null), depth - 1, found);
        }
    }
}
