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

pub use folder::{Content, Entry, Folder, Mark, digest};

/// Parts at the end of a folder's path that are made where they are missing.
const MADE: usize = 2;
/// Places that are remembered.
const MOST_PLACES: usize = 10_000;
/// How deep a folder is emptied.
const DEEPEST: usize = 64;
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
    /// Which directory that was: its device and its number.
    is: (i128, i128),
    /// Places in it that were there once.
    had: Arc<Mutex<HashSet<String>>>,
    /// Bytes of a file that are read.
    most: u64,
}

impl Workspace {
    /// A directory that is there; of its files no more than so many bytes are read.
    ///
    /// # Errors
    /// It is none, or may not be passed.
    pub fn open(path: &Path, most: u64) -> io::Result<Self> {
        let root = path.canonicalize()?;
        let is = which(&fstat(enter(&root)?)?);
        Ok(Self { root, is, had: Arc::default(), most })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Whether it has the place in which a folder is, or would be made.
    ///
    /// # Errors
    /// A part of the path is no folder, the place was there and is gone, or the system refuses.
    pub fn has_place(&self, path: &str) -> io::Result<bool> {
        match self.place(&path.split('/').collect::<Vec<_>>()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            place => place.map(|_| true),
        }
    }

    /// The folder of a path that nothing is made of. One that never was there may be another workspace's; one that was is missing.
    fn place(&self, parts: &[&str]) -> io::Result<OwnedFd> {
        let mut dir = self.enter()?;
        let place = &parts[..parts.len().saturating_sub(MADE)];
        let had = || self.had.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, part) in place.iter().enumerate() {
            dir = match open(&dir, part, PASS) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && had().contains(&place.join("/")) => {
                    let problem = format!("{} was there and is gone", place[..=at].join("/"));
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

    /// A folder in it. The last two parts of its path are made where they are missing, if `make` says so.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] where a part is missing that may be; others where one is no folder, or the system refuses.
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

    /// Removes a folder with all that is in it; whether there was one. Links go, and what they lead to stays.
    ///
    /// # Errors
    /// The system refuses, or there are folders in folders without end.
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
            // Somebody was at it: it is looked for again.
            Ok(()) | Err(Errno::NOTEMPTY) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// The directory itself. An empty one in its place is none: what was mounted there may be away.
    fn enter(&self) -> io::Result<OwnedFd> {
        let fault = |why: String| io::Error::other(format!("the workspace {} {why}", self.root.display()));
        let dir = enter(&self.root).map_err(|error| fault(format!("cannot be opened: {error}")))?;
        let names = || Dir::read_from(&dir).into_iter().flatten().flatten();
        let is_other = which(&fstat(&dir)?) != self.is;
        if is_other && names().all(|entry| matches!(entry.file_name().to_bytes(), b"." | b"..")) {
            return Err(fault("is another directory than at the start, and empty: is it mounted?".to_owned()));
        }
        Ok(dir)
    }
}

/// A directory by the path that it had: who puts a link into that path later leads nobody elsewhere.
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

/// Removes all that is in a folder.
fn empty(dir: &OwnedFd, deepest: usize) -> io::Result<()> {
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            // What systems say of folders.
            Err(Errno::ISDIR | Errno::PERM) if deepest > 0 => {
                empty(&openat(dir, name, OFlags::RDONLY | FOLDER, Mode::empty())?, deepest - 1)?;
                unlinkat(dir, name, AtFlags::REMOVEDIR)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// What is wrong with the last part of a path, which is no folder.
fn in_words(dir: &OwnedFd, parts: &[&str], error: io::Error) -> io::Error {
    let last = parts.last().copied().unwrap_or_default();
    let found = statat(dir, last, AtFlags::SYMLINK_NOFOLLOW).map(|found| FileType::from_raw_mode(found.st_mode));
    let why = match found {
        Ok(FileType::Symlink) => "is a link: links are not followed".to_owned(),
        Ok(FileType::Directory) => format!("cannot be opened: {error}"),
        Ok(_) => "is no folder".to_owned(),
        Err(_) => return error,
    };
    io::Error::new(error.kind(), format!("{} {why}", parts.join("/")))
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
