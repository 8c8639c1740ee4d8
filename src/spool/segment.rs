//! A segment: a file of lines, each behind its checksum: eight hexadecimal digits (CRC-32), a space, and the JSON.
//!
//! A line torn by a crash or a full disk was never acknowledged: it is the last, and has no end. A line that fails its
//! checksum spoils no other, since lines end where they end.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Bytes before the JSON of a line.
const CHECKSUM: usize = 9;

/// A line of a segment.
#[derive(Debug)]
pub struct Line {
    /// JSON of the line.
    pub json: Vec<u8>,
    /// First byte and length in the segment.
    pub place: (u64, u64),
}

/// A segment that is being filed. Dropped before it is done, it is there as before.
#[derive(Debug)]
pub struct Segment {
    path: PathBuf,
    /// Where lines are set aside, and how many bytes may lie there.
    aside: (PathBuf, u64),
    lines: BufReader<File>,
    at: u64,
    /// Stretches of lines that are to be set aside: first byte and length.
    refused: Vec<(u64, u64)>,
}

/// Lines as a segment holds them.
pub(super) fn encode<'l>(lines: impl IntoIterator<Item = &'l Vec<u8>>) -> Vec<u8> {
    let mut text = Vec::new();
    for line in lines {
        text.extend(format!("{:08x} ", crc32fast::hash(line)).as_bytes());
        text.extend(line);
        text.push(b'\n');
    }
    text
}

/// The JSON of a line without its end, if it is as it was written.
pub fn decode(line: &[u8]) -> Option<&[u8]> {
    let (checksum, json) = line.split_at_checked(CHECKSUM)?;
    let expected = u32::from_str_radix(std::str::from_utf8(checksum).ok()?.strip_suffix(' ')?, 16).ok()?;
    (crc32fast::hash(json) == expected).then_some(json)
}

impl Segment {
    /// Opens a segment for filing; none while an erasure has it.
    pub(super) fn open(path: PathBuf, aside: PathBuf, most_aside: u64) -> io::Result<Option<Self>> {
        let file = File::open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let (lines, aside) = (BufReader::new(file), (aside, most_aside));
        Ok(Some(Self { path, aside, lines, at: 0, refused: Vec::new() }))
    }

    /// The next line that is as it was written; none at the end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn line(&mut self) -> io::Result<Option<Line>> {
        loop {
            let mut line = Vec::new();
            let read = self.lines.read_until(b'\n', &mut line)? as u64;
            let place = (self.at, read);
            self.at += read;
            // Torn, so never acknowledged.
            let Some(line) = line.strip_suffix(b"\n") else { return Ok(None) };
            match decode(line) {
                Some(json) => return Ok(Some(Line { json: json.to_vec(), place })),
                None => self.refuse(place),
            }
        }
    }

    /// Sets a line aside, once the segment is done.
    pub fn refuse(&mut self, (start, len): (u64, u64)) {
        match self.refused.last_mut() {
            Some((first, before)) if *first + *before == start => *before += len,
            _ => self.refused.push((start, len)),
        }
    }

    /// Ends the filing: sets aside what was refused and removes the file. Returns the number of stretches set aside.
    ///
    /// # Errors
    /// A file cannot be written or removed: the segment is there as before.
    pub fn done(self) -> io::Result<u64> {
        let Self { path, aside: (aside, most), lines, refused, .. } = self;
        if !refused.is_empty() {
            let mut to = OpenOptions::new().create(true).append(true).mode(0o600).open(aside)?;
            let mut room = most.saturating_sub(to.metadata()?.len());
            let mut from = lines.into_inner();
            for (start, len) in &refused {
                from.seek(SeekFrom::Start(*start))?;
                room -= io::copy(&mut (&mut from).take(room.min(*len)), &mut to)?;
            }
            to.sync_all()?;
        }
        fs::remove_file(path)?;
        Ok(refused.len() as u64)
    }
}

/// Puts shorter lines in the place of some, or only counts these: `erased` gives what is left of a line, none where it
/// stays. A segment that is being filed is waited for: what is gone then is in the database.
///
/// # Errors
/// The file cannot be read or written.
pub fn erase(path: &Path, erased: impl Fn(&[u8]) -> Option<Vec<u8>>, count_only: bool) -> io::Result<u64> {
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        file => file?,
    };
    file.lock()?;
    if file.metadata()?.nlink() == 0 {
        return Ok(0);
    }
    let (mut lines, mut at, mut count, mut line) = (BufReader::new(&file), 0, 0, Vec::new());
    while lines.read_until(b'\n', &mut line)? > 0 {
        let json = line.strip_suffix(b"\n").and_then(decode);
        if let Some((json, mut left)) = json.and_then(|json| Some((json, erased(json)?))) {
            count += 1;
            if !count_only {
                // White space behind JSON says nothing.
                left.resize(json.len(), b' ');
                file.write_all_at(&encode([&left]), at)?;
            }
        }
        at += line.len() as u64;
        line.clear();
    }
    if count > 0 && !count_only {
        file.sync_data()?;
    }
    Ok(count)
}
