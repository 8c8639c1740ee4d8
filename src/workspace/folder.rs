//! One folder of a workspace: its files are looked at, and written without losing what somebody else writes meanwhile.
//!
//! Beside each file `todo.md` that was written here lies its mark `.todo.md.exported`: which state it was given. Whether somebody
//! has changed the file since is told by its bytes alone; times of files differ between machines, and may be set. The mark lies
//! where the file lies, so it goes where the file goes: onto other machines, into copies, and away.

use std::{
    fs::File,
    io::{self, Read, Write},
};

use jiff::Timestamp;
use rustix::{
    fd::OwnedFd,
    fs::{
        AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags, fchmod, flock, fstat, openat, renameat,
        renameat_with, statat, unlinkat,
    },
    io::Errno,
};

use super::plain;

/// Most files of a folder that are looked at.
const MOST_FILES: usize = 256;
/// Most names of a folder that are read to find them.
const MOST_NAMES: usize = 10_000;
/// Most bytes of a mark.
const MOST_MARK: u64 = 64;

/// What a text is called: the first half of its BLAKE3 in hexadecimal digits, as documents' etags are.
pub fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().chars().take(32).collect()
}

/// Which state of a text a file was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Its number.
    pub version: i32,
    /// Its [`digest`].
    pub digest: String,
}

impl Mark {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (version, digest) = std::str::from_utf8(bytes).ok()?.trim_end().split_once(' ')?;
        let is_digest = digest.len() == 32 && digest.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
        Some(Self { version: version.parse().ok()?, digest: is_digest.then(|| digest.to_owned())? })
    }
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// These bytes.
    Bytes(Vec<u8>),
    /// More than is read.
    Large,
    /// It is none that is read: a link, a pipe, a folder, a file that has another name as well, or one that we may not read.
    Other(&'static str),
}

/// A file of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub content: Content,
    /// What it was given last.
    pub mark: Option<Mark>,
    /// When it was changed last, as its file system says.
    pub modified: Timestamp,
}

/// A folder that is open: whatever is put in its place, it stays this one.
#[derive(Debug)]
pub struct Folder {
    dir: OwnedFd,
    /// What the group may do with files.
    shared: Mode,
    /// Bytes of a file that are read.
    most: u64,
}

impl Folder {
    pub(super) fn new(dir: OwnedFd, shared: Mode, most: u64) -> Self {
        Self { dir, shared, most }
    }

    /// The files whose names are wanted, by name.
    ///
    /// # Errors
    /// The folder cannot be read, or holds too much.
    pub fn look(&self, wanted: fn(&str) -> bool) -> io::Result<Vec<Entry>> {
        let mut names = Vec::new();
        for (count, entry) in Dir::read_from(&self.dir)?.enumerate() {
            let entry = entry?;
            if count >= MOST_NAMES || names.len() > MOST_FILES {
                let problem = "there are too many files in the folder";
                return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
            }
            names.extend(entry.file_name().to_str().ok().filter(|name| wanted(name)).map(ToOwned::to_owned));
        }
        names.sort_unstable();
        let mut entries = Vec::new();
        for name in names {
            // The mark first: a file is never older than the mark that was read before it.
            let mark = match self.read(&marked(&name), MOST_MARK)? {
                Some(Content::Bytes(bytes)) => Mark::parse(&bytes),
                _ => None,
            };
            let modified = self.modified(&name);
            if let Some(content) = self.read(&name, self.most)? {
                entries.push(Entry { name, content, mark, modified });
            }
        }
        Ok(entries)
    }

    /// Gives a file a text, in place of the one with this digest, or where there is none. `false`, and nothing is done, where
    /// something else is there by then.
    ///
    /// # Errors
    /// The system refuses: what was there is there.
    pub fn put(&self, file: &str, bytes: &[u8], over: Option<&str>) -> io::Result<bool> {
        plain(file)?;
        // Two servers do not do this at a time, where the file system knows such locks.
        if flock(&self.dir, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Ok(false);
        }
        let placed = self.put_alone(file, bytes, over);
        let _ = flock(&self.dir, FlockOperation::Unlock);
        placed
    }

    fn put_alone(&self, file: &str, bytes: &[u8], over: Option<&str>) -> io::Result<bool> {
        let expected = match (self.read(file, self.most)?, over) {
            (None, _) => None,
            (Some(Content::Bytes(there)), Some(expected)) if digest(&there) == expected => Some(expected),
            _ => return Ok(false),
        };
        let new = self.beside(file, bytes, self.may(file))?;
        let Some(expected) = expected else { return self.place(&new, file) };
        match renameat_with(&self.dir, &*new, &self.dir, file, RenameFlags::EXCHANGE) {
            // Both are there, each under the other's name: what was replaced is looked at again when nobody reaches it there.
            Ok(()) if self.says(&new, expected) => {
                self.discard(&new);
                Ok(true)
            }
            Ok(()) => {
                self.give_back(&new, file)?;
                // Who changed even what lay there for this moment finds it under its hidden name.
                if self.says(&new, &digest(bytes)) {
                    self.discard(&new);
                }
                Ok(false)
            }
            Err(Errno::NOENT) => self.place(&new, file),
            // A network's file system may not know how: a change of this very moment is lost there.
            Err(error) if is_unknown(error) && self.says(file, expected) => self.replace(&new, file).map(|()| true),
            Err(error) => {
                self.discard(&new);
                if is_unknown(error) { Ok(false) } else { Err(error.into()) }
            }
        }
    }

    /// Notes which state a file was given.
    ///
    /// # Errors
    /// The system refuses.
    pub fn mark(&self, file: &str, mark: &Mark) -> io::Result<()> {
        plain(file)?;
        let marked = marked(file);
        let new = self.beside(&marked, format!("{} {}\n", mark.version, mark.digest).as_bytes(), self.shared)?;
        self.replace(&new, &marked)
            .map_err(|error| io::Error::new(error.kind(), format!("{marked} cannot be written: {error}")))
    }

    /// When a file was changed last; long ago where that is not to be had.
    fn modified(&self, name: &str) -> Timestamp {
        let found = statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW).ok();
        found.and_then(|found| Timestamp::from_second(found.st_mtime).ok()).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// What the group may do with a file: no more than somebody allowed who has made one of his own.
    fn may(&self, file: &str) -> Mode {
        let found = statat(&self.dir, file, AtFlags::SYMLINK_NOFOLLOW);
        found.map_or(self.shared, |found| self.shared & Mode::from_raw_mode(found.st_mode))
    }

    /// Gives a file another name in the same folder, whatever it is; nothing in it is read or changed.
    ///
    /// # Errors
    /// The system refuses.
    pub fn set_aside(&self, file: &str, name: &str) -> io::Result<()> {
        plain(file)?;
        plain(name)?;
        match renameat(&self.dir, file, &self.dir, name) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// What a file holds; `None` where there is none. No link is followed and nothing is opened that is no plain file.
    fn read(&self, name: &str, most: u64) -> io::Result<Option<Content>> {
        let not_plain = |kind: FileType, links: u64| match kind {
            FileType::RegularFile if links > 1 => Some("is the same file as another one (a hard link)"),
            FileType::RegularFile => None,
            FileType::Symlink => Some("is a link"),
            FileType::Directory => Some("is a folder"),
            _ => Some("is no plain file"),
        };
        let found = match statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(None),
            found => found?,
        };
        if let Some(why) = not_plain(FileType::from_raw_mode(found.st_mode), links(&found)) {
            return Ok(Some(Content::Other(why)));
        }
        // It may be another one by now: it is asked again what it is, and a pipe that nobody writes to holds up nobody.
        let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match openat(&self.dir, name, how, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Ok(Some(Content::Other("is a link"))),
            Err(Errno::ACCESS | Errno::PERM) => return Ok(Some(Content::Other("may not be read by the server"))),
            file => file?,
        };
        let found = fstat(&file)?;
        if let Some(why) = not_plain(FileType::from_raw_mode(found.st_mode), links(&found)) {
            return Ok(Some(Content::Other(why)));
        }
        let mut bytes = Vec::new();
        File::from(file).take(most + 1).read_to_end(&mut bytes)?;
        Ok(Some(if bytes.len() as u64 > most { Content::Large } else { Content::Bytes(bytes) }))
    }

    /// Writes a file under a name that nobody has, for the one that is to get its place; its bytes are on the disk first, so
    /// that no crash leaves an empty one, which would count as a change.
    fn beside(&self, file: &str, bytes: &[u8], shared: Mode) -> io::Result<String> {
        let new = format!(".{}.{:08x}", file.trim_start_matches('.'), rand::random::<u32>());
        let how = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(&self.dir, &*new, how, Mode::RUSR | Mode::WUSR)?;
        let written = fchmod(&opened, Mode::RUSR | Mode::WUSR | shared).map_err(io::Error::from).and_then(|()| {
            let mut file = File::from(opened);
            file.write_all(bytes)?;
            file.sync_data()
        });
        written.inspect_err(|_| self.discard(&new))?;
        Ok(new)
    }

    /// Gives a file that was written beside a place that nobody has.
    fn place(&self, new: &str, file: &str) -> io::Result<bool> {
        match renameat_with(&self.dir, new, &self.dir, file, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(true),
            Err(error) if is_unknown(error) && matches!(self.read(file, 0), Ok(None)) => {
                self.replace(new, file).map(|()| true)
            }
            Err(error) => {
                self.discard(new);
                if error == Errno::EXIST || is_unknown(error) { Ok(false) } else { Err(error.into()) }
            }
        }
    }

    fn replace(&self, new: &str, file: &str) -> io::Result<()> {
        renameat(&self.dir, new, &self.dir, file).map_err(|error| {
            self.discard(new);
            error.into()
        })
    }

    /// Puts back what was there, where it is not what was expected.
    fn give_back(&self, taken: &str, file: &str) -> io::Result<()> {
        match renameat_with(&self.dir, taken, &self.dir, file, RenameFlags::EXCHANGE) {
            // Somebody has removed what lay there for this moment.
            Err(Errno::NOENT) => Ok(renameat_with(&self.dir, taken, &self.dir, file, RenameFlags::NOREPLACE)?),
            given => Ok(given?),
        }
    }

    fn discard(&self, name: &str) {
        let _ = unlinkat(&self.dir, name, AtFlags::empty());
    }

    fn says(&self, name: &str, expected: &str) -> bool {
        matches!(self.read(name, self.most), Ok(Some(Content::Bytes(bytes))) if digest(&bytes) == expected)
    }
}

/// Whether a file system does not know a kind of renaming.
fn is_unknown(error: Errno) -> bool {
    // Two of them are one on Linux.
    [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP, Errno::NOTSUP].contains(&error)
}

#[expect(clippy::useless_conversion, reason = "it is narrower on other systems")]
fn links(found: &rustix::fs::Stat) -> u64 {
    found.st_nlink.into()
}

fn marked(file: &str) -> String {
    format!(".{file}.exported")
}
