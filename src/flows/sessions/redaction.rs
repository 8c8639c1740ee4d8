//! Redaction of requests: hidden characters and credentials are removed before a request is judged and stored, so that
//! it can be judged again. Each field of a request is named here, so that no new text is forgotten.

use serde_json::Value;

use super::cleaned;
use crate::ingest::{GuardRequest, GuardSubject, MessageRequest, NamedCall, SaidResult, TurnRequest};
use umbra_domain::{ToolName, tool::visible_tool_name};

fn clean<'t>(texts: impl IntoIterator<Item = &'t mut String>) {
    texts.into_iter().for_each(|text| *text = cleaned(text));
}

/// Puts U+FFFD in place of each hidden character of a name. If they were dropped, rules would judge another name than
/// the one that runs.
fn clean_tool(ToolName { server, name }: &mut ToolName) {
    server.iter_mut().chain([name]).for_each(|name| *name = cleaned(&visible_tool_name(name)));
}

fn clean_call(NamedCall { tool, arguments }: &mut NamedCall) {
    clean_tool(tool);
    let mut value = Value::Object(std::mem::take(arguments));
    umbra_checks::redact_json(&mut value);
    if let Value::Object(members) = value {
        *arguments = members;
    }
}

/// Redacts a turn.
pub(super) fn turn(mut asked: TurnRequest) -> TurnRequest {
    let TurnRequest { route, modes, intent, planned_calls, limit: _, always_include, deadline_ms: _ } = &mut asked;
    clean(route.iter_mut().chain(modes.iter_mut().flatten()).chain(intent));
    planned_calls.iter_mut().for_each(clean_call);
    always_include.iter_mut().for_each(clean_tool);
    asked
}

/// Redacts a message.
pub(super) fn message(mut told: MessageRequest) -> MessageRequest {
    let MessageRequest { role: _, content, route, modes, tool_calls, results, deadline_ms: _ } = &mut told;
    clean(content.iter_mut().chain(route).chain(modes.iter_mut().flatten()));
    tool_calls.iter_mut().for_each(clean_call);
    for SaidResult { tool, ok: _, content } in results {
        clean_tool(tool);
        clean([content]);
    }
    told
}

/// Redacts a question to the guardrail.
pub(super) fn guard(mut asked: GuardRequest) -> GuardRequest {
    let GuardRequest { session: _, agent, route, modes, subject, deadline_ms: _ } = &mut asked;
    clean(agent.iter_mut().chain(route).chain(modes.iter_mut().flatten()));
    match subject {
        GuardSubject::Message { role: _, content } => clean([content]),
        GuardSubject::Call(call) => clean_call(call),
    }
    asked
}
