//! `breaker`: when an agent is recommended to be held back.

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
    /// When an agent is recommended to be held back.
    Breaker {
        /// Verified rejections in a row, by one shadow, that open an agent's breaker; so do as many of one and the same output.
        threshold: u32 = 3, whole(1..=20);
        /// Modes of the shadows that count: review and active, or one of them. Passive shadows never do.
        modes: Vec<Mode> = vec![Mode::Review, Mode::Active],
            List { len: 1..=2, single: true, item: word(&[Mode::Review, Mode::Active], Mode::as_str) };
        /// How long it stays open before the agent's next reviews are trials.
        cool_off: Duration = secs(900), Time(secs(1)..=secs(30 * 86_400));
        /// Approved trials that close it again.
        trials: u32 = 2, whole(1..=20);
        /// An agent whose breaker has not been closed for so long is told of once more.
        alert_after: Duration = secs(86_400), Time(secs(60)..=secs(90 * 86_400));
    }
}
