//! `retention`: how long things are kept.

use super::{super::number::whole, section::section};

section! {
    /// How long things are kept.
    Retention {
        /// Days that events, reviews and findings are kept.
        events_days: u32 = 30, whole(1..=3_650).to();
        /// Hours in which an event's id, sent again, is answered with the first answer.
        idempotency_hours: u32 = 72, whole(1..=720).to();
    }
    rules |retention, keys| {
        if u64::from(retention.idempotency_hours) > 24 * u64::from(retention.events_days) {
            let key = keys.first_of(["idempotency_hours", "events_days"]);
            keys.fault(
                key,
                "idempotency_hours reach further back than events_days",
                "raise events_days or lower idempotency_hours: an id cannot be answered without its event",
            );
        }
    };
}
