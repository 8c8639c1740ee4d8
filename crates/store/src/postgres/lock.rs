//! Lock of the data directory, and the address of its owner's server.
//!
//! In: the data directory. Out: its lock (`lock`, held by flock until the owner ends in any way), and the address of
//! the running server (`postgres.json`). Never: trusts the address alone; a reader connects to test it.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};
use serde::{Deserialize, Serialize};

use super::PrivateError;

/// The exclusive lock of a data directory. The kernel releases it when the process ends in any way.
#[derive(Debug)]
pub(super) struct DataLock(#[expect(dead_code, reason = "held for its lock")] Flock<fs::File>);

impl DataLock {
    /// Takes the lock; returns `None` while another process (or another owner in this one) holds it.
    pub(super) fn try_take(data_dir: &Path) -> Result<Option<Self>, PrivateError> {
        let path = data_dir.join("lock");
        // std opens files close-on-exec, so the server does not inherit the lock.
        let mut options = OpenOptions::new();
        let file = match options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(PrivateError::foreign(data_dir));
            }
            Err(error) => return Err(PrivateError::io("open", path)(error)),
        };
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Some(Self(lock))),
            Err((_, Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, errno)) => Err(PrivateError::io("lock", path)(errno.into())),
        }
    }
}

/// Address of a running server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Address {
    /// Directory of its Unix socket.
    pub(super) socket_dir: PathBuf,
    /// Directory of its data.
    pub(super) cluster: PathBuf,
    /// Version of the server, as it prints it.
    pub(super) version: String,
}

impl Address {
    /// Writes the address atomically: a reader sees all of it or none.
    pub(super) fn publish(&self, data_dir: &Path) -> Result<(), PrivateError> {
        let path = file(data_dir);
        let unfinished = path.with_extension("json.new");
        let write = || {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
            file.write_all(&serde_json::to_vec(self)?)?;
            fs::rename(&unfinished, &path)
        };
        write().map_err(PrivateError::io("write", &path))
    }

    /// Reads the address, if one is published.
    pub(super) fn read(data_dir: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(file(data_dir)).ok()?).ok()
    }

    /// Removes the published address.
    pub(super) fn withdraw(data_dir: &Path) {
        match fs::remove_file(file(data_dir)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, "cannot remove postgres.json");
            }
            _ => (),
        }
    }
}

fn file(data_dir: &Path) -> PathBuf {
    data_dir.join("postgres.json")
}
