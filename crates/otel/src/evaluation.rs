//! Evaluations of calls as logs of OpenTelemetry, by the semantic conventions for generative AI
//! (`gen_ai.evaluation.result`).

use jiff::Timestamp;
use opentelemetry_proto::tonic::{
    collector::logs::v1::ExportLogsServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value},
    logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber},
    resource::v1::Resource,
};

/// Name of the event.
const EVENT_NAME: &str = "gen_ai.evaluation.result";

/// Judgement of a call, to be told to a receiver of OpenTelemetry.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Evaluation {
    /// Judge: a shadow, or a rule.
    pub name: String,
    /// Result in a word.
    pub label: Option<String>,
    /// Score, 0-100.
    pub score: Option<f64>,
    /// Result in sentences.
    pub explanation: String,
    /// Reason for which there is no result.
    pub error: Option<String>,
    /// True for a result that asks for attention.
    pub is_warning: bool,
    /// Time of the result.
    pub at: Timestamp,
    /// Trace and span of the call, in hex, if it came by OpenTelemetry.
    pub span: Option<(String, String)>,
    /// The provider's id of the response.
    pub response_id: Option<String>,
    /// Facts that the conventions have no name for, each with its name.
    pub facts: Vec<(&'static str, String)>,
}

/// Returns evaluations as the JSON body of an export of logs.
pub fn evaluation_logs(evaluations: &[Evaluation], version: &str) -> Vec<u8> {
    let resource = Resource { attributes: vec![text("service.name", "umbra")], ..Resource::default() };
    let scope =
        InstrumentationScope { name: "umbra".into(), version: version.into(), ..InstrumentationScope::default() };
    let log_records = evaluations.iter().map(log_record).collect();
    let scope_logs = vec![ScopeLogs { scope: Some(scope), log_records, ..ScopeLogs::default() }];
    let resource_logs = vec![ResourceLogs { resource: Some(resource), scope_logs, ..ResourceLogs::default() }];
    serde_json::to_vec(&ExportLogsServiceRequest { resource_logs }).unwrap_or_default()
}

fn log_record(evaluation: &Evaluation) -> LogRecord {
    let texts = [
        ("gen_ai.evaluation.name", Some(&evaluation.name)),
        ("gen_ai.evaluation.score.label", evaluation.label.as_ref()),
        ("gen_ai.evaluation.explanation", Some(&evaluation.explanation).filter(|text| !text.is_empty())),
        ("gen_ai.response.id", evaluation.response_id.as_ref()),
        ("error.type", evaluation.error.as_ref()),
    ];
    let mut attributes: Vec<KeyValue> =
        texts.into_iter().filter_map(|(name, value)| Some(text(name, value?))).collect();
    attributes
        .extend(evaluation.score.map(|score| attribute("gen_ai.evaluation.score.value", Value::DoubleValue(score))));
    attributes.extend(evaluation.facts.iter().map(|(name, value)| text(name, value)));
    let (trace, span) = evaluation.span.clone().unwrap_or_default();
    let severity = if evaluation.is_warning { SeverityNumber::Warn } else { SeverityNumber::Info };
    let at = u64::try_from(evaluation.at.as_nanosecond()).unwrap_or_default();
    LogRecord {
        time_unix_nano: at,
        observed_time_unix_nano: at,
        severity_number: severity.into(),
        event_name: EVENT_NAME.to_owned(),
        attributes,
        trace_id: hex::decode(trace).unwrap_or_default(),
        span_id: hex::decode(span).unwrap_or_default(),
        ..LogRecord::default()
    }
}

fn text(name: &str, value: &str) -> KeyValue {
    attribute(name, Value::StringValue(value.to_owned()))
}

fn attribute(name: &str, value: Value) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}
