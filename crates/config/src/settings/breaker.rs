//! `breaker`: when an agent is recommended to be held back.

use std::time::Duration;

use super::{
    super::number::{Time, whole},
    secs,
    section::section,
};

section! {
    /// When an agent is recommended to be held back.
    Breaker {
        /// Verified rejections in a row, by one shadow, that open an agent's breaker.
        threshold: u32 = 3, whole(1..=20);
        /// How long it stays open before the agent's next reviews are trials.
        cool_off: Duration = secs(900), Time(secs(1)..=secs(30 * 86_400));
        /// Approved trials that close it again.
        trials: u32 = 2, whole(1..=20);
        /// An agent whose breaker has not been closed for so long is told of once more.
        alert_after: Duration = secs(86_400), Time(secs(60)..=secs(90 * 86_400));
    }
}
