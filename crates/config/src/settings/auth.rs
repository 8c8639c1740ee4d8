//! `auth`: the first key. No setting of this section weakens the protection by keys.

use std::path::PathBuf;

use super::{
    super::{shape::Maybe, text::path},
    section::section,
};

section! {
    /// The first key. Without any key only loopback is served; further keys are made with `umbra keys`.
    Auth {
        /// A file that holds an admin key (`umbra_sk_...`) alone; it is put in force at start.
        bootstrap_admin_key_file: Option<PathBuf> = None, Maybe(path());
    }
}
