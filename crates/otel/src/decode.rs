//! Bodies of exports: protobuf or JSON.

use opentelemetry_proto::tonic::collector::{logs::v1::ExportLogsServiceRequest, trace::v1::ExportTraceServiceRequest};
use prost::Message;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{
    json::with_whole_characters,
    wire::{self, ELEMENTS, Shape},
};

/// Kind of telemetry in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Logs.
    Logs,
    /// Metrics, which are accepted and dropped.
    Metrics,
}

/// Encoding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// `application/x-protobuf`.
    Protobuf,
    /// `application/json`.
    Json,
}

/// Decoded body.
#[derive(Debug, Clone, PartialEq)]
pub enum Export {
    /// Spans.
    Traces(ExportTraceServiceRequest),
    /// Logs.
    Logs(ExportLogsServiceRequest),
    /// Metrics, of which nothing is kept.
    Metrics,
}

/// Decodes a body.
///
/// # Errors
/// The body is not of this signal and encoding, or holds more values than are read; or it has bytes but no span or log,
/// which is a body of another signal: protobuf skips what it does not know. Single bad characters are replaced.
pub fn decode(signal: Signal, encoding: Encoding, body: &[u8]) -> Result<Export, String> {
    let title = if encoding == Encoding::Protobuf { "protobuf" } else { "JSON" };
    let bad = |reason: String| format!("the body is no {title} of OTLP: {reason}");
    let (export, is_empty) = match signal {
        Signal::Traces => {
            let request: ExportTraceServiceRequest = read(encoding, body, &wire::TRACES).map_err(bad)?;
            let is_empty = request.resource_spans.is_empty();
            (Export::Traces(request), is_empty)
        }
        Signal::Logs => {
            let request: ExportLogsServiceRequest = read(encoding, body, &wire::LOGS).map_err(bad)?;
            let is_empty = request.resource_logs.is_empty();
            (Export::Logs(request), is_empty)
        }
        // They are dropped, well formed or not.
        Signal::Metrics => return Ok(Export::Metrics),
    };
    if is_empty && !is_nothing(body) {
        return Err(bad("it holds nothing of this signal; was it sent to the path of another one?".to_owned()));
    }
    Ok(export)
}

fn read<T: Message + Default + DeserializeOwned>(encoding: Encoding, body: &[u8], shape: &Shape) -> Result<T, String> {
    let too_many = || format!("it holds more than {ELEMENTS} spans, attributes and values; send smaller batches");
    if encoding == Encoding::Protobuf {
        let mended = wire::mended(body, shape).ok_or_else(too_many)?;
        return T::decode(&*mended).map_err(|error| error.to_string());
    }
    if body.iter().filter(|byte| matches!(byte, b'{' | b'[')).count() > ELEMENTS {
        return Err(too_many());
    }
    serde_json::from_slice(body).or_else(|error: serde_json::Error| {
        let text = String::from_utf8_lossy(body);
        let repaired = serde_json::from_str(&with_whole_characters(&text)).ok().map(repaired);
        repaired.and_then(|body| T::deserialize(body).ok()).ok_or_else(|| error.to_string())
    })
}

/// True for a body that holds nothing at all.
fn is_nothing(body: &[u8]) -> bool {
    let members: Option<Map<String, Value>> = serde_json::from_slice(body).ok();
    let is_empty =
        |members: Map<String, Value>| members.values().all(|list| list.as_array().is_some_and(Vec::is_empty));
    body.is_empty() || members.is_some_and(is_empty)
}

/// Repairs what some senders write otherwise than the types expect: lists without items, members that are null, words
/// in the place of numbers.
fn repaired(body: Value) -> Value {
    const WORDS: [(&str, &str, &[&str]); 3] = [
        ("kind", "SPAN_KIND_", &["UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"]),
        ("code", "STATUS_CODE_", &["UNSET", "OK", "ERROR"]),
        ("severityNumber", "SEVERITY_NUMBER_", &[]),
    ];
    let number = |key: &str, word: &str| {
        let (_, prefix, words) = WORDS.iter().find(|(name, ..)| *name == key)?;
        let word = word.strip_prefix(prefix)?;
        Some(Value::from(words.iter().position(|known| *known == word).unwrap_or_default()))
    };
    match body {
        Value::Array(items) => items.into_iter().filter(|item| !item.is_null()).map(repaired).collect(),
        Value::Object(members) => {
            let members = members.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| {
                let value = match value {
                    Value::String(word) => number(&key, &word).unwrap_or(Value::String(word)),
                    Value::Object(mut inner) if matches!(&*key, "arrayValue" | "kvlistValue") => {
                        inner.entry("values").or_insert_with(|| Value::Array(Vec::new()));
                        repaired(Value::Object(inner))
                    }
                    value => repaired(value),
                };
                (key, value)
            });
            Value::Object(members.collect())
        }
        other => other,
    }
}
