//! Use case: the audit of decisions: chained and signed, and compared with contracts, calls and runs.

pub mod contracts;
pub mod drift;
pub mod gate;
pub mod runs;
pub mod seal;
pub mod search;
pub mod unguarded;

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::{flows::decisions::Boundary, webhooks::Endpoints};
use umbra_domain::clock::Clock;
use umbra_store::Store;

/// Context of comparing the audit with contracts, events and earlier behaviour. Cheap to clone.
#[derive(Clone)]
pub struct Audit {
    /// The database.
    pub store: Store,
    /// The clock.
    pub clock: Clock,
    /// Tools and rules in force.
    pub boundary: Boundary,
    /// Receivers of messages.
    pub webhooks: Arc<ArcSwap<Endpoints>>,
}
