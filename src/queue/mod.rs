//! Queue of jobs: leases, heartbeat, slots and retries. It does not know what a review is.
//!
//! A job reaches a worker in one of two ways. If a slot is free when the job is inserted, it is inserted already leased
//! and handed over in process, after the commit ([`Slots::take`], [`DispatcherHandle::hand_over`]). Otherwise it is
//! claimed with SKIP LOCKED, in batches as large as the number of free slots, on a wake-up or at the next poll.
//!
//! Leases are by worker: [`WorkerHeartbeat`] beats every few seconds; a worker whose last beat was not acknowledged for
//! 9 s starts nothing, and after 12 s without a beat any other process takes over its jobs. Its results are then
//! refused, since it no longer has the lease.

mod dispatch;
mod heartbeat;
mod retry;
mod slots;
#[cfg(test)]
mod tests;

pub use dispatch::{Dispatcher, DispatcherHandle, LeasedJob};
pub use heartbeat::WorkerHeartbeat;
pub use retry::backoff;
pub use slots::{Permit, Slots};
