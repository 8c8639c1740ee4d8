//! The audit as JSON Lines files: one line per row, in order of row numbers. Rows are appended to `audit.jsonl`; a full
//! file is renamed `audit-N.jsonl`, where N is its last row. No file is ever removed: to free space, move full ones
//! away.
//!
//! The file itself tells how far it was written. A line torn by a crash is cut off and written again, so no line is
//! lost or doubled.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;

use super::record_json::ERASABLE;

/// Name of the file that is appended to.
pub(super) const FILE: &str = "audit.jsonl";
/// Name of the lock file, held by the one process that writes.
const LOCK: &str = "lock";

/// Writer of the audit files of one folder.
#[derive(Debug)]
pub struct Journal {
    dir: PathBuf,
    max_bytes: u64,
    _lock: File,
    open: Option<OpenAuditFile>,
}

#[derive(Debug)]
struct OpenAuditFile {
    file: File,
    len: u64,
    last: i64,
}

impl OpenAuditFile {
    /// True if the file at this path is still the open one, with the length that we left.
    fn is_at(&self, path: &Path) -> bool {
        let (Ok(there), Ok(ours)) = (fs::metadata(path), self.file.metadata()) else { return false };
        (there.dev(), there.ino(), there.len()) == (ours.dev(), ours.ino(), self.len)
    }
}

/// Members that identify a line.
#[derive(Deserialize)]
pub(super) struct LineHeader {
    pub seq: i64,
    #[serde(default)]
    agent: Option<String>,
}

impl Journal {
    /// Locks this folder for writing; `None` while another process holds the lock. A file is rotated before it exceeds
    /// `max_bytes`.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn open(dir: &Path, max_bytes: u64) -> io::Result<Option<Self>> {
        fs::create_dir_all(dir)?;
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(dir.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(Self { dir: dir.to_owned(), max_bytes, _lock: lock, open: None })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Number of the last row that was written whole; 0 before the first.
    ///
    /// # Errors
    /// The file cannot be read or opened.
    pub fn last(&mut self) -> io::Result<i64> {
        // A file that was cut, emptied or moved is read anew: rows missing from its end are written again.
        let path = self.dir.join(FILE);
        self.open = self.open.take().filter(|open| open.is_at(&path));
        Ok(self.opened()?.last)
    }

    /// Appends numbered rows, durably.
    ///
    /// # Errors
    /// A file cannot be written. Some lines may have been; [`Journal::last`] tells how far.
    pub fn append(&mut self, lines: &[(i64, Value)]) -> io::Result<()> {
        let written = self.try_append(lines);
        if written.is_err() {
            self.open = None;
        }
        written
    }

    fn try_append(&mut self, lines: &[(i64, Value)]) -> io::Result<()> {
        let mut waiting = Vec::new();
        let max_bytes = self.max_bytes;
        for (seq, line) in lines {
            let mut text = serde_json::to_vec(line)?;
            text.push(b'\n');
            let open = self.opened()?;
            if open.len > 0 && open.len + text.len() as u64 > max_bytes {
                open.file.write_all(&waiting)?;
                waiting.clear();
                self.rotate()?;
            }
            let open = self.opened()?;
            open.len += text.len() as u64;
            open.last = *seq;
            waiting.append(&mut text);
        }
        let open = self.opened()?;
        open.file.write_all(&waiting)?;
        open.file.sync_data()
    }

    fn rotate(&mut self) -> io::Result<()> {
        let Some(full) = self.open.take() else { return Ok(()) };
        full.file.sync_data()?;
        fs::rename(self.dir.join(FILE), self.dir.join(format!("audit-{:019}.jsonl", full.last)))?;
        File::open(&self.dir)?.sync_all()?;
        let file = self.file()?;
        self.open = Some(OpenAuditFile { file, len: 0, last: full.last });
        Ok(())
    }

    fn file(&self) -> io::Result<File> {
        OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(self.dir.join(FILE))
    }

    fn opened(&mut self) -> io::Result<&mut OpenAuditFile> {
        if self.open.is_none() {
            let file = self.file()?;
            let (len, seq) = whole(&file)?;
            file.set_len(len)?;
            let last = match seq {
                Some(seq) => seq,
                None => full(&self.dir)?.iter().filter_map(|path| last_of(path)).max().unwrap_or(0),
            };
            self.open = Some(OpenAuditFile { file, len, last });
        }
        self.open.as_mut().ok_or_else(|| io::Error::other("the file is not open"))
    }
}

/// Returns the file's length up to the end of its last whole line, and the row number of that line.
fn whole(file: &File) -> io::Result<(u64, Option<i64>)> {
    let mut len = file.metadata()?.len();
    let mut tail = Vec::new();
    let mut reader = file;
    // Read backwards in growing pieces, until a whole line is found.
    let mut piece = 64 * 1024;
    while len > 0 {
        let from = len.saturating_sub(piece);
        reader.seek(SeekFrom::Start(from))?;
        tail.clear();
        reader.take(len - from).read_to_end(&mut tail)?;
        let end = tail.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
        let start = end.and_then(|end| tail.get(..end - 1)?.iter().rposition(|byte| *byte == b'\n'));
        match (end, start) {
            (Some(end), start) if start.is_some() || from == 0 => {
                let line = tail.get(start.map_or(0, |at| at + 1)..end).unwrap_or_default();
                if let Ok(LineHeader { seq, .. }) = serde_json::from_slice(line) {
                    return Ok((from + end as u64, Some(seq)));
                }
                // Not a line of the audit: go on with the one before.
                len = from + start.map_or(0, |at| at as u64 + 1);
            }
            (_, _) if from == 0 => return Ok((0, None)),
            _ => piece *= 4,
        }
    }
    Ok((0, None))
}

/// Lists the full files of a folder, in order.
pub(super) fn full(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if last_of(&path).is_some() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Last row of a full file, by its name.
pub(super) fn last_of(path: &Path) -> Option<i64> {
    path.file_name()?.to_str()?.strip_prefix("audit-")?.strip_suffix(".jsonl")?.parse().ok()
}

/// Removes the payload from an agent's rows in the files of a folder, or only counts those rows. Lines keep their
/// length, so a process that appends to the same file is not disturbed. Returns the number of rows.
///
/// # Errors
/// A file cannot be read or written. Calling it again continues.
pub fn erase(dir: &Path, agent: &str, count_only: bool) -> io::Result<u64> {
    if !dir.is_dir() {
        return Ok(0);
    }
    let mut erased = 0;
    for path in full(dir)?.into_iter().chain([dir.join(FILE)]) {
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened?,
        };
        let mut reader = BufReader::new(&file);
        let (mut at, mut line) = (0, Vec::new());
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line)?;
            if read == 0 || line.last() != Some(&b'\n') {
                break;
            }
            if let Some(blank) = without_payload(&line, agent) {
                erased += 1;
                if !count_only {
                    file.write_all_at(&blank, at)?;
                }
            }
            at += read as u64;
        }
        if !count_only {
            file.sync_data()?;
        }
    }
    Ok(erased)
}

/// Blanks a line: removes erasable members and keeps the length. None for another agent's line, or without such
/// members.
fn without_payload(line: &[u8], agent: &str) -> Option<Vec<u8>> {
    let known: LineHeader = serde_json::from_slice(line).ok()?;
    if known.agent.as_deref() != Some(agent) {
        return None;
    }
    let Ok(Value::Object(mut members)) = serde_json::from_slice(line) else { return None };
    let before = members.len();
    members.retain(|key, _| !ERASABLE.contains(&key.as_str()));
    if members.len() == before {
        return None;
    }
    members.insert("erased".to_owned(), Value::Bool(true));
    let mut blank = serde_json::to_vec(&members).ok()?;
    // The removed members are longer than the mark: arguments come with their hash.
    blank.resize(line.len().saturating_sub(1).max(blank.len()), b' ');
    blank.push(b'\n');
    (blank.len() == line.len()).then_some(blank)
}
