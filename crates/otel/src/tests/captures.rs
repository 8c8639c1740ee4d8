//! Captures of real exports in `tests/data/otlp`, and the traces that they become.

use std::{
    collections::BTreeMap,
    io::Read as _,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{AssembledCall, CallKind, Encoding, Export, Record, Signal, Trace, assemble, decode, normalise};

/// Capture of one run of a framework.
pub(super) struct Capture {
    pub name: String,
    pub expected: Value,
    pub exports: Vec<Export>,
}

/// Returns all captures, by name.
pub(super) fn captures() -> Vec<Capture> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/otlp");
    let mut folders: Vec<PathBuf> = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.retain(|folder| folder.is_dir());
    folders.sort();
    folders.iter().map(|folder| capture(folder)).collect()
}

fn capture(folder: &Path) -> Capture {
    let read_json = |path: PathBuf| serde_json::from_slice::<Value>(&std::fs::read(path).unwrap()).unwrap();
    let mut exports = Vec::new();
    for index in 0.. {
        let headers = folder.join(format!("{index:03}.headers.json"));
        if !headers.exists() {
            break;
        }
        let head = read_json(headers);
        let (encoding, body) = match std::fs::read(folder.join(format!("{index:03}.pb"))) {
            Ok(body) => (Encoding::Protobuf, body),
            Err(_) => (Encoding::Json, std::fs::read(folder.join(format!("{index:03}.json"))).unwrap()),
        };
        let signal = match head["signal"].as_str().unwrap() {
            "traces" => Signal::Traces,
            "logs" => Signal::Logs,
            _ => Signal::Metrics,
        };
        let is_gzip = head["headers"]
            .as_object()
            .unwrap()
            .iter()
            .any(|(name, value)| name.eq_ignore_ascii_case("content-encoding") && value.as_str() == Some("gzip"));
        exports.push(decode(signal, encoding, &if is_gzip { gunzip(&body) } else { body }).unwrap());
    }
    Capture {
        name: folder.file_name().unwrap().to_str().unwrap().to_owned(),
        expected: read_json(folder.join("expected.json")),
        exports,
    }
}

fn gunzip(body: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(body).read_to_end(&mut plain).unwrap();
    plain
}

/// Returns the records of exports, by trace.
pub(super) fn by_trace(exports: &[Export]) -> BTreeMap<String, Vec<Record>> {
    let mut traces: BTreeMap<String, Vec<Record>> = BTreeMap::new();
    for record in exports.iter().flat_map(|export| normalise(export).records) {
        traces.entry(record.trace.clone()).or_default().push(record);
    }
    traces
}

pub(super) fn assembled(exports: &[Export]) -> Vec<Trace> {
    by_trace(exports).values().map(|records| assemble(records)).collect()
}

/// Returns the calls of a kind in all traces, in the order of their time.
pub(super) fn calls(traces: &[Trace], kind: CallKind) -> Vec<&AssembledCall> {
    let mut calls: Vec<&AssembledCall> =
        traces.iter().flat_map(|trace| &trace.calls).filter(|call| call.kind == kind).collect();
    calls.sort_by_key(|call| call.start);
    calls
}

pub(super) fn output(call: &AssembledCall) -> &str {
    call.output.as_ref().and_then(|part| part.stored.event.output.as_deref()).unwrap_or_default()
}

pub(super) fn prompt(call: &AssembledCall) -> &str {
    call.prompt.as_ref().and_then(|part| part.stored.event.task.as_deref()).unwrap_or_default()
}

/// Returns name, arguments, result and error of a tool's call.
pub(super) fn tool(call: &AssembledCall) -> (String, Value, String, String) {
    let told = call.call.as_ref().and_then(|part| part.stored.event.tool.clone()).unwrap_or_default();
    let given = call.result.as_ref().and_then(|part| part.stored.event.tool.clone()).unwrap_or_default();
    (told.name, told.args, given.result.unwrap_or_default(), given.error.unwrap_or_default())
}
