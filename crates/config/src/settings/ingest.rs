//! `ingest`: how events are gathered into transactions.

use super::{
    super::number::{Bytes, whole},
    KIB, MIB,
    section::section,
};

section! {
    /// How events are gathered into transactions. An event is acknowledged after its transaction.
    Ingest {
        /// Most events that wait to be written; more are answered 503.
        queue_events: usize = 10_000, whole(1..=1_000_000);
        /// Most events in one transaction.
        flush_events: usize = 1_000, whole(1..=10_000);
        /// Most bytes of events in one transaction.
        flush_bytes: usize = 4 * 1024 * 1024, Bytes(64 * KIB..=64 * MIB);
    }
    rules |ingest, keys| {
        if ingest.flush_events > ingest.queue_events {
            let key = keys.first_of(["queue_events", "flush_events"]);
            keys.fault(key, "flush_events is above queue_events", "lower flush_events or raise queue_events");
        }
    };
}
