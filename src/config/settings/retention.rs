//! `retention`: how long things are kept.

use super::{super::number::whole, section::section};

section! {
    /// How long things are kept.
    Retention {
        /// Hours in which an event's id, sent again, is answered with the first answer.
        idempotency_hours: u32 = 72, whole(1..=720).to();
    }
}
