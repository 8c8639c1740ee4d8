//! `baseline`: what an agent usually scores, and what counts as a fall below it.

use std::time::Duration;

use super::{
    super::number::{Time, decimal, whole},
    secs,
    section::section,
};

section! {
    /// What an agent usually scores, and what counts as a fall below it.
    Baseline {
        /// How far back scores count; the newest hundred at most.
        window: Duration = secs(30 * 86_400), Time(secs(3_600)..=secs(365 * 86_400));
        /// Fewest scores by which a fall is told.
        min_scores: u32 = 10, whole(2..=100);
        /// A score so many spreads below the mean is a fall; 0 tells none.
        spreads: f64 = 2.0, decimal("a number of spreads", 0.0..=10.0, Some);
    }
}
