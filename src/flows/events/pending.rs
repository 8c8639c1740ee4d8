//! An event between its screening and the commit, and what is answered after it: what `accept` hands to the writer, and
//! what comes back.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::sync::oneshot;

use crate::{budget::Candidate, flows::rules::Rules};
use umbra_domain::{Disposition, EventId, NanoUsd, Outcome, SkipReason, Trigger, TriggerMark};
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
    pub pairs: Vec<Pair>,
    /// What the event cost, where its task's costs are summed.
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
}

/// An event that is stored for good; but where a review on demand is refused, nothing is.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// Its id.
    pub id: EventId,
    /// Its agent, by the name that is stored.
    pub agent: String,
    /// When it was received.
    pub received_at: Timestamp,
    /// The triggers that it carries.
    pub triggers: Vec<TriggerMark>,
    /// What became of it for each matched shadow.
    pub dispositions: Vec<Disposition>,
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
    /// Nothing is left of the agent's name once hidden characters are taken out.
    #[error("the agent's name holds nothing but hidden characters")]
    NamelessAgent,
    /// Nobody to review it.
    #[error("there is no such shadow; GET /v1/shadows lists them")]
    UnknownShadow,
}

/// A matched pair, as far as it is decided before the transaction.
#[derive(Debug)]
pub(in crate::flows) struct Pair {
    pub shadow: usize,
    pub trigger: Trigger,
    pub fate: Result<Candidate, SkipReason>,
}
