//! Slots for running reviews, some kept for active ones: requests may wait for those.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Slots of one process.
#[derive(Debug, Clone)]
pub struct Slots {
    /// Slots for reviews of any mode.
    general: Arc<Semaphore>,
    /// Slots for active reviews only.
    active: Arc<Semaphore>,
}

/// Slot that is taken; dropping it frees it.
#[derive(Debug)]
pub struct Permit(#[expect(dead_code, reason = "held for its Drop")] OwnedSemaphorePermit);

impl Slots {
    /// Returns `workers` slots, of which `for_active` (less than all) are kept for active reviews. None at all is
    /// allowed: such a process accepts and serves, and others review.
    pub fn new(workers: usize, for_active: usize) -> Self {
        let for_active = for_active.min(workers.saturating_sub(1));
        Self { general: Arc::new(Semaphore::new(workers - for_active)), active: Arc::new(Semaphore::new(for_active)) }
    }

    /// Takes a slot for a job of this rank, if one is free; active jobs use those kept for them first.
    pub fn take(&self, priority: i16) -> Option<Permit> {
        let kept = if priority == 0 { take(&self.active) } else { None };
        kept.or_else(|| take(&self.general))
    }

    /// Takes every free slot: those kept for active jobs, and those for any.
    pub fn take_all(&self) -> (Vec<Permit>, Vec<Permit>) {
        let all = |of: &Arc<Semaphore>| std::iter::from_fn(|| take(of)).collect();
        (all(&self.active), all(&self.general))
    }

    /// Returns the numbers of free slots for active reviews and for any.
    pub fn free(&self) -> (usize, usize) {
        (self.active.available_permits(), self.general.available_permits())
    }
}

fn take(of: &Arc<Semaphore>) -> Option<Permit> {
    Arc::clone(of).try_acquire_owned().ok().map(Permit)
}
