//! TOML reader: text in, a tree of nodes with their places out, the same tree as for YAML.

use ::toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    fault::{Faults, SourcePosition},
    tree::{MappingEntry, Node, NodeValue},
};

/// Reads a whole source and notes every fault of its syntax.
pub(super) fn parse(source: usize, text: &str, faults: &mut Faults) -> Option<Node> {
    let lines = Lines::of(source, text);
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let at = lines.place(error.span().map_or(0, |span| span.start));
        let message = error.message().lines().next().unwrap_or_default();
        faults.fault(at, format!("this is not valid TOML here: {message}"), "check quotes, brackets and `=`");
    }
    errors.is_empty().then(|| Node { at: lines.place(0), kind: entries(table.into_inner(), &lines) })
}

/// Byte offsets of the lines of a text.
struct Lines<'t> {
    source: usize,
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn of(source: usize, text: &'t str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { source, text, starts }
    }

    fn place(&self, at: usize) -> SourcePosition {
        let line = self.starts.partition_point(|start| *start <= at);
        let start = line.checked_sub(1).and_then(|before| self.starts.get(before)).copied().unwrap_or_default();
        let column = self.text.get(start..at).map_or(1, |before| before.chars().count() + 1);
        SourcePosition { source: self.source, line, column }
    }
}

fn node(value: Spanned<DeValue<'_>>, lines: &Lines<'_>) -> Node {
    let at = lines.place(value.span().start);
    let kind = match value.into_inner() {
        DeValue::String(text) => NodeValue::Text(text.into_owned()),
        DeValue::Boolean(flag) => NodeValue::Flag(flag),
        DeValue::Integer(number) => {
            let whole = i128::from_str_radix(number.as_str(), number.radix());
            whole.map_or_else(|_| NodeValue::Text(number.to_string()), NodeValue::Whole)
        }
        DeValue::Float(number) => {
            number.as_str().parse().map_or_else(|_| NodeValue::Text(number.to_string()), NodeValue::Decimal)
        }
        DeValue::Datetime(time) => NodeValue::Text(time.to_string()),
        DeValue::Array(items) => NodeValue::List(items.into_iter().map(|item| node(item, lines)).collect()),
        DeValue::Table(table) => entries(table, lines),
    };
    Node { kind, at }
}

fn entries(table: DeTable<'_>, lines: &Lines<'_>) -> NodeValue {
    let entries = table.into_iter().map(|(key, value)| MappingEntry {
        at: lines.place(key.span().start),
        key: key.into_inner().into_owned(),
        value: node(value, lines),
    });
    NodeValue::Map(entries.collect())
}
