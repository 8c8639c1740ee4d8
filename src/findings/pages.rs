//! Writes reviews as files `YYYY-MM-DD-<target>-<trigger>-HHMMSS.md`, in UTC.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::tz::TimeZone;

use super::{
    erase::FileMetadata,
    markdown::{METADATA, METADATA_END, page},
    private,
};
use umbra_domain::Trigger;
use umbra_store::reviews::Review;

/// Most characters of an agent's name in a file name.
const MAX_SLUG: usize = 80;
/// Most files whose names differ only in the number at their end.
const MAX_NAMESAKES: u32 = 10_000;
/// Longest metadata of a page, in bytes.
const MAX_METADATA: u64 = 16 * 1024;
/// Start of the metadata of older pages, from before YAML: base64url of JSON without padding, up to a space.
const ENCODED: &[u8] = b"<!-- umbra-review ";

/// Writes a review into a folder, unless its page exists; returns the path.
///
/// # Errors
/// The file cannot be written; an incomplete one is removed.
pub(super) fn write(dir: &Path, review: &Review) -> io::Result<PathBuf> {
    let stem = stem(review);
    for n in 1..=MAX_NAMESAKES {
        let name = if n == 1 { format!("{stem}.md") } else { format!("{stem}-{n}.md") };
        let path = dir.join(name);
        match private::options().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(page(review).as_bytes()).inspect_err(|_| drop(fs::remove_file(&path)))?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if holds(&path, review) {
                    return Ok(path);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{stem}.md has {MAX_NAMESAKES} namesakes")))
}

fn stem(review: &Review) -> String {
    let at = review.finished_at.unwrap_or(review.created_at).to_zoned(TimeZone::UTC);
    let trigger = review.trigger.map_or("none", Trigger::as_str);
    format!("{}-{}-{trigger}-{}", at.strftime("%Y-%m-%d"), slug(&review.agent), at.strftime("%H%M%S"))
}

/// Converts a name into one that is safe as a part of a file name on every system.
pub(super) fn slug(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if out.len() >= MAX_SLUG {
            break;
        }
        if c.is_ascii_alphanumeric() || c == '_' || (c == '.' && !out.ends_with('.') && !out.is_empty()) {
            out.push(c);
        } else if !out.ends_with('-') && !out.is_empty() {
            out.push('-');
        }
    }
    let out = out.trim_end_matches(['-', '.']);
    if out.is_empty() { "agent".into() } else { out.into() }
}

/// True if a file is the page of this review.
fn holds(path: &Path, review: &Review) -> bool {
    named(path).is_some_and(|named| named.review_id == Some(review.id))
}

/// Reads the metadata of a page; `None` if the file is not such a page.
pub(super) fn named(path: &Path) -> Option<FileMetadata> {
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_METADATA).read_to_end(&mut bytes)).ok()?;
    // The text after the metadata may be cut in the middle of a character.
    if let Some(encoded) = bytes.strip_prefix(ENCODED) {
        let encoded = encoded.split(|byte| *byte == b' ').next()?;
        return serde_json::from_slice(&URL_SAFE_NO_PAD.decode(encoded).ok()?).ok();
    }
    let text = String::from_utf8_lossy(&bytes);
    let (yaml, _) = text.strip_prefix(METADATA)?.split_once(METADATA_END)?;
    serde_saphyr::from_str(yaml).ok()
}
