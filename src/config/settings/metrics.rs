//! `metrics`: what `/metrics` tells.

use super::{super::shape::Flag, section::section};

section! {
    /// What `/metrics` tells.
    Metrics {
        /// Whether agents' names are labels. Off: agents choose their names, and could fill the memory of whoever scrapes.
        agent_labels: bool = false, Flag;
    }
}
