//! Prompts of a trace: of its agents, and in the order of their time.

use std::collections::HashMap;

use crate::{
    record::{Part, PartRole, RecordKind},
    tree::Tree,
};

/// Prompts of a trace.
pub(crate) struct Prompts<'a> {
    /// Prompt of the nearest agent above, by node.
    above: HashMap<usize, &'a Part>,
    /// All prompts with their time, the earliest first.
    timed: Vec<(i64, &'a Part)>,
}

impl<'a> Prompts<'a> {
    pub fn of(tree: &Tree<'a>) -> Self {
        let mut above: HashMap<usize, &'a Part> = HashMap::new();
        for at in &tree.downward {
            let Some(parent) = tree.node(*at).and_then(|node| node.parent) else { continue };
            let own = tree.node(parent).filter(|node| node.kind == RecordKind::Agent);
            let own = own.and_then(|node| node.parts(PartRole::Prompt).last());
            let inherited = own.or_else(|| above.get(&parent).copied());
            above.extend(inherited.map(|prompt| (*at, prompt)));
        }
        let records = tree.nodes.iter().flat_map(|node| &node.records);
        let mut timed: Vec<(i64, &'a Part)> =
            records.filter_map(|record| Some((record.start, record.part(PartRole::Prompt)?))).collect();
        timed.sort_by_key(|(start, _)| *start);
        Self { above, timed }
    }

    /// Returns the prompt of a call that names none: of the agent above, else the last one before, else the first.
    pub fn of_node(&self, position: usize, start: i64) -> Option<Part> {
        let before = || {
            let earlier = self.timed.partition_point(|(time, _)| *time <= start);
            self.timed.get(earlier.saturating_sub(1)).map(|(_, part)| *part)
        };
        self.above.get(&position).copied().or_else(before).cloned()
    }
}
