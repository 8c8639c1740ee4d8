//! Use case: accepting an event, from its screening to the answer after the commit, and reserving reviews of it.

pub mod accept;
pub mod catch_up;
pub mod filer;
mod flush;
pub mod flush_plan;
pub mod nonce;
pub mod pending;
pub mod spool;
mod task_costs;
pub mod writer;

use std::{num::NonZero, sync::Arc, time::Duration};

use tokio::sync::{Semaphore, mpsc};

use self::pending::Pending;
pub use self::{
    accept::Origin,
    filer::Filer,
    pending::{AcceptError, Durability, EventReceipt},
    spool::{EventSpool, SpoolStatus},
    writer::Writer,
};
use crate::{
    flows::active_configuration::RulesInForce,
    queue::{DispatcherHandle, WorkerHeartbeat},
};
use umbra_config::Settings;
use umbra_domain::{Event, Trigger, clock::Clock};
use umbra_llm::Gateway;
use umbra_store::{Store, installation::Installation, results::EventContext};

/// Context of accepting events: screening, gates, and the channel to the writer. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    clock: Clock,
    rules: RulesInForce,
    installation: Installation,
    writer: mpsc::Sender<Pending>,
    /// Local queue of events while the database is away.
    pub spool: EventSpool,
    /// Longest time that an event waits for the database.
    deadline: Duration,
    /// Permits to screen long texts.
    screening: Arc<Semaphore>,
}

/// Context of reserving reviews in a transaction that holds the meters' locks. Cheap to clone.
#[derive(Clone)]
pub struct Reservations {
    /// The database.
    pub store: Store,
    /// The clock.
    pub clock: Clock,
    /// The configuration in force.
    pub rules: RulesInForce,
    /// Key of this installation's hashes.
    pub installation: Installation,
    /// Free worker slots, and the hand-over of leased jobs to them.
    pub intake: DispatcherHandle,
    /// This process as a worker, and the queue's depth.
    pub pulse: WorkerHeartbeat,
    /// Queued reviews above which further ones are skipped as `overload`.
    pub max_queued: i64,
}

impl Events {
    /// Returns the models in force.
    pub(in crate::flows) fn gateway(&self) -> Arc<Gateway> {
        Arc::clone(&self.rules.load().gateway)
    }

    /// Returns the context of accepting events, with its writer and the filer of its spool, which the caller runs.
    pub fn new(reservations: Reservations, spool: EventSpool, settings: Arc<Settings>) -> (Self, Writer, Filer) {
        let (sender, receiver) = mpsc::channel(settings.ingest.queue_events);
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let events = Self {
            clock: reservations.clock.clone(),
            rules: Arc::clone(&reservations.rules),
            installation: reservations.installation.clone(),
            writer: sender,
            spool: spool.clone(),
            deadline: settings.database.deadline,
            screening: Arc::new(Semaphore::new(cores.div_ceil(2))),
        };
        let writer = Writer::new(reservations, spool.clone(), receiver, Arc::clone(&settings));
        let filer = Filer::new(events.clone(), spool, writer.flusher.sibling(), settings);
        (events, writer, filer)
    }
}

/// Returns what a finding keeps of its event.
pub(in crate::flows) fn context_of(event: &Event, trigger: Trigger) -> EventContext {
    let Event { agent, task_id, task_type, .. } = event;
    EventContext { agent: agent.clone(), task_id: task_id.clone(), task_type: task_type.clone(), trigger }
}
