//! `ingest`: batching of events into transactions, and the spool for times without a database.

use std::time::Duration;

use super::{
    super::{
        number::{Bytes, Time, whole},
        shape::Flag,
    },
    GIB, KIB, MIB, secs,
    section::{nested, section},
};

section! {
    /// The spool: events that wait on the local disk while the database is away.
    Spool {
        /// True to accept events while the database is away; false answers them 503. Spooled events are filed in any
        /// case.
        enabled: bool = true, Flag;
        /// Most bytes in the spool, the folder `spool` of `storage.data_dir`; further events are answered 503.
        max_bytes: usize = 512 * 1024 * 1024, Bytes(MIB..=64 * GIB);
        /// Age of the oldest spooled event from which further events are refused. No event is ever dropped.
        max_age: Duration = secs(86_400), Time(secs(1)..=secs(30 * 86_400));
    }
}

section! {
    /// Batching of events into transactions. An event is acknowledged after its transaction.
    Ingest {
        /// Most events that wait to be written; further events are answered 503.
        queue_events: usize = 10_000, whole(1..=1_000_000);
        /// Most events in one transaction.
        flush_events: usize = 1_000, whole(1..=10_000);
        /// Most bytes of events in one transaction.
        flush_bytes: usize = 4 * 1024 * 1024, Bytes(64 * KIB..=64 * MIB);
        /// Events that wait on the local disk while the database is away.
        spool: Spool = Spool::default(), nested();
    }
    rules |ingest, keys| {
        if ingest.flush_events > ingest.queue_events {
            let key = keys.first_of(["queue_events", "flush_events"]);
            keys.fault(key, "flush_events is above queue_events", "lower flush_events or raise queue_events");
        }
    };
}
