//! Records from spans and logs, by the tables of `dialect.rs`.

mod call;
mod texts;

use opentelemetry_proto::tonic::{
    common::v1::InstrumentationScope,
    logs::v1::{LogRecord, ResourceLogs},
    resource::v1::Resource,
    trace::v1::{ResourceSpans, Span, status::StatusCode},
};
use serde_json::{Map, Value};

use crate::{
    attributes::{Attributes, body_of, parsed, text_of},
    decode::Export,
    dialect::DIALECTS,
    record::{PartRole, Record, RecordKind},
};

/// Records of an export, and the number of spans and logs that could not become one.
#[derive(Debug, Default)]
pub struct Normalised {
    /// Records that say something of a call, an agent or a prompt, or may lie between such.
    pub records: Vec<Record>,
    /// Number of spans or logs that were refused.
    pub rejected: u64,
    /// Reason for the first of them.
    pub reason: Option<&'static str>,
    /// `service.name` of the first resource.
    pub service: Option<String>,
}

impl Normalised {
    fn reject(&mut self, reason: &'static str) {
        self.rejected += 1;
        self.reason.get_or_insert(reason);
    }
}

/// Reads an export. Metrics become no records.
pub fn normalise(export: &Export) -> Normalised {
    let mut found = Normalised::default();
    match export {
        Export::Traces(export) => export.resource_spans.iter().for_each(|spans| spans_of(spans, &mut found)),
        Export::Logs(export) => export.resource_logs.iter().for_each(|logs| logs_of(logs, &mut found)),
        Export::Metrics => {}
    }
    found
}

/// Origin of all spans or logs of a resource and scope.
struct Origin<'a> {
    service: &'a str,
    resource: &'a Attributes,
    scope: &'a str,
}

fn spans_of(spans: &ResourceSpans, found: &mut Normalised) {
    let groups = spans.scope_spans.iter().map(|group| (group.scope.as_ref(), &*group.spans));
    records_of(spans.resource.as_ref(), groups, span_record, found);
}

fn logs_of(logs: &ResourceLogs, found: &mut Normalised) {
    let groups = logs.scope_logs.iter().map(|group| (group.scope.as_ref(), &*group.log_records));
    records_of(logs.resource.as_ref(), groups, log_record, found);
}

/// Reads the spans or logs of a resource, by scope.
fn records_of<'a, T: 'a>(
    resource: Option<&Resource>,
    groups: impl Iterator<Item = (Option<&'a InstrumentationScope>, &'a [T])>,
    read: fn(&T, &Origin<'_>) -> Result<Record, &'static str>,
    found: &mut Normalised,
) {
    let (service, resource) = resource_of(resource);
    found.service.get_or_insert_with(|| service.clone());
    for (scope, items) in groups {
        let scope = scope.map(|scope| scope.name.as_str()).unwrap_or_default();
        let origin = Origin { service: &service, resource: &resource, scope };
        for item in items {
            match read(item, &origin) {
                // A log lies between no others: one that says nothing is not kept.
                Ok(record) if record.is_log && !record.is_telling() => {}
                Ok(record) => found.records.push(record),
                Err(reason) => found.reject(reason),
            }
        }
    }
}

fn resource_of(resource: Option<&Resource>) -> (String, Attributes) {
    let attributes = resource.map(|resource| Attributes::of(&resource.attributes)).unwrap_or_default();
    let service = attributes.0.get("service.name").and_then(text_of).filter(|name| !name.trim().is_empty());
    (service.unwrap_or_else(|| "unknown_service".to_owned()), attributes)
}

/// Returns an id in hex; an id of zeros or of another length is none.
fn id(bytes: &[u8], length: usize) -> Option<String> {
    (bytes.len() == length && bytes.iter().any(|byte| *byte != 0)).then(|| hex::encode(bytes))
}

fn time(nanoseconds: u64) -> i64 {
    i64::try_from(nanoseconds).unwrap_or(0)
}

/// Longest text of a log that may be the name of its event.
const EVENT_NAME: usize = 100;

/// Span event, or log of a message.
struct TelemetryEvent {
    name: String,
    attributes: Attributes,
}

/// Facts that a record is made from.
struct Source<'a> {
    name: &'a str,
    attributes: &'a Attributes,
    events: &'a [TelemetryEvent],
    /// Message of a failed status; empty if there is none. `None` if nothing failed.
    failure: Option<&'a str>,
}

fn span_record(span: &Span, origin: &Origin<'_>) -> Result<Record, &'static str> {
    let trace = id(&span.trace_id, 16).ok_or("a trace id is missing, has not 16 bytes, or is zero")?;
    let own = id(&span.span_id, 8).ok_or("a span id is missing, has not 8 bytes, or is zero")?;
    let attributes = Attributes::of(&span.attributes);
    let mut events: Vec<TelemetryEvent> = span
        .events
        .iter()
        .map(|event| TelemetryEvent { name: event.name.clone(), attributes: Attributes::of(&event.attributes) })
        .collect();
    events.extend(listed_messages(&attributes));
    let status = span.status.as_ref().filter(|status| status.code == StatusCode::Error as i32);
    let source = Source {
        name: &span.name,
        attributes: &attributes,
        events: &events,
        failure: status.map(|status| status.message.as_str()),
    };
    let mut record = Record {
        parent: id(&span.parent_span_id, 8).filter(|parent| *parent != own),
        start: time(span.start_time_unix_nano),
        end: time(span.end_time_unix_nano),
        is_cut: span.dropped_attributes_count > 0,
        ..blank(DIALECTS.kind(&attributes), trace, own, origin)
    };
    call::read(&source, origin.resource, &mut record);
    Ok(record)
}

/// Returns the messages in attributes that hold a list of them, each named like an event.
fn listed_messages(attributes: &Attributes) -> Vec<TelemetryEvent> {
    let list = attributes.first(&DIALECTS.names.message_list).cloned().map(parsed);
    let Some(Value::Array(items)) = list else { return Vec::new() };
    let event = |item| {
        let Value::Object(members) = item else { return None };
        let name = members.get("event.name")?.as_str()?.to_owned();
        Some(TelemetryEvent { name, attributes: Attributes(members) })
    };
    items.into_iter().filter_map(event).collect()
}

/// Returns the name of a log's event: an attribute, its own (which may be a place in code), or its text if that is one
/// word.
fn event_name(log: &LogRecord, attributes: &Attributes, body: &Value) -> String {
    let by_attribute = || attributes.0.get("event.name").and_then(text_of);
    let by_text = || body.as_str().filter(|text| text.len() <= EVENT_NAME && !text.contains(char::is_whitespace));
    let own = Some(&log.event_name).filter(|name| !name.is_empty()).cloned();
    by_attribute().or(own).or_else(|| by_text().map(ToOwned::to_owned)).unwrap_or_default()
}

fn log_record(log: &LogRecord, origin: &Origin<'_>) -> Result<Record, &'static str> {
    let mut attributes = Attributes::of(&log.attributes);
    let mut body = body_of(log.body.as_ref());
    let name = event_name(log, &attributes, &body);
    attributes.0.entry("event.name").or_insert_with(|| Value::String(name.clone()));
    let is_message = texts::is_message(&name);
    if is_message {
        body = parsed(body);
    }
    let kind = if is_message { RecordKind::Model } else { DIALECTS.kind(&attributes) };
    let conversation = attributes.text(&DIALECTS.names.conversation);
    let trace = id(&log.trace_id, 16);
    if trace.is_none() && log.trace_id.iter().any(|byte| *byte != 0) {
        return Err("a trace id has not 16 bytes");
    }
    let event = attributes.0.get("event.name").and_then(Value::as_str).unwrap_or_default();
    let is_untraced = DIALECTS.names.untraced_events.iter().any(|beginning| event.starts_with(beginning));
    let (trace, span) = match trace.filter(|_| !is_untraced || conversation.is_none()) {
        Some(trace) => (trace, id(&log.span_id, 8)),
        None => (format!("log/{}/{}", origin.service, conversation.unwrap_or_default()), None),
    };
    let at = time(if log.time_unix_nano == 0 { log.observed_time_unix_nano } else { log.time_unix_nano });
    let own = match &span {
        // Several messages make up the call of their span.
        Some(span) if is_message => span.clone(),
        // A log that tells of a call by itself.
        _ => {
            let sequence = attributes.0.get("event.sequence").and_then(text_of).unwrap_or_default();
            let id = attributes.text(&DIALECTS.names.tool_id).unwrap_or_default();
            format!("{}#{name}#{at}#{sequence}#{id}", span.clone().unwrap_or_default())
        }
    };
    if let Value::Object(members) = &body {
        for (key, value) in members {
            attributes.0.entry(key).or_insert_with(|| value.clone());
        }
    }
    let event = [TelemetryEvent { name: name.clone(), attributes: Attributes(members_of(body)) }];
    let source =
        Source { name: &name, attributes: &attributes, events: if is_message { &event } else { &[] }, failure: None };
    let mut record = Record {
        is_log: true,
        parent: if is_message { None } else { span },
        start: at,
        end: at,
        is_cut: log.dropped_attributes_count > 0,
        ..blank(kind, trace, own, origin)
    };
    call::read(&source, origin.resource, &mut record);
    Ok(record)
}

fn members_of(body: Value) -> Map<String, Value> {
    match body {
        Value::Object(members) => members,
        Value::Null => Map::new(),
        other => Map::from_iter([("content".to_owned(), other)]),
    }
}

fn blank(kind: RecordKind, trace: String, span: String, origin: &Origin<'_>) -> Record {
    let (service, scope) = (origin.service.to_owned(), origin.scope.to_owned());
    Record { kind, trace, span, service, scope, ..Record::default() }
}

impl Record {
    /// True if the record holds content of a model's call: text, or a tool call with its arguments.
    pub fn has_content(&self) -> bool {
        self.parts.iter().any(|part| match part.role {
            PartRole::Output => true,
            PartRole::Call => part.stored.event.tool.as_ref().is_some_and(|tool| !tool.args.is_null()),
            PartRole::Prompt | PartRole::Result => false,
        })
    }

    /// True if the record tells of a call or a prompt.
    fn is_telling(&self) -> bool {
        match self.kind {
            RecordKind::Other | RecordKind::Wrapper => false,
            RecordKind::Model => self.usage.is_some() || !self.parts.is_empty() || !self.history.is_empty(),
            RecordKind::Tool | RecordKind::Agent | RecordKind::Prompt => true,
        }
    }
}
