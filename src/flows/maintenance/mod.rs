//! Use case: the service over time: due work, retention, erasure, status.

pub mod erasure;
mod needs;
pub mod probe;
pub mod retention;
pub mod status;
pub mod tick;

use std::sync::Arc;

use parking_lot::Mutex;

use self::probe::ProbeStatus;
use crate::{
    flows::{active_configuration::RulesInForce, events::EventSpool, verdicts::Verdicts},
    queue::{DispatcherHandle, WorkerHeartbeat},
};
use umbra_domain::clock::Clock;
use umbra_store::Store;

/// Context of work by time alone, and of the service's status. Cheap to clone.
#[derive(Clone)]
pub struct Maintenance {
    /// The database.
    pub store: Store,
    /// The clock.
    pub clock: Clock,
    /// The configuration in force.
    pub rules: RulesInForce,
    /// Worker slots, woken when jobs wait.
    pub intake: DispatcherHandle,
    /// This process as a worker.
    pub pulse: WorkerHeartbeat,
    /// Requests that wait for verdicts.
    pub verdicts: Verdicts,
    /// Local queue of events while the database is away.
    pub spool: EventSpool,
    /// Probes of models since the start.
    pub probes: Arc<Mutex<ProbeStatus>>,
}
