//! `llm`: calls of models that no shadow asks for.

use super::{super::shape::Flag, section::section};

section! {
    /// Calls of models that no shadow asks for.
    Llm {
        /// True to ask each model in use one short question at start and after a reload that changes it, so that a wrong
        /// name, key or address is known before the first review.
        probe: bool = true, Flag;
    }
}
