//! Who owns the data directory, and where the others find the owner's server.
//!
//! In: the data directory. Out: its lock (`lock`, held by flock as long as the owner lives, however it ends), and
//! the address of the running server (`postgres.json`). Never: trusts the address alone; whoever reads it connects.

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

/// The exclusive lock of a data directory; the kernel gives it back when we end in any way.
#[derive(Debug)]
pub(super) struct DataLock(#[expect(dead_code, reason = "held for its lock")] Flock<fs::File>);

impl DataLock {
    /// The lock, or `None` while another process (or another owner in this one) holds it.
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

/// Where a running server is found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Address {
    /// The directory of its Unix socket.
    pub(super) socket_dir: PathBuf,
    /// The directory of its data.
    pub(super) cluster: PathBuf,
    /// Its version, as it names itself.
    pub(super) version: String,
}

impl Address {
    /// Writes the address at once: a reader sees all of it or none.
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

    /// The address, if one is published.
    pub(super) fn read(data_dir: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(file(data_dir)).ok()?).ok()
    }

    /// Takes the address back.
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
