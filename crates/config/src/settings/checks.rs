//! `checks`: rules of a user's own for the built-in checks.

use std::path::PathBuf;

use super::{
    super::{shape::List, text::path},
    section::section,
};

section! {
    /// Rules of a user's own for the built-in checks.
    Checks {
        /// Files of rules, the later over the earlier: they add rules, change built-in ones and switch them off. A
        /// gitleaks.toml is such a file.
        rules: Vec<PathBuf> = Vec::new(), List { len: 0..=64, single: true, item: path() };
    }
}
