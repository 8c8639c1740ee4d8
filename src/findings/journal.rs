//! The observations log: one JSON object a line, in files that are rotated by size.

use std::{
    collections::{HashSet, VecDeque},
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use serde::Deserialize;
use uuid::Uuid;

use super::{Observation, private};
use umbra_domain::{FindingId, ReviewId};

/// Ids of written lines that are remembered, to recognize a page that is written again: more than a page has.
const REMEMBERED: usize = 1_000;
/// Bytes at the end of the newest file that are read at the start, for the last written lines.
const TAIL: u64 = 1 << 20;

/// First bytes of each line.
pub(super) const HEAD: &[u8] = b"{\"shadow\":";

/// Files of the log: `observations.jsonl` is written, `observations.jsonl.1` is the one before it, and so on.
#[derive(Debug)]
pub(super) struct ObservationsLog {
    path: PathBuf,
    max_bytes: u64,
    keep: u32,
    file: Option<File>,
    /// Ids of the last written lines.
    recent: VecDeque<Uuid>,
}

/// Fields by which a line is recognized.
#[derive(Deserialize)]
struct ObservationLine {
    review_id: Option<ReviewId>,
    #[serde(default)]
    findings: Vec<LineFinding>,
}

#[derive(Deserialize)]
struct LineFinding {
    id: Option<FindingId>,
}

impl ObservationLine {
    fn id(&self) -> Option<Uuid> {
        let finding = || self.findings.first().and_then(|finding| finding.id).map(|id| id.0);
        self.review_id.map(|review| review.0).or_else(finding)
    }
}

impl ObservationsLog {
    /// Returns a log of at most `keep` full files of so many bytes beside the current one.
    pub(super) fn new(path: PathBuf, max_bytes: u64, keep: u32) -> Self {
        Self { path, max_bytes, keep, file: None, recent: VecDeque::new() }
    }

    /// Appends observations that are not there yet, and makes them durable.
    ///
    /// # Errors
    /// A file cannot be written: some lines may be there.
    pub(super) fn append(&mut self, observations: &[Observation]) -> io::Result<()> {
        let written = self.try_append(observations);
        if written.is_err() {
            // After any error, the next attempt opens the file again and reads what is there.
            self.file = None;
            self.recent.clear();
        }
        written
    }

    fn try_append(&mut self, observations: &[Observation]) -> io::Result<()> {
        if self.file.is_none() {
            self.open()?;
        }
        let known: HashSet<Uuid> = self.recent.iter().copied().collect();
        for observation in observations.iter().filter(|observation| !known.contains(&observation.id())) {
            let mut line = serde_json::to_vec(observation)?;
            line.push(b'\n');
            self.make_room(line.len() as u64)?;
            self.opened()?.write_all(&line)?;
            self.remember(observation.id());
        }
        self.opened()?.sync_data()
    }

    fn opened(&mut self) -> io::Result<&mut File> {
        self.file.as_mut().ok_or_else(|| io::Error::other("the log is not open"))
    }

    /// Opens the file for appending, removes a line that a crash or a full disk has torn, and reads the last lines. A
    /// torn line is written again: it was never reported as written.
    fn open(&mut self) -> io::Result<()> {
        if let Some(dir) = self.path.parent() {
            private::create_dir(dir)?;
        }
        // A page may lie on both sides of a rotation.
        for path in [rotated(&self.path, 1), self.path.clone()] {
            for line in String::from_utf8_lossy(&tail(&path)?).lines() {
                if let Some(id) = serde_json::from_str::<ObservationLine>(line).ok().and_then(|line| line.id()) {
                    self.remember(id);
                }
            }
        }
        let mut file = private::options().create(true).append(true).open(&self.path)?;
        let len = file.metadata()?.len();
        let end = tail(&self.path)?;
        let torn = end.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        if !torn.is_empty() && (torn.starts_with(HEAD) || HEAD.starts_with(torn)) {
            file.set_len(len.saturating_sub(torn.len() as u64))?;
            file.sync_data()?;
        } else if !torn.is_empty() {
            file.write_all(b"\n")?;
        }
        self.file = Some(file);
        Ok(())
    }

    /// Starts a new file where the line does not fit.
    fn make_room(&mut self, line: u64) -> io::Result<()> {
        let len = self.opened()?.metadata()?.len();
        if len == 0 || len + line <= self.max_bytes {
            return Ok(());
        }
        self.opened()?.sync_data()?;
        self.file = None;
        // From the oldest on, so that none is overwritten before it has moved; the one beyond `keep` is lost.
        for n in (1..self.keep).rev() {
            rename(&rotated(&self.path, n), &rotated(&self.path, n + 1))?;
        }
        rename(&self.path, &rotated(&self.path, 1))?;
        self.file = Some(private::options().create(true).append(true).open(&self.path)?);
        Ok(())
    }

    fn remember(&mut self, id: Uuid) {
        self.recent.push_back(id);
        if self.recent.len() > REMEMBERED {
            self.recent.pop_front();
        }
    }
}

/// Returns the path of the nth full file of a log.
pub(super) fn rotated(path: &Path, n: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{n}"));
    name.into()
}

/// Renames a file that may be missing.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}

/// Returns the end of a file; nothing if it is missing. The first line may be incomplete.
fn tail(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    Ok(bytes)
}
