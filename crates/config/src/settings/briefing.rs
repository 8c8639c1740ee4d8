//! `briefing`: daily briefings and weekly reports.

use std::time::Duration;

use super::{
    super::{number::Time, shape::Flag},
    secs,
    section::section,
};

section! {
    /// Daily briefings and weekly reports.
    Briefings {
        /// True to file a briefing of each day and a report of each week when they are over. On demand they are written
        /// in any case.
        enabled: bool = true, Flag;
        /// Time after the end of the day or week in every shadow's time zone before it is summed up: it then holds late
        /// reviews.
        delay: Duration = secs(900), Time(secs(0)..=secs(43_200));
    }
}
