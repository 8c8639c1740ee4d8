//! `baseline`: usual scores of an agent, and the size of a fall below them.

use std::time::Duration;

use super::{
    super::number::{Time, decimal, whole},
    secs,
    section::section,
};

section! {
    /// Usual scores of an agent, and the size of a fall below them.
    Baseline {
        /// Period over which scores count; the newest hundred at most.
        window: Duration = secs(30 * 86_400), Time(secs(3_600)..=secs(365 * 86_400));
        /// Fewest scores from which a fall is reported.
        min_scores: u32 = 10, whole(2..=100);
        /// Spreads below the mean from which a score is a fall; 0 reports none.
        spreads: f64 = 2.0, decimal("a number of spreads", 0.0..=10.0, Some);
    }
}
