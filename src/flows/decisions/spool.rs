//! Decisions made without the database: one line of JSON each, durable in a file before they are answered, then merged into
//! the audit, in order and once.
//!
//! Lines to be written wait in a queue; one thread writes all of them and syncs once. A line torn by a crash or a full disk
//! was not answered: it is skipped and spoils no other. A line that cannot be read otherwise is set aside for a person, and
//! never merged. Several processes may share the folder.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::files::{AuditFile, AuditFiles};
use crate::flows::serialise::to_json;
use umbra_store::{
    StoreError,
    decisions::{DecisionRows, NewAudit, NewCall},
};

/// The file, in the audit's folder.
const FILE: &str = "unmerged.jsonl";
/// Held while it is written or moved.
const LOCK: &str = "unmerged.lock";
/// What is being merged, and who does it.
const TAKEN: &str = "unmerged.merging";
const TAKEN_LOCK: &str = "unmerged.merging.lock";
/// Lines that cannot be read, for a person to look at.
const REFUSED: &str = "unmerged.refused";
/// Written to see whether the folder can be.
const PROBE: &str = "unmerged.probe";
/// Lines that may wait.
const MOST_WAITING: usize = 8_192;
/// Bytes that the file may have.
const MOST_BYTES: u64 = 512 * 1024 * 1024;
/// Rows of one transaction, and their bytes.
const PAGE: usize = 500;
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// The file's way in. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Spool(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    dir: PathBuf,
    files: Arc<AuditFiles>,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<(Vec<u8>, oneshot::Sender<bool>)>,
    /// A thread is writing, and will take what comes.
    writing: bool,
}

/// Why something is not noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unnoted {
    /// It is not there.
    Failed,
    /// It may yet come.
    Late,
}

impl From<StoreError> for Unnoted {
    /// A value that cannot be written as JSON: told in the log.
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "a decision without the database is not noted");
        Self::Failed
    }
}

/// A decision that waits for the database: a line of the file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SpooledDecision {
    pub audit: NewAudit,
    /// Its place in the audit counts within a page, and is given when that is read.
    pub call: NewCall,
}

impl Spool {
    pub fn new(dir: &Path, files: Arc<AuditFiles>) -> Self {
        Self(Arc::new(Parts { dir: dir.to_owned(), files, queue: Mutex::default() }))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a line durably, until then at the latest.
    pub async fn append(&self, decision: &SpooledDecision, by: Instant) -> Result<(), Unnoted> {
        match timeout_at(by, self.push(decision)?).await {
            Ok(Ok(true)) => Ok(()),
            Ok(_) => Err(Unnoted::Failed),
            Err(_) => Err(Unnoted::Late),
        }
    }

    /// Appends a line behind those that wait already, some time.
    pub fn push(&self, decision: &SpooledDecision) -> Result<oneshot::Receiver<bool>, Unnoted> {
        let mut text = to_json("a line of the outage", decision)?.into_bytes();
        text.push(b'\n');
        let (written, answer) = oneshot::channel();
        let mut queue = self.queue();
        if queue.waiting.len() >= MOST_WAITING {
            return Err(Unnoted::Failed);
        }
        queue.waiting.push((text, written));
        if !std::mem::replace(&mut queue.writing, true) {
            let spool = self.clone();
            tokio::task::spawn_blocking(move || spool.write_waiting());
        }
        Ok(answer)
    }

    fn write_waiting(&self) {
        loop {
            let mut queue = self.queue();
            if queue.waiting.is_empty() {
                queue.writing = false;
                return;
            }
            let (lines, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut queue.waiting).into_iter().unzip();
            drop(queue);
            let result = self.write(&lines.concat());
            self.0.files.note(AuditFile::Spool, result.as_ref().err());
            for one in waiting {
                let _ = one.send(result.is_ok());
            }
        }
    }

    fn locked(&self, name: &str) -> io::Result<File> {
        fs::create_dir_all(&self.0.dir)?;
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(self.0.dir.join(name))
    }

    fn write(&self, text: &[u8]) -> io::Result<()> {
        let lock = self.locked(LOCK)?;
        lock.lock()?;
        let path = self.0.dir.join(FILE);
        let mut file = OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(&path)?;
        let before = file.metadata()?.len();
        if before + text.len() as u64 > MOST_BYTES {
            return Err(io::Error::other("as much as may wait for the database is noted already"));
        }
        let written = (|| {
            if is_torn(&mut file, before)? {
                file.write_all(b"\n")?;
            }
            file.write_all(text)?;
            file.sync_all()?;
            // A new file is there after a crash only if its folder says so.
            if before == 0 { File::open(&self.0.dir)?.sync_all() } else { Ok(()) }
        })();
        if written.is_err() {
            // Whoever asked is told that nothing is there.
            drop(file.set_len(before));
        }
        written
    }

    /// Whether the folder can be written at all.
    pub fn probe(&self) {
        let path = self.0.dir.join(PROBE);
        let probed = fs::create_dir_all(&self.0.dir).and_then(|()| {
            let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&path)?;
            file.write_all(&[b' '; 4096])?;
            file.sync_all()
        });
        drop(fs::remove_file(path));
        self.0.files.note(AuditFile::Spool, probed.as_ref().err());
    }

    /// Bytes that wait to be merged.
    pub fn len(&self) -> u64 {
        let len = |name| fs::metadata(self.0.dir.join(name)).map_or(0, |found| found.len());
        len(FILE) + len(TAKEN)
    }

    /// Whether lines were set aside that nobody has looked at.
    pub fn holds_refused(&self) -> bool {
        self.0.dir.join(REFUSED).exists()
    }

    /// Takes what is there out of the way of new lines; it is there again after a crash. None where there is nothing, or
    /// another process merges.
    pub fn take(&self) -> io::Result<Option<Taken>> {
        if self.len() == 0 {
            return Ok(None);
        }
        let merging = self.locked(TAKEN_LOCK)?;
        match merging.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Ok(None),
            Err(fs::TryLockError::Error(error)) => return Err(error),
        }
        let path = self.0.dir.join(TAKEN);
        if !path.exists() {
            let lock = self.locked(LOCK)?;
            lock.lock()?;
            match fs::rename(self.0.dir.join(FILE), &path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                renamed => renamed?,
            }
        }
        let lines = BufReader::new(File::open(&path)?);
        let aside = self.0.dir.join(REFUSED);
        Ok(Some(Taken { path, aside, lines, at: 0, refused: Vec::new(), _merging: merging }))
    }
}

/// Whether the last line has no end.
fn is_torn(file: &mut File, len: u64) -> io::Result<bool> {
    if len == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::Start(len - 1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// What is being merged.
#[derive(Debug)]
pub(super) struct Taken {
    path: PathBuf,
    aside: PathBuf,
    lines: BufReader<File>,
    /// Bytes that were read.
    at: u64,
    /// Stretches of lines that cannot be read: first byte and length.
    refused: Vec<(u64, u64)>,
    _merging: File,
}

impl Taken {
    /// The next rows, in order; none at the end.
    pub fn page(&mut self) -> io::Result<Option<DecisionRows>> {
        let (mut page, mut bytes, mut line) = (DecisionRows::default(), 0, Vec::new());
        while page.audit.len() < PAGE && bytes < PAGE_BYTES {
            line.clear();
            let read = self.lines.read_until(b'\n', &mut line)?;
            if read == 0 {
                break;
            }
            let (start, len) = (self.at, read as u64);
            self.at += len;
            match serde_json::from_slice::<SpooledDecision>(line.strip_suffix(b"\n").unwrap_or(&line)) {
                Ok(SpooledDecision { audit, call }) => {
                    page.audit.push(audit);
                    page.calls.push(NewCall { row: page.audit.len(), ..call });
                    bytes += read;
                }
                // Torn, so never answered.
                Err(error) if error.is_eof() => {}
                Err(_) => match self.refused.last_mut() {
                    Some((first, before)) if *first + *before == start => *before += len,
                    _ => self.refused.push((start, len)),
                },
            }
        }
        Ok((!page.audit.is_empty()).then_some(page))
    }

    /// Ends the merge: sets aside what could not be read and removes the file. Returns the number of stretches set aside.
    pub fn done(self) -> io::Result<u64> {
        if !self.refused.is_empty() {
            let mut aside = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.aside)?;
            let mut room = MOST_BYTES.saturating_sub(aside.metadata()?.len());
            let mut from = self.lines.into_inner();
            for (start, len) in &self.refused {
                from.seek(SeekFrom::Start(*start))?;
                room -= io::copy(&mut (&mut from).take(room.min(*len)), &mut aside)?;
            }
            aside.sync_all()?;
        }
        fs::remove_file(&self.path)?;
        Ok(self.refused.len() as u64)
    }
}
