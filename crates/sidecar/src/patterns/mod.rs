//! Patterns: what worked before, offered for similar tasks. In: ways in which tasks were done, with their outcomes.
//! Out: for a task, the patterns that fit it best and succeed often enough, as data. Pure: ids, times and texts come
//! from the caller.
//!
//! 1. [`faults`] lists the faults of a posted pattern; [`mine()`] builds a pattern from the steps of an approved task.
//! 2. [`screen()`] takes out secrets and hidden characters, and quarantines patterns that must never be offered.
//! 3. [`dedup_key`] identifies a pattern. A known one is counted ([`record_use`]), a new one begins ([`begin`]). A
//!    success that turned out to be a failure is recounted ([`retract`]).
//! 4. [`PatternIndex`] finds the patterns for a task: by the share of common words, and by the lower bound of the
//!    success share.
//! 5. [`mod@memory`] gives the same knowledge to the selection of tools.
//!
//! A pattern is untrusted text. It is offered as data, under a fixed note. The caller's rules are asked about each of
//! its tools first, its text changes no rule, and other offers stand in the same order without it. Text that speaks to
//! the model is quarantined, as far as the checks can tell.

mod bounds;
mod index;
mod key;
mod lifecycle;
mod memory;
mod mine;
mod screen;
#[cfg(test)]
mod tests;

pub use bounds::{PatternFault, can_be_found, faults};
pub use index::{MOST_OFFERED, NOTE, OfferedPattern, PatternIndex};
pub use key::dedup_key;
pub use lifecycle::{begin, record_use, retract};
pub use memory::memory;
pub use mine::{MinedStep, mine};
pub use screen::{ScreenedPattern, screen};
