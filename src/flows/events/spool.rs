//! Local spool of events that the database cannot take: redacted, durable before they are acknowledged, and filed in
//! order of receipt by [`super::filer`].
//!
//! The spool knows the ids and keys of its events: a repeat gets the first answer again. New events queue up behind
//! those in the spool, so each agent's events stay in order of receipt.

use std::{
    collections::{BTreeSet, HashMap},
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use jiff::SignedDuration;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::pending::{AcceptError, Pending};
use crate::{
    spool::{Spool, decode},
    telemetry::metric,
};
use umbra_config::settings;
use umbra_domain::{EventId, HexBytes, KeyId, ReviewId, StoredEvent, clock::Clock};
use umbra_store::events::received_at;

/// Looks for a leased review after which its transaction is taken not to have committed.
const LOOKS_FOR_LEASES: u32 = 20;
/// Longest time that new events wait while the last spooled ones are filed.
const TO_CATCH_UP: Duration = Duration::from_millis(500);

/// The spool of events. Cheap to clone.
#[derive(Debug, Clone)]
pub struct EventSpool(Arc<EventSpoolParts>);

#[derive(Debug)]
struct EventSpoolParts {
    files: Spool,
    settings: settings::Spool,
    clock: Clock,
    waiting: Mutex<SpoolIndex>,
    /// Held while the last events are filed, and while a writer checks if any are left.
    turn: tokio::sync::Mutex<()>,
    /// Held while events are indexed and written.
    writing: Mutex<()>,
    failing: AtomicBool,
}

/// Index of the spooled events.
#[derive(Debug, Default)]
struct SpoolIndex {
    ids: BTreeSet<EventId>,
    /// Keyed hash of the content, and the event, by the hash of the idempotency key.
    keys: HashMap<Vec<u8>, (HexBytes, EventId)>,
    /// Reviews that transactions of unknown outcome may have leased to this process, with the looks left for each.
    uncertain: HashMap<ReviewId, u32>,
}

/// A line of the spool: one event.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SpooledEvent<'l> {
    pub id: EventId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<SpooledKey>,
    /// API key of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<KeyId>,
    /// The [`StoredEvent`]; `None` once it is erased.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<&'l RawValue>,
}

/// The idempotency key of an event in the spool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SpooledKey {
    pub name: HexBytes,
    pub body: HexBytes,
}

/// Outcome of an event that was to be spooled.
#[derive(Debug)]
pub(super) enum SpoolFate {
    /// The event is in the spool.
    Spooled,
    /// The same event is in the spool already, under this id.
    Repeat(EventId),
    /// The event was not taken.
    Refused(AcceptError),
}

/// State of the spool of one or more servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpoolStatus {
    /// `ready`, `filing` (events wait for the database), `full` (no more events are taken), `failing` (the spool's
    /// folder cannot be written) or `off`.
    pub state: String,
    /// Events in the spool.
    pub events: u64,
    /// Bytes of the spool on the disk.
    pub bytes: u64,
    /// Most bytes that the spool may have.
    pub max_bytes: u64,
    /// Age of the oldest event, in seconds.
    pub oldest_age_seconds: u64,
}

/// States of a spool, from the best to the worst.
const STATES: [&str; 5] = ["off", "ready", "filing", "full", "failing"];

impl SpoolStatus {
    /// Merges the state with that of another server: the worse state, sums, and the higher age.
    #[must_use]
    pub fn with(self, other: &Self) -> Self {
        let rank = |state: &str| STATES.iter().position(|known| *known == state);
        let state = if rank(&other.state) > rank(&self.state) { other.state.clone() } else { self.state };
        Self {
            state,
            events: self.events + other.events,
            bytes: self.bytes + other.bytes,
            max_bytes: self.max_bytes + other.max_bytes,
            oldest_age_seconds: self.oldest_age_seconds.max(other.oldest_age_seconds),
        }
    }
}

impl EventSpool {
    /// Returns a spool in this folder, which is created with the first event.
    pub fn new(dir: &Path, settings: settings::Spool, clock: Clock) -> Self {
        let files = Spool::new(dir, settings.max_bytes as u64, clock.new_id());
        Self(Arc::new(EventSpoolParts {
            files,
            settings,
            clock,
            waiting: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            writing: Mutex::default(),
            failing: AtomicBool::new(false),
        }))
    }

    pub(super) fn files(&self) -> &Spool {
        &self.0.files
    }

    /// Returns the number of events in the spool.
    pub fn len(&self) -> usize {
        self.0.waiting.lock().ids.len()
    }

    /// True if the spool has no events.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if this event is in the spool.
    pub fn holds(&self, id: EventId) -> bool {
        self.0.waiting.lock().ids.contains(&id)
    }

    /// Returns the age of the oldest event in the spool.
    fn oldest_age(&self) -> Option<SignedDuration> {
        let oldest = received_at(*self.0.waiting.lock().ids.first()?);
        Some(self.0.clock.now().duration_since(oldest).max(SignedDuration::ZERO))
    }

    /// True if the spool takes events that the database cannot take.
    pub fn accepts(&self) -> bool {
        let EventSpoolParts { settings, failing, files, .. } = &*self.0;
        settings.enabled
            && !failing.load(Ordering::Relaxed)
            && !self.is_aged()
            && files.bytes() < settings.max_bytes as u64
    }

    fn is_aged(&self) -> bool {
        let most = SignedDuration::try_from(self.0.settings.max_age).unwrap_or(SignedDuration::MAX);
        self.oldest_age().is_some_and(|age| age > most)
    }

    /// Returns the state of the spool.
    pub fn status(&self) -> SpoolStatus {
        let EventSpoolParts { files, settings, failing, .. } = &*self.0;
        let events = self.len();
        let state = match (settings.enabled, events) {
            (true, _) if failing.load(Ordering::Relaxed) => "failing",
            (true, _) if !self.accepts() => "full",
            (true, 0) => "ready",
            (false, 0) => "off",
            _ => "filing",
        };
        SpoolStatus {
            state: state.to_owned(),
            events: events as u64,
            bytes: files.bytes(),
            max_bytes: settings.max_bytes as u64,
            oldest_age_seconds: self.oldest_age().map_or(0, |age| age.as_secs().unsigned_abs()),
        }
    }

    /// Returns a fault that needs a person, with the remedy.
    pub fn complaint(&self) -> Option<String> {
        let dir = self.0.files.dir().display();
        if self.0.files.holds_refused() {
            return Some(format!(
                "events of the spool cannot be stored (they are in {dir}/refused, the log says why): look at them, \
                 then move that file away"
            ));
        }
        if self.0.settings.enabled && self.0.failing.load(Ordering::Relaxed) {
            return Some(format!(
                "the spool's folder {dir} cannot be written: while the database does not answer, events are refused \
                 with 503; free disk space, or correct storage.data_dir and its permissions"
            ));
        }
        None
    }

    /// Probes the folder, and logs when it begins to fail and when it recovers.
    pub(super) fn probe(&self) {
        if self.0.settings.enabled {
            self.note(self.0.files.probe().as_ref().err());
        }
    }

    fn note(&self, error: Option<&io::Error>) {
        let was = self.0.failing.swap(error.is_some(), Ordering::Relaxed);
        match error {
            Some(error) if !was => tracing::error!(%error, "the spool's folder cannot be written; trying again"),
            None if was => tracing::info!("the spool's folder can be written again"),
            _ => {}
        }
    }

    /// True if new events would overtake none in the spool. Waits a moment for the last ones to be filed.
    pub(super) async fn has_caught_up(&self) -> bool {
        !self.0.settings.enabled || self.is_empty() || {
            drop(tokio::time::timeout(TO_CATCH_UP, self.0.turn.lock()).await);
            self.is_empty()
        }
    }

    /// Keeps new events from being spooled while the last ones are filed.
    pub(super) async fn hold_back(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.0.turn.lock().await
    }

    /// Spools events durably, and returns the outcome of each. While the database is away, an event is refused if the
    /// oldest is too old.
    pub(super) fn take(&self, batch: &[Pending], is_away: bool) -> Vec<SpoolFate> {
        let _writing = self.0.writing.lock();
        let is_aged = is_away && self.is_aged();
        let mut fates: Vec<SpoolFate> = batch.iter().map(|pending| self.admit(pending, is_aged)).collect();
        let is_new = |fate: &SpoolFate| matches!(fate, SpoolFate::Spooled);
        let news = || batch.iter().zip(&fates).filter(|(_, fate)| is_new(fate)).map(|(pending, _)| pending);
        let lines: Result<Vec<Vec<u8>>, _> = news().map(line_of).collect();
        let appended = match lines {
            Ok(lines) if lines.is_empty() => return fates,
            Ok(lines) => tokio::task::block_in_place(|| self.0.files.append(&lines)),
            Err(error) => Err(error.into()),
        };
        if let Err(error) = &appended {
            let full = error.kind() == io::ErrorKind::QuotaExceeded;
            if !full {
                self.note(Some(error));
            }
            news().for_each(|pending| self.forget(pending));
            let is_lost = |fate: &SpoolFate| match fate {
                SpoolFate::Spooled => true,
                SpoolFate::Repeat(first) => !self.holds(*first),
                SpoolFate::Refused(_) => false,
            };
            for fate in fates.iter_mut().filter(|fate| is_lost(fate)) {
                *fate = SpoolFate::Refused(if full { AcceptError::SpoolFull } else { AcceptError::Unavailable });
            }
            return fates;
        }
        self.note(None);
        metrics::counter!(metric::SPOOLED, "outcome" => "spooled").increment(news().count() as u64);
        fates
    }

    /// Admits an event, and adds it to the index.
    fn admit(&self, pending: &Pending, is_aged: bool) -> SpoolFate {
        // A review on demand is of no use later.
        if !self.0.settings.enabled || pending.on_demand {
            return SpoolFate::Refused(AcceptError::Unavailable);
        }
        if is_aged {
            return SpoolFate::Refused(AcceptError::SpoolFull);
        }
        let mut waiting = self.0.waiting.lock();
        if let Some(key) = &pending.key {
            if let Some((body, first)) = waiting.keys.get(key.key.as_slice()) {
                let is_same = *body == key.body;
                return if is_same {
                    SpoolFate::Repeat(*first)
                } else {
                    SpoolFate::Refused(AcceptError::Mismatch(*first))
                };
            }
            waiting.keys.insert(key.key.to_vec(), (key.body.into(), pending.id));
        }
        waiting.ids.insert(pending.id);
        SpoolFate::Spooled
    }

    /// Removes an event from the index.
    pub(super) fn forget(&self, pending: &Pending) {
        let mut waiting = self.0.waiting.lock();
        waiting.ids.remove(&pending.id);
        if let Some(key) = &pending.key {
            waiting.keys.remove(key.key.as_slice());
        }
    }

    /// Clears the index if no segment is left: erased and unreadable events were not filed by their ids.
    pub(super) fn settle(&self) -> io::Result<()> {
        let _writing = self.0.writing.lock();
        if !self.0.files.holds_segments()? {
            let mut waiting = self.0.waiting.lock();
            waiting.ids.clear();
            waiting.keys.clear();
        }
        Ok(())
    }

    /// Takes over the spools of processes that are gone, so that their events are filed before new ones.
    pub(super) fn take_over(&self) -> io::Result<()> {
        for path in self.0.files.take_over()? {
            let text = std::fs::read(&path)?;
            let lines = text.split(|byte| *byte == b'\n').filter_map(decode);
            let mut waiting = self.0.waiting.lock();
            for line in lines.filter_map(|json| serde_json::from_slice::<SpooledEvent<'_>>(json).ok()) {
                if let Some(SpooledKey { name, body }) = line.key {
                    waiting.keys.entry(name.0).or_insert((body, line.id));
                }
                waiting.ids.insert(line.id);
            }
        }
        Ok(())
    }

    /// Adds reviews that a transaction of unknown outcome may have leased to this process.
    pub(super) fn add_uncertain(&self, leased: Vec<ReviewId>) {
        self.0.waiting.lock().uncertain.extend(leased.into_iter().map(|review| (review, LOOKS_FOR_LEASES)));
    }

    /// Returns the reviews that a transaction of unknown outcome may have leased to this process.
    pub(super) fn uncertain(&self) -> Vec<ReviewId> {
        self.0.waiting.lock().uncertain.keys().copied().collect()
    }

    /// Removes the reviews that were found, and takes one look from those that were looked for in vain.
    pub(super) fn settle_uncertain(&self, looked_for: &[ReviewId], found: &[ReviewId]) {
        self.0.waiting.lock().uncertain.retain(|review, looks| {
            *looks -= u32::from(looked_for.contains(review));
            *looks > 0 && !found.contains(review)
        });
    }
}

/// Serialises an event as a line of the spool.
fn line_of(pending: &Pending) -> Result<Vec<u8>, serde_json::Error> {
    let stored = Some(serde_json::from_slice(&pending.payload)?);
    let key = pending.key.as_ref().map(|key| SpooledKey { name: key.key.into(), body: key.body.into() });
    serde_json::to_vec(&SpooledEvent { id: pending.id, key, by: pending.by, stored })
}

/// Returns what stays of a line with one of these events: the event's id. `None` for a line with another event.
pub fn erased(json: &[u8], is_theirs: impl Fn(&StoredEvent) -> bool) -> Option<Vec<u8>> {
    let line = serde_json::from_slice::<SpooledEvent<'_>>(json).ok()?;
    let stored = serde_json::from_str(line.stored?.get()).ok()?;
    if !is_theirs(&stored) {
        return None;
    }
    serde_json::to_vec(&SpooledEvent { id: line.id, key: None, by: None, stored: None }).ok()
}
