//! The sidecar: the companion that keeps an agent on its plan.
//!
//! [`document`] holds the agent's working documents: its todo, its spec, its notes. [`tools`] selects the tools to
//! offer for a task. [`guard`] judges each step by the operator's rules. [`patterns`] offers what worked before for a
//! similar task. Pure: values in, values out; `flows::sessions` calls them, a step at a time.

pub mod document;
pub mod guard;
pub mod patterns;
pub mod tools;
mod word_stems;
