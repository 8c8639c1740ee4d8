//! `llm`: model calls outside of reviews.

use super::{super::shape::Flag, section::section};

section! {
    /// Model calls outside of reviews.
    Llm {
        /// True to ask each model in use one short question at start, and after a reload that changes it: a wrong name,
        /// key or address then shows before the first review.
        probe: bool = true, Flag;
    }
}
