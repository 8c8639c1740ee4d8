//! The sidecar: the companion that keeps an agent on its plan.
//!
//! [`document`] holds what an agent works by: its todo, its spec, its notes. [`tools`] says which tools it should be shown for
//! what it is about to do. [`guard`] says what it is held to while it does it. Pure: values in, values out.

pub mod document;
pub mod guard;
pub mod tools;
mod words;
