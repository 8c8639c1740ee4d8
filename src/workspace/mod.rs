//! Directory in which agents and people find documents as files, and which no write leaves.
//!
//! No byte is written outside of the directory, no file that has changed in the meantime is overwritten, and no pipe is
//! waited for.
//!
//! Any program that may write in the directory may put links, pipes and other folders there at any moment. So the
//! directory's own path is resolved once, when the service starts. From then on every part of every path is opened by
//! itself, relative to the one before it, and only if it is a folder and no link (`O_NOFOLLOW`, `O_DIRECTORY`). An
//! opened folder stays the same, even if its path is replaced afterwards. Files are written under another name, and
//! exchanged with the present file in one step ([`Folder::put`]); a link in that place is replaced, never followed.
//!
//! The group has the same permissions on new files and folders as on the folder around them; others have none. Where an
//! agent runs as another user, a common group and `chmod g+rwxs` of the directory let it write.

mod folder;
#[cfg(test)]
mod tests;

use std::{
    collections::HashSet,
    io,
    path::{Component, Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fchmod, fstat, mkdirat, openat, statat, unlinkat},
    io::Errno,
};

pub use folder::{FileContent, Folder, FolderEntry, Mark, digest};

/// Number of parts at the end of a folder's path that are made where they are missing.
const MADE: usize = 2;
/// Most places that are remembered.
const MOST_PLACES: usize = 10_000;
/// Deepest nesting of a folder that is emptied.
const DEEPEST: usize = 64;
/// File that keeps a new folder out of commits.
const IGNORE: (&str, &str) = (".gitignore", "*\n");

/// Flags to open a folder on the way: passing through needs no permission to list it.
#[cfg(target_os = "linux")]
const PASS: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const PASS: OFlags = OFlags::RDONLY;

/// Directory in which files are kept. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// Path without links, resolved at the start.
    root: PathBuf,
    /// Device and inode of the directory at the start.
    is: (i128, i128),
    /// Places that have existed once.
    had: Arc<Mutex<HashSet<String>>>,
    /// Most bytes of a file that are read.
    most: u64,
}

impl Workspace {
    /// Opens a directory; no more than so many bytes of each file are read.
    ///
    /// # Errors
    /// It is no directory, or may not be entered.
    pub fn open(path: &Path, most: u64) -> io::Result<Self> {
        let root = path.canonicalize()?;
        let is = which(&fstat(enter(&root)?)?);
        Ok(Self { root, is, had: Arc::default(), most })
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// True if the parent of a folder exists.
    ///
    /// # Errors
    /// A part of the path is no folder, the place existed and is gone, or the system refuses.
    pub fn has_place(&self, path: &str) -> io::Result<bool> {
        match self.place(&path.split('/').collect::<Vec<_>>()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            place => place.map(|_| true),
        }
    }

    /// Opens the part of a path in which nothing is made. A place that never existed may be another workspace's; one
    /// that existed before is missing.
    fn place(&self, parts: &[&str]) -> io::Result<OwnedFd> {
        let mut dir = self.enter()?;
        let place = &parts[..parts.len().saturating_sub(MADE)];
        let had = || self.had.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, part) in place.iter().enumerate() {
            dir = match open(&dir, part, PASS) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && had().contains(&place.join("/")) => {
                    let problem = format!("the folder {} was removed", place[..=at].join("/"));
                    return Err(io::Error::new(io::ErrorKind::NotADirectory, problem));
                }
                opened => opened.map_err(|error| in_words(&dir, &place[..=at], error))?,
            };
        }
        if !place.is_empty() && had().len() < MOST_PLACES {
            had().insert(place.join("/"));
        }
        Ok(dir)
    }

    /// Opens a folder. The last two parts of its path are made where they are missing, if `make` says so.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] where a part is missing that may be; others where one is no folder, or the system
    /// refuses.
    pub fn folder(&self, path: &str, make: bool) -> io::Result<Folder> {
        let parts: Vec<&str> = path.split('/').collect();
        let mut dir = self.place(&parts)?;
        let shared = Mode::from_raw_mode(fstat(&dir)?.st_mode) & Mode::RWXG;
        for (at, part) in parts.iter().enumerate().skip(parts.len().saturating_sub(MADE)) {
            let opened = match open(&dir, part, OFlags::RDONLY) {
                Err(error) if make && error.kind() == io::ErrorKind::NotFound => {
                    made(&dir, part, shared, parts.len() - at == MADE)
                }
                opened => opened,
            };
            dir = opened.map_err(|error| in_words(&dir, &parts[..=at], error))?;
        }
        Ok(Folder::new(dir, shared & (Mode::RGRP | Mode::WGRP), self.most))
    }

    /// Removes a folder with its contents; true if there was one. Links are removed, their targets stay.
    ///
    /// # Errors
    /// The system refuses, or folders are nested too deep.
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
        empty(&dir, DEEPEST)?;
        match unlinkat(&parent, last, AtFlags::REMOVEDIR) {
            // New files came in the meantime: the caller tries again.
            Ok(()) | Err(Errno::NOTEMPTY) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the directory itself. An empty one in its place is refused: its file system may not be mounted.
    fn enter(&self) -> io::Result<OwnedFd> {
        let fault = |why: String| io::Error::other(format!("the workspace {} {why}", self.root.display()));
        let dir = enter(&self.root).map_err(|error| fault(format!("cannot be opened: {error}")))?;
        let names = || Dir::read_from(&dir).into_iter().flatten().flatten();
        let is_other = which(&fstat(&dir)?) != self.is;
        if is_other && names().all(|entry| matches!(entry.file_name().to_bytes(), b"." | b"..")) {
            return Err(fault(
                "was replaced by an empty directory since the start: is its file system mounted?".to_owned(),
            ));
        }
        Ok(dir)
    }
}

/// Opens a directory by its resolved path: a link that was put into that path later is not followed.
fn enter(root: &Path) -> io::Result<OwnedFd> {
    let mut dir = openat(CWD, "/", PASS | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    for part in root.components() {
        if let Component::Normal(part) = part {
            dir = openat(&dir, part, PASS | FOLDER, Mode::empty())?;
        }
    }
    Ok(dir)
}

fn which(found: &Stat) -> (i128, i128) {
    (found.st_dev.into(), found.st_ino.into())
}

/// Removes the contents of a folder.
fn empty(dir: &OwnedFd, deepest: usize) -> io::Result<()> {
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            // Errors that systems return for folders.
            Err(Errno::ISDIR | Errno::PERM) if deepest > 0 => {
                empty(&openat(dir, name, OFlags::RDONLY | FOLDER, Mode::empty())?, deepest - 1)?;
                unlinkat(dir, name, AtFlags::REMOVEDIR)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Describes the fault of the last part of a path, which is no folder.
fn in_words(dir: &OwnedFd, parts: &[&str], error: io::Error) -> io::Error {
    let last = parts.last().copied().unwrap_or_default();
    let found = statat(dir, last, AtFlags::SYMLINK_NOFOLLOW).map(|found| FileType::from_raw_mode(found.st_mode));
    let why = match found {
        Ok(FileType::Symlink) => "is a symbolic link, which is not followed".to_owned(),
        Ok(FileType::Directory) => format!("cannot be opened: {error}"),
        Ok(_) => "is not a folder".to_owned(),
        Err(_) => return error,
    };
    io::Error::new(error.kind(), format!("{} {why}", parts.join("/")))
}

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a folder in another, by a name that is one part of a path.
fn open(dir: impl AsFd, part: &str, how: OFlags) -> io::Result<OwnedFd> {
    plain(part)?;
    Ok(openat(dir, part, how | FOLDER, Mode::empty())?)
}

/// Makes a folder in another, with these permissions of its group.
fn made(dir: &OwnedFd, part: &str, shared: Mode, ignored: bool) -> io::Result<OwnedFd> {
    match mkdirat(dir, part, Mode::RWXU) {
        Ok(()) => {}
        // Another process was quicker: opening it shows its kind.
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

/// Refuses a name that is not exactly one part of a path.
fn plain(part: &str) -> io::Result<()> {
    if part.is_empty() || part == "." || part == ".." || part.contains(['/', '\0']) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(())
}
