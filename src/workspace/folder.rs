//! One folder of a workspace: reads its files, and writes them without losing concurrent changes.
//!
//! Beside each file `todo.md` that was written here lies its mark `.todo.md.exported`, with the state that was written.
//! The file's bytes alone show whether it has changed since; times of files differ between machines, and may be set.
//! The mark lies beside the file, so it is moved, copied and removed together with it.

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

/// Most files of a folder that are read.
const MOST_FILES: usize = 256;
/// Most names of a folder that are read to find them.
const MOST_NAMES: usize = 10_000;
/// Most bytes of a mark.
const MOST_MARK: u64 = 64;

/// Returns the digest of a text: the first half of its BLAKE3 in hexadecimal digits, like documents' etags.
pub fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().chars().take(32).collect()
}

/// State of a document that was written to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Version of the document.
    pub version: i32,
    /// [`digest`] of its text.
    pub digest: String,
}

impl Mark {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (version, digest) = std::str::from_utf8(bytes).ok()?.trim_end().split_once(' ')?;
        let is_digest = digest.len() == 32 && digest.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
        Some(Self { version: version.parse().ok()?, digest: is_digest.then(|| digest.to_owned())? })
    }
}

/// Content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileContent {
    /// Bytes of the file.
    Bytes(Vec<u8>),
    /// The file is larger than the limit.
    Large,
    /// The file is not read: a link, a pipe, a folder, a file with several names, or one without permission. The text
    /// says which.
    Other(&'static str),
}

/// File of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderEntry {
    /// Name of the file.
    pub name: String,
    /// Content of the file.
    pub content: FileContent,
    /// State that was last written to it.
    pub mark: Option<Mark>,
    /// Time of its last change, by its file system.
    pub modified: Timestamp,
}

/// Open folder: it stays this one, even if its path is replaced.
#[derive(Debug)]
pub struct Folder {
    dir: OwnedFd,
    /// Permissions of the group on files.
    shared: Mode,
    /// Most bytes of a file that are read.
    most: u64,
}

impl Folder {
    pub(super) fn new(dir: OwnedFd, shared: Mode, most: u64) -> Self {
        Self { dir, shared, most }
    }

    /// Returns the files whose names are wanted, by name.
    ///
    /// # Errors
    /// The folder cannot be read, or has too many files.
    pub fn read_files(&self, wanted: fn(&str) -> bool) -> io::Result<Vec<FolderEntry>> {
        let mut names = Vec::new();
        for (count, entry) in Dir::read_from(&self.dir)?.enumerate() {
            let entry = entry?;
            if count >= MOST_NAMES || names.len() > MOST_FILES {
                let problem = "the folder has too many files";
                return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
            }
            names.extend(entry.file_name().to_str().ok().filter(|name| wanted(name)).map(ToOwned::to_owned));
        }
        names.sort_unstable();
        let mut entries = Vec::new();
        for name in names {
            // The mark is read first: the file is then never older than its mark.
            let mark = match self.read(&marked(&name), MOST_MARK)? {
                Some(FileContent::Bytes(bytes)) => Mark::parse(&bytes),
                _ => None,
            };
            let modified = self.modified(&name);
            if let Some(content) = self.read(&name, self.most)? {
                entries.push(FolderEntry { name, content, mark, modified });
            }
        }
        Ok(entries)
    }

    /// Writes a text to a file, in place of the one with this digest, or where there is no file. Returns `false` and
    /// changes nothing if the file has other content by then.
    ///
    /// # Errors
    /// The system refuses: the file is unchanged.
    pub fn put(&self, file: &str, bytes: &[u8], over: Option<&str>) -> io::Result<bool> {
        plain(file)?;
        // Two servers do not do this at the same time, where the file system has such locks.
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
            (Some(FileContent::Bytes(there)), Some(expected)) if digest(&there) == expected => Some(expected),
            _ => return Ok(false),
        };
        let new = self.beside(file, bytes, self.may(file))?;
        let Some(expected) = expected else { return self.place(&new, file) };
        match renameat_with(&self.dir, &*new, &self.dir, file, RenameFlags::EXCHANGE) {
            // Both files exist, each under the other's name: the replaced one is checked again where no other writer
            // reaches it.
            Ok(()) if self.says(&new, expected) => {
                self.discard(&new);
                Ok(true)
            }
            Ok(()) => {
                self.give_back(&new, file)?;
                // A change made in this moment is kept under the hidden name.
                if self.says(&new, &digest(bytes)) {
                    self.discard(&new);
                }
                Ok(false)
            }
            Err(Errno::NOENT) => self.place(&new, file),
            // A network file system may lack the operation: a change in this very moment is lost there.
            Err(error) if is_unknown(error) && self.says(file, expected) => self.replace(&new, file).map(|()| true),
            Err(error) => {
                self.discard(&new);
                if is_unknown(error) { Ok(false) } else { Err(error.into()) }
            }
        }
    }

    /// Records the state that was written to a file.
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

    /// Returns the time of a file's last change; 1970 where it is unknown.
    fn modified(&self, name: &str) -> Timestamp {
        let found = statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW).ok();
        found.and_then(|found| Timestamp::from_second(found.st_mtime).ok()).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Returns the group's permissions on a file: no more than its present ones, if it exists.
    fn may(&self, file: &str) -> Mode {
        let found = statat(&self.dir, file, AtFlags::SYMLINK_NOFOLLOW);
        found.map_or(self.shared, |found| self.shared & Mode::from_raw_mode(found.st_mode))
    }

    /// Renames a file of any kind within the folder, without reading or changing it.
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

    /// Reads a file; `None` where there is none. No link is followed, and only plain files are opened.
    fn read(&self, name: &str, most: u64) -> io::Result<Option<FileContent>> {
        let not_plain = |kind: FileType, links: u64| match kind {
            FileType::RegularFile if links > 1 => Some("is a hard link to another file"),
            FileType::RegularFile => None,
            FileType::Symlink => Some("is a symbolic link"),
            FileType::Directory => Some("is a folder"),
            _ => Some("is not a regular file"),
        };
        let found = match statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(None),
            found => found?,
        };
        if let Some(why) = not_plain(FileType::from_raw_mode(found.st_mode), links(&found)) {
            return Ok(Some(FileContent::Other(why)));
        }
        // The file may have been replaced: its kind is checked again, and opening a pipe without a writer must not
        // block.
        let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match openat(&self.dir, name, how, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Ok(Some(FileContent::Other("is a symbolic link"))),
            Err(Errno::ACCESS | Errno::PERM) => {
                return Ok(Some(FileContent::Other("cannot be read by the server's user")));
            }
            file => file?,
        };
        let found = fstat(&file)?;
        if let Some(why) = not_plain(FileType::from_raw_mode(found.st_mode), links(&found)) {
            return Ok(Some(FileContent::Other(why)));
        }
        let mut bytes = Vec::new();
        File::from(file).take(most + 1).read_to_end(&mut bytes)?;
        Ok(Some(if bytes.len() as u64 > most { FileContent::Large } else { FileContent::Bytes(bytes) }))
    }

    /// Writes a file under an unused name, to be moved to its place. Its bytes are synced first: after a crash, an
    /// empty file would count as a change.
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

    /// Moves a new file to a place without a file.
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

    /// Puts the previous file back where it is not the expected one.
    fn give_back(&self, taken: &str, file: &str) -> io::Result<()> {
        match renameat_with(&self.dir, taken, &self.dir, file, RenameFlags::EXCHANGE) {
            // The file that lay there for this moment was removed.
            Err(Errno::NOENT) => Ok(renameat_with(&self.dir, taken, &self.dir, file, RenameFlags::NOREPLACE)?),
            given => Ok(given?),
        }
    }

    fn discard(&self, name: &str) {
        let _ = unlinkat(&self.dir, name, AtFlags::empty());
    }

    fn says(&self, name: &str, expected: &str) -> bool {
        matches!(self.read(name, self.most), Ok(Some(FileContent::Bytes(bytes))) if digest(&bytes) == expected)
    }
}

/// True if a file system does not support a kind of renaming.
fn is_unknown(error: Errno) -> bool {
    // Two of these are the same on Linux.
    [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP, Errno::NOTSUP].contains(&error)
}

#[expect(clippy::useless_conversion, reason = "it is narrower on other systems")]
fn links(found: &rustix::fs::Stat) -> u64 {
    found.st_nlink.into()
}

fn marked(file: &str) -> String {
    format!(".{file}.exported")
}
