//! Outputs that only an agent's span tells, as outputs of the model's call that they are of.

use std::collections::HashMap;

use crate::{
    assemble::AssembledCall,
    merge::{merge_nodes, span_alias},
    prompts::Prompts,
    record::{Part, PartRole, RecordKind},
    tree::Tree,
};

/// Model's call with the position of its outermost node and the tool calls in its output.
type ModelCall = (usize, AssembledCall, Vec<Part>);

/// Calls of models below an agent.
#[derive(Default)]
struct CallsBelow {
    is_told: bool,
    /// Last call, by its end.
    last: Option<(i64, usize)>,
}

/// Gives the output of an agent to the last call of a model below it, if that came without content. An agent whose
/// output no call below it has is a call of a model by itself.
pub(crate) fn add_agent_outputs(tree: &Tree<'_>, prompts: &Prompts<'_>, models: &mut Vec<ModelCall>) {
    let mut below: HashMap<usize, CallsBelow> = HashMap::new();
    let mut owned: HashMap<usize, Vec<usize>> = HashMap::new();
    for (index, (position, ..)) in models.iter().enumerate() {
        if let Some(owner) = tree.node(*position).and_then(|node| node.owner) {
            owned.entry(owner).or_default().push(index);
        }
    }
    for at in tree.downward.iter().rev() {
        let Some(node) = tree.node(*at) else { continue };
        let mut own = below.remove(at).unwrap_or_default();
        for index in owned.remove(at).unwrap_or_default() {
            let Some((_, call, _)) = models.get(index) else { continue };
            own.is_told |= call.output.is_some();
            own.last = own.last.max(Some((call.end, index)));
        }
        let spoken = node.parts(PartRole::Output).next().filter(|_| node.kind == RecordKind::Agent);
        if let Some(output) = spoken {
            // The span of an agent may come before those of its calls: the call that is made of it is known again.
            let alias = node.find(|record| Some(span_alias(record))).unwrap_or_default();
            let last = own.last.and_then(|(_, index)| models.get_mut(index)).map(|(_, call, _)| call);
            match last {
                Some(call) if text(call.output.as_ref()) == text(Some(output)) => call.aliases.push(alias),
                Some(call) if !own.is_told && !call.has_content => {
                    call.output = Some(output.clone());
                    call.has_content = true;
                    call.aliases.push(alias);
                }
                _ if own.is_told => {}
                _ => {
                    let mut call = merge_nodes(&[(*at, node)]);
                    if own.last.is_some() {
                        // The agent's counts are sums of theirs, and its answer comes after them.
                        (call.usage, call.cost, call.start) = (None, None, call.end);
                    }
                    let prompt = call.prompt.clone().or_else(|| prompts.of_node(*at, call.start));
                    call.parent = tree.parent_span(node);
                    own.last = own.last.max(Some((call.end, models.len())));
                    models.push((*at, AssembledCall { aliases: vec![alias], prompt, ..call }, Vec::new()));
                }
            }
            own.is_told = true;
        }
        if let Some(owner) = node.owner.filter(|_| node.kind != RecordKind::Model) {
            let above = below.entry(owner).or_default();
            above.is_told |= own.is_told;
            above.last = above.last.max(own.last);
        }
    }
}

fn text(part: Option<&Part>) -> Option<&str> {
    part?.stored.event.output.as_deref().map(str::trim)
}
