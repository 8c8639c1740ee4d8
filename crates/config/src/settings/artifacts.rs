//! `artifacts`: files for people and other programs.

use std::path::PathBuf;

use super::{
    super::{
        number::{Bytes, whole},
        shape::{Flag, Maybe},
        text::path,
    },
    KIB, MIB,
    section::section,
};

section! {
    /// Files for people and other programs.
    Artifacts {
        /// True to write each review as a page of markdown too.
        enabled: bool = true, Flag;
        /// Folder of these pages. A relative path begins in the working directory, or in the data directory where the
        /// working directory is read-only.
        reviews_dir: PathBuf = PathBuf::from("memory/shadow-reviews"), path();
        /// The observations log: each finished review as a line of JSON, those of passive shadows included. The file
        /// observations.jsonl in the data directory when not set.
        observations_log: Option<PathBuf> = None, Maybe(path());
        /// Largest log, in bytes; it is rotated before it holds more.
        observations_max_bytes: usize = 64 * 1024 * 1024, Bytes(KIB..=64 * 1024 * MIB);
        /// Rotated logs that are kept beside the current one: observations.jsonl.1 is the newest.
        observations_keep: u32 = 10, whole(1..=1000);
    }
}
