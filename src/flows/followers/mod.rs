//! Use case: consequences of a review that ended: breakers, reflexions, scores, messages, briefings, feedback.

pub mod breakers;
pub mod briefings;
pub mod consequences;
pub mod deliver;
pub mod feedback;
pub mod follow;
pub mod notify;
pub mod reflexions;
pub mod tail;

pub use self::{consequences::Habits, tail::Tail};
