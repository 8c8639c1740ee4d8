//! Sections that name files and folders: `storage`, `shadows`, `tools`, `auth` and `artifacts`.

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
    /// Data folder, and the private Postgres that is used without a database URL.
    Storage {
        /// Folder of the private Postgres, the spool and the service's own files.
        data_dir: PathBuf = PathBuf::from("./data"), path();
        /// True to download Postgres (pinned by hash) when the machine has none.
        download_postgres: bool = true, Flag;
        /// Folder with Postgres' programs (initdb, postgres). `UMBRA_PG_BIN` sets it too. Searched for when not set.
        pg_bin: Option<PathBuf> = None, Maybe(path());
    }
}

section! {
    /// Path of the shadows file.
    ShadowsFile {
        /// The shadows file. Without it the built-in example is used, and the log says so.
        path: Option<PathBuf> = None, Maybe(path());
    }
}

section! {
    /// Path of the tools file, with contracts, effects and rules of tools.
    ToolsFile {
        /// The tools file. Without it there are no contracts and no rules.
        path: Option<PathBuf> = None, Maybe(path());
    }
}

section! {
    /// The first key. Without any key only loopback is served; further keys are made with `umbra keys`.
    Auth {
        /// A file that holds an admin key (`umbra_sk_...`) alone; it is put in force at start.
        bootstrap_admin_key_file: Option<PathBuf> = None, Maybe(path());
    }
}

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
