//! Facts of one call, merged from all that tells of it.

use std::collections::{HashMap, HashSet};

use crate::{
    assemble::{AssembledCall, CallKind},
    join::{arguments, is_unique},
    record::{Part, PartRole, Record, RecordKind, TokenUsage},
    requests::{GivenResult, fill_result},
    tree::{Node, Tree},
};

/// Node with its position.
pub(crate) type PlacedNode<'a, 'b> = (usize, &'b Node<'a>);

/// Returns the nodes of a group, spans before logs, the outermost first.
pub(crate) fn outermost_first<'a, 'b>(tree: &'b Tree<'a>, group: &[usize]) -> Vec<PlacedNode<'a, 'b>> {
    let mut nodes: Vec<PlacedNode<'a, 'b>> = group.iter().filter_map(|at| Some((*at, tree.node(*at)?))).collect();
    let length = |node: &Node<'_>| node.end().saturating_sub(node.start());
    nodes.sort_by_key(|(at, node)| (node.is_log(), node.depth, std::cmp::Reverse(length(node)), *at));
    nodes
}

/// Merges the facts of a call. Texts are those of the outermost node that has any, counts those of the innermost.
pub(crate) fn merge_nodes(nodes: &[PlacedNode<'_, '_>]) -> AssembledCall {
    let records = || nodes.iter().flat_map(|(_, node)| node.records.iter().copied());
    let is_tool = nodes.iter().any(|(_, node)| node.kind == RecordKind::Tool);
    let find = |of: fn(&Record) -> Option<&String>| records().find_map(of).cloned();
    let first = |of: fn(&Record) -> &String| records().map(of).next().cloned().unwrap_or_default();
    let history: Vec<String> = {
        let mut known = HashSet::new();
        records().flat_map(|record| &record.history).filter(|id| is_unique(id) && known.insert(*id)).cloned().collect()
    };
    let output = if is_tool { None } else { output(nodes) };
    AssembledCall {
        kind: if is_tool { CallKind::Tool } else { CallKind::Model },
        aliases: aliases(nodes, is_tool),
        agent: nodes.iter().find_map(|(_, node)| node.agent).map(ToOwned::to_owned),
        service: first(|record| &record.service),
        conversation: nodes.iter().find_map(|(_, node)| node.conversation).map(ToOwned::to_owned),
        scope: first(|record| &record.scope),
        span: first(|record| &record.span),
        model: find(|record| record.model.as_ref()),
        response_id: find(|record| record.response_id.as_ref()),
        tool_id: find(|record| record.tool_id.as_ref()),
        stop_reason: find(|record| record.stop_reason.as_ref()),
        usage: usage(nodes),
        cost: records().find_map(|record| record.cost),
        start: nodes.first().map_or(0, |(_, node)| node.start()),
        end: nodes.iter().map(|(_, node)| node.end()).max().unwrap_or_default(),
        prompt: if is_tool { None } else { latest_prompt(nodes) },
        has_content: output.is_some(),
        output,
        call: if is_tool { fullest_call(nodes) } else { None },
        result: if is_tool { result(nodes) } else { None },
        history,
        is_cut: records().any(|record| record.is_cut),
        ..AssembledCall::default()
    }
}

/// Returns the alias of a call that a span or log tells of.
pub(crate) fn span_alias(record: &Record) -> String {
    format!("span/{}/{}", record.trace, record.span)
}

fn aliases(nodes: &[PlacedNode<'_, '_>], is_tool: bool) -> Vec<String> {
    let records = || nodes.iter().flat_map(|(_, node)| &node.records);
    let responses = records().filter_map(|record| record.response_id.as_deref().filter(|id| !is_tool && is_unique(id)));
    let mut aliases: Vec<String> = records().map(|record| span_alias(record)).collect();
    aliases.extend(responses.map(|id| format!("response/{id}")));
    aliases.sort();
    aliases.dedup();
    aliases
}

/// Returns the tokens as the innermost span counts them, which is nearest to the provider.
fn usage(nodes: &[PlacedNode<'_, '_>]) -> Option<TokenUsage> {
    let (logs, spans): (Vec<_>, Vec<_>) = nodes.iter().partition(|(_, node)| node.is_log());
    let counted = |(_, node): &&PlacedNode<'_, '_>| node.find(|record| record.usage);
    spans.iter().rev().find_map(counted).or_else(|| logs.iter().find_map(counted))
}

fn latest_prompt(nodes: &[PlacedNode<'_, '_>]) -> Option<Part> {
    let records = nodes.iter().flat_map(|(_, node)| &node.records);
    let timed = records.filter_map(|record| Some((record.start, record.part(PartRole::Prompt)?)));
    timed.max_by_key(|(start, _)| *start).map(|(_, part)| part.clone())
}

/// Returns the first output. Choices that came as a log each are one output.
fn output(nodes: &[PlacedNode<'_, '_>]) -> Option<Part> {
    let (_, node) = nodes.iter().find(|(_, node)| node.has(PartRole::Output))?;
    let mut parts = node.parts(PartRole::Output);
    let mut output = parts.next()?.clone();
    if node.find(|record| record.part(PartRole::Output).map(|_| record.is_log)) == Some(true) {
        parts.for_each(|part| append(&mut output, part));
    }
    Some(output)
}

/// Appends the output of another choice, with its marks.
fn append(output: &mut Part, other: &Part) {
    let (Some(text), Some(more)) = (&mut output.stored.event.output, &other.stored.event.output) else { return };
    if text == more {
        return;
    }
    text.push('\n');
    let shift = text.len();
    text.push_str(more);
    output.stored.marks.extend(other.stored.marks.iter().cloned().map(|mut mark| {
        mark.start += shift;
        mark.end += shift;
        mark
    }));
}

/// Returns the telling of a tool call with the most arguments: named ones before a bare one, any before none.
fn fullest_call(nodes: &[PlacedNode<'_, '_>]) -> Option<Part> {
    let fullness = |part: &Part| match arguments(part) {
        serde_json::Value::Null => 0,
        serde_json::Value::Object(members) => 2 + members.len(),
        _ => 1,
    };
    let mut best: Option<&Part> = None;
    for part in nodes.iter().flat_map(|(_, node)| node.parts(PartRole::Call)) {
        if best.is_none_or(|best| fullness(part) > fullness(best)) {
            best = Some(part);
        }
    }
    best.cloned()
}

fn result(nodes: &[PlacedNode<'_, '_>]) -> Option<Part> {
    let mut result = None;
    nodes.iter().flat_map(|(_, node)| node.parts(PartRole::Result)).for_each(|part| fill_result(&mut result, part));
    result
}

/// Returns the tool calls that a model asked for, each once.
pub(crate) fn tool_uses(nodes: &[PlacedNode<'_, '_>]) -> Vec<Part> {
    let mut found: Vec<Part> = Vec::new();
    let mut ids: HashSet<&str> = HashSet::new();
    let mut by_text: HashMap<String, Vec<usize>> = HashMap::new();
    for (_, node) in nodes {
        for telling in node.records.chunk_by(|a, b| a.is_log == b.is_log) {
            // A further telling of the same output adds ids at most. Within one, equal calls are several.
            let before = found.len();
            let mut told: HashMap<String, usize> = HashMap::new();
            let parts = telling.iter().flat_map(|record| &record.parts).filter(|part| part.role == PartRole::Call);
            for part in parts {
                let tool = part.stored.event.tool.as_ref();
                let text = tool.map(|tool| format!("{} {}", tool.name, tool.args)).unwrap_or_default();
                let same = by_text.entry(text.clone()).or_default();
                let number = told.entry(text).or_default();
                let known = same.get(*number).copied().filter(|at| *at < before).and_then(|at| found.get_mut(at));
                *number += 1;
                let is_known_id = part.id.as_deref().is_some_and(|id| !ids.insert(id));
                match known.filter(|known| known.id.is_none() || part.id.is_none()) {
                    _ if is_known_id => {}
                    Some(known) => known.id = known.id.take().or_else(|| part.id.clone()),
                    None => {
                        same.push(found.len());
                        found.push(part.clone());
                    }
                }
            }
        }
    }
    found
}

/// Returns the results of tools that a model was given before its call, and those that came with its output.
pub(crate) fn given_results(nodes: &[PlacedNode<'_, '_>], call: &AssembledCall) -> Vec<GivenResult> {
    let mut found = Vec::new();
    for record in nodes.iter().flat_map(|(_, node)| &node.records) {
        // The parts of an input come before those of the output.
        let is_of_output = |part: &Part| matches!(part.role, PartRole::Output | PartRole::Call);
        let inputs = record.parts.iter().position(is_of_output).unwrap_or(record.parts.len());
        let (input, output) = record.parts.split_at(inputs);
        for (at, parts) in [(call.start, input), (call.end, output)] {
            let mut later: HashMap<&str, usize> = HashMap::new();
            let first = found.len();
            for part in parts.iter().rev().filter(|part| part.role == PartRole::Result) {
                let with_id = later.entry(part.id.as_deref().unwrap_or_default()).or_default();
                found.push(GivenResult { at, later: *with_id, part: part.clone() });
                *with_id += 1;
            }
            found.get_mut(first..).unwrap_or_default().reverse();
        }
    }
    found
}
