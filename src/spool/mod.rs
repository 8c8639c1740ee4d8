//! Spool: lines of JSON that wait on the local disk for the database, durable before they are acknowledged.
//!
//! A process appends to segments of its own, and holds a lock while it lives. Segments of a process that is gone are
//! taken over under its lock. A segment is read once it takes no more lines, and removed when all of it is filed. An
//! interrupted filing is repeated, so filing must be idempotent. Unreadable lines are set aside for a person.

mod segment;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use uuid::Uuid;

use self::segment::encode;
pub use self::segment::{Segment, SegmentLine, decode, erase};

/// Size at which a segment is full, in bytes.
const SEGMENT_BYTES: u64 = 8 * 1024 * 1024;
/// Name of the file of lines that were set aside.
const ASIDE: &str = "refused";
/// Name of the file that tests whether the folder can be written.
const PROBE: &str = "probe";

/// Folder of segments.
#[derive(Debug)]
pub struct Spool {
    dir: PathBuf,
    max_bytes: u64,
    state: Mutex<SpoolState>,
}

#[derive(Debug)]
struct SpoolState {
    /// Id of this process, the prefix of its files.
    owner: String,
    /// Locks of this process and of those whose segments it has taken over, by owner.
    locks: BTreeMap<String, File>,
    /// Segment that is being written.
    open: Option<OpenSegment>,
    /// Number of segments that this process has begun.
    begun: u32,
}

/// Segment that takes lines.
#[derive(Debug)]
struct OpenSegment {
    path: PathBuf,
    file: File,
    len: u64,
}

impl OpenSegment {
    /// True if its file is where it was made: the folder may have been moved away.
    fn is_in_place(&self) -> bool {
        let identity = |found: io::Result<fs::Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
        identity(fs::metadata(&self.path)) == identity(self.file.metadata())
    }
}

/// Files of a folder, by owner: segments in order, and whether there is a lock.
type Listing = BTreeMap<String, (Vec<PathBuf>, bool)>;

impl Spool {
    /// Returns a spool in `dir`, which is made when it is first written to. `owner` is unique to this process.
    pub fn new(dir: &Path, max_bytes: u64, owner: Uuid) -> Self {
        let owner = owner.simple().to_string();
        let state = SpoolState { owner, locks: BTreeMap::new(), open: None, begun: 0 };
        Self { dir: dir.to_owned(), max_bytes, state: Mutex::new(state) }
    }

    /// Returns the folder of the spool.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn state(&self) -> MutexGuard<'_, SpoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends lines durably, all or none.
    ///
    /// # Errors
    /// The folder is full, or cannot be written.
    pub fn append(&self, lines: &[Vec<u8>]) -> io::Result<()> {
        let text = encode(lines);
        let mut state = self.state();
        if self.bytes() + text.len() as u64 > self.max_bytes {
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, "the spool is full"));
        }
        let mut open = match state.open.take() {
            Some(open) if open.is_in_place() => open,
            Some(_) => {
                let SpoolState { owner, locks, .. } = &mut *state;
                locks.remove(owner);
                self.begin_segment(&mut state)?
            }
            None => self.begin_segment(&mut state)?,
        };
        let written = open.file.write_all(&text).and_then(|()| open.file.sync_data());
        if let Err(error) = written {
            // The caller is told that nothing was written. What reached the disk is unknown: the segment takes no more
            // lines.
            drop(open.file.set_len(open.len));
            return Err(error);
        }
        open.len += text.len() as u64;
        state.open = (open.len < SEGMENT_BYTES).then_some(open);
        Ok(())
    }

    fn begin_segment(&self, state: &mut SpoolState) -> io::Result<OpenSegment> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        if !state.locks.contains_key(&state.owner) {
            let lock = self.lock_file(&state.owner)?;
            lock.try_lock()?;
            state.locks.insert(state.owner.clone(), lock);
        }
        let path = self.dir.join(format!("{}-{:08}.log", state.owner, state.begun));
        state.begun += 1;
        let file = OpenOptions::new().create_new(true).append(true).mode(0o600).open(&path)?;
        // A new file survives a crash only if its folder is synced.
        File::open(&self.dir)?.sync_all()?;
        Ok(OpenSegment { path, file, len: 0 })
    }

    fn lock_path(&self, owner: &str) -> PathBuf {
        self.dir.join(format!("{owner}.lock"))
    }

    fn lock_file(&self, owner: &str) -> io::Result<File> {
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(self.lock_path(owner))
    }

    /// Takes over the segments of processes that are gone; returns their paths, in order.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub fn take_over(&self) -> io::Result<Vec<PathBuf>> {
        let mut state = self.state();
        let mut taken = Vec::new();
        for (owner, (segments, _)) in list(&self.dir)? {
            // This process's own lock is among them if its folder was moved away and is back.
            if state.locks.contains_key(&owner) {
                continue;
            }
            let lock = self.lock_file(&owner)?;
            match lock.try_lock() {
                Ok(()) if segments.is_empty() => remove(&self.lock_path(&owner))?,
                Ok(()) => {
                    state.locks.insert(owner, lock);
                    taken.extend(segments);
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(taken)
    }

    /// Returns the oldest segment of this process and of those that it has taken over, which takes no more lines from
    /// now on; none where there is none, or while an erasure holds it.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn next(&self) -> io::Result<Option<Segment>> {
        let mut state = self.state();
        for (owner, (segments, _)) in list(&self.dir)? {
            if !state.locks.contains_key(&owner) {
                continue;
            }
            // Only the last one is open.
            if owner == state.owner && segments.len() == 1 {
                state.open = None;
            }
            if let Some(path) = segments.into_iter().next() {
                return Segment::open(path, self.dir.join(ASIDE), self.max_bytes);
            }
            if owner != state.owner {
                remove(&self.lock_path(&owner))?;
                state.locks.remove(&owner);
            }
        }
        Ok(None)
    }

    /// True if there are segments of this process, or of those that it has taken over.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn holds_segments(&self) -> io::Result<bool> {
        let state = self.state();
        let listing = list(&self.dir)?;
        Ok(listing.iter().any(|(owner, (segments, _))| state.locks.contains_key(owner) && !segments.is_empty()))
    }

    /// Returns the number of bytes that wait in the folder, of any process.
    pub fn bytes(&self) -> u64 {
        bytes_in(&self.dir)
    }

    /// True if lines were set aside and have not been moved away.
    pub fn holds_refused(&self) -> bool {
        holds_refused(&self.dir)
    }

    /// Tests whether the folder can be written.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn probe(&self) -> io::Result<()> {
        let path = self.dir.join(PROBE);
        let probed = DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).and_then(|()| {
            let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&path)?;
            file.write_all(&[b' '; 4096])?;
            file.sync_all()
        });
        drop(fs::remove_file(path));
        probed
    }
}

/// Returns the segments of a folder in order, of any process; none where there is no folder.
///
/// # Errors
/// The folder cannot be read.
pub fn segments_in(dir: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(list(dir)?.into_values().flat_map(|(segments, _)| segments).collect())
}

/// Returns the number of bytes that wait in a folder, of any process.
pub fn bytes_in(dir: &Path) -> u64 {
    let len = |path: PathBuf| fs::metadata(path).map_or(0, |found| found.len());
    segments_in(dir).unwrap_or_default().into_iter().map(len).sum()
}

/// True if lines of a folder were set aside and have not been moved away.
pub fn holds_refused(dir: &Path) -> bool {
    dir.join(ASIDE).exists()
}

/// Returns the owners in a folder that are gone and left segments.
///
/// # Errors
/// The folder cannot be read.
pub fn abandoned_in(dir: &Path) -> io::Result<BTreeSet<String>> {
    let mut gone = BTreeSet::new();
    for (owner, (segments, locked)) in list(dir)? {
        let held = || {
            let lock = File::open(dir.join(format!("{owner}.lock")))?;
            Ok::<_, io::Error>(matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
        };
        let is_held = locked && held()?;
        if !segments.is_empty() && !is_held {
            gone.insert(owner);
        }
    }
    Ok(gone)
}

fn list(dir: &Path) -> io::Result<Listing> {
    let mut listing = Listing::new();
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(listing),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if let Some(owner) = name.strip_suffix(".lock") {
            listing.entry(owner.to_owned()).or_default().1 = true;
        } else if let Some((owner, _)) = name.strip_suffix(".log").and_then(|name| name.split_once('-')) {
            listing.entry(owner.to_owned()).or_default().0.push(path);
        }
    }
    for (segments, _) in listing.values_mut() {
        segments.sort();
    }
    Ok(listing)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
