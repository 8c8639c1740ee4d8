//! Exports from short JSON, and the calls that they become as lines of text.

use opentelemetry_proto::tonic::{
    collector::{logs::v1::ExportLogsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList, any_value},
    logs::v1::{LogRecord, ResourceLogs, ScopeLogs},
    resource::v1::Resource,
    trace::v1::{ResourceSpans, ScopeSpans, Span, Status, span::Event},
};
use serde_json::Value;

use super::{
    captures::{assembled, by_trace, calls, output, prompt, tool},
    order::{check_order, usual_arrivals},
};
use crate::{AssembledCall, CallKind, Export, Trace};

/// Start of the first record, in nanoseconds.
const START: u64 = 1_700_000_000_000_000_000;
/// Time between two records of an export, in nanoseconds.
const STEP: u64 = 1_000_000;

pub(super) fn typed(value: &Value) -> AnyValue {
    let value = match value {
        Value::Null => None,
        Value::Bool(set) => Some(any_value::Value::BoolValue(*set)),
        Value::Number(number) => Some(match number.as_i64() {
            Some(number) => any_value::Value::IntValue(number),
            None => any_value::Value::DoubleValue(number.as_f64().unwrap()),
        }),
        Value::String(text) => Some(any_value::Value::StringValue(text.clone())),
        Value::Array(items) => {
            Some(any_value::Value::ArrayValue(ArrayValue { values: items.iter().map(typed).collect() }))
        }
        Value::Object(_) => Some(any_value::Value::KvlistValue(KeyValueList { values: attributes(value) })),
    };
    AnyValue { value }
}

pub(super) fn attributes(members: &Value) -> Vec<KeyValue> {
    let pairs = members.as_object().into_iter().flatten();
    pairs.map(|(key, value)| KeyValue { key: key.clone(), value: Some(typed(value)), ..KeyValue::default() }).collect()
}

fn id(value: &Value, length: usize) -> Vec<u8> {
    let number = value.as_u64().unwrap_or_default();
    let mut id = vec![0; length];
    id[length - 8..].copy_from_slice(&number.to_be_bytes());
    id
}

fn resource() -> Resource {
    Resource { attributes: attributes(&serde_json::json!({"service.name": "svc"})), ..Resource::default() }
}

fn scope(name: &Value) -> InstrumentationScope {
    InstrumentationScope { name: name.as_str().unwrap_or("test").to_owned(), ..InstrumentationScope::default() }
}

/// Builds spans from `{"name", "id", "in", "scope", "is", "events", "error", "at", "until"}`: `in` is the parent, `is` the
/// attributes. Without times a span covers all spans in it.
pub(super) fn spans(list: &Value) -> Export {
    let list = list.as_array().unwrap();
    let inside = |id: &Value| list.iter().rposition(|span| span["in"] == *id && !id.is_null());
    let end = |index: usize| {
        let mut innermost = index;
        while let Some(inner) = inside(&list[innermost]["id"]).filter(|inner| *inner > innermost) {
            innermost = inner;
        }
        START + STEP * innermost as u64 + STEP / 2
    };
    let scope_spans = list.iter().enumerate().map(|(index, span)| {
        let events = span["events"].as_array().into_iter().flatten().map(|event| Event {
            name: event["name"].as_str().unwrap_or_default().to_owned(),
            attributes: attributes(&event["is"]),
            ..Event::default()
        });
        let status = span["error"].as_str().map(|message| Status { message: message.to_owned(), code: 2 });
        let built = Span {
            trace_id: id(&serde_json::json!(7), 16),
            span_id: id(&span["id"], 8),
            parent_span_id: id(&span["in"], 8),
            name: span["name"].as_str().unwrap_or_default().to_owned(),
            start_time_unix_nano: span["at"].as_u64().map_or(START + STEP * index as u64, |at| START + STEP * at),
            end_time_unix_nano: span["until"].as_u64().map_or_else(|| end(index), |until| START + STEP * until),
            attributes: attributes(&span["is"]),
            events: events.collect(),
            status,
            ..Span::default()
        };
        ScopeSpans { scope: Some(scope(&span["scope"])), spans: vec![built], ..ScopeSpans::default() }
    });
    let resource_spans = vec![ResourceSpans {
        resource: Some(resource()),
        scope_spans: scope_spans.collect(),
        ..ResourceSpans::default()
    }];
    Export::Traces(ExportTraceServiceRequest { resource_spans })
}

/// Builds logs from `{"name", "in", "body", "scope", "is"}`: `in` is the span, in trace 7; without one the log has no
/// trace.
pub(super) fn logs(list: &Value) -> Export {
    let scope_logs = list.as_array().unwrap().iter().enumerate().map(|(index, log)| {
        let built = LogRecord {
            trace_id: if log["in"].is_null() { Vec::new() } else { id(&serde_json::json!(7), 16) },
            span_id: if log["in"].is_null() { Vec::new() } else { id(&log["in"], 8) },
            event_name: log["name"].as_str().unwrap_or_default().to_owned(),
            time_unix_nano: START + STEP * index as u64,
            body: Some(typed(&log["body"])),
            attributes: attributes(&log["is"]),
            ..LogRecord::default()
        };
        ScopeLogs { scope: Some(scope(&log["scope"])), log_records: vec![built], ..ScopeLogs::default() }
    });
    let resource_logs =
        vec![ResourceLogs { resource: Some(resource()), scope_logs: scope_logs.collect(), ..ResourceLogs::default() }];
    Export::Logs(ExportLogsServiceRequest { resource_logs })
}

/// Shows a model's call as `model NAME in+out prompt > output`, that of a tool as `NAME#id(args) = result ! error`.
pub(super) fn shown(call: &AssembledCall) -> String {
    if call.kind == CallKind::Model {
        let usage = call.usage.map(|usage| format!(" {}+{}", usage.input, usage.output)).unwrap_or_default();
        let name = call.model.as_deref().unwrap_or("?");
        return format!("model {name}{usage} {} > {}", prompt(call), output(call)).trim_end().to_owned();
    }
    let (name, args, result, error) = tool(call);
    let mut line = format!("{name}#{}({args})", call.tool_id.as_deref().unwrap_or_default());
    for (sign, text) in [(" = ", result), (" ! ", error)] {
        if !text.is_empty() {
            line.extend([sign, &text]);
        }
    }
    line
}

pub(super) fn lines(traces: &[Trace]) -> Vec<String> {
    [CallKind::Model, CallKind::Tool].into_iter().flat_map(|kind| calls(traces, kind)).map(shown).collect()
}

/// Asserts the calls that exports become, in any order of their records.
pub(super) fn check(name: &str, exports: &[Export], expected: &[&str]) {
    assert_eq!(lines(&assembled(exports)), expected, "{name}");
    for records in by_trace(exports).values() {
        check_order(name, records, &usual_arrivals(records));
    }
}
