//! Events of assembled calls.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use umbra_domain::{Event, MOST_DURATION_MS, Mark, TokenCount, ToolCall, Trigger};
use umbra_otel::{AssembledCall, CallKind, Part};

/// Facts about a call from the rest of its trace.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallContext<'a> {
    /// Id of the trace.
    pub trace: &'a str,
    /// Task of the event.
    pub task_id: &'a str,
    /// True for the last call of a task.
    pub completes: bool,
    /// True for a call of a model whose output is withheld.
    pub is_withheld: bool,
}

/// Returns the event of a call, with the marks of its texts.
pub(super) fn event_of(call: &AssembledCall, context: CallContext<'_>) -> (Event, Vec<Mark>) {
    let parts = [&call.prompt, &call.output, &call.call, &call.result];
    let marks = parts.iter().copied().flatten().flat_map(|part| part.stored.marks.iter().cloned()).collect();
    let fields = |part: &Option<Part>| part.as_ref().map(|part| part.stored.event.clone());
    let task = fields(&call.prompt).and_then(|event| event.task);
    let output = fields(&call.output).and_then(|event| event.output);
    let mut tool = fields(&call.call).and_then(|event| event.tool);
    if let Some(returned) = fields(&call.result).and_then(|event| event.tool) {
        let whole = tool.get_or_insert_with(ToolCall::default);
        (whole.result, whole.error, whole.exit_code) = (returned.result, returned.error, returned.exit_code);
    }
    let failed = tool.as_ref().is_some_and(ToolCall::has_failed);
    let event = Event {
        agent: call.agent.clone().unwrap_or_else(|| call.service.clone()),
        task_id: Some(context.task_id.to_owned()),
        session_id: call.conversation.clone(),
        triggers: if context.completes { vec![Trigger::TaskComplete] } else { Vec::new() },
        task,
        output,
        tool,
        cost_usd: call.cost,
        tokens: call.usage.map(|usage| TokenCount { input: usage.input, output: usage.output }),
        status: failed.then(|| "error".to_owned()),
        stop_reason: call.stop_reason.clone(),
        occurred_at: time(call.start),
        duration_ms: duration_ms(call),
        metadata: Map::from_iter([("otel".to_owned(), provenance(call, context))]),
        ..Event::default()
    };
    (event, marks)
}

/// Returns the event that ends a task whose last answer is filed already.
pub(super) fn end_of(last: &AssembledCall, trace: &str, task_id: &str) -> Event {
    Event {
        agent: last.agent.clone().unwrap_or_else(|| last.service.clone()),
        task_id: Some(task_id.to_owned()),
        session_id: last.conversation.clone(),
        triggers: vec![Trigger::TaskComplete],
        occurred_at: time(last.end),
        metadata: Map::from_iter([("otel".to_owned(), json!({"kind": "end", "trace_id": trace}))]),
        ..Event::default()
    }
}

/// Describes where a call was told: `metadata.otel` of its event.
fn provenance(call: &AssembledCall, context: CallContext<'_>) -> Value {
    let members = [
        ("kind", Some(json!(if call.kind == CallKind::Model { "model" } else { "tool" }))),
        ("trace_id", Some(json!(context.trace))),
        ("span_id", Some(json!(call.span))),
        ("parent_id", call.parent.as_ref().map(|parent| json!(parent))),
        ("scope", Some(json!(call.scope))),
        ("service", Some(json!(call.service))),
        ("model", call.model.as_ref().map(|model| json!(model))),
        ("response_id", call.response_id.as_ref().map(|id| json!(id))),
        ("call_id", call.tool_id.as_ref().map(|id| json!(id))),
        ("content", context.is_withheld.then_some(Value::Bool(false))),
        ("cut", call.is_cut.then_some(Value::Bool(true))),
    ];
    let members = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(members.collect())
}

/// Returns the duration of a call whose start and end are known: a call without a span of its own has one time.
fn duration_ms(call: &AssembledCall) -> Option<u64> {
    let nanoseconds = call.end.checked_sub(call.start).filter(|duration| call.start > 0 && *duration > 0)?;
    u64::try_from(nanoseconds / 1_000_000).ok().filter(|duration| *duration <= MOST_DURATION_MS)
}

/// Returns a time of a sender, if there is one.
fn time(nanoseconds: i64) -> Option<Timestamp> {
    Timestamp::from_nanosecond(i128::from(nanoseconds)).ok().filter(|_| nanoseconds > 0)
}
