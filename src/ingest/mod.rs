//! Reads the bytes of requests into [`Event`]s and other requests, or reports every fault at once, each with a JSON
//! pointer. Pure: no input or output, no clock, and no text of an event in a message. Only the form is judged: secrets
//! and hidden characters are the task of `checks`.
//!
//! There are two steps, so that an event is described in one place only:
//!
//! 1. `strict` reads bytes into a JSON tree in one pass and refuses input that is valid for some JSON readers but
//!    harmful further in: deep or wide trees, U+0000, lone surrogates, keys given twice, numbers beyond a double.
//! 2. `native` takes the tree apart, field by field. The list of calls there is the wire shape.
//!
//! A body is judged in this order: its bytes as they travel and decoded (`api/body.rs`, 413), UTF-8 (400), depth (400),
//! an event's bytes (413), then JSON and fields (400). Depth goes before an event's bytes, since a body that is too
//! deep is too large only by accident.
//!
//! Numbers are 64-bit integers and doubles. An integer beyond them keeps its digits, as text.
//!
//! Two things are lenient on purpose: `null` means that a field is absent, and so does a blank `task_id`, `session_id`,
//! `task_type`, `status` or `stop_reason`, since client libraries send them so. A byte order mark is skipped.
//! Everything else that is not in the contract is refused: a misspelt `cost_usd` that is silently dropped would let an
//! event slip below a shadow's cost floor.

mod batch;
mod call;
mod fault;
mod native;
mod request;
mod sidecar;
mod strict;
#[cfg(test)]
mod tests;
mod tree;

use std::fmt;

use umbra_domain::Event;

pub use call::{CallRequest, call_request, outcome_request};
pub use fault::{RequestFault, code};
pub use request::{KeyRequest, ReviewRequest, key_request, review_request};
pub use sidecar::{
    AttachRequest, DocumentText, GuardRequest, GuardSubject, MessageRequest, NamedCall, SaidResult, SelectRequest,
    ToolDefinition, TurnRequest, attach_request, guard_request, message_request, select_request, turn_request,
};

use fault::{At, RequestFaults};
use tree::Tree;

/// Event as it came, before anything was screened or stored. `Debug` shows no text.
#[derive(Clone, PartialEq)]
pub struct Incoming {
    /// Content of the event.
    pub event: Event,
    /// The sender's own id of it, at most 255 bytes: the idempotency key.
    pub key: Option<String>,
    /// Original request as canonical JSON (no spaces, keys sorted), without `id`. Two requests with one key mean the
    /// same event exactly if these bytes are equal. It holds unscreened text: hash it with a key, never store it. Empty
    /// where the event has no key and none can come beside it.
    pub digest_input: Vec<u8>,
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("event", &self.event).finish_non_exhaustive()
    }
}

/// Limits of one request. A fault says which limit is exceeded, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of one event's JSON.
    pub event_bytes: usize,
    /// Most events in a batch.
    pub batch_events: usize,
    /// Most nested arrays and objects, the event itself being the first. More than 127 cannot be read.
    pub depth: usize,
    /// Most JSON values in one event.
    pub nodes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { event_bytes: 256 * 1024, batch_events: 1_000, depth: 32, nodes: 20_000 }
    }
}

/// Result for each event of a batch, in the order of sending.
pub type Results = Vec<Result<Incoming, Vec<RequestFault>>>;

/// Reads the payload of a hook: any JSON object that is safe to keep, as large as the body may be. Faults' pointers start
/// at the body.
pub fn hook_payload(body: &[u8], limits: &Limits) -> Result<serde_json::Value, Vec<RequestFault>> {
    let mut faults = RequestFaults::default();
    let limits = &Limits { event_bytes: body.len(), ..*limits };
    let tree = strict::text(body, &mut faults).and_then(|text| strict::within(text, limits, At::Root, &mut faults));
    let payload = tree.and_then(|tree| match tree {
        Tree::Object(_) => Some(tree.into()),
        other => native::wrong_type("an object", &other, At::Root, &mut faults),
    });
    faults.unless_any(payload)
}

/// Reads the payload of a hook that reports something: as [`hook_payload`], but characters that cannot be stored, as a
/// tool may print them, are replaced, and there may be as many values as the body has room for.
pub fn hook_report(body: &[u8], limits: &Limits) -> Result<serde_json::Value, Vec<RequestFault>> {
    let limits = &Limits { depth: limits.depth.max(100), nodes: body.len(), ..*limits };
    hook_payload(&mended(body), limits)
}

/// Replaces the escapes of U+0000 and of surrogates without their pair in a text of JSON.
fn mended(body: &[u8]) -> Vec<u8> {
    let code = |at: usize| {
        let digits = body.get(at..)?.strip_prefix(b"\\u")?.get(..4)?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut whole = Vec::with_capacity(body.len());
    let mut at = 0;
    while let Some(byte) = body.get(at) {
        let (kept, length): (&[u8], usize) = match (code(at), code(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (body.get(at..at + 12).unwrap_or_default(), 12),
            (Some(0 | 0xd800..=0xdfff), _) => (b"\\ufffd", 6),
            // An escaped backslash begins no escape of its own.
            _ if *byte == b'\\' => (body.get(at..at + 2).unwrap_or(b"\\"), 2),
            _ => (std::slice::from_ref(byte), 1),
        };
        whole.extend_from_slice(kept);
        at += length;
    }
    whole
}

/// Reads one event. The faults' pointers start at the event.
pub fn event(body: &[u8], limits: &Limits) -> Result<Incoming, Vec<RequestFault>> {
    whole(body, true, limits)
}

/// Reads one event whose only key can be its `id`; without one its `digest_input` is empty.
pub fn event_alone(body: &[u8], limits: &Limits) -> Result<Incoming, Vec<RequestFault>> {
    whole(body, false, limits)
}

/// Reads `{"events": [...]}`, each event by itself. Pointers start at the body: `/events/3/agent`. Faults of the whole
/// are those of its form: not JSON, another shape, too many events. An empty batch is valid.
pub fn batch_json(body: &[u8], limits: &Limits) -> Result<Results, Vec<RequestFault>> {
    let mut faults = RequestFaults::default();
    let texts = strict::text(body, &mut faults).and_then(|text| batch::events(text, limits, &mut faults));
    let events_at = At::Key(&At::Root, batch::EVENTS);
    let read_one = |(index, text)| {
        let mut faults = RequestFaults::default();
        let incoming = one(text, false, limits, At::Index(&events_at, index), &mut faults);
        faults.unless_any(incoming)
    };
    Ok(faults.unless_any(texts)?.into_iter().enumerate().map(read_one).collect())
}

/// Reads one event a line, each by itself; blank lines are skipped and do not count. Pointers start at the event. A
/// body without any event is a fault: a sender that lost its events sends one.
pub fn batch_ndjson(body: &[u8], limits: &Limits) -> Result<Results, Vec<RequestFault>> {
    let mut faults = RequestFaults::default();
    let lines = batch::lines(body, limits, &mut faults);
    let read_one = |(lines_before, line)| {
        let mut faults = RequestFaults::behind(lines_before);
        let text = strict::text(line, &mut faults);
        let incoming = text.and_then(|text| one(text, false, limits, At::Root, &mut faults));
        faults.unless_any(incoming)
    };
    Ok(faults.unless_any(lines)?.into_iter().map(read_one).collect())
}

/// Reads the value of an `Idempotency-Key` header: 1 to 255 printable ASCII characters.
pub fn key_from_header(value: &str) -> Result<String, RequestFault> {
    let fits = (1..=native::KEY_BYTES).contains(&value.len()) && value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if fits && !value.trim().is_empty() {
        return Ok(value.to_owned());
    }
    let detail = "the header Idempotency-Key must have 1 to 255 printable ASCII characters, such as a UUID".to_owned();
    Err(RequestFault { pointer: String::new(), code: code::FORMAT, detail })
}

fn whole(body: &[u8], may_have_key: bool, limits: &Limits) -> Result<Incoming, Vec<RequestFault>> {
    let mut faults = RequestFaults::default();
    let incoming =
        strict::text(body, &mut faults).and_then(|text| one(text, may_have_key, limits, At::Root, &mut faults));
    faults.unless_any(incoming)
}

fn one(text: &str, may_have_key: bool, limits: &Limits, at: At<'_>, faults: &mut RequestFaults) -> Option<Incoming> {
    let tree = strict::within(text, limits, at, faults)?;
    native::read(tree, text.len(), may_have_key, at, faults)
}
