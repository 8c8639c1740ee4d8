//! An event between its screening and the commit, and what is answered after it: what `accept` hands to the writer, and
//! what comes back.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::{sync::oneshot, time::Instant};

use crate::{budget::Candidate, flows::rules::Rules};
use umbra_domain::{Disposition, EventId, KeyId, Mode, NanoUsd, Outcome, SkipReason, Trigger, TriggerMark};
use umbra_store::intake::NewKey;

/// An event that waits for its transaction.
pub(in crate::flows) struct Pending {
    pub rules: Arc<Rules>,
    pub id: EventId,
    pub agent: String,
    pub task_id: Option<String>,
    pub triggers: Vec<TriggerMark>,
    /// The [`StoredEvent`] as JSON, alone: the event itself was dropped by the task that read it.
    pub payload: Vec<u8>,
    pub key: Option<NewKey>,
    /// The API key that it came with.
    pub by: Option<KeyId>,
    /// When it was handed to the writer.
    pub since: Instant,
    pub pairs: Vec<Pair>,
    /// Cost of the event, where its task's costs are summed.
    pub cost: Option<NanoUsd>,
    /// It carries a review that somebody asks for: without that review it is not stored.
    pub on_demand: bool,
    pub answer: oneshot::Sender<Result<Accepted, AcceptError>>,
}

impl Pending {
    /// Whether it carries a review on demand that is refused: then nothing of it is stored.
    pub fn is_refused(&self, dispositions: &[Disposition]) -> bool {
        self.on_demand && dispositions.iter().all(|disposition| disposition.outcome == Outcome::Skipped)
    }

    /// The same event without its key, for which nobody waits.
    pub fn without_key(&self) -> Self {
        Self {
            rules: Arc::clone(&self.rules),
            id: self.id,
            agent: self.agent.clone(),
            task_id: self.task_id.clone(),
            triggers: self.triggers.clone(),
            payload: self.payload.clone(),
            key: None,
            by: self.by,
            since: self.since,
            pairs: self.pairs.clone(),
            cost: self.cost,
            on_demand: self.on_demand,
            answer: oneshot::channel().0,
        }
    }

    /// Time that active shadows have for a verdict, if any may come to review it.
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
        /// Time that active shadows have for a verdict, if any may come to review it.
        verdict_within: Option<Duration>,
    },
}

/// An event that is kept for good; but where a review on demand is refused, nothing is.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// Its id.
    pub id: EventId,
    /// Agent, by the name that is stored.
    pub agent: String,
    /// When it was received.
    pub received_at: Timestamp,
    /// The triggers that it carries.
    pub triggers: Vec<TriggerMark>,
    /// Disposition of each matched shadow; of an event in the spool that is decided when it is filed.
    pub dispositions: Vec<Disposition>,
    /// Place where it is kept.
    pub durability: Durability,
    /// It had been accepted before, under the same id and with the same content.
    pub replayed: bool,
}

/// Why an event was not accepted. Nothing of it is stored, but for [`Self::Unavailable`], where that is unknown.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AcceptError {
    /// More came than can be stored.
    #[error("more events arrive than can be stored; send this one again in {} s", retry_after.as_secs())]
    Overloaded {
        /// When to try again.
        retry_after: Duration,
    },
    /// The id belongs to another event.
    #[error("this id was used for another event ({0}): use a new id, or send the same content to have it replayed")]
    Mismatch(EventId),
    /// The database refuses the event's values.
    #[error("the event cannot be stored ({0})")]
    Unstorable(String),
    /// The database does not answer.
    #[error("the database does not answer; send the event again, with an id so that it cannot be stored twice")]
    Unavailable,
    /// The database does not answer, and no more may wait for it.
    #[error(
        "the database does not answer, and as many events wait for it as may (ingest.spool); send the event again later"
    )]
    SpoolFull,
    /// Nothing is left of the agent's name once hidden characters are taken out.
    #[error("the agent's name holds nothing but hidden characters")]
    NamelessAgent,
    /// Nobody to review it.
    #[error("there is no such shadow; GET /v1/shadows lists them")]
    UnknownShadow,
}

/// A matched pair, as far as it is decided before the transaction.
#[derive(Debug, Clone)]
pub(in crate::flows) struct Pair {
    pub shadow: usize,
    pub trigger: Trigger,
    pub fate: Result<Candidate, SkipReason>,
}
