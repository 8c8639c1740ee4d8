//! `reflexion`: the conditions under which a recurring fault becomes a lesson.

use std::time::Duration;

use super::{
    super::number::{Time, whole},
    secs,
    section::section,
};

section! {
    /// Conditions under which a recurring fault becomes a lesson.
    Reflexion {
        /// Events of one agent and task type, within the window, in which the same fault was found.
        threshold: u32 = 3, whole(2..=100);
        /// The window. A lesson is closed when its fault was not found for this long.
        window: Duration = secs(7 * 86_400), Time(secs(60)..=secs(365 * 86_400));
    }
}
