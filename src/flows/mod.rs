//! Use cases, a folder each: the only layer that strings building blocks together and opens transactions.
//!
//! - [`events`]: a posted event, from its screening to the answer after the commit;
//! - [`reviews`]: a review, from its lease to its findings; reviews asked for later, or of a text that is no event;
//! - [`verdicts`]: the verdict of an event, and the requests that wait for it;
//! - [`followers`]: consequences of a review that ended: breakers, reflexions, messages, briefings, feedback;
//! - [`decisions`]: a call of a tool, from its question to the answer after the commit;
//! - [`audit`]: the audit of decisions: chained, signed, compared with contracts, calls and runs;
//! - [`sessions`]: a session of an agent, step by step;
//! - [`backtests`]: a shadow tried on events of the past;
//! - [`maintenance`]: due work, retention, erasure, status.
//!
//! [`rules`] is the configuration in force.

pub mod audit;
pub mod backtests;
pub mod decisions;
pub mod events;
pub mod followers;
pub mod maintenance;
pub mod reviews;
pub mod rules;
pub mod sessions;
pub mod verdicts;

use std::sync::Arc;

use arc_swap::ArcSwap;
use jiff::SignedDuration;
use tokio::sync::{Notify, Semaphore, mpsc};

use self::{
    decisions::Boundary,
    events::{Writer, WriterSettings},
    followers::{Habits, Tail},
    rules::Rules,
    sessions::Sidecar,
    verdicts::Waiters,
};
use crate::{
    queue::{Intake, Pulse},
    webhooks::Endpoints,
};
use umbra_domain::clock::Clock;
use umbra_store::{Store, installation::Installation};

/// The parts that every walk through the house needs.
#[derive(Clone)]
pub struct Pipeline {
    /// The database.
    pub store: Store,
    /// The clock.
    pub clock: Clock,
    /// The configuration in force.
    pub rules: Arc<ArcSwap<Rules>>,
    /// The key of our hashes.
    pub installation: Installation,
    /// The way into the queue.
    pub intake: Intake,
    /// This process as a worker.
    pub pulse: Pulse,
    /// How long a review is tried.
    pub patience: Patience,
    /// When breakers open, faults become lessons and scores are a fall.
    pub habits: Habits,
    /// The way to a decision about a call of a tool.
    pub boundary: Boundary,
    /// The sidecar beside agents.
    pub sidecar: Sidecar,
    /// Requests that wait.
    pub waiters: Waiters,
    /// Rung when a backtest was posted here.
    pub backtests: Arc<Notify>,
    /// Where streams hear of new findings.
    pub tail: Tail,
    /// Whom webhooks tell.
    pub webhooks: Arc<ArcSwap<Endpoints>>,
    /// Notified when messages wait in the outbox.
    pub outbox: Arc<Notify>,
    writer: mpsc::Sender<events::pending::Pending>,
    /// Long texts that may be screened at a time.
    screening: Arc<Semaphore>,
}

impl Pipeline {
    /// What is left of a shadow's local day.
    pub fn day_left(&self, shadow: &str) -> Option<std::time::Duration> {
        let now = self.clock.now();
        self.rules.load().day_end(shadow, now)?.duration_since(now).try_into().ok()
    }

    /// Puts the parts together; the writer is to be run by the caller.
    pub fn new(parts: Parts, settings: WriterSettings) -> (Self, Writer) {
        let (sender, receiver) = mpsc::channel(settings.queue_events);
        let Parts { store, clock, rules, webhooks, installation, intake, pulse, patience, habits, boundary, sidecar } =
            parts;
        let rules = Arc::new(ArcSwap::from_pointee(rules));
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let screening = Arc::new(Semaphore::new(cores.div_ceil(2)));
        let pipeline = Self {
            store,
            clock,
            rules,
            installation,
            intake,
            pulse,
            patience,
            habits,
            boundary,
            sidecar,
            waiters: Waiters::default(),
            backtests: Arc::default(),
            tail: Tail::default(),
            webhooks: Arc::new(ArcSwap::from_pointee(webhooks)),
            outbox: Arc::default(),
            writer: sender,
            screening,
        };
        let writer = Writer::new(&pipeline, receiver, settings);
        (pipeline, writer)
    }
}

/// What a [`Pipeline`] is made of.
pub struct Parts {
    /// The database.
    pub store: Store,
    /// The clock.
    pub clock: Clock,
    /// The configuration to begin with.
    pub rules: Rules,
    /// Whom webhooks tell, to begin with.
    pub webhooks: Endpoints,
    /// The key of our hashes.
    pub installation: Installation,
    /// The way into the queue.
    pub intake: Intake,
    /// This process as a worker.
    pub pulse: Pulse,
    /// How long a review is tried.
    pub patience: Patience,
    /// When breakers open, faults become lessons and scores are a fall.
    pub habits: Habits,
    /// The way to a decision about a call of a tool.
    pub boundary: Boundary,
    /// The sidecar beside agents.
    pub sidecar: Sidecar,
}

/// How long a review is tried, and how many may wait.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Leases after which it ends with what the checks found: it may be what kills its workers.
    pub attempts: i32,
    /// How long it waits for a provider or for money before it ends so.
    pub age: SignedDuration,
    /// Reviews waiting beyond which further ones are skipped as `overload`.
    pub max_queued: i64,
}
