//! Which tools fit a task. In: tools once, then tasks, each with what is remembered and what may be offered. Out: tools in
//! order, each with its score and reason, and those that were left out, each with why. Pure.
//!
//! 1. `words` makes words of texts and of identifiers, and tells how like two tasks are.
//! 2. [`Catalogue`] indexes tools: names, descriptions, parameters. Built once for a set of tools.
//! 3. [`Memory`] knows for which tasks a tool succeeded, and for which it failed. It grows without a new catalogue.
//! 4. [`Limits`] say what may be offered: rules, allowed tools, the gravest effect.
//! 5. [`Catalogue::select`] ranks by BM25F over all of this, and asks the limits about each tool before it is offered.
//!
//! What a tool says of itself is a stranger's text: it is counted and never obeyed. Of a description that speaks to the
//! model nothing counts, of a long one its beginning, and of a word that it repeats one mention.

mod catalogue;
mod embedding;
mod limits;
mod memory;
mod parameter;
mod select;
#[cfg(test)]
mod tests;

pub use super::words::Task;
pub use catalogue::{Catalogue, Tool};
pub use limits::{Limits, Situation};
pub use memory::Memory;
pub use parameter::Parameter;
pub use select::{Excluded, Ranked, Request, Selection, closeness};
