//! Segment: a file of lines, each a checksum of eight hexadecimal digits (CRC-32), a space, and the JSON.
//!
//! A line torn by a crash or a full disk was never acknowledged: it is the last, and has no line end. A line that fails
//! its checksum does not affect other lines.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Bytes before the JSON of a line.
const CHECKSUM: usize = 9;

/// Line of a segment.
#[derive(Debug)]
pub struct SegmentLine {
    /// JSON of the line.
    pub json: Vec<u8>,
    /// First byte and length in the segment.
    pub place: (u64, u64),
}

/// Segment that is being filed. If it is dropped before it is done, its file stays as it was.
#[derive(Debug)]
pub struct Segment {
    path: PathBuf,
    /// File for lines that are set aside, and its largest size in bytes.
    aside: (PathBuf, u64),
    lines: BufReader<File>,
    at: u64,
    /// Stretches of lines to set aside: first byte and length.
    refused: Vec<(u64, u64)>,
}

/// Encodes lines in the form of a segment.
pub(super) fn encode<'l>(lines: impl IntoIterator<Item = &'l Vec<u8>>) -> Vec<u8> {
    let mut text = Vec::new();
    for line in lines {
        text.extend(format!("{:08x} ", crc32fast::hash(line)).as_bytes());
        text.extend(line);
        text.push(b'\n');
    }
    text
}

/// Returns the JSON of a line without its end, if its checksum matches.
pub fn decode(line: &[u8]) -> Option<&[u8]> {
    let (checksum, json) = line.split_at_checked(CHECKSUM)?;
    let expected = u32::from_str_radix(std::str::from_utf8(checksum).ok()?.strip_suffix(' ')?, 16).ok()?;
    (crc32fast::hash(json) == expected).then_some(json)
}

impl Segment {
    /// Opens a segment for filing; none while an erasure holds it.
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

    /// Returns the next line with a valid checksum; none at the end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn line(&mut self) -> io::Result<Option<SegmentLine>> {
        loop {
            let mut line = Vec::new();
            let read = self.lines.read_until(b'\n', &mut line)? as u64;
            let place = (self.at, read);
            self.at += read;
            // Torn, so never acknowledged.
            let Some(line) = line.strip_suffix(b"\n") else { return Ok(None) };
            match decode(line) {
                Some(json) => return Ok(Some(SegmentLine { json: json.to_vec(), place })),
                None => self.refuse(place),
            }
        }
    }

    /// Marks a line to be set aside once the segment is done.
    pub fn refuse(&mut self, (start, len): (u64, u64)) {
        match self.refused.last_mut() {
            Some((first, before)) if *first + *before == start => *before += len,
            _ => self.refused.push((start, len)),
        }
    }

    /// Ends the filing: sets aside the refused lines and removes the file. Returns the number of stretches set aside.
    ///
    /// # Errors
    /// A file cannot be written or removed: the segment stays as it was.
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

/// Replaces lines by shorter ones, or only counts them: `erased` returns the rest of a line, none where it stays. Waits
/// for a segment that is being filed: afterwards its lines are in the database.
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
                // White space behind JSON has no meaning.
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
