//! `tools`: path of the tools file, with contracts, effects and rules of tools.

use std::path::PathBuf;

use super::{
    super::{shape::Maybe, text::path},
    section::section,
};

section! {
    /// Path of the tools file, with contracts, effects and rules of tools.
    ToolsFile {
        /// The tools file. Without it there are no contracts and no rules.
        path: Option<PathBuf> = None, Maybe(path());
    }
}
