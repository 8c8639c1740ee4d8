//! The sidecar: the companion that keeps an agent on its plan.
//!
//! [`document`] holds what an agent works by: its todo, its spec, its notes.

pub mod document;
