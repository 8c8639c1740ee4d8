//! `shadows`: where the observers are written down.

use std::path::PathBuf;

use super::{
    super::{shape::Maybe, text::path},
    section::section,
};

section! {
    /// Where the observers are written down.
    ShadowsFile {
        /// The shadows file. Without it the built-in example is used, and said so.
        path: Option<PathBuf> = None, Maybe(path());
    }
}
