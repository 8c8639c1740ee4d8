//! The audit as files: one line of JSON a row, in the order of their numbers. `audit.jsonl` is written; a full one becomes
//! `audit-N.jsonl`, N being its last row. None is ever removed: whoever needs the room moves the full ones away.
//!
//! The file itself says how far it is. What a crash has torn is cut off and written again, so no line is lost or doubled.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;

use super::line::ERASABLE;

/// The file that is written.
pub(super) const FILE: &str = "audit.jsonl";
/// Held by the one process that writes.
const LOCK: &str = "lock";

/// Writes the files of one folder.
#[derive(Debug)]
pub struct Journal {
    dir: PathBuf,
    max_bytes: u64,
    _lock: File,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    len: u64,
    last: i64,
}

impl Open {
    /// Whether the file is still there as we left it.
    fn is_at(&self, path: &Path) -> bool {
        let (Ok(there), Ok(ours)) = (fs::metadata(path), self.file.metadata()) else { return false };
        (there.dev(), there.ino(), there.len()) == (ours.dev(), ours.ino(), self.len)
    }
}

/// What is read of a line to know it again.
#[derive(Deserialize)]
pub(super) struct Known {
    pub seq: i64,
    #[serde(default)]
    agent: Option<String>,
}

impl Journal {
    /// Takes the right to write in this folder; `None` while another process has it. A file is full before it holds more
    /// bytes than this.
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

    /// The number of the last row that is there whole; 0 before the first.
    ///
    /// # Errors
    /// The file cannot be read or opened.
    pub fn last(&mut self) -> io::Result<i64> {
        // Cut, emptied or taken away, it is looked at anew: what is missing from its end is written again.
        let path = self.dir.join(FILE);
        self.open = self.open.take().filter(|open| open.is_at(&path));
        Ok(self.opened()?.last)
    }

    /// Appends rows with their numbers, durably.
    ///
    /// # Errors
    /// A file cannot be written: some lines may be there; [`Journal::last`] tells.
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
        self.open = Some(Open { file, len: 0, last: full.last });
        Ok(())
    }

    fn file(&self) -> io::Result<File> {
        OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(self.dir.join(FILE))
    }

    fn opened(&mut self) -> io::Result<&mut Open> {
        if self.open.is_none() {
            let file = self.file()?;
            let (len, seq) = whole(&file)?;
            file.set_len(len)?;
            let last = match seq {
                Some(seq) => seq,
                None => full(&self.dir)?.iter().filter_map(|path| last_of(path)).max().unwrap_or(0),
            };
            self.open = Some(Open { file, len, last });
        }
        self.open.as_mut().ok_or_else(|| io::Error::other("the file is not open"))
    }
}

/// How long the file is up to the end of its last whole line, and that line's number.
fn whole(file: &File) -> io::Result<(u64, Option<i64>)> {
    let mut len = file.metadata()?.len();
    let mut tail = Vec::new();
    let mut reader = file;
    // Backwards in growing pieces, until a whole line is in sight.
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
                if let Ok(Known { seq, .. }) = serde_json::from_slice(line) {
                    return Ok((from + end as u64, Some(seq)));
                }
                // It is none of ours: what stands before it is looked at.
                len = from + start.map_or(0, |at| at as u64 + 1);
            }
            (_, _) if from == 0 => return Ok((0, None)),
            _ => piece *= 4,
        }
    }
    Ok((0, None))
}

/// The full files.
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

/// The last row of a full file, by its name.
pub(super) fn last_of(path: &Path) -> Option<i64> {
    path.file_name()?.to_str()?.strip_prefix("audit-")?.strip_suffix(".jsonl")?.parse().ok()
}

/// Takes what an agent's rows say out of the files of a folder, or only counts the rows: the lines keep their length, so
/// that whoever writes to the same file notices nothing. Answers of how many rows.
///
/// # Errors
/// A file cannot be read or written; done again, it goes on.
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

/// The line without what is erasable, as long as before; none where it is another agent's, or has nothing.
fn without_payload(line: &[u8], agent: &str) -> Option<Vec<u8>> {
    let known: Known = serde_json::from_slice(line).ok()?;
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
    // What went is longer than the mark: arguments come with their hash.
    blank.resize(line.len().saturating_sub(1).max(blank.len()), b' ');
    blank.push(b'\n');
    (blank.len() == line.len()).then_some(blank)
}
