//! YAML reader: text in, a tree of nodes with their places out.
//!
//! The parser works within budgets, so a small file cannot become a large tree: the bounds below keep the worst alias
//! bomb under 100 MiB and a second (`serde_yaml` takes 3.9 GB for one of 260 KB). Duplicate keys, several documents in
//! a file and texts of more than 16 KiB are refused. A partial tree is never returned.

use std::fmt;

use serde::{Deserialize, Deserializer, de};
use serde_saphyr::{DuplicateKeyPolicy, Error, Location, NonFiniteFloatPolicy, Spanned, budget::BudgetBreach};

use super::fault::{Faults, ShownPart, SourcePosition};

/// Largest file, in bytes.
pub(super) const MAX_FILE_BYTES: usize = 2 * 1024 * 1024;
/// Longest single text, in bytes: four times the longest that any key allows.
const MAX_TEXT_BYTES: usize = 16 * 1024;
/// Most nodes that aliases may stand for. With the longest text in each, that is 64 MiB.
const MAX_REPLAYED: usize = 4_096;
/// Most aliases in a file.
const MAX_ALIASES: usize = 1_000;
/// Most nodes in a file: 1,000 shadows with every key take about 80,000.
const MAX_NODES: usize = 100_000;
/// Deepest nesting; the deepest key is at 6.
const MAX_DEPTH: usize = 32;

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    /// The value.
    pub kind: NodeValue,
    /// Place of the value.
    pub at: SourcePosition,
}

/// Value of a node.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum NodeValue {
    /// Nothing, or `null`.
    Null,
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Whole(i128),
    /// Any other number, infinities included.
    Decimal(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Keys and values, in the order of the file.
    Map(Vec<MappingEntry>),
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MappingEntry {
    /// The key.
    pub key: String,
    /// Place of the key.
    pub at: SourcePosition,
    /// Value of the key.
    pub value: Node,
}

impl Node {
    /// Returns the value of a key, if this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let NodeValue::Map(entries) = &self.kind else { return None };
        entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }
}

impl NodeValue {
    /// Returns the kind of the value, for messages.
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Flag(_) => "true or false",
            Self::Whole(_) | Self::Decimal(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

/// Reads a whole source. Notes the first fault of syntax or budget, and returns `None` for it.
pub(super) fn parse(source: usize, text: &str, faults: &mut Faults) -> Option<Node> {
    let whole = SourcePosition { source, line: 0, column: 0 };
    if text.len() > MAX_FILE_BYTES {
        let message = format!("the file has {} bytes; at most {MAX_FILE_BYTES} are read", text.len());
        faults.fault(whole, message, "split the file, or remove what does not belong here");
        return None;
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 4 * MAX_NODES,
            max_total_scalar_bytes: MAX_FILE_BYTES,
            max_recorded_anchor_events: 2 * MAX_NODES,
            max_recorded_anchor_bytes: MAX_FILE_BYTES,
            max_merge_keys: MAX_ALIASES,
            // A file that uses one anchor for all of its shadows is fine: the expansion of aliases is bounded below.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_REPLAYED,
            max_replay_stack_depth: 8,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        // `yes`, `no`, `on` and `off` are words.
        strict_booleans: true,
        // Infinities come as text; a shape of a number then refuses them.
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    match serde_saphyr::from_str_with_options::<Node>(text, options) {
        Ok(Node { kind: NodeValue::Null, .. }) => {
            faults.fault(whole, "the file is empty", "write the file as the example in config/, or do not name it");
            None
        }
        Ok(mut root) => {
            set_source(&mut root, source);
            Some(root)
        }
        Err(error) => {
            let (message, help) = explain(&error);
            let at = error.location().map_or(whole, |location| SourcePosition { source, ..place(location) });
            faults.fault_showing(at, ShownPart::Line, message, help);
            None
        }
    }
}

/// Returns message and help for an error of the parser, in our words where its own would not help.
fn explain(error: &Error) -> (String, String) {
    let bomb = "write the values out, or use fewer aliases (`*name`)";
    match error {
        Error::WithSnippet { error, .. } | Error::AliasError { error, .. } => explain(error),
        // The scanner's message for brackets nested too deep.
        Error::Message { msg, .. } | Error::ExternalMessage { msg, .. } if msg.contains("recursion limit") => {
            (exceeded(&BudgetBreach::Depth { depth: MAX_DEPTH }), "use less nesting".to_owned())
        }
        Error::Message { msg, .. } | Error::ExternalMessage { msg, .. } => {
            (format!("this is not valid YAML here: {msg}"), "check indentation, colons and quotes".to_owned())
        }
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().map_or_else(|| "a key".to_owned(), |key| format!("`{key}`"));
            (format!("{key} occurs twice in this mapping"), "remove one of the two".to_owned())
        }
        Error::Budget { breach, .. } => {
            let deep = matches!(breach, BudgetBreach::Depth { .. });
            (exceeded(breach), if deep { "use less nesting" } else { bomb }.to_owned())
        }
        Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            (format!("aliases stand for more than {MAX_REPLAYED} nodes"), bomb.to_owned())
        }
        Error::UnknownAnchor { .. } => (
            "this alias has no anchor before it".to_owned(),
            "put a text that begins with `*` in quotes, such as \"*\"".to_owned(),
        ),
        Error::MultipleDocuments { .. } => {
            ("a second YAML document begins here".to_owned(), "keep one `---`".to_owned())
        }
        Error::Eof { .. } => ("the file ends too early".to_owned(), "complete the file".to_owned()),
        other => {
            let text = other.to_string();
            (text.lines().next().unwrap_or_default().to_owned(), "check indentation, colons and quotes".to_owned())
        }
    }
}

/// Returns the message for a bound that a file exceeds.
fn exceeded(breach: &BudgetBreach) -> String {
    match breach {
        BudgetBreach::Aliases { .. } => format!("the file has more than {MAX_ALIASES} aliases (`*name`)"),
        BudgetBreach::Anchors { .. } => format!("the file has more than {MAX_ALIASES} anchors (`&name`)"),
        BudgetBreach::MergeKeys { .. } => format!("the file has more than {MAX_ALIASES} merge keys (`<<`)"),
        BudgetBreach::Depth { .. } => format!("lists and mappings are nested more than {MAX_DEPTH} deep"),
        BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. } => {
            format!("the file has more than {MAX_NODES} values")
        }
        BudgetBreach::ScalarBytes { .. } | BudgetBreach::InputBytes { .. } => {
            format!("the texts of the file, with the values of its aliases, have more than {MAX_FILE_BYTES} bytes")
        }
        BudgetBreach::RecordedAnchorEvents { .. } | BudgetBreach::RecordedAnchorBytes { .. } => {
            "the values of anchors (`&name`) are larger than a configuration may be".to_owned()
        }
        BudgetBreach::SequenceUnbalanced => "a bracket or brace is not closed".to_owned(),
        _ => "the file is larger than a configuration may be".to_owned(),
    }
}

/// Returns the place within a source whose number is not known yet.
fn place(location: Location) -> SourcePosition {
    let whole = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    SourcePosition { source: 0, line: whole(location.line()), column: whole(location.column()) }
}

/// Sets the source of a node and of all nodes below it.
fn set_source(node: &mut Node, source: usize) {
    node.at.source = source;
    match &mut node.kind {
        NodeValue::List(items) => items.iter_mut().for_each(|item| set_source(item, source)),
        NodeValue::Map(entries) => entries.iter_mut().for_each(|entry| {
            entry.at.source = source;
            set_source(&mut entry.value, source);
        }),
        _ => {}
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::deserialize(deserializer)
            .map(|Spanned { value, referenced, .. }| Self { kind: value, at: place(referenced) })
    }
}

impl<'de> Deserialize<'de> for NodeValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KindVisitor)
    }
}

struct KindVisitor;

impl<'de> de::Visitor<'de> for KindVisitor {
    type Value = NodeValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<NodeValue, E> {
        Ok(NodeValue::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<NodeValue, E> {
        Ok(NodeValue::Flag(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<NodeValue, E> {
        Ok(NodeValue::Whole(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<NodeValue, E> {
        Ok(NodeValue::Whole(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<NodeValue, E> {
        Ok(NodeValue::Decimal(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<NodeValue, E> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(E::custom(format!("a text of {} bytes; at most {MAX_TEXT_BYTES} are read", text.len())));
        }
        Ok(NodeValue::Text(text.to_owned()))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<NodeValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(NodeValue::List(list))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut entries: A) -> Result<NodeValue, A::Error> {
        let mut map = Vec::new();
        while let Some((Spanned { value: key, referenced, .. }, value)) = entries.next_entry()? {
            map.push(MappingEntry { key, at: place(referenced), value });
        }
        Ok(NodeValue::Map(map))
    }
}
