//! `shadows`: path of the shadows file.

use std::path::PathBuf;

use super::{
    super::{shape::Maybe, text::path},
    section::section,
};

section! {
    /// Path of the shadows file.
    ShadowsFile {
        /// The shadows file. Without it the built-in example is used, and the log says so.
        path: Option<PathBuf> = None, Maybe(path());
    }
}
