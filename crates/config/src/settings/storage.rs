//! `storage`: data folder, and the private Postgres.

use std::path::PathBuf;

use super::{
    super::{
        shape::{Flag, Maybe},
        text::path,
    },
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
