//! Replays of real exports. In: the captures of `tests/data/otlp`. Out: requests over HTTP with protobuf, the same in
//! every run but for the ids of traces, spans, responses, tool calls and conversations, which are new in each replay.
//!
//! The places of the ids are found once, by what Umbra itself reads in the export. A replay only writes into a copy of
//! the request, so that the sender takes little of the time that is measured.

use std::{collections::BTreeSet, fs, io::Read, path::Path};

use anyhow::{Context, bail};
use flate2::read::GzDecoder;
use memchr::memmem;
use opentelemetry_proto::tonic::collector::{
    logs::v1::ExportLogsServiceResponse, trace::v1::ExportTraceServiceResponse,
};
use prost::Message;
use serde_json::Value;
use umbra_otel::{Encoding, Export, Signal, decode, normalise};

use crate::requests;

/// Shortest text that is taken for an id: a shorter one may stand elsewhere by chance.
const SHORTEST: usize = 6;
/// Characters at the end of an id in text that are new in each replay.
const NEW: usize = 10;
/// Most ids of a capture.
const MOST_IDS: u64 = 256;

/// Exports of one run of a real framework, to be sent in turn.
#[derive(Debug)]
pub struct Replay {
    /// Name of the capture.
    pub name: String,
    /// Requests in the order of the capture.
    pub requests: Vec<ReplayRequest>,
    /// Calls of models and tools that the exports tell of.
    pub calls: u64,
}

/// A request and the places of its ids.
#[derive(Debug)]
pub struct ReplayRequest {
    /// Signal of the body.
    pub signal: Signal,
    /// Spans or logs in the body.
    pub records: u64,
    bytes: Vec<u8>,
    places: Vec<IdPlace>,
}

/// Place of an id in a request.
#[derive(Debug, Clone, Copy)]
struct IdPlace {
    at: usize,
    length: usize,
    /// Number of the id in its capture.
    id: u64,
    form: IdForm,
}

/// Form of an id in a body.
#[derive(Debug, Clone, Copy)]
enum IdForm {
    /// Bytes of the id of a trace or span.
    Binary,
    /// The same in hex, as some senders write it into attributes.
    Hex,
    /// An id of other making.
    Text,
}

/// Reads all captures of a folder. Bodies of metrics are left out, since the service drops them.
///
/// # Errors
/// A file cannot be read, or is no export.
pub fn read_captures(folder: &Path) -> anyhow::Result<Vec<Replay>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading the captures in {}", folder.display()))?;
    let mut folders: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    let replays: anyhow::Result<Vec<Replay>> = folders
        .iter()
        .map(|folder| read_capture(folder).with_context(|| format!("reading {}", folder.display())))
        .collect();
    match replays? {
        none if none.is_empty() => bail!("{} has no captures", folder.display()),
        replays => Ok(replays),
    }
}

fn read_capture(folder: &Path) -> anyhow::Result<Replay> {
    let json = |path: &Path| anyhow::Ok(serde_json::from_slice::<Value>(&fs::read(path)?)?);
    let expected = json(&folder.join("expected.json"))?;
    let count = |field: &str| expected[field].as_array().map_or(0, Vec::len) as u64;
    let mut exports = Vec::new();
    for number in 0.. {
        let about = folder.join(format!("{number:03}.headers.json"));
        if !about.exists() {
            break;
        }
        let about = json(&about)?;
        let signal = match about["signal"].as_str() {
            Some("traces") => Signal::Traces,
            Some("logs") => Signal::Logs,
            _ => continue,
        };
        let protobuf = folder.join(format!("{number:03}.pb"));
        let (file, encoding) = if protobuf.exists() {
            (protobuf, Encoding::Protobuf)
        } else {
            (folder.join(format!("{number:03}.json")), Encoding::Json)
        };
        let mut body = fs::read(file)?;
        if body.starts_with(&[0x1f, 0x8b]) {
            let mut whole = Vec::new();
            GzDecoder::new(body.as_slice()).read_to_end(&mut whole)?;
            body = whole;
        }
        exports.push((signal, decode(signal, encoding, &body).map_err(anyhow::Error::msg)?));
    }
    let ids = Ids::of(&exports)?;
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let requests = exports.iter().map(|(signal, export)| ReplayRequest::new(*signal, export, &ids)).collect();
    Ok(Replay { name, requests, calls: count("model_calls") + count("tool_calls") })
}

/// Ids of a capture, each with its form and number, the longest first: one may be a part of another.
struct Ids(Vec<(Vec<u8>, IdForm, u64)>);

impl Ids {
    /// Collects the ids that the exports of a capture name.
    fn of(exports: &[(Signal, Export)]) -> anyhow::Result<Self> {
        let (mut binary, mut texts) = (BTreeSet::new(), BTreeSet::new());
        for record in exports.iter().flat_map(|(_, export)| normalise(export).records) {
            // The name of a log's span has more behind the id.
            let spans = [Some(&record.trace), Some(&record.span), record.parent.as_ref()];
            for id in spans.into_iter().flatten().filter_map(|id| id.split('#').next()) {
                binary.extend(hex::decode(id).ok().filter(|bytes| matches!(bytes.len(), 8 | 16)));
            }
            texts.extend([record.response_id, record.tool_id, record.conversation].into_iter().flatten());
            texts.extend(record.history);
            texts.extend(record.parts.into_iter().filter_map(|part| part.id));
        }
        texts.retain(|text| text.len() >= SHORTEST && text.is_ascii());
        if (binary.len() + texts.len()) as u64 > MOST_IDS {
            bail!("the exports have more than {MOST_IDS} ids");
        }
        let mut ids = Vec::new();
        for (number, bytes) in (0..).zip(&binary) {
            ids.push((bytes.clone(), IdForm::Binary, number));
            ids.push((hex::encode(bytes).into_bytes(), IdForm::Hex, number));
        }
        let texts = texts.into_iter().map(String::into_bytes);
        ids.extend((binary.len() as u64..).zip(texts).map(|(number, text)| (text, IdForm::Text, number)));
        ids.sort_by_key(|(id, ..)| std::cmp::Reverse(id.len()));
        Ok(Self(ids))
    }
}

impl ReplayRequest {
    fn new(signal: Signal, export: &Export, ids: &Ids) -> Self {
        let (path, body, records) = match export {
            Export::Traces(export) => {
                let scopes = export.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
                ("/v1/traces", export.encode_to_vec(), scopes.map(|scope| scope.spans.len()).sum::<usize>())
            }
            Export::Logs(export) => {
                let scopes = export.resource_logs.iter().flat_map(|resource| &resource.scope_logs);
                ("/v1/logs", export.encode_to_vec(), scopes.map(|scope| scope.log_records.len()).sum())
            }
            Export::Metrics => ("/v1/metrics", Vec::new(), 0),
        };
        let bytes = requests::request(path, "application/x-protobuf", &body);
        let begins = bytes.len() - body.len();
        let mut places: Vec<IdPlace> = Vec::new();
        for (id, form, number) in &ids.0 {
            for at in memmem::find_iter(&body, id).map(|at| at + begins) {
                let (end, length) = (at + id.len(), id.len());
                if places.iter().all(|place| end <= place.at || place.at + place.length <= at) {
                    places.push(IdPlace { at, length, id: *number, form: *form });
                }
            }
        }
        Self { signal, records: records as u64, bytes, places }
    }

    /// Writes the request with the ids of a replay. Each replay has a number of its own; the requests of one replay
    /// share it.
    pub fn write(&self, replay: u64, request: &mut Vec<u8>) {
        request.clear();
        request.extend_from_slice(&self.bytes);
        for place in &self.places {
            let Some(target) = request.get_mut(place.at..place.at + place.length) else { continue };
            let number = replay * MOST_IDS + place.id;
            // A product with an odd number is different for each number.
            let spread = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            match place.form {
                IdForm::Binary => fill(target, spread.to_be_bytes().iter().copied().cycle()),
                IdForm::Hex => fill(target, format!("{spread:016x}").bytes().cycle()),
                IdForm::Text => {
                    let kept = target.len().saturating_sub(NEW);
                    fill(target.get_mut(kept..).unwrap_or_default(), digits(number));
                }
            }
        }
    }

    /// Returns the spans or logs that an answer to the request says were refused.
    ///
    /// # Errors
    /// The answer is no message of OTLP.
    pub fn rejected(&self, answer: &[u8]) -> anyhow::Result<u64> {
        let rejected = if self.signal == Signal::Logs {
            ExportLogsServiceResponse::decode(answer)?.partial_success.map(|partial| partial.rejected_log_records)
        } else {
            ExportTraceServiceResponse::decode(answer)?.partial_success.map(|partial| partial.rejected_spans)
        };
        Ok(u64::try_from(rejected.unwrap_or_default())?)
    }
}

fn fill(target: &mut [u8], bytes: impl Iterator<Item = u8>) {
    target.iter_mut().zip(bytes).for_each(|(byte, new)| *byte = new);
}

/// Returns the digits of a number to the base of 36, the last one first, with zeros behind them.
fn digits(mut number: u64) -> impl Iterator<Item = u8> {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    std::iter::from_fn(move || {
        let digit = DIGITS.get(usize::try_from(number % 36).ok()?).copied();
        number /= 36;
        digit
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use umbra_otel::{Record, assemble};

    use super::*;

    /// Returns the records of a replay.
    fn records(replay: &Replay, number: u64) -> Vec<Record> {
        let mut bytes = Vec::new();
        let read = |request: &ReplayRequest| {
            request.write(number, &mut bytes);
            let body = memmem::find(&bytes, b"\r\n\r\n").unwrap() + 4;
            normalise(&decode(request.signal, Encoding::Protobuf, &bytes[body..]).unwrap()).records
        };
        replay.requests.iter().flat_map(read).collect()
    }

    fn calls(records: Vec<Record>) -> usize {
        let mut traces: HashMap<String, Vec<Record>> = HashMap::new();
        for record in records {
            traces.entry(record.trace.clone()).or_default().push(record);
        }
        traces.values().map(|records| assemble(records).calls.len()).sum()
    }

    fn ids(records: &[Record]) -> HashSet<String> {
        let of = |record: &Record| {
            let ids = [
                Some(record.trace.clone()),
                Some(record.span.clone()).filter(|span| !span.starts_with('#')),
                record.response_id.clone(),
                record.tool_id.clone(),
                record.conversation.clone(),
            ];
            ids.into_iter().flatten().chain(record.history.clone()).collect::<Vec<_>>()
        };
        records.iter().flat_map(of).collect()
    }

    #[test]
    fn each_replay_tells_of_the_same_calls_under_ids_of_its_own() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/otlp");
        let replays = read_captures(&folder).unwrap();
        assert!(replays.len() > 20, "{}", replays.len());
        for replay in &replays {
            let (first, second) = (records(replay, 7), records(replay, 8));
            assert_eq!(calls(first.clone()), calls(second.clone()), "{}", replay.name);
            let (first, second) = (ids(&first), ids(&second));
            assert_eq!(first.len(), second.len(), "{}", replay.name);
            let shared: Vec<&String> = first.intersection(&second).collect();
            assert!(shared.is_empty(), "{}: {shared:?}", replay.name);
        }
    }
}
