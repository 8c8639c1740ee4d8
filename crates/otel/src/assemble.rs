//! Records of a trace become calls: one for each true call of a model or a tool, however often it was told. The result
//! depends on the set of records alone, not on their order.

use std::collections::{HashMap, HashSet};

use umbra_domain::NanoUsd;

use crate::{
    agents::add_agent_outputs,
    join::{arguments, groups},
    merge::{given_results, merge_nodes, outermost_first, tool_uses},
    prompts::Prompts,
    record::{Part, Record, RecordKind, TokenUsage},
    requests::{GivenResult, Request, assign_results, match_requests},
    tree::Tree,
};

/// Kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CallKind {
    /// Call of a model.
    #[default]
    Model,
    /// Call of a tool.
    Tool,
}

/// Call of a model or a tool, with all that is known of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AssembledCall {
    /// Kind of the call.
    pub kind: CallKind,
    /// Names under which the call alone is told: of its spans, of its response, of the output that asked for it. One in
    /// common is enough to know it again.
    pub aliases: Vec<String>,
    /// Name of the agent, if a record of the call or one above it has one.
    pub agent: Option<String>,
    /// `service.name`.
    pub service: String,
    /// Id of the conversation.
    pub conversation: Option<String>,
    /// Instrumentation scope.
    pub scope: String,
    /// Span id, in hex; that of the model's call for a tool call that no span tells of.
    pub span: String,
    /// Span of the nearest call above it, or else of the agent.
    pub parent: Option<String>,
    /// Name of the model.
    pub model: Option<String>,
    /// The provider's id of the response.
    pub response_id: Option<String>,
    /// Id of the tool call.
    pub tool_id: Option<String>,
    /// Reason for which the model stopped.
    pub stop_reason: Option<String>,
    /// Tokens.
    pub usage: Option<TokenUsage>,
    /// Cost.
    pub cost: Option<NanoUsd>,
    /// Start, in nanoseconds since 1970; 0 if unknown.
    pub start: i64,
    /// End, in nanoseconds since 1970.
    pub end: i64,
    /// Prompt that the call serves.
    pub prompt: Option<Part>,
    /// Output of a model.
    pub output: Option<Part>,
    /// Tool and arguments.
    pub call: Option<Part>,
    /// Result of a tool.
    pub result: Option<Part>,
    /// Ids of tool calls in the history that a model was given: calls of the same conversation.
    pub history: Vec<String>,
    /// Span of the model's call that asked for this tool call.
    pub requested_by: Option<String>,
    /// True for a model's call whose output or tool calls were told.
    pub has_content: bool,
    /// True if the sender dropped attributes.
    pub is_cut: bool,
}

/// Calls of a trace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// Calls, in the order of their start.
    pub calls: Vec<AssembledCall>,
    /// Position of the last call of the topmost agent, whose work has ended.
    pub completed: Option<usize>,
    /// Results of tool calls that the trace does not hold.
    pub foreign_results: Vec<Part>,
}

/// Assembles the calls of a trace from all of its records.
pub fn assemble(records: &[Record]) -> Trace {
    let mut tree = Tree::of(records);
    let groups = groups(&mut tree);
    let prompts = Prompts::of(&tree);
    let mut models = Vec::new();
    let mut tools = Vec::new();
    let mut given: Vec<GivenResult> = Vec::new();
    for group in &groups {
        let nodes = outermost_first(&tree, group);
        let Some((outermost, first)) = nodes.first().copied() else { continue };
        let mut call = merge_nodes(&nodes);
        call.parent = tree.parent_span(first);
        call.prompt = call.prompt.or_else(|| prompts.of_node(outermost, call.start));
        if call.kind == CallKind::Tool {
            tools.push(call);
            continue;
        }
        given.extend(given_results(&nodes, &call));
        let uses = tool_uses(&nodes);
        call.has_content |= uses.iter().any(|part| !arguments(part).is_null());
        let has_answered = call.usage.is_some() || call.response_id.is_some() || call.stop_reason.is_some();
        if has_answered || call.output.is_some() || !uses.is_empty() {
            models.push((outermost, call, uses));
        }
    }
    add_agent_outputs(&tree, &prompts, &mut models);
    models.sort_by(|(_, a, _), (_, b, _)| (a.start, &a.span).cmp(&(b.start, &b.span)));
    let mut requests: Vec<Request> = Vec::new();
    let mut calls: Vec<AssembledCall> = Vec::new();
    for (model, (_, call, uses)) in models.into_iter().enumerate() {
        requests.extend(uses.into_iter().enumerate().map(|(number, part)| Request { model, number, part }));
        calls.push(call);
    }
    tools.sort_by(|a: &AssembledCall, b| (a.start, &a.span).cmp(&(b.start, &b.span)));
    match_requests(&calls, requests, &mut tools);
    given.sort_by_key(|result| result.at);
    let foreign_results = assign_results(&mut tools, given);
    calls.append(&mut tools);
    let conversation = tree.nodes.iter().find_map(|node| node.conversation);
    for call in &mut calls {
        call.conversation = call.conversation.take().or_else(|| conversation.map(ToOwned::to_owned));
    }
    calls.sort_by(|a, b| {
        let key = |call: &AssembledCall| (call.start, call.kind == CallKind::Tool);
        key(a).cmp(&key(b)).then_with(|| a.span.cmp(&b.span))
    });
    keep_own_aliases(&mut calls);
    let completed = completed(&tree, &calls);
    Trace { calls, completed, foreign_results }
}

/// Drops the aliases that several calls have: an id that comes back in each turn, an answer from a cache.
fn keep_own_aliases(calls: &mut [AssembledCall]) {
    let mut holders: HashMap<String, usize> = HashMap::new();
    for call in &mut *calls {
        call.aliases.sort_unstable();
        call.aliases.dedup();
        for alias in &call.aliases {
            *holders.entry(alias.clone()).or_default() += 1;
        }
    }
    for call in calls {
        call.aliases.retain(|alias| holders.get(alias) == Some(&1));
    }
}

/// Returns the last call of a model, if the work of the topmost agent has ended.
fn completed(tree: &Tree<'_>, calls: &[AssembledCall]) -> Option<usize> {
    let is_agent = |at: usize| tree.node(at).is_some_and(|node| node.kind == RecordKind::Agent);
    let mut below_agents = HashSet::new();
    for at in &tree.downward {
        let above = tree.node(*at).and_then(|node| node.parent);
        if above.is_some_and(|above| is_agent(above) || below_agents.contains(&above)) {
            below_agents.insert(*at);
        }
    }
    let mut nodes = tree.nodes.iter().enumerate();
    let has_ended = nodes.any(|(at, node)| is_agent(at) && node.is_whole && !below_agents.contains(&at));
    let models = calls.iter().enumerate().filter(|(_, call)| call.kind == CallKind::Model);
    models.max_by_key(|(_, call)| call.end).map(|(position, _)| position).filter(|_| has_ended)
}
