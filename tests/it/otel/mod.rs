//! OpenTelemetry over the wire: real exports of agents and frameworks become events, each call once.

#![expect(clippy::expect_used, reason = "a test that meets an error fails")]

mod captures;
mod exports;
mod grpc;
mod hostile;
mod outgoing;
mod places;
mod spread;

use std::{fs, path::PathBuf};

use reqwest::Method;
use serde_json::Value;

use crate::support::{Schema, Umbra, until};

/// A body of a real export, as it came over the wire.
#[derive(Debug, Clone)]
struct ExportedBody {
    /// True if it came over gRPC.
    is_call: bool,
    path: String,
    headers: Vec<(String, String)>,
    bytes: Vec<u8>,
}

/// A run of a real framework: its exports in the order of their arrival, and what a person reads in them.
#[derive(Debug, Clone)]
struct Capture {
    bodies: Vec<ExportedBody>,
    expected: Value,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/otlp")
}

fn json(path: PathBuf) -> Value {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}

/// Returns the names of all captures.
fn names() -> Vec<String> {
    let entries = fs::read_dir(folder()).expect("captures").map(|entry| entry.expect("an entry"));
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn capture(name: &str) -> Capture {
    let folder = folder().join(name);
    let mut bodies = Vec::new();
    for number in 0.. {
        let base = format!("{number:03}");
        let about = folder.join(format!("{base}.headers.json"));
        if !about.exists() {
            break;
        }
        let about = json(about);
        let bytes = ["pb", "json"].iter().find_map(|end| fs::read(folder.join(format!("{base}.{end}"))).ok());
        let wanted = ["content-type", "content-encoding", "authorization", "x-api-key"];
        let given = about["headers"].as_object().expect("headers").iter();
        let headers: Vec<(String, String)> = given
            .map(|(name, value)| (name.to_ascii_lowercase(), value.as_str().unwrap_or_default().to_owned()))
            .filter(|(name, _)| wanted.contains(&name.as_str()))
            .collect();
        let path = about["path"].as_str().expect("a path").to_owned();
        let is_call = about["transport"] == "grpc";
        bodies.push(ExportedBody { is_call, path, headers, bytes: bytes.expect("a body") });
    }
    Capture { bodies, expected: json(folder.join("expected.json")) }
}

impl Umbra {
    /// Sends a body of a capture by the wire that it came by; returns status and text.
    async fn export(&self, body: &ExportedBody) -> (u16, String) {
        if body.is_call {
            return match grpc::export(&self.base, &body.path, &body.bytes).await {
                Ok(()) => (200, String::new()),
                Err(status) => (500, status.to_string()),
            };
        }
        let headers: Vec<(&str, &str)> =
            body.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let answered = self.send(Method::POST, &body.path, &headers, Some(body.bytes.clone())).await;
        (answered.status.as_u16(), answered.text)
    }
}

/// Waits until no trace is due.
async fn assembled(schema: &Schema) {
    until("traces to be assembled", async || {
        let due: i64 =
            schema.one("SELECT count(*) FROM otel_trace WHERE due_at IS NOT NULL OR lease_until IS NOT NULL").await;
        (due == 0).then_some(())
    })
    .await;
}

/// Returns all events of calls, in the order of the agent's time.
async fn calls(umbra: &Umbra) -> Vec<Value> {
    let (mut events, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let after = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let page = umbra.get(&format!("/v1/events?limit=500{after}")).await;
        events.extend(page["items"].as_array().expect("items").iter().cloned());
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = Some(next.to_owned());
    }
    events.retain(|event| event["metadata"]["otel"]["kind"] != "end");
    events.sort_by_key(|event| event["occurred_at"].as_str().unwrap_or_default().to_owned());
    events
}

/// Returns those of these events that are calls of a kind.
fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["metadata"]["otel"]["kind"] == kind).collect()
}

impl Capture {
    /// Returns those of these events that are of this capture.
    fn events(&self, events: &[Value]) -> Vec<Value> {
        let traces = self.expected["ids"]["trace_ids"].as_array().cloned().unwrap_or_default();
        let session = &self.expected["ids"]["conversation"]["value"];
        let is_own = |event: &&Value| {
            let trace = &event["metadata"]["otel"]["trace_id"];
            traces.contains(trace) || traces.is_empty() && event["session_id"] == *session
        };
        events.iter().filter(is_own).cloned().collect()
    }
}
