//! Declarative reader of mappings: a node of the tree in, values out, with every fault noted on the way.
//!
//! A record is one function that declares its keys in turn. Over a node it reads them; without a node it describes them
//! as JSON Schema. So a key cannot be read without being documented, nor documented without being read, and "did you
//! mean" knows exactly the keys that exist.

use serde_json::{Map, Value, json};

use super::{
    fault::{Faults, ShownPart, SourcePosition, listed, quoted},
    tree::{MappingEntry, Node, NodeValue},
};
use umbra_domain::nearest::nearest;

/// The form of a value: reads a node, and describes itself as JSON Schema.
pub(super) trait Shape {
    /// Type of the value that is read.
    type Value;

    /// Reads a node. Returns `None` after noting at least one fault.
    fn read(&mut self, node: &Node, faults: &mut Faults) -> Option<Self::Value>;

    /// Describes the same rule as JSON Schema.
    fn schema(&mut self) -> Value;
}

/// Shape of a mapping whose keys the function declares.
pub(super) struct Record<F>(pub F);

impl<V, F: FnMut(&mut Keys<'_>) -> Option<V>> Shape for Record<F> {
    type Value = V;

    fn read(&mut self, node: &Node, faults: &mut Faults) -> Option<V> {
        let NodeValue::Map(entries) = &node.kind else {
            let message = format!("expected keys with values, found {}", node.kind.describe());
            faults.fault(node.at, message, "write `key: value` lines, indented below it");
            return None;
        };
        let mut keys = Keys { known: Vec::new(), work: Work::Read { at: node.at, entries, faults } };
        let value = (self.0)(&mut keys);
        keys.refuse_unknown();
        value
    }

    fn schema(&mut self) -> Value {
        let work = Work::Describe { properties: Map::new(), required: Vec::new() };
        let mut keys = Keys { known: Vec::new(), work };
        (self.0)(&mut keys);
        let Work::Describe { properties, required } = keys.work else { return Value::Null };
        let mut schema = json!({"type": "object", "additionalProperties": false, "properties": properties});
        if let (false, Some(object)) = (required.is_empty(), schema.as_object_mut()) {
            object.insert("required".to_owned(), json!(required));
        }
        schema
    }
}

/// The keys of one record, while they are declared.
pub(super) struct Keys<'a> {
    /// Keys declared so far.
    known: Vec<&'static str>,
    work: Work<'a>,
}

enum Work<'a> {
    Read { at: SourcePosition, entries: &'a [MappingEntry], faults: &'a mut Faults },
    Describe { properties: Map<String, Value>, required: Vec<&'static str> },
}

impl Keys<'_> {
    /// Declares a key that must be present. Returns `None` when it is missing or faulty, and while describing.
    pub fn required<S: Shape>(&mut self, key: &'static str, about: &str, shape: S) -> Option<S::Value> {
        match &mut self.work {
            Work::Describe { required, .. } => required.push(key),
            Work::Read { at, entries, faults } if find(entries, key).is_none() => {
                let about = first_sentence(about);
                faults.fault(*at, format!("`{key}` is missing"), format!("add `{key}:` here. {about}"));
            }
            Work::Read { .. } => {}
        }
        self.optional(key, about, shape)
    }

    /// Declares a key that must be present, and whose value may be null.
    pub fn required_or_null<S: Shape<Value = Value>>(
        &mut self,
        key: &'static str,
        about: &str,
        shape: S,
    ) -> Option<Value> {
        if let Work::Read { entries, .. } = &self.work
            && entries.iter().any(|entry| entry.key == key && entry.value.kind == NodeValue::Null)
        {
            self.known.push(key);
            return Some(Value::Null);
        }
        self.required(key, about, shape)
    }

    /// Declares a key that may be absent. An empty value counts as absent. Returns `None` also when it is faulty.
    pub fn optional<S: Shape>(&mut self, key: &'static str, about: &str, mut shape: S) -> Option<S::Value> {
        self.known.push(key);
        match &mut self.work {
            Work::Read { entries, faults, .. } => {
                let node = &find(entries, key)?.value;
                faults.within(format!(".{key}"), |faults| shape.read(node, faults))
            }
            Work::Describe { properties, .. } => {
                let mut schema = shape.schema();
                if let Some(object) = schema.as_object_mut() {
                    object.insert("description".to_owned(), json!(about.trim()));
                }
                properties.insert(key.to_owned(), schema);
                None
            }
        }
    }

    /// Declares a key that may be absent. Returns the default then, and when the value is faulty.
    pub fn or_default<S: Shape<Value: Default>>(&mut self, key: &'static str, about: &str, shape: S) -> S::Value {
        self.optional(key, about, shape).unwrap_or_default()
    }

    /// Declares a key whose value replaces a default.
    pub fn set<S: Shape>(&mut self, key: &'static str, about: &str, shape: S, slot: &mut S::Value) {
        if let Some(value) = self.optional(key, about, shape) {
            *slot = value;
        }
    }

    /// True if the key is present with a value.
    pub fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// Returns the first of these keys that is present, else the first: the place to report a fault between them.
    pub fn first_of<const N: usize>(&self, keys: [&'static str; N]) -> &'static str {
        keys.iter().copied().find(|key| self.has(key)).or(keys.first().copied()).unwrap_or_default()
    }

    /// Returns the place of the key's value, or of the record where the key is absent.
    pub fn place(&self, key: &str) -> SourcePosition {
        match &self.work {
            Work::Read { at, .. } => self.entry(key).map_or(*at, |entry| entry.value.at),
            Work::Describe { .. } => SourcePosition::default(),
        }
    }

    /// Notes a fault of one key's value, or of the record where the key is absent.
    pub fn fault(&mut self, key: &str, message: impl Into<String>, help: impl Into<String>) {
        let at = self.place(key);
        let there = self.has(key);
        if let Work::Read { faults, .. } = &mut self.work {
            let part = if there { format!(".{key}") } else { String::new() };
            faults.within(part, |faults| faults.fault(at, message, help));
        }
    }

    /// Notes a fault of one item of a key's list, or of the key where its value is no list.
    pub fn fault_of(&mut self, key: &str, index: Option<usize>, message: impl Into<String>, help: impl Into<String>) {
        let item = self.entry(key).zip(index).and_then(|(entry, index)| match &entry.value.kind {
            NodeValue::List(items) => items.get(index).map(|item| (item.at, index)),
            _ => None,
        });
        let Some((at, index)) = item else { return self.fault(key, message, help) };
        if let Work::Read { faults, .. } = &mut self.work {
            faults.within(format!(".{key}[{index}]"), |faults| faults.fault(at, message, help));
        }
    }

    /// Notes a warning about one key's value.
    pub fn warn(&mut self, key: &str, message: impl Into<String>, help: impl Into<String>) {
        let at = self.place(key);
        if let Work::Read { faults, .. } = &mut self.work {
            faults.within(format!(".{key}"), |faults| faults.warn(at, message, help));
        }
    }

    fn entry(&self, key: &str) -> Option<&MappingEntry> {
        match &self.work {
            Work::Read { entries, .. } => find(entries, key),
            Work::Describe { .. } => None,
        }
    }

    fn refuse_unknown(&mut self) {
        let known = &self.known;
        let Work::Read { entries, faults, .. } = &mut self.work else { return };
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let help = match nearest(&entry.key, known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("known keys: {}", listed(known)),
            };
            let show = ShownPart::Upto(entry.key.chars().count() + 1);
            faults.fault_showing(entry.at, show, format!("unknown key {}", quoted(&entry.key)), help);
        }
    }
}

/// Finds the entry of a key, unless its value is empty.
fn find<'a>(entries: &'a [MappingEntry], key: &str) -> Option<&'a MappingEntry> {
    entries.iter().find(|entry| entry.key == key && entry.value.kind != NodeValue::Null)
}

fn first_sentence(about: &str) -> String {
    about.trim().split_inclusive(". ").next().unwrap_or_default().trim_end().to_owned()
}

/// Turns a schema into a document of its own.
pub(super) fn document(title: &str, schema: Value) -> Value {
    let mut document = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title});
    if let (Some(document), Value::Object(schema)) = (document.as_object_mut(), schema) {
        document.extend(schema);
    }
    document
}
