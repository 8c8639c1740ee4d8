//! The sidecar: the companion that keeps an agent on its plan.
//!
//! [`document`] holds what an agent works by: its todo, its spec, its notes. [`tools`] says which tools it should be shown for
//! what it is about to do, [`guard`] what it is held to while it does it, [`patterns`] what worked before for a task like it.
//! Pure: values in, values out; `flows::sessions` strings them together, a step at a time.

pub mod document;
pub mod guard;
pub mod patterns;
pub mod tools;
mod words;
