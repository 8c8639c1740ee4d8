//! OpenTelemetry, from an export to events: records are redacted and stored in the transaction that answers; a moment
//! later a worker assembles what is known of their trace, and files one event for each true call.
//!
//! A trace is assembled whole each time, so neither the order of bodies nor the server that takes them matters. Calls are
//! known again by their aliases (`otel_call`); what is learned of a call later is added to its event.

mod amend;
mod emission;
mod hooked;
mod receive;
mod worker;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, Semaphore, SemaphorePermit},
    time::Instant,
};

use crate::flows::{events::Events, looks::Looks};
use umbra_domain::{KeyId, clock::Clock};
use umbra_otel::is_unique;
use umbra_store::{Store, installation::Installation};

pub use self::receive::Received;

/// Time between the arrival of a record and the assembly of its trace: other records of the same calls arrive meanwhile.
const HOLD: Duration = Duration::from_millis(1_500);

/// Most exports that are decoded at a time.
const DECODED: usize = 2;

/// Use case: exports of OpenTelemetry. Cheap to clone.
#[derive(Clone)]
pub struct Otel(Arc<OtelParts>);

struct OtelParts {
    store: Store,
    clock: Clock,
    installation: Installation,
    events: Events,
    looks: Looks,
    arrived: Notify,
    /// Turns of exports that are decoded: a body becomes a hundred times as large.
    turns: Semaphore,
    /// True while traces wait for too long.
    is_behind: AtomicBool,
    /// Time of the last line in the log about a service.
    told: Mutex<HashMap<String, Instant>>,
}

impl Otel {
    /// Returns the use case on one database.
    pub fn new((store, clock, installation): (Store, Clock, Installation), events: Events, looks: Looks) -> Self {
        let (arrived, is_behind, told) = (Notify::new(), AtomicBool::new(false), Mutex::default());
        let turns = Semaphore::new(DECODED);
        Self(Arc::new(OtelParts { store, clock, installation, events, looks, arrived, turns, is_behind, told }))
    }

    /// Waits for the turn to decode an export; [`Otel::receive`] ends it.
    pub async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // Nothing closes it.
        self.0.turns.acquire().await.ok()
    }

    /// True while traces wait for minutes before they are assembled: further exports would only wait longer.
    pub fn is_behind(&self) -> bool {
        self.0.is_behind.load(Ordering::Relaxed)
    }

    /// Keyed hash of an alias of a call. Services, and senders with keys of their own, know nothing of each other.
    fn alias(&self, by: Option<KeyId>, service: &str, alias: &str) -> [u8; 32] {
        let by = by.map(|by| by.to_string()).unwrap_or_default();
        self.0.installation.hash("otel-alias", &[by.as_bytes(), service.as_bytes(), alias.as_bytes()])
    }

    /// Keyed hash of a tool call's id in a service: it links the traces of a conversation.
    fn link(&self, by: Option<KeyId>, service: &str, tool_id: &str) -> [u8; 32] {
        self.alias(by, service, &format!("link/{tool_id}"))
    }
}

/// Keyed hash of a tool call in a session: a host may tell of it by a hook as well. `None` for an id that comes back.
fn session_call(installation: &Installation, by: Option<KeyId>, (session, call_id): (&str, &str)) -> Option<[u8; 32]> {
    let by = by.map(|by| by.to_string()).unwrap_or_default();
    let parts = [by.as_bytes(), session.as_bytes(), call_id.as_bytes()];
    is_unique(call_id).then(|| installation.hash("session-call", &parts))
}

/// Returns the name of a trace of a sender: ids may be the same by chance or on purpose.
fn trace_of(trace: &str, by: Option<KeyId>) -> String {
    by.map_or_else(|| trace.to_owned(), |by| format!("{trace}@{by}"))
}

/// Returns the id of a trace without its sender.
fn trace_id(trace: &str) -> &str {
    trace.rsplit_once('@').map_or(trace, |(id, _)| id)
}

/// Sender of an export.
#[derive(Clone, Copy)]
pub struct OtelSender<'a> {
    /// API key of the request.
    pub by: Option<KeyId>,
    /// True for an agent that the sender may speak for.
    pub may_speak_for: &'a (dyn Fn(&str) -> bool + Send + Sync),
}
