//! An event on its way from `accept` to the writer's commit, and the answer that comes back.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::{sync::oneshot, time::Instant};

use crate::{budget::ReviewCandidate, flows::active_configuration::ActiveConfiguration};
use umbra_domain::{Disposition, EventId, KeyId, Mode, NanoUsd, Outcome, SkipReason, Trigger, TriggerMark};
use umbra_store::intake::NewKey;

/// An event that waits for its transaction.
pub(in crate::flows) struct Pending {
    pub rules: Arc<ActiveConfiguration>,
    pub id: EventId,
    pub agent: String,
    pub task_id: Option<String>,
    pub triggers: Vec<TriggerMark>,
    /// The stored event as JSON; the parsed event was dropped by the task that read it.
    pub payload: Vec<u8>,
    pub key: Option<NewKey>,
    /// API key of the request.
    pub by: Option<KeyId>,
    /// Time when the event was handed to the writer.
    pub since: Instant,
    pub pairs: Vec<Pair>,
    /// Cost of the event, if the costs of its task are summed.
    pub cost: Option<NanoUsd>,
    /// True for an event with a review on demand; it is stored only together with that review.
    pub on_demand: bool,
    pub answer: oneshot::Sender<Result<EventReceipt, AcceptError>>,
}

impl Pending {
    /// True if the event's review on demand is refused; then nothing of the event is stored.
    pub fn is_refused(&self, dispositions: &[Disposition]) -> bool {
        self.on_demand && dispositions.iter().all(|disposition| disposition.outcome == Outcome::Skipped)
    }

    /// Returns the time that active shadows have for a verdict, if one of them may review the event.
    pub fn verdict_within(&self) -> Option<Duration> {
        let active = self.pairs.iter().filter(|pair| pair.fate.is_ok()).filter_map(|pair| {
            let shadow = &self.rules.shadows.get(pair.shadow)?.shadow;
            (shadow.mode == Mode::Active).then_some(shadow.verdict.within)
        });
        active.max()
    }
}

/// Place where an accepted event is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// In the database, committed.
    Committed,
    /// On the local disk, until the database is back.
    Local {
        /// Time that active shadows have for a verdict, if one of them may review the event.
        verdict_within: Option<Duration>,
    },
}

/// An accepted event. It is stored, unless a review on demand was refused.
#[derive(Debug, Clone)]
pub struct EventReceipt {
    /// Id of the event.
    pub id: EventId,
    /// Agent, by the name that is stored.
    pub agent: String,
    /// Time of receipt.
    pub received_at: Timestamp,
    /// Triggers of the event.
    pub triggers: Vec<TriggerMark>,
    /// Disposition of each matched shadow; empty for a spooled event, which is decided when it is filed.
    pub dispositions: Vec<Disposition>,
    /// Place where the event is kept.
    pub durability: Durability,
    /// True if the event had been accepted before, under the same id and with the same content.
    pub replayed: bool,
}

/// Reason why an event was not accepted. Nothing of it is stored; after [`Self::Unavailable`] that is unknown.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AcceptError {
    /// More events arrive than can be stored.
    #[error("more events arrive than can be stored: send this event again in {} s", retry_after.as_secs())]
    Overloaded {
        /// Time after which to try again.
        retry_after: Duration,
    },
    /// The id belongs to another event.
    #[error("this id was used for a different event ({0}): use a new id, or send the same content again")]
    Mismatch(EventId),
    /// The database refuses the event's values.
    #[error("the event cannot be stored ({0})")]
    Unstorable(String),
    /// The database does not answer.
    #[error("the database does not answer: send the event again, with an id so that it cannot be stored twice")]
    Unavailable,
    /// The database does not answer, and no more may wait for it.
    #[error("the database does not answer, and the spool is full (ingest.spool): send the event again later")]
    SpoolFull,
    /// The agent's name consists of hidden characters alone.
    #[error("the agent's name has only hidden characters")]
    NamelessAgent,
    /// No shadow has this name.
    #[error("shadow not found; GET /v1/shadows lists them")]
    UnknownShadow,
}

/// A matched pair of event and shadow, as far as it is decided before the transaction.
#[derive(Debug, Clone)]
pub(in crate::flows) struct Pair {
    pub shadow: usize,
    pub trigger: Trigger,
    pub fate: Result<ReviewCandidate, SkipReason>,
}
