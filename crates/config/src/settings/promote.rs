//! `promote`: the track record that `umbra promote` asks of a shadow.

use super::{
    super::number::{decimal, whole},
    section::section,
};

section! {
    /// Track record that `umbra promote` asks of a shadow before it may say more.
    Promote {
        /// Least share of its judged findings that people confirmed.
        floor: f64 = 0.8, decimal("a share", 0.0..=1.0, Some);
        /// Fewest findings that people must have judged.
        min_feedback: u32 = 20, whole(1..=100_000);
    }
}
