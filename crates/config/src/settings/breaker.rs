//! `breaker`: the conditions under which Umbra recommends to hold an agent back.

use std::time::Duration;

use umbra_domain::Mode;

use super::{
    super::{
        number::{Time, whole},
        shape::{List, word},
    },
    secs,
    section::section,
};

section! {
    /// Conditions under which Umbra recommends to hold an agent back.
    Breaker {
        /// Verified rejections in a row, by one shadow, that open an agent's breaker; as many of one output open it
        /// too.
        threshold: u32 = 3, whole(1..=20);
        /// Modes of the shadows that count: review and active, or one of them. Passive shadows never count.
        modes: Vec<Mode> = vec![Mode::Review, Mode::Active],
            List { len: 1..=2, single: true, item: word(&[Mode::Review, Mode::Active], Mode::as_str) };
        /// Time that the breaker stays open before the agent's next reviews are trials.
        cool_off: Duration = secs(900), Time(secs(1)..=secs(30 * 86_400));
        /// Approved trials that close the breaker again.
        trials: u32 = 2, whole(1..=20);
        /// Time after which an agent whose breaker is still not closed is reported once more.
        alert_after: Duration = secs(86_400), Time(secs(60)..=secs(90 * 86_400));
    }
}
