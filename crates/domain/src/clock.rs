//! Time and identifiers: the only place that reads the system's clock or makes ids.
//!
//! In SQL, time is the function `clock()` of Umbra's schema. Here it is an estimate of the same clock: the system's
//! clock, corrected by the offset that the store measures. Leases, caps and days are decided by the database's clock
//! alone; this one mints ids, stamps answers and expires cached values.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use uuid::{NoContext, Uuid};

/// Source of time: the system's clock, or one that a test sets.
#[derive(Debug, Clone)]
pub struct Clock(Arc<Source>);

#[derive(Debug)]
enum Source {
    /// Microseconds to add to the system's clock.
    System { offset_us: AtomicI64 },
    /// Microseconds since the epoch.
    Manual { now_us: AtomicI64 },
}

impl Clock {
    /// Returns the system's clock, uncorrected at first.
    pub fn system() -> Self {
        Self(Arc::new(Source::System { offset_us: AtomicI64::new(0) }))
    }

    /// Returns a clock that stands still until it is set.
    pub fn manual(now: Timestamp) -> Self {
        Self(Arc::new(Source::Manual { now_us: AtomicI64::new(now.as_microsecond()) }))
    }

    /// Returns the time now, as near to the database's clock as is known.
    pub fn now(&self) -> Timestamp {
        let us = match &*self.0 {
            Source::System { offset_us } => {
                system_now().as_microsecond().saturating_add(offset_us.load(Ordering::Relaxed))
            }
            Source::Manual { now_us } => now_us.load(Ordering::Relaxed),
        };
        Timestamp::from_microsecond(us).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Corrects the offset by the database's time, which took `took` to arrive. An offset that the reading does not
    /// contradict is kept, so that a slow answer does not set the clock back. A manual clock ignores the reading.
    pub fn follow(&self, database_now: Timestamp, took: Duration) {
        if let Source::System { offset_us } = &*self.0 {
            let least = database_now.as_microsecond() - system_now().as_microsecond();
            let most = least.saturating_add(i64::try_from(took.as_micros()).unwrap_or(i64::MAX));
            offset_us.store(offset_us.load(Ordering::Relaxed).clamp(least, most), Ordering::Relaxed);
        }
    }

    /// Sets a manual clock; the system's clock ignores it.
    pub fn set(&self, now: Timestamp) {
        if let Source::Manual { now_us } = &*self.0 {
            now_us.store(now.as_microsecond(), Ordering::Relaxed);
        }
    }

    /// Moves a manual clock forward; the system's clock ignores it.
    pub fn advance(&self, by: SignedDuration) {
        self.set(self.now().saturating_add(by).unwrap_or(Timestamp::MAX));
    }

    /// Returns a new `UUIDv7` of this moment.
    pub fn new_id(&self) -> Uuid {
        let now = self.now();
        let seconds = u64::try_from(now.as_second()).unwrap_or(0);
        let nanos = u32::try_from(now.subsec_nanosecond()).unwrap_or(0);
        Uuid::new_v7(uuid::Timestamp::from_unix(NoContext, seconds, nanos))
    }
}

/// Returns the smallest `UUIDv7` of a moment: the bound of a partition or of a search by time.
pub fn first_id_at(at: Timestamp) -> Uuid {
    let millis = u64::try_from(at.as_millisecond()).unwrap_or(0);
    let mut bytes = [0_u8; 16];
    bytes[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
    Uuid::from_bytes(bytes)
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads it")]
fn system_now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_offset_changes_only_beyond_the_reading_error() {
        let (clock, second) = (Clock::system(), Duration::from_secs(1));
        clock.follow(system_now(), second);
        let ahead = || clock.now().duration_since(system_now());
        assert!(
            ahead().abs() < SignedDuration::from_millis(100),
            "a slow answer from a clock like ours: {:?}",
            ahead()
        );
        clock.follow(system_now().saturating_add(SignedDuration::from_mins(5)).unwrap(), second);
        assert!((ahead() - SignedDuration::from_mins(5)).abs() < SignedDuration::from_secs(2), "{:?}", ahead());
        clock.follow(system_now(), Duration::ZERO);
        assert!(ahead().abs() < SignedDuration::from_millis(100), "{:?}", ahead());
    }
}
