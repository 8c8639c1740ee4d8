//! `retention`: the time that each kind of data is kept.

use serde_json::{Value, json};

use super::{
    super::{
        fault::Faults,
        keys::{Keys, Shape},
        number::whole,
        tree::{Node, NodeValue},
    },
    section::section,
};

/// Most days: a century. Beyond it, `never` is meant.
const MOST_DAYS: u64 = 36_500;

section! {
    /// Retention periods. Older data is deleted in the background, by one process at a time.
    Retention {
        /// Hours in which a repeated event id is answered with the first answer.
        idempotency_hours: u32 = 72, whole(1..=720);
        /// Days that events are kept after their receipt; `never` (or 0) keeps them for ever.
        events_days: u32 = 30, Days;
        /// Days that reviews are kept, with their findings, verdicts and calls; at least as long as events.
        reviews_days: u32 = 365, Days;
        /// Days that each day's counters are kept: reviews, money, tokens and skips.
        counts_days: u32 = 730, Days;
    }
    rules check;
}

/// Shape of a number of days, or `never`, which is 0.
struct Days;

impl Shape for Days {
    type Value = u32;

    fn read(&mut self, node: &Node, faults: &mut Faults) -> Option<u32> {
        match &node.kind {
            NodeValue::Text(word) if word == "never" => Some(0),
            NodeValue::Text(_) => {
                let help = format!("write a number of days up to {MOST_DAYS}, or `never` to delete nothing");
                faults.fault(node.at, "this is not a number of days", help);
                None
            }
            _ => whole(0..=MOST_DAYS).hint(" days; 0 or `never` deletes nothing").read(node, faults),
        }
    }

    fn schema(&mut self) -> Value {
        json!({"oneOf": [{"type": "integer", "minimum": 0, "maximum": MOST_DAYS}, {"const": "never"}]})
    }
}

fn check(retention: &mut Retention, keys: &mut Keys<'_>) {
    let Retention { idempotency_hours, events_days, reviews_days, counts_days } = *retention;
    if events_days != 0 && events_days * 24 < idempotency_hours {
        let key = keys.first_of(["events_days", "idempotency_hours"]);
        keys.fault(
            key,
            "events would be deleted before their ids are forgotten",
            "write events_days of at least idempotency_hours: an event that is sent again is answered from the stored \
             event",
        );
    }
    if reviews_days != 0 && (events_days == 0 || reviews_days < events_days) {
        let key = keys.first_of(["reviews_days", "events_days"]);
        keys.fault(
            key,
            "reviews would be deleted before their events",
            "write reviews_days of at least events_days: an event shows its reviews",
        );
    }
    if (1..7).contains(&counts_days) {
        keys.fault(
            "counts_days",
            "counters of days that are not over yet would be deleted",
            "write 7 or more, or `never`",
        );
    }
}
