//! The lines of decisions that wait for the database: each carries a keyed hash, and names the line before it. What none of our
//! processes wrote is known by the one, what is missing or stands elsewhere by the other. In: rows, the key of the
//! installation, which is in the database and not beside the file. Out: lines, and what is to be thought of one.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use umbra_store::installation::Installation;

/// Digits of a keyed hash.
const DIGITS: usize = 64;
/// How a line ends, behind the digits of its hash.
const END: &[u8] = b"\"}\n";

/// A line. The hash stands last, so that the next line's author finds it without reading the rest.
#[derive(Serialize, Deserialize)]
struct Line<'l> {
    #[serde(borrow)]
    row: &'l RawValue,
    /// The hash of the line before; none in the first of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    mac: String,
}

/// What is to be thought of a line.
pub(super) enum Judged<'l> {
    /// One of our processes wrote it.
    Genuine(&'l str),
    /// A crash or a full disk broke it off: it was not answered.
    Torn,
    /// None of our processes wrote it.
    Forged,
}

/// The lines of one file, in order.
#[derive(Debug)]
pub(super) struct Chain {
    installation: Installation,
    last: Option<String>,
    /// Places at which lines are missing, or stand in another order.
    pub gaps: u64,
}

impl Chain {
    /// Behind the line of this hash; none at the beginning of a file.
    pub fn behind(last: Option<String>, installation: Installation) -> Self {
        Self { installation, last, gaps: 0 }
    }

    /// Makes the next line.
    pub fn line(&mut self, row: &RawValue) -> serde_json::Result<Vec<u8>> {
        let after = self.last.take();
        let mac = self.mac(after.as_deref(), row.get());
        let mut line = serde_json::to_vec(&Line { row, after, mac: mac.clone() })?;
        line.push(b'\n');
        self.last = Some(mac);
        Ok(line)
    }

    /// Judges the next line.
    pub fn judge<'l>(&mut self, line: &'l [u8]) -> Judged<'l> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let Line { row, after, mac } = match serde_json::from_slice(line) {
            Ok(line) => line,
            Err(error) if error.is_eof() => return Judged::Torn,
            Err(_) => return Judged::Forged,
        };
        if mac != self.mac(after.as_deref(), row.get()) {
            return Judged::Forged;
        }
        self.gaps += u64::from(after != self.last);
        self.last = Some(mac);
        Judged::Genuine(row.get())
    }

    fn mac(&self, after: Option<&str>, row: &str) -> String {
        hex::encode(self.installation.hash("unmerged", &[after.unwrap_or_default().as_bytes(), row.as_bytes()]))
    }
}

/// The hash of the last whole line of a file of so many bytes; none where that is no line of ours.
pub(super) fn last(file: &mut File, len: u64) -> io::Result<Option<String>> {
    let mut tail = [0; DIGITS + END.len()];
    if let Some(start) = len.checked_sub(tail.len() as u64) {
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut tail)?;
        if tail.ends_with(END) {
            return Ok(digits(&tail));
        }
    }
    // A line was broken off behind it, which is rare.
    file.rewind()?;
    let (mut found, mut lines, mut line) = (None, BufReader::new(file), Vec::new());
    while lines.read_until(b'\n', &mut line)? > 0 {
        if line.ends_with(END) {
            found = line.last_chunk::<{ DIGITS + END.len() }>().and_then(digits);
        }
        line.clear();
    }
    Ok(found)
}

fn digits(tail: &[u8; DIGITS + END.len()]) -> Option<String> {
    let (digits, _) = tail.split_at(DIGITS);
    digits.iter().all(u8::is_ascii_hexdigit).then(|| String::from_utf8_lossy(digits).into_owned())
}
