//! Nodes that tell of one call: a span in another, a log of a span, two instrumentations beside each other.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
};

use serde_json::Value;

use crate::{
    record::{Part, PartRole, RecordKind},
    tree::{Node, Tree},
};

/// Tellings of other calls, among the latest ones with the same key, that a telling is compared with.
const LOOK_BACK: usize = 16;
/// Most tellings of one call.
const TELLINGS: usize = 8;
/// Longest time between a log and another telling of its call, in nanoseconds.
const LOG_DELAY: i64 = 10_000_000_000;
/// Longest time between a request and the log of its answer, in nanoseconds.
const ANSWER_DELAY: i64 = 500_000_000;
/// Fewest letters and digits in a row that are a random part of an id.
const RANDOM_LENGTH: usize = 8;
/// Fewest different ones among them: a number with zeros before it has three.
const RANDOM_SIGNS: usize = 4;

/// Groups of nodes, each of one call. Nodes of other kinds are in none.
///
/// A node of a model that holds several calls, or an agent, is no call: it becomes an agent.
pub(crate) fn groups(tree: &mut Tree<'_>) -> Vec<Vec<usize>> {
    let mut sets = NodeSets((0..tree.nodes.len()).collect());
    join_by_key(tree, &mut sets, response_id, |a, b| is_near(a, b) || response_id(a).is_some_and(is_unique));
    join_by_key(tree, &mut sets, tool_id, |a, b| {
        is_same_use(a, b) && (is_near(a, b) || tool_id(a).is_some_and(is_unique))
    });
    join_by_key(tree, &mut sets, usage, |a, b| {
        is_near(a, b) && response_id(a).zip(response_id(b)).is_none_or(|(a, b)| a == b)
    });
    join_by_key(tree, &mut sets, tool_name, |a, b| is_near(a, b) && is_same_use(a, b));
    join_nested_tools(tree, &mut sets);
    join_answers(tree, &mut sets);
    join_nested_models(tree, &mut sets);
    let mut found: HashMap<usize, Vec<usize>> = HashMap::new();
    for (position, node) in tree.nodes.iter().enumerate() {
        if matches!(node.kind, RecordKind::Model | RecordKind::Tool) {
            found.entry(sets.root(position)).or_default().push(position);
        }
    }
    let mut groups: Vec<Vec<usize>> = found.into_values().collect();
    groups.sort_unstable();
    groups
}

/// Disjoint sets of nodes, each named by the position of its first member.
struct NodeSets(Vec<usize>);

impl NodeSets {
    fn root(&mut self, position: usize) -> usize {
        let mut at = position;
        while let Some(next) = self.0.get(at).copied().filter(|next| *next != at) {
            // Halves the path, so that chains stay short.
            let further = self.0.get(next).copied().unwrap_or(next);
            if let Some(slot) = self.0.get_mut(at) {
                *slot = further;
            }
            at = next;
        }
        at
    }

    fn join(&mut self, first: usize, second: usize) {
        let (a, b) = (self.root(first), self.root(second));
        if let Some(slot) = self.0.get_mut(a.max(b)) {
            *slot = a.min(b);
        }
    }
}

fn response_id<'a>(node: &Node<'a>) -> Option<&'a str> {
    node.find(|record| record.response_id.as_deref()).filter(|_| node.kind == RecordKind::Model)
}

fn tool_id<'a>(node: &Node<'a>) -> Option<&'a str> {
    node.find(|record| record.tool_id.as_deref()).filter(|_| node.kind == RecordKind::Tool)
}

fn usage(node: &Node<'_>) -> Option<(u64, u64)> {
    let usage = node.find(|record| record.usage).filter(|_| node.kind == RecordKind::Model)?;
    (usage.input > 0 && usage.output > 0).then_some((usage.input, usage.output))
}

fn tool_name<'a>(node: &Node<'a>) -> Option<&'a str> {
    node.find(|record| record.tool_name.as_deref()).map(plain_name).filter(|_| node.kind == RecordKind::Tool)
}

/// Returns the name of a tool without the server, plugin or class before it.
pub(crate) fn plain_name(name: &str) -> &str {
    let start = ["__", ".", "/", ":"].iter().filter_map(|sign| Some(name.rfind(sign)? + sign.len())).max().unwrap_or(0);
    name.get(start..).filter(|plain| !plain.is_empty()).unwrap_or(name)
}

/// True for an id with a random part, which no other call has. Others count (`call_0`, `functions.read:0`), draw three
/// digits or name the tool, and come back in the next turn.
pub fn is_unique(id: &str) -> bool {
    id.split(|sign: char| !sign.is_ascii_alphanumeric()).any(|part| {
        let signs: HashSet<u8> = part.bytes().collect();
        // Words change their case at their beginning alone.
        let changes = part
            .as_bytes()
            .windows(2)
            .filter(|pair| matches!(pair, [a, b] if a.is_ascii_lowercase() != b.is_ascii_lowercase()));
        let is_mixed = signs.iter().any(u8::is_ascii_digit) || changes.count() * 3 >= part.len();
        part.len() >= RANDOM_LENGTH && signs.len() >= RANDOM_SIGNS && is_mixed
    })
}

/// True if two ids cannot be of one call: they differ, and are of one scheme (`call_…`, `toolu_…`).
pub(crate) fn ids_differ(a: Option<&str>, b: Option<&str>) -> bool {
    let scheme = |id: &str| id.find(['_', '-']).and_then(|end| id.get(..end)).map(ToOwned::to_owned);
    a.zip(b).is_some_and(|(a, b)| a != b && scheme(a) == scheme(b))
}

/// True if arguments can be two tellings of the same: equal, one missing, or one in another form (a bare value, or
/// within an object).
pub(crate) fn is_same_form(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => a == b || a.keys().ne(b.keys()) || a.is_empty(),
        _ => true,
    }
}

/// Returns the arguments in a part.
pub(crate) fn arguments(part: &Part) -> &Value {
    part.stored.event.tool.as_ref().map_or(&Value::Null, |tool| &tool.args)
}

/// True if two tellings can be of one use of a tool.
fn is_same_use(a: &Node<'_>, b: &Node<'_>) -> bool {
    fn args<'a>(node: &Node<'a>) -> Option<&'a Value> {
        node.parts(PartRole::Call).map(arguments).find(|args| !args.is_null())
    }
    tool_name(a).zip(tool_name(b)).is_none_or(|(a, b)| a == b)
        && !ids_differ(tool_id(a), tool_id(b))
        && args(a).zip(args(b)).is_none_or(|(a, b)| is_same_form(a, b))
}

/// Time between two nodes, in nanoseconds; 0 if they overlap.
fn gap(a: &Node<'_>, b: &Node<'_>) -> i64 {
    let before = |a: &Node<'_>, b: &Node<'_>| b.start().saturating_sub(a.end().max(a.start()));
    before(a, b).max(before(b, a)).max(0)
}

/// True if two spans overlap, or a log comes with the other telling.
fn is_near(a: &Node<'_>, b: &Node<'_>) -> bool {
    gap(a, b) <= if a.is_log() || b.is_log() { LOG_DELAY } else { 0 }
}

/// Instrumentation, and for a log its name: one teller tells of a call once.
fn teller<'a>(node: &Node<'a>) -> (&'a str, Option<&'a str>) {
    node.find(|record| Some((&*record.scope, record.span.split('#').nth(1)))).unwrap_or_default()
}

/// Joins tellings with the same key by different tellers, the nearest in time.
fn join_by_key<'a, K: Hash + Eq>(
    tree: &Tree<'a>,
    sets: &mut NodeSets,
    key: impl Fn(&Node<'a>) -> Option<K>,
    fits: impl Fn(&Node<'a>, &Node<'a>) -> bool,
) {
    let mut known: HashMap<K, Vec<Vec<usize>>> = HashMap::new();
    let tellers: Vec<_> = tree.nodes.iter().map(teller).collect();
    for (position, node) in tree.nodes.iter().enumerate() {
        let Some(key) = key(node) else { continue };
        let calls = known.entry(key).or_default();
        let distance = |call: &&mut Vec<usize>| {
            let is_other = |at: &usize| tellers.get(*at) != tellers.get(position);
            if call.len() >= TELLINGS || !call.iter().all(is_other) {
                return None;
            }
            let others = || call.iter().filter_map(|at| tree.node(*at));
            let apart = |other: &Node<'a>| (gap(node, other), node.end().abs_diff(other.end()));
            if others().all(|other| fits(node, other)) { others().map(apart).min() } else { None }
        };
        let nearest = calls.iter_mut().rev().take(LOOK_BACK).filter_map(|call| Some((distance(&call)?, call)));
        match nearest.min_by_key(|(distance, _)| *distance) {
            Some((_, call)) => {
                if let Some(first) = call.first() {
                    sets.join(*first, position);
                }
                call.push(position);
            }
            None => calls.push(vec![position]),
        }
    }
}

/// Joins a tool's span with one of the same tool in it.
fn join_nested_tools(tree: &Tree<'_>, sets: &mut NodeSets) {
    for (position, node) in tree.nodes.iter().enumerate().filter(|(_, node)| node.kind == RecordKind::Tool) {
        let above = node.owner.and_then(|owner| Some((owner, tree.node(owner)?)));
        if let Some((owner, above)) = above
            && above.kind == RecordKind::Tool
            && is_same_use(node, above)
        {
            sets.join(owner, position);
        }
    }
}

/// Joins a log of an answer with the telling of its request before it, which has the usage.
fn join_answers(tree: &Tree<'_>, sets: &mut NodeSets) {
    let mut has_output: HashSet<usize> = HashSet::new();
    let mut in_order: Vec<(i64, bool, usize)> = Vec::new();
    for (position, node) in tree.nodes.iter().enumerate().filter(|(_, node)| node.kind == RecordKind::Model) {
        if node.has(PartRole::Output) {
            has_output.insert(sets.root(position));
        }
        let has_usage = node.find(|record| record.usage).is_some();
        let is_answer = node.is_log() && !has_usage && response_id(node).is_none() && node.has(PartRole::Output);
        if has_usage || is_answer {
            in_order.push((node.end(), is_answer, position));
        }
    }
    in_order.sort_unstable();
    let mut open: HashMap<Option<&str>, Vec<(i64, usize)>> = HashMap::new();
    let mut is_told: HashSet<usize> = HashSet::new();
    for (at, is_answer, position) in in_order {
        let parent = tree.node(position).and_then(|node| node.find(|record| record.parent.as_deref()));
        let requests = open.entry(parent).or_default();
        if !is_answer {
            let root = sets.root(position);
            if !has_output.contains(&root) && is_told.insert(root) {
                requests.push((at, root));
            }
        } else if let Some((_, request)) = requests.pop().filter(|(end, _)| at.saturating_sub(*end) <= ANSWER_DELAY) {
            sets.join(request, position);
        }
    }
}

/// True for a model's node whose output has nothing in common with those of the calls below it, by the same teller.
fn is_call_of_its_own(tree: &Tree<'_>, at: usize, owned: &[usize]) -> bool {
    fn output<'a>(node: &Node<'a>) -> Option<&'a str> {
        let text = node.parts(PartRole::Output).next()?.stored.event.output.as_deref()?.trim();
        Some(text).filter(|text| !text.is_empty())
    }
    let Some((node, own)) = tree.node(at).and_then(|node| Some((node, output(node)?))) else { return false };
    let scope = |node: &Node<'_>| node.find(|record| Some(record.scope.clone()));
    let below = owned.iter().filter_map(|position| tree.node(*position));
    let told = below.filter(|below| below.kind == RecordKind::Model && !below.is_log() && scope(below) == scope(node));
    let mut outputs = told.filter_map(output).peekable();
    outputs.peek().is_some() && outputs.all(|inner| !inner.contains(own) && !own.contains(inner))
}

/// Joins a model's node with what is told of its call below it: a client's span, an attempt that failed, a log.
fn join_nested_models(tree: &mut Tree<'_>, sets: &mut NodeSets) {
    let mut inner: Vec<Vec<usize>> = vec![Vec::new(); tree.nodes.len()];
    for (position, node) in tree.nodes.iter().enumerate() {
        if let Some(owned) = node.owner.and_then(|owner| inner.get_mut(owner)) {
            owned.push(position);
        }
    }
    for at in tree.downward.clone().into_iter().rev() {
        let owned = inner.get(at).map_or(&[][..], Vec::as_slice);
        if tree.node(at).is_none_or(|node| node.kind != RecordKind::Model || node.is_log()) {
            continue;
        }
        // A guardrail or a router that a model's call makes has an output of its own.
        if is_call_of_its_own(tree, at, owned) {
            continue;
        }
        let mut calls = HashSet::new();
        let mut has_agent = false;
        for (position, below) in owned.iter().filter_map(|position| Some((*position, tree.node(*position)?))) {
            let is_done = usage(below).is_some() || below.has(PartRole::Output) || below.has(PartRole::Call);
            has_agent |= below.kind == RecordKind::Agent;
            if below.kind == RecordKind::Model && !below.is_log() && is_done {
                calls.insert(sets.root(position));
            }
        }
        if has_agent || calls.len() > 1 {
            if let Some(node) = tree.nodes.get_mut(at) {
                node.kind = RecordKind::Agent;
            }
            continue;
        }
        for position in owned {
            if tree.node(*position).is_some_and(|below| below.kind == RecordKind::Model) {
                sets.join(at, *position);
            }
        }
    }
}
