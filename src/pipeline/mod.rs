//! The only place that strings rooms together. What the service does can be read in its files:
//!
//! - [`accept`]: a posted event, from its screening to the answer after the commit ([`writer`] makes the commit);
//! - [`work`]: a review, from its lease to its findings ([`dossier`] is what it is of, [`call`] the model's part);
//! - [`follow`]: what follows from a review that ended;
//! - [`tick`]: what happens by time alone.
//!
//! [`rules`] is the configuration in force, as these need it; [`status`] is how it all stands.

pub mod accept;
mod call;
mod dossier;
pub mod follow;
mod pending;
mod plan;
pub mod rules;
pub mod status;
pub mod tick;
pub mod verdicts;
pub mod wait;
mod work;
mod writer;

use std::sync::Arc;

use arc_swap::ArcSwap;
use jiff::SignedDuration;
use tokio::sync::{Semaphore, mpsc};

pub use self::{
    accept::Origin,
    pending::{AcceptError, Accepted},
    rules::{Armed, Rules, RulesError},
    wait::Waiters,
    work::Worker,
    writer::{Writer, WriterSettings},
};
use crate::{
    clock::Clock,
    queue::{Intake, Pulse},
    store::{Store, installation::Installation},
};

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
    /// Requests that wait.
    pub waiters: Waiters,
    writer: mpsc::Sender<pending::Pending>,
    /// Long texts that may be screened at a time.
    screening: Arc<Semaphore>,
}

impl Pipeline {
    /// Puts the parts together; the writer is to be run by the caller.
    pub fn new(parts: Parts, settings: WriterSettings) -> (Self, Writer) {
        let (sender, receiver) = mpsc::channel(settings.queue_events);
        let Parts { store, clock, rules, installation, intake, pulse, patience } = parts;
        let rules = Arc::new(ArcSwap::from_pointee(rules));
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let screening = Arc::new(Semaphore::new(cores.div_ceil(2)));
        let waiters = Waiters::default();
        let pipeline =
            Self { store, clock, rules, installation, intake, pulse, patience, waiters, writer: sender, screening };
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
    /// The key of our hashes.
    pub installation: Installation,
    /// The way into the queue.
    pub intake: Intake,
    /// This process as a worker.
    pub pulse: Pulse,
    /// How long a review is tried.
    pub patience: Patience,
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
