//! What worked before, for the next task like it. In: ways in which tasks were done, with how that ended. Out: for a task,
//! those that fit it best and are worth it, as data. Pure: ids, times and texts come from the caller.
//!
//! 1. [`faults`] says what is wrong with what somebody posts; [`mine`] makes the same of the steps of an approved task.
//! 2. [`screen`] takes out what is not to be kept, and says what is to be kept and never offered.
//! 3. [`dedup_key`] tells whether it is known already: then it is counted ([`after`]), else it is new ([`begin`]). What seemed to go
//!    well and did not is counted anew ([`retract`]).
//! 4. [`Shelf`] finds what fits a task: by the share of words in common, and by how often it surely went well.
//! 5. [`memory`] is the same knowledge for the choice of tools.
//!
//! A pattern is a stranger's word. It can say what was done, under a note of ours, and nothing else: the caller's rules are
//! asked about each of its tools before it is offered, nothing that it says changes them, and what is offered beside it
//! stands in the same order without it. What speaks to the model is quarantined as far as the checks can tell.

mod bounds;
mod key;
mod life;
mod memory;
mod mine;
mod screen;
mod shelf;
#[cfg(test)]
mod tests;

pub use bounds::{Fault, can_be_found, faults};
pub use key::dedup_key;
pub use life::{Origin, after, begin, retract};
pub use memory::memory;
pub use mine::{Step, Trajectory, mine};
pub use screen::{Screened, screen};
pub use shelf::{MOST_OFFERED, NOTE, Offered, Shelf};
