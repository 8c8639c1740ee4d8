//! Reads calls of tools and their outcomes from JSON bodies of their own shape, by the same rules as events: arguments
//! mean the same to Umbra and to the tool. A bad body gives every fault with its pointer.

use serde_json::{Map, Value};

use super::{
    Limits,
    fault::{At, RequestFault, RequestFaults, code},
    native::{Fields, bounded, flag, key, label, listed, name, whole, word, wrong_type},
    request::read,
    tree::Tree,
};
use umbra_domain::{
    Call, CallOutcome, DeclaredEffect, Effect, OutcomeStatus, ToolAnnotations, ToolName, tool::plain_tool_name,
};

/// Most modes of an agent.
pub(super) const MODES: usize = 16;
/// Most ways to write that cannot be intercepted.
const PATHS: usize = 64;
/// Most bytes of a tool's description.
pub(super) const DESCRIPTION_BYTES: usize = 32 * 1024;
/// Most bytes of an error.
const ERROR_BYTES: usize = 64 * 1024;
/// Longest wait that a caller may ask for, in milliseconds.
pub(super) const MOST_MS: u64 = 600_000;

/// Request to `POST /v1/decide`.
#[derive(Clone, PartialEq)]
pub struct CallRequest {
    /// Call of the tool.
    pub call: Call,
    /// Request as canonical JSON, without the parts that may differ when it is sent again. It holds unredacted text:
    /// hash it with a key, never store it.
    pub digest_input: Vec<u8>,
}

/// Reads the body of `POST /v1/decide`.
pub fn call_request(body: &[u8], limits: &Limits) -> Result<CallRequest, Vec<RequestFault>> {
    // The body is bounded already, and the boundary bounds the arguments by a decision in the audit.
    let limits = &Limits { event_bytes: body.len(), ..*limits };
    read(body, limits, |fields| {
        let deadline_ms = fields.optional("deadline_ms", whole(1, MOST_MS));
        let traceparent = fields.optional("traceparent", label);
        let digest_input = fields.canonical(body.len());
        let call_id = fields.required("call_id", "the call's id, chosen by the caller", key);
        let agent = fields.required("agent", "the calling agent's name", name);
        let session = fields.optional("session", label);
        let run = fields.optional("run", label);
        let default_run = fields.optional("default_run", flag).unwrap_or_default();
        let parent_run = fields.optional("parent_run", label);
        let seed = fields.optional("seed", label);
        let shows_faults = fields.optional("faults", flag);
        let route = fields.optional("route", label);
        let modes = fields.optional("modes", |tree, at, faults| names(tree, MODES, at, faults));
        let tool = fields.required("tool", r#"the called tool, such as {"server": "stripe", "name": "refund"}"#, tool);
        let arguments = fields.optional("arguments", members);
        let declared_effect = fields.optional("declared_effect", word(Effect::parse, "read, write, destructive"));
        let stub_override = fields.optional("stub_override", any);
        let stub_fallback = fields.optional("stub_fallback", fallback);
        let uninterceptable = fields.optional("uninterceptable", |tree, at, faults| names(tree, PATHS, at, faults));
        if default_run && run.is_none() {
            let detail = "needs `run`: give the run's name as `run`, or leave default_run out";
            fields.fault("default_run", code::FORMAT, detail);
        }
        if run.is_some() && run == parent_run {
            fields.fault(
                "parent_run",
                code::FORMAT,
                "is the same as `run`: leave parent_run out, or name the run that started this run",
            );
        }
        let call = Call {
            call_id: call_id?,
            agent: agent?,
            session,
            run,
            default_run,
            parent_run,
            seed,
            faults: shows_faults.unwrap_or_default(),
            route,
            modes: modes.unwrap_or_default(),
            declared_effect: declared_effect.map(|effect| DeclaredEffect { effect, is_believed: false }),
            arguments: arguments.unwrap_or_default(),
            stub_override,
            stub_fallback,
            uninterceptable: uninterceptable.unwrap_or_default(),
            traceparent,
            deadline_ms,
            ..tool?
        };
        Some(CallRequest { call, digest_input })
    })
}

/// Reads `{"result": ...}`, null included.
fn fallback(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<Value> {
    match Value::from(tree) {
        Value::Object(mut members) if members.len() == 1 => members.remove("result"),
        _ => None,
    }
    .or_else(|| faults.refuse(at, code::FORMAT, r#"must be {"result": ...}, with the tool's result as any JSON"#))
}

/// Reads the body of `POST /v1/calls/{call_id}/outcome`.
pub fn outcome_request(body: &[u8], limits: &Limits) -> Result<CallOutcome, Vec<RequestFault>> {
    read(body, limits, |fields| {
        let agent = fields.required("agent", "the calling agent's name", name);
        let status = fields.required("status", "ok or error", word(OutcomeStatus::parse, "ok, error"));
        let result = fields.optional("result", any);
        let error = fields.optional("error", |tree, at, faults| bounded(tree, ERROR_BYTES, at, faults));
        let duration_ms = fields.optional("duration_ms", whole(0, u64::MAX));
        Some(CallOutcome { agent: agent?, status: status?, result, error, duration_ms })
    })
}

/// Reads a tool, as a call of it about which nothing else is known.
fn tool(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<Call> {
    let mut fields = Fields::open(tree, at, faults)?;
    let server = fields.optional("server", |tree, at, faults| plain_name(label(tree, at, faults)?, at, faults));
    let name =
        fields.required("name", "the tool's name", |tree, at, faults| plain_name(name(tree, at, faults)?, at, faults));
    let description = fields.optional("description", |tree, at, faults| bounded(tree, DESCRIPTION_BYTES, at, faults));
    let annotations = fields.optional("annotations", annotations);
    let input_schema = fields.optional("input_schema", schema);
    let output_schema = fields.optional("output_schema", schema);
    fields.refuse_rest_of_request();
    let annotations = annotations.unwrap_or_default();
    let call = Call::new("", ToolName { server, name: name? }, Map::new());
    Some(Call { annotations, description, input_schema, output_schema, ..call })
}

/// Refuses a name that can be mistaken for another: rules go by it.
pub(super) fn plain_name(name: String, at: At<'_>, faults: &mut RequestFaults) -> Option<String> {
    match plain_tool_name(&name) {
        Ok(()) => Some(name),
        Err(help) => faults.refuse(at, code::FORMAT, help),
    }
}

/// Reads the hints of MCP, by their names there or by ours; other members are ignored.
pub(super) fn annotations(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<ToolAnnotations> {
    let members = members(tree, at, faults)?;
    let mut said = ToolAnnotations::default();
    for (theirs, ours, slot) in [
        ("readOnlyHint", "read_only", &mut said.read_only),
        ("destructiveHint", "destructive", &mut said.destructive),
        ("idempotentHint", "idempotent", &mut said.idempotent),
        ("openWorldHint", "open_world", &mut said.open_world),
    ] {
        match members.get(theirs).or_else(|| members.get(ours)) {
            None | Some(Value::Null) => {}
            Some(Value::Bool(flag)) => *slot = Some(*flag),
            Some(_) => faults.add(At::Key(&at, theirs), code::TYPE, "expected true or false"),
        }
    }
    Some(said)
}

fn schema(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<Value> {
    match tree {
        Tree::Object(members) => Some(Value::Object(members.into())),
        Tree::Bool(flag) => Some(Value::Bool(flag)),
        other => wrong_type("a JSON Schema", &other, at, faults),
    }
}

pub(super) fn members(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<Map<String, Value>> {
    match tree {
        Tree::Object(members) => Some(members.into()),
        other => wrong_type("an object", &other, at, faults),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it is a rule, and a rule may refuse")]
pub(super) fn any(tree: Tree<'_>, _: At<'_>, _: &mut RequestFaults) -> Option<Value> {
    Some(tree.into())
}

pub(super) fn names(tree: Tree<'_>, most: usize, at: At<'_>, faults: &mut RequestFaults) -> Option<Vec<String>> {
    listed(tree, "a list of names", most, at, faults, name)
}
