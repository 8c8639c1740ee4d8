//! `looks`: bounds of the built-in checks where no review runs them.

use super::{
    super::number::{decimal, whole},
    section::section,
};

section! {
    /// Bounds of the built-in checks where no review runs them: on events that a cost floor, a cooldown, a sample or a
    /// cap keeps from a model.
    Looks {
        /// Most events that wait for the checks. Older ones are passed over, and listed as `check_backlog`.
        max_backlog: u32 = 200_000, whole(100..=100_000_000);
        /// Largest share of one processor that the checks take while events wait.
        processor_share: f64 = 0.25, decimal("a share", 0.01..=1.0, Some);
    }
}
