//! State of a run in shadow: its counters, and the records that it only seemed to write. And the mint, which makes
//! everything that looks random from the run's seed, so that the same seed and calls give the same bytes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::StubError;
use umbra_domain::json::encoded_len;

/// Start time of a run that names a seed and no time: 2026-01-01T00:00:00Z.
const SEEDED_START: i64 = 1_767_225_600;
/// Most records that a run keeps.
pub const MAX_RECORDS: usize = 1_000;
/// Most bytes of all records of a run, as JSON.
pub const MAX_RECORD_BYTES: usize = 1024 * 1024;
/// Most prefixes that a run counts by, and the longest prefix, in bytes.
const MAX_COUNTERS: usize = 256;
const MAX_PREFIX_BYTES: usize = 128;

/// Records of one collection, by key; none for a removed record.
pub type Collection = BTreeMap<String, Option<Value>>;

/// State of a run in shadow.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RunState {
    /// Seed of everything that looks random.
    pub seed: String,
    /// Start of the run's time; each answered call takes a second.
    pub started_at: Timestamp,
    /// Calls that were answered without running.
    #[serde(default)]
    pub calls: u64,
    /// True if the run asked for faults.
    #[serde(default)]
    pub faults: bool,
    /// Last number of each prefix.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
    /// Records by collection and key.
    #[serde(default)]
    pub records: BTreeMap<String, Collection>,
    /// Collections and keys of the records that hold only the changes of a live record.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub partial: BTreeSet<(String, String)>,
    /// Collections and keys of the records stored since the state was read.
    #[serde(skip)]
    fresh: BTreeSet<(String, String)>,
}

impl RunState {
    /// State of a run that begins.
    pub fn new(seed: impl Into<String>, started_at: Timestamp) -> Self {
        Self { seed: seed.into(), started_at, ..Self::default() }
    }

    /// Passes keys and values stored since the state was read through `clean`: the others were cleaned before, and may
    /// be a megabyte. All prefixes are cleaned: they are few, and short.
    pub fn clean(&mut self, clean: impl Fn(&Value) -> Value) {
        let name = |name: String| match clean(&Value::String(name)) {
            Value::String(name) => name,
            other => other.to_string(),
        };
        for (collection, key) in std::mem::take(&mut self.fresh) {
            let Some(records) = self.records.get_mut(&collection) else { continue };
            let Some(value) = records.remove(&key) else { continue };
            let cleaned = name(key.clone());
            records.insert(cleaned.clone(), value.as_ref().map(&clean));
            let place = (collection, key);
            if self.partial.remove(&place) {
                self.partial.insert((place.0, cleaned));
            }
        }
        self.counters = std::mem::take(&mut self.counters).into_iter().map(|(prefix, n)| (name(prefix), n)).collect();
    }

    /// State of a run that names its seed, to be repeated: without a time of its own it begins on 2026-01-01.
    pub fn seeded(seed: impl Into<String>, started_at: Option<Timestamp>) -> Self {
        let start = Timestamp::from_second(SEEDED_START).unwrap_or(Timestamp::UNIX_EPOCH);
        Self::new(seed, started_at.unwrap_or(start))
    }

    /// True if a record holds only the changes of a live one.
    pub(crate) fn is_partial(&self, collection: &str, key: &str) -> bool {
        self.partial.contains(&(collection.to_owned(), key.to_owned()))
    }

    /// Stores a record, or its removal; `is_part` if the value is only the changes of a live record.
    pub(crate) fn record(
        &mut self,
        collection: &str,
        key: String,
        value: Option<Value>,
        is_part: bool,
    ) -> Result<(), StubError> {
        let size = |value: &Option<Value>| value.as_ref().map_or(0, encoded_len);
        let (mut count, mut bytes) = (1, key.len() + size(&value));
        for (name, records) in &self.records {
            for (other, stored) in records {
                if name != collection || *other != key {
                    count += 1;
                    bytes += other.len() + size(stored);
                }
            }
        }
        if count > MAX_RECORDS || bytes > MAX_RECORD_BYTES {
            return Err(StubError::fault(
                "overlay_full",
                format!(
                    "the run has stored the most that it may ({MAX_RECORDS} records of {MAX_RECORD_BYTES} bytes): \
                     begin another run"
                ),
            ));
        }
        let place = (collection.to_owned(), key.clone());
        self.partial.remove(&place);
        if is_part {
            self.partial.insert(place.clone());
        }
        self.fresh.insert(place);
        self.records.entry(collection.to_owned()).or_default().insert(key, value);
        Ok(())
    }
}

/// Source of ids, numbers and times for one call.
#[derive(Debug)]
struct MintState {
    seed: String,
    call: u64,
    minted: u64,
    now: Timestamp,
    counters: BTreeMap<String, u64>,
}

/// A mint that the functions of an expression share.
#[derive(Debug, Clone)]
pub(crate) struct SharedMint(Arc<Mutex<MintState>>);

impl SharedMint {
    /// Mint of the run's next call.
    pub fn of(state: &RunState) -> Self {
        let seconds = i64::try_from(state.calls).unwrap_or(i64::MAX);
        let now = state.started_at.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
        Self(Arc::new(Mutex::new(MintState {
            seed: state.seed.clone(),
            call: state.calls,
            minted: 0,
            now,
            counters: state.counters.clone(),
        })))
    }

    fn with<T>(&self, act: impl FnOnce(&mut MintState) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Id that looks random, behind a prefix.
    pub fn uuid(&self, prefix: &str) -> Result<String, String> {
        short(prefix)?;
        let bytes = self.with(MintState::bytes);
        let first: [u8; 16] = std::array::from_fn(|index| bytes.get(index).copied().unwrap_or_default());
        Ok(format!("{prefix}{}", uuid::Builder::from_random_bytes(first).into_uuid()))
    }

    /// Next number of a prefix, behind it.
    pub fn seq(&self, prefix: &str) -> Result<String, String> {
        short(prefix)?;
        self.with(|mint| {
            if mint.counters.len() >= MAX_COUNTERS && !mint.counters.contains_key(prefix) {
                return Err(format!("a run may have {MAX_COUNTERS} prefixes of seq(...) at most"));
            }
            let last = mint.counters.entry(prefix.to_owned()).or_default();
            *last = last.saturating_add(1);
            Ok(format!("{prefix}{last}"))
        })
    }

    /// Time of the run.
    pub fn now(&self) -> Timestamp {
        self.with(|mint| mint.now)
    }

    /// Number from 0 to 1 that looks random.
    pub fn share(&self) -> f64 {
        let bytes = self.with(MintState::bytes);
        let number = bytes.iter().take(4).fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        f64::from(number) / (f64::from(u32::MAX) + 1.0)
    }

    /// Writes the counters back to the run, as one more call.
    pub fn commit(&self, state: &mut RunState) {
        state.counters = self.with(|mint| std::mem::take(&mut mint.counters));
        state.calls = state.calls.saturating_add(1);
    }
}

impl MintState {
    fn bytes(&mut self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("umbra 2026 stub of a run in shadow");
        hasher.update(&(self.seed.len() as u64).to_le_bytes());
        hasher.update(self.seed.as_bytes());
        hasher.update(&self.call.to_le_bytes());
        hasher.update(&self.minted.to_le_bytes());
        self.minted += 1;
        *hasher.finalize().as_bytes()
    }
}

fn short(prefix: &str) -> Result<(), String> {
    if prefix.len() > MAX_PREFIX_BYTES { Err(format!("a prefix has at most {MAX_PREFIX_BYTES} bytes")) } else { Ok(()) }
}
