//! `tools`: where contracts, effects and rules of tools are written down.

use std::path::PathBuf;

use super::{
    super::{shape::Maybe, text::path},
    section::section,
};

section! {
    /// Where contracts, effects and rules of tools are written down.
    ToolsFile {
        /// The tools file. Without it there are no contracts and no rules.
        path: Option<PathBuf> = None, Maybe(path());
    }
}
