//! Redaction of requests: hidden characters and credentials are removed before a request is judged and stored, so that
//! it can be judged again. Each field of a request is named here; fields that are no text are copied.

use serde_json::Value;

use super::cleaned;
use crate::ingest::{GuardRequest, GuardSubject, MessageRequest, NamedCall, SaidResult, TurnRequest};
use umbra_domain::{ToolName, tool::visible_tool_name};

fn all(names: &[String]) -> Vec<String> {
    names.iter().map(|name| cleaned(name)).collect()
}

fn some(text: Option<&String>) -> Option<String> {
    text.map(|text| cleaned(text))
}

/// Returns the name with U+FFFD in place of each hidden character. If they were dropped, rules would judge another name
/// than the one that runs.
fn tool(tool: &ToolName) -> ToolName {
    let name = |name: &str| cleaned(&visible_tool_name(name));
    ToolName { server: tool.server.as_deref().map(name), name: name(&tool.name) }
}

fn call(call: &NamedCall) -> NamedCall {
    let mut arguments = Value::Object(call.arguments.clone());
    umbra_checks::redact_json(&mut arguments);
    let arguments = match arguments {
        Value::Object(arguments) => arguments,
        _ => serde_json::Map::new(),
    };
    NamedCall { tool: tool(&call.tool), arguments }
}

fn result(result: &SaidResult) -> SaidResult {
    SaidResult { tool: tool(&result.tool), ok: result.ok, content: cleaned(&result.content) }
}

/// Redacts a turn.
pub(super) fn turn(asked: &TurnRequest) -> TurnRequest {
    TurnRequest {
        route: some(asked.route.as_ref()),
        modes: asked.modes.as_deref().map(all),
        intent: some(asked.intent.as_ref()),
        planned_calls: asked.planned_calls.iter().map(call).collect(),
        limit: asked.limit,
        always_include: asked.always_include.iter().map(tool).collect(),
        deadline_ms: asked.deadline_ms,
    }
}

/// Redacts a message.
pub(super) fn message(told: &MessageRequest) -> MessageRequest {
    MessageRequest {
        role: told.role.clone(),
        content: some(told.content.as_ref()),
        route: some(told.route.as_ref()),
        modes: told.modes.as_deref().map(all),
        tool_calls: told.tool_calls.iter().map(call).collect(),
        results: told.results.iter().map(result).collect(),
        deadline_ms: told.deadline_ms,
    }
}

/// Redacts a question to the guardrail.
pub(super) fn guard(asked: &GuardRequest) -> GuardRequest {
    GuardRequest {
        session: asked.session,
        agent: some(asked.agent.as_ref()),
        route: some(asked.route.as_ref()),
        modes: asked.modes.as_deref().map(all),
        subject: match &asked.subject {
            GuardSubject::Message { role, content } => {
                GuardSubject::Message { role: role.clone(), content: cleaned(content) }
            }
            GuardSubject::Call(asked) => GuardSubject::Call(call(asked)),
        },
        deadline_ms: asked.deadline_ms,
    }
}
