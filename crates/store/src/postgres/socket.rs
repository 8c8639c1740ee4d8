//! Directory of the server's Unix socket.
//!
//! In: the cluster's directory and the user that serves it. Out: a directory of mode 0700 that belongs to that user,
//! with the server's path to it and the clients' path. Never: uses a directory of another user's, or a path longer than
//! a socket address holds.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::{
    PORT, PrivateError,
    account::{Account, ReachablePath},
    cluster::forget,
};

/// `sun_path` without its terminating zero: 108 bytes on Linux, 104 elsewhere (unix(7), sys/un.h of the BSDs).
pub(super) const LONGEST_PATH: usize = if cfg!(target_os = "linux") { 107 } else { 103 };
/// Names tried for the directory, in case others are taken.
const TRIES: u32 = 8;

/// Directory for the socket; dropping it removes the directory if it is temporary.
#[derive(Debug)]
pub(super) struct SocketPlace {
    /// Path of the directory for clients.
    pub(super) client: PathBuf,
    /// Path of the directory for the server.
    pub(super) server: PathBuf,
    /// True for a directory outside the data.
    temporary: bool,
}

impl Drop for SocketPlace {
    fn drop(&mut self) {
        if self.temporary {
            forget(&self.client);
        }
    }
}

/// Chooses the directory: the cluster's own (which is 0700 and the server's), or a short one if that path is too long.
/// After an earlier server it is the `earlier` directory, where clients look for the next one.
pub(super) fn place(
    cluster: &Path,
    reached: &ReachablePath,
    account: &Account,
    runtime_dir: Option<&Path>,
    earlier: Option<&Path>,
) -> Result<SocketPlace, PrivateError> {
    if fits(cluster) {
        return Ok(SocketPlace { client: cluster.into(), server: reached.name.clone(), temporary: false });
    }
    // XDG_RUNTIME_DIR is closed to all but its user, so a server of another user cannot use it.
    let runtime_dir =
        runtime_dir.filter(|dir| !account.is_dropped() && dir.is_dir() && fits(&dir.join(name(cluster, 0))));
    let parent = runtime_dir.unwrap_or(Path::new("/tmp"));
    let named = (0..TRIES).map(|number| parent.join(name(cluster, number)));
    let choice: Vec<PathBuf> = earlier.map_or_else(|| named.collect(), |dir| vec![dir.into()]);
    for dir in choice {
        if claim(&dir, account)? {
            return Ok(SocketPlace { client: dir.clone(), server: dir, temporary: true });
        }
    }
    Err(PrivateError::NoSocketDirectory { dir: parent.into() })
}

/// True if the socket's path in `dir` fits into an address, is UTF-8 for the client library, and has none of the
/// characters that Postgres treats as separators.
pub(super) fn fits(dir: &Path) -> bool {
    dir.to_str().is_some_and(|text| !text.contains([',', '"']))
        && dir.join(format!(".s.PGSQL.{PORT}")).as_os_str().len() <= LONGEST_PATH
}

fn name(cluster: &Path, number: u32) -> String {
    let hash = blake3::hash(cluster.as_os_str().as_encoded_bytes()).to_hex();
    format!("umbra-{}-{number}", hash.get(..16).unwrap_or_default())
}

/// Makes the directory, or takes it over from an earlier run of the same user; returns false if it is another user's.
fn claim(dir: &Path, account: &Account) -> Result<bool, PrivateError> {
    match fs::symlink_metadata(dir) {
        Ok(meta) => Ok(meta.is_dir() && meta.uid() == account.uid() && meta.mode() & 0o777 == 0o700),
        Err(error) if error.kind() == io::ErrorKind::NotFound => account.make_dir(dir).map(|()| true),
        Err(error) => Err(PrivateError::io("read", dir)(error)),
    }
}
