//! `briefing`: when days and weeks are summed up.

use std::time::Duration;

use super::{
    super::{number::Time, shape::Flag},
    secs,
    section::section,
};

section! {
    /// When days and weeks are summed up.
    Briefings {
        /// Whether a briefing of each day and a report of each week are filed when they are over. On demand they are
        /// made all the same.
        enabled: bool = true, Flag;
        /// How long after its end in the time zone of every shadow, so that late reviews are in it.
        delay: Duration = secs(900), Time(secs(0)..=secs(43_200));
    }
}
