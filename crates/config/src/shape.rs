//! Shapes of simple values: flags, words, lists and tables. Nodes in, values out; the same rules as JSON Schema.

use std::{collections::BTreeMap, ops::RangeInclusive};

use serde_json::{Value, json};

use super::{
    fault::{Faults, listed, quoted},
    keys::Shape,
    tree::{Node, NodeValue},
};
use umbra_domain::nearest::nearest;

/// Returns a node's value for messages.
pub(super) fn shown(node: &Node) -> String {
    match &node.kind {
        NodeValue::Text(text) => quoted(text),
        NodeValue::Flag(flag) => flag.to_string(),
        NodeValue::Whole(number) => number.to_string(),
        NodeValue::Decimal(number) => number.to_string(),
        other => other.describe().to_owned(),
    }
}

/// Notes that the value of a node is unfit, and returns that nothing was read.
pub(super) fn refuse<T>(node: &Node, why: &str, help: impl Into<String>, faults: &mut Faults) -> Option<T> {
    faults.fault(node.at, format!("{} {why}", shown(node)), help);
    None
}

/// Shape of `true` or `false`.
pub(super) struct Flag;

impl Shape for Flag {
    type Value = bool;

    fn read(&mut self, node: &Node, faults: &mut Faults) -> Option<bool> {
        match node.kind {
            NodeValue::Flag(flag) => Some(flag),
            _ => refuse(node, "is not true or false", "write true or false", faults),
        }
    }

    fn schema(&mut self) -> Value {
        json!({"type": "boolean"})
    }
}

/// Shape of `off` (read as `None`) or of a value (read as `Some`).
pub(super) struct OffShape<S>(pub S);

impl<S: Shape> Shape for OffShape<S> {
    type Value = Option<S::Value>;

    fn read(&mut self, node: &Node, faults: &mut Faults) -> Option<Self::Value> {
        match &node.kind {
            NodeValue::Flag(false) => Some(None),
            NodeValue::Text(text) if text == "off" => Some(None),
            NodeValue::Map(_) => self.0.read(node, faults).map(Some),
            _ => {
                let help = "write off, or its keys: {key: value}; {} takes the default of each";
                refuse(node, "is not off or a mapping", help, faults)
            }
        }
    }

    fn schema(&mut self) -> Value {
        json!({"anyOf": [{"enum": ["off", false]}, self.0.schema()]})
    }
}

/// Shape of one word out of a few.
pub(super) struct WordShape<T> {
    words: Vec<(&'static str, T)>,
}

/// Returns the shape of one of `all`, by its name.
pub(super) fn word<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> WordShape<T> {
    WordShape { words: all.iter().map(|value| (name(*value), *value)).collect() }
}

impl<T: Copy> WordShape<T> {
    /// Adds one more word.
    pub fn or(mut self, word: &'static str, value: T) -> Self {
        self.words.push((word, value));
        self
    }
}

impl<T: Copy> Shape for WordShape<T> {
    type Value = T;

    fn read(&mut self, node: &Node, faults: &mut Faults) -> Option<T> {
        let word = if let NodeValue::Text(text) = &node.kind { text.as_str() } else { "" };
        if let Some((_, value)) = self.words.iter().find(|(name, _)| *name == word) {
            return Some(*value);
        }
        let names: Vec<&str> = self.words.iter().map(|(name, _)| *name).collect();
        let help = match nearest(word, names.iter().copied()) {
            Some(meant) if !word.is_empty() => format!("did you mean `{meant}`? Allowed: {}", listed(&names)),
            _ => format!("write {}", listed(&names)),
        };
        refuse(node, "is not an allowed value", help, faults)
    }

    fn schema(&mut self) -> Value {
        let names: Vec<&str> = self.words.iter().map(|(name, _)| *name).collect();
        json!({"type": "string", "enum": names})
    }
}

/// Shape of a list; where `single`, one value stands for a list of one.
pub(super) struct List<S> {
    /// Allowed number of items.
    pub len: RangeInclusive<usize>,
    /// True if a bare item is accepted.
    pub single: bool,
    /// Shape of each item.
    pub item: S,
}

impl<S: Shape> Shape for List<S> {
    type Value = Vec<S::Value>;

    fn read(&mut self, node: &Node, faults: &mut Faults) -> Option<Vec<S::Value>> {
        let items = match &node.kind {
            NodeValue::List(items) => items,
            _ if self.single => return Some(vec![self.item.read(node, faults)?]),
            _ => return refuse(node, "is not a list", "write `- item` lines, or [item, item]", faults),
        };
        if !self.len.contains(&items.len()) {
            let help = format!("write {} to {} items", self.len.start(), self.len.end());
            faults.fault(node.at, format!("a list of {} items is out of bounds", items.len()), help);
            return None;
        }
        let mut values = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            values.extend(faults.within(format!("[{index}]"), |faults| self.item.read(item, faults)));
        }
        (values.len() == items.len()).then_some(values)
    }

    fn schema(&mut self) -> Value {
        let item = self.item.schema();
        let list = json!({"type": "array", "items": item, "minItems": self.len.start(), "maxItems": self.len.end()});
        if self.single { json!({"anyOf": [item, list]}) } else { list }
    }
}

/// Shape of a mapping with keys of the user's own.
pub(super) struct MappingShape<S> {
    /// Most entries.
    pub max: usize,
    /// Judges a key; the error gives advice.
    pub key: fn(&str) -> Result<(), &'static str>,
    /// Shape of each value.
    pub value: S,
}

impl<S: Shape> Shape for MappingShape<S> {
    type Value = BTreeMap<String, S::Value>;

    fn read(&mut self, node: &Node, faults: &mut Faults) -> Option<Self::Value> {
        let NodeValue::Map(entries) = &node.kind else {
            return refuse(node, "is not a mapping", "write `name: value` lines", faults);
        };
        if entries.len() > self.max {
            let help = format!("write at most {}", self.max);
            faults.fault(node.at, format!("{} entries are too many", entries.len()), help);
            return None;
        }
        let mut values = BTreeMap::new();
        for entry in entries {
            if let Err(help) = (self.key)(&entry.key) {
                faults.fault(entry.at, format!("{} is not an allowed name", quoted(&entry.key)), help);
            }
            let value = faults.within(format!(".{}", entry.key), |faults| self.value.read(&entry.value, faults));
            values.extend(value.map(|value| (entry.key.clone(), value)));
        }
        (values.len() == entries.len()).then_some(values)
    }

    fn schema(&mut self) -> Value {
        json!({"type": "object", "additionalProperties": self.value.schema(), "maxProperties": self.max})
    }
}

/// Shape of a value that may be left out, read as `Some`.
pub(super) struct Maybe<S>(pub S);

impl<S: Shape> Shape for Maybe<S> {
    type Value = Option<S::Value>;

    fn read(&mut self, node: &Node, faults: &mut Faults) -> Option<Self::Value> {
        self.0.read(node, faults).map(Some)
    }

    fn schema(&mut self) -> Value {
        self.0.schema()
    }
}
