//! Selection of tools for a task. In: tools once, then tasks, each with a memory and limits. Out: tools in order, each
//! with its score and reason, and excluded tools, each with the reason. Pure.
//!
//! 1. `words` splits texts and identifiers into words, and measures how alike two tasks are.
//! 2. [`Catalogue`] indexes tools: names, descriptions, parameters. Built once for a set of tools.
//! 3. [`Memory`] holds the tasks for which a tool succeeded or failed. It grows without a new catalogue.
//! 4. [`OfferRules`] hold the rules about the tools that may be offered.
//! 5. [`Catalogue::select`] ranks by words (BM25F) and by meaning, and asks the limits about each tool before it is
//!    offered.
//!
//! A tool's own text is untrusted: it is counted and never obeyed. A description that speaks to the model does not
//! count at all, a long one by its beginning, and a repeated word once.

mod catalogue;
mod embedding;
mod limits;
mod memory;
mod parameter;
mod select;
#[cfg(test)]
mod tests;

pub use super::word_stems::Task;
pub use catalogue::{Catalogue, Tool};
pub use limits::OfferRules;
pub use memory::Memory;
pub use parameter::Parameter;
pub use select::{Excluded, Ranked, Selection, SelectionRequest, closeness};
