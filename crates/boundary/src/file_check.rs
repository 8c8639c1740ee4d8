//! Compares the audit's files with the rows of the database. In: folders, then every row in order. Out: each
//! difference, by file and line. It writes nothing.
//!
//! Umbra writes lines word for word, so they are compared byte by byte: a duplicate member is a change as well. A line
//! torn by a crash at the very end is no fault: the next server writes it again.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    vec,
};

use serde_json::Value;

use super::{
    journal::{FILE, LineHeader, full, last_of},
    record_json::{ERASABLE, line},
};
use umbra_domain::audit::AuditRecord;

/// Longest line, in bytes: far more than the largest arguments and results give.
const MOST_BYTES: u64 = 256 * 1024 * 1024;
/// Advice on how to restore missing lines.
const AGAIN: &str =
    "move that file and the later files away, and restart the server, which writes them again from the database";

/// One file, up to the length that it had when it was opened.
struct AuditFileReader {
    path: PathBuf,
    reader: BufReader<io::Take<File>>,
    /// Last row by the name of a full file; none for the current file.
    named: Option<i64>,
    line: u64,
    last: i64,
}

/// Line that was read and is not compared yet.
struct Next {
    seq: i64,
    text: String,
    place: String,
}

/// A difference between files and database, with the row concerned.
pub type LineFault = (Option<i64>, String);

/// Reader of an audit's files, side by side with its rows.
#[derive(Default)]
pub struct FileCheck {
    sources: vec::IntoIter<AuditFileReader>,
    source: Option<AuditFileReader>,
    next: Option<Next>,
    /// Last row whose line lies in files that were moved away.
    moved: i64,
    /// First and last row of the current gap: rows without a line, with no later line so far.
    missing: Option<(i64, i64)>,
    /// Number of lines that still hold erased data, and the place of the first.
    unerased: Option<(u64, String)>,
    compared: u64,
    faults: Vec<LineFault>,
    warnings: Vec<String>,
}

impl FileCheck {
    /// Opens the files of the audit's folder, and full ones that were moved to other folders, each up to its present
    /// length: all of that was in the database before. Rows up to `moved` may be missing.
    ///
    /// # Errors
    /// A folder or file cannot be read.
    pub fn open(dir: &Path, others: &[PathBuf], moved: i64) -> io::Result<Self> {
        // The current file first: it may become a full one while those are listed, and goes by that name then.
        let mut opened: Vec<(PathBuf, File)> = Vec::new();
        let written = dir.join(FILE);
        if written.exists() {
            opened.push((written.clone(), File::open(&written)?));
        }
        let own = if dir.is_dir() { full(dir)? } else { Vec::new() };
        for path in own.into_iter().chain(others.iter().map(|dir| full(dir)).collect::<io::Result<Vec<_>>>()?.concat())
        {
            let file = File::open(&path)?;
            opened.push((path, file));
        }
        let mut seen = HashSet::new();
        let mut sources = Vec::new();
        for (path, file) in opened.into_iter().rev() {
            let about = file.metadata()?;
            if seen.insert((about.dev(), about.ino())) {
                let (named, reader) = (last_of(&path), BufReader::new(file.take(about.len())));
                sources.push(AuditFileReader { path, reader, named, line: 0, last: 0 });
            }
        }
        sources.sort_by_key(|source| source.named.unwrap_or(i64::MAX));
        Ok(Self { sources: sources.into_iter(), moved, ..Self::default() })
    }

    /// True if there are no files.
    pub fn is_empty(&self) -> bool {
        self.sources.len() == 0 && self.source.is_none()
    }

    /// Compares the next row with its line. Returns the differences.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn compare(&mut self, record: &AuditRecord) -> io::Result<vec::Drain<'_, LineFault>> {
        let seq = record.row.seq;
        loop {
            if self.next.is_none() {
                self.next = self.read()?;
            }
            match self.next.take() {
                Some(next) if next.seq < seq => {
                    let what = format!("{}: row {} is repeated or out of order", next.place, next.seq);
                    self.faults.push((Some(next.seq), what));
                }
                Some(next) if next.seq == seq => {
                    self.gap(&next.place);
                    self.hold(&next, record);
                    break;
                }
                later => {
                    self.next = later;
                    self.miss(seq);
                    break;
                }
            }
        }
        Ok(self.faults.drain(..))
    }

    /// Finishes after the last row. `written` is the last row that the database recorded as written to these files.
    /// Returns the number of matching lines, the faults, and notes that are no faults.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn finish(mut self, written: i64) -> io::Result<(u64, Vec<LineFault>, Vec<String>)> {
        let mut beyond: Option<(u64, String)> = None;
        while let Some(next) = self.next.take().map_or_else(|| self.read(), |next| Ok(Some(next)))? {
            let (lines, _) = beyond.get_or_insert((0, next.place));
            *lines += 1;
        }
        if let Some((lines, place)) = beyond {
            let what = format!("{place}: {lines} lines from here on have rows that the database does not have");
            self.faults.push((None, what));
        }
        match self.missing.take() {
            Some((first, last)) if first <= written => {
                let what = format!(
                    "rows {first} to {} are missing at the end of the files: a server writes them again from the \
                     database when it starts",
                    last.min(written)
                );
                self.faults.push((Some(first), what));
            }
            Some((first, last)) => self.warnings.push(format!(
                "rows {first} to {last} are not in the files yet: a running server writes them within seconds; if not, \
                 check the free disk space"
            )),
            None => {}
        }
        if let Some((lines, place)) = self.unerased.take() {
            self.warnings.push(format!(
                "{lines} lines, from {place} on, still have erased contents: run `umbra erase` on this machine"
            ));
        }
        Ok((self.compared, self.faults, self.warnings))
    }

    /// Reads the next whole line of the audit.
    fn read(&mut self) -> io::Result<Option<Next>> {
        loop {
            let Some(source) = &mut self.source else {
                self.source = self.sources.next();
                if self.source.is_none() {
                    return Ok(None);
                }
                continue;
            };
            let mut bytes = Vec::new();
            source.reader.by_ref().take(MOST_BYTES).read_until(b'\n', &mut bytes)?;
            source.line += 1;
            let (path, last) = (source.path.display(), source.last);
            let place = format!("{path}:{}", source.line);
            if bytes.is_empty() {
                if let Some(named) = source.named.filter(|named| *named != last) {
                    self.faults.push((None, format!("{path} ends with row {last}, but its name says row {named}")));
                }
                self.source = None;
            } else if bytes.pop() != Some(b'\n') {
                let torn = format!("{place}: this line is incomplete");
                if source.named.is_none() {
                    self.warnings.push(format!("{torn}, as after a crash: a server writes it again when it starts"));
                } else {
                    self.faults.push((None, torn));
                }
            } else {
                match String::from_utf8(bytes).ok().and_then(|text| Some((serde_json::from_str(&text).ok()?, text))) {
                    Some((LineHeader { seq, .. }, text)) => {
                        source.last = seq;
                        return Ok(Some(Next { seq, text, place }));
                    }
                    None => self.faults.push((None, format!("{place}: this is not a line of the audit"))),
                }
            }
        }
    }

    /// Compares a line with its row.
    fn hold(&mut self, Next { seq, text, place }: &Next, record: &AuditRecord) {
        let expected = line(record);
        let ours = expected.to_string();
        let erased = record.payload.is_none() && record.row.payload_mac.is_some();
        // A line erased in the file keeps its length.
        let text = if erased { text.trim_end_matches(' ') } else { text.as_str() };
        self.compared += 1;
        if text == ours {
            return;
        }
        let said: Value = serde_json::from_str(text).unwrap_or_default();
        let again = said.to_string();
        if erased && again == text && blank(&said) == expected {
            self.unerased.get_or_insert((0, place.clone())).0 += 1;
            return;
        }
        self.compared -= 1;
        let differs = |(key, value): &(&String, &Value)| said.get(key.as_str()) != Some(*value);
        let members: Vec<&str> =
            expected.as_object().into_iter().flatten().filter(differs).map(|(key, _)| key.as_str()).collect();
        let members = if members.is_empty() { "additional members".to_owned() } else { members.join(", ") };
        self.faults.push((Some(*seq), format!("{place}: row {seq} differs from the database: {members}")));
    }

    fn miss(&mut self, seq: i64) {
        match &mut self.missing {
            _ if seq <= self.moved => {}
            Some((_, last)) => *last = seq,
            none => *none = Some((seq, seq)),
        }
    }

    /// Reports the current gap: a later line follows, so its rows are missing for good.
    fn gap(&mut self, place: &str) {
        let Some((first, last)) = self.missing.take() else { return };
        let rows = if first == last { format!("row {first} is") } else { format!("rows {first} to {last} are") };
        let what = if first == self.moved + 1 && self.compared == 0 {
            format!(
                "{rows} in no file, and the first line is {place}: if full files were moved away, name their folder by \
                 --files, or their last row by --moved"
            )
        } else {
            format!("{rows} missing before {place}: {AGAIN}")
        };
        self.faults.push((Some(first), what));
    }
}

/// The line after its payload is erased.
fn blank(said: &Value) -> Value {
    let Value::Object(mut members) = said.clone() else { return Value::Null };
    members.retain(|key, _| !ERASABLE.contains(&key.as_str()));
    members.insert("erased".to_owned(), Value::Bool(true));
    Value::Object(members)
}
