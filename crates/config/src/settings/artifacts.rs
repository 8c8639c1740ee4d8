//! `artifacts`: what is written to files for people and other programs.

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
    /// What is written to files for people and other programs.
    Artifacts {
        /// Whether each review is also written as a page of markdown.
        enabled: bool = true, Flag;
        /// Folder of these pages; a relative one lies in the working directory, or in the data directory where the
        /// working directory is read-only.
        reviews_dir: PathBuf = PathBuf::from("memory/shadow-reviews"), path();
        /// The observations log: each finished review as a line of JSON, of passive shadows too. In the data directory
        /// (observations.jsonl) when not set.
        observations_log: Option<PathBuf> = None, Maybe(path());
        /// The log is rotated before it holds more bytes than this.
        observations_max_bytes: usize = 64 * 1024 * 1024, Bytes(KIB..=64 * 1024 * MIB);
        /// Full files that are kept beside the one that is written: observations.jsonl.1 is the newest.
        observations_keep: u32 = 10, whole(1..=1000);
    }
}
