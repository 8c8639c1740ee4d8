//! The queue: who may run what, and when. It knows jobs; what a review is, it does not know.
//!
//! A job reaches a worker on one of two ways. If a slot is free when the job is inserted, it is inserted already
//! leased and handed over in process, after the commit ([`Slots::take`], [`Dispatcher::hand_over`]). Otherwise it is
//! claimed with SKIP LOCKED, in batches as large as the slots that are free, on a wake-up or at the next poll.
//!
//! Leases are by worker: [`Pulse`] beats every few seconds; a worker whose last beat was not acknowledged for 9 s
//! starts nothing, and one that was silent for 12 s is relieved by any other process. Its results are then refused,
//! since they come without the lease.

mod dispatch;
mod pulse;
mod retry;
mod slots;
#[cfg(test)]
mod tests;

pub use dispatch::{Dispatcher, Handed, Intake};
pub use pulse::{Health, Pulse, PulseSettings};
pub use retry::backoff;
pub use slots::{Permit, Slots};
