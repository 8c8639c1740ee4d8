//! A directory of the machine in which agents and people find texts as files, and which none of our writes leaves.
//!
//! In: the directory, a folder in it by name, names and bytes of files. Out: what the files hold, and whether a text has taken
//! the place of what was there. Never: a byte outside of the directory, a file that somebody changed in the meantime written
//! over, a wait for the other end of a pipe.
//!
//! Whoever may write in the directory may put links, pipes and other folders there at any moment. So the directory's own path is
//! resolved once, when the service starts, and from then on every part of every path is opened by itself, relative to the one
//! before it, and only if it is a folder and no link (`O_NOFOLLOW`, `O_DIRECTORY`). What was opened stays what it is, whatever is
//! put in its place afterwards. Files are written beside their place, and change places with what is there in one step
//! ([`Folder::put`]); a link in that place is replaced, never followed.
//!
//! Group and others may do with what is made here what they may do with the folder that it is made in, but others nothing: where
//! an agent runs as another user, one group and `chmod g+rwxs` of the directory let it write.

mod folder;
#[cfg(test)]
mod tests;

use std::{
    io,
    path::{Component, Path, PathBuf},
};

use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{AtFlags, CWD, Dir, Mode, OFlags, fchmod, fstat, mkdirat, openat, unlinkat},
    io::Errno,
};

pub use folder::{Content, Entry, Folder, Mark, digest};

/// Parts at the end of a folder's path that are made where they are missing.
const MADE: usize = 2;
/// What keeps a folder that is made here out of what people commit.
const IGNORE: (&str, &str) = (".gitignore", "*\n");

/// How a folder is opened that is only passed through: who may not list it may pass all the same.
#[cfg(target_os = "linux")]
const PASS: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const PASS: OFlags = OFlags::RDONLY;

/// A directory in which files are kept. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// Without a link in it, when it was resolved.
    root: PathBuf,
    /// Bytes of a file that are read.
    most: u64,
}

impl Workspace {
    /// A directory that is there; of its files no more than so many bytes are read.
    ///
    /// # Errors
    /// It is none, or may not be passed.
    pub fn open(path: &Path, most: u64) -> io::Result<Self> {
        let workspace = Self { root: path.canonicalize()?, most };
        workspace.enter()?;
        Ok(workspace)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Whether it has the place in which a folder is, or would be made.
    ///
    /// # Errors
    /// A part of the path is no folder, or the system refuses.
    pub fn has_place(&self, path: &str) -> io::Result<bool> {
        let mut dir = self.enter()?;
        let parts: Vec<&str> = path.split('/').collect();
        for part in &parts[..parts.len().saturating_sub(MADE)] {
            dir = match open(&dir, part, PASS) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                opened => opened?,
            };
        }
        Ok(true)
    }

    /// A folder in it. The last two parts of its path are made where they are missing, if `make` says so.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] where a part is missing; others where one is no folder, or the system refuses.
    pub fn folder(&self, path: &str, make: bool) -> io::Result<Folder> {
        let parts: Vec<&str> = path.split('/').collect();
        let mut dir = self.enter()?;
        let mut shared = Mode::empty();
        for (at, part) in parts.iter().enumerate() {
            let left = parts.len() - at;
            if left > MADE {
                dir = open(&dir, part, PASS)?;
                continue;
            }
            if left == MADE || at == 0 {
                shared = Mode::from_raw_mode(fstat(&dir)?.st_mode) & Mode::RWXG;
            }
            dir = match open(&dir, part, OFlags::RDONLY) {
                Err(error) if make && error.kind() == io::ErrorKind::NotFound => {
                    made(&dir, part, shared, left == MADE)?
                }
                opened => opened?,
            };
        }
        Ok(Folder::new(dir, shared & (Mode::RGRP | Mode::WGRP), self.most))
    }

    /// Removes a folder with the files in it; whether there was one. Folders that somebody made in it stay, and it with them.
    ///
    /// # Errors
    /// The system refuses.
    pub fn remove(&self, path: &str) -> io::Result<bool> {
        let Some((parents, last)) = path.rsplit_once('/') else { return Err(io::ErrorKind::InvalidInput.into()) };
        let mut parent = self.enter()?;
        for part in parents.split('/') {
            parent = match open(&parent, part, PASS) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                opened => opened?,
            };
        }
        let dir = match open(&parent, last, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            opened => opened?,
        };
        for entry in Dir::read_from(&dir)? {
            match unlinkat(&dir, entry?.file_name(), AtFlags::empty()) {
                // The last two are what systems say of folders.
                Ok(()) | Err(Errno::NOENT | Errno::ISDIR | Errno::PERM) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match unlinkat(&parent, last, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOTEMPTY) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// The directory itself, by the path that it had: who puts a link into that path later leads nobody elsewhere.
    fn enter(&self) -> io::Result<OwnedFd> {
        let mut dir = openat(CWD, "/", PASS | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        for part in self.root.components() {
            if let Component::Normal(part) = part {
                dir = openat(&dir, part, PASS | FOLDER, Mode::empty())?;
            }
        }
        Ok(dir)
    }
}

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A folder in another, by a name that is one part of a path.
fn open(dir: impl AsFd, part: &str, how: OFlags) -> io::Result<OwnedFd> {
    plain(part)?;
    Ok(openat(dir, part, how | FOLDER, Mode::empty())?)
}

/// A new folder in another, with what its group may do.
fn made(dir: &OwnedFd, part: &str, shared: Mode, ignored: bool) -> io::Result<OwnedFd> {
    match mkdirat(dir, part, Mode::RWXU) {
        Ok(()) => {}
        // Somebody was quicker: what it is shows when it is opened.
        Err(Errno::EXIST) => return open(dir, part, OFlags::RDONLY),
        Err(error) => return Err(error.into()),
    }
    let new = open(dir, part, OFlags::RDONLY)?;
    let inherited = Mode::from_raw_mode(fstat(&new)?.st_mode) & Mode::SGID;
    fchmod(&new, Mode::RWXU | shared | inherited)?;
    if ignored {
        let (file, text) = IGNORE;
        Folder::new(new.try_clone()?, shared & (Mode::RGRP | Mode::WGRP), 0).put(file, text.as_bytes(), None)?;
    }
    Ok(new)
}

/// Refuses what is more than one part of a path, or none.
fn plain(part: &str) -> io::Result<()> {
    if part.is_empty() || part == "." || part == ".." || part.contains(['/', '\0']) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(())
}
