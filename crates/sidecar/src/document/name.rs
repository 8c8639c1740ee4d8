//! What documents may be called, which file of a workspace holds one, and how such a file is read back.
//!
//! A file is called by a name that means the same on every system, in a folder of the session's own, which lies in a folder of
//! ours, so that no path leads out of the workspace. Whoever writes there has to hold to the rest: open each part without
//! following links, take regular files alone, read no more than a document may have, and write beside the file before taking
//! its place.

use std::fmt;

use super::{
    Format, Limits,
    merge::{MergeError, merge},
};

/// Longest name, in bytes.
const MOST_NAME: usize = 64;
/// The folder of a workspace that exports go to.
const FOLDER: &str = ".umbra";
/// Longest path of a folder of the workspace, in bytes, and most parts of it.
const MOST_FOLDER: (usize, usize) = (255, 16);

/// A name, without the ending that its format gives the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// A text is no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing is left of it without its ending.
    #[error("the name is empty")]
    Empty,
    /// Longer than file systems and people like.
    #[error("a name has at most {MOST_NAME} bytes")]
    Long,
    /// Separators, blanks, hidden characters, look-alikes, or a dot or dash at an end.
    #[error("a name is letters (a-z), digits, and `-`, `_`, `.` between them")]
    Character,
    /// Some system opens a device by that name.
    #[error("the name is that of a device")]
    Device,
}

impl Name {
    /// Reads a name of a document or a session; case is nothing, so that no two names are one file on any system.
    ///
    /// # Errors
    /// It would not be safe as the name of a file.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let name = text.to_ascii_lowercase();
        let bytes = name.as_bytes();
        let is_sign = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return Err(NameError::Empty) };
        if bytes.len() > MOST_NAME {
            return Err(NameError::Long);
        }
        let inside = bytes.iter().all(|c| is_sign(*c) || b"-_.".contains(c)) && !name.contains("..");
        if !inside || !is_sign(*first) || !is_sign(*last) {
            return Err(NameError::Character);
        }
        if is_device(&name) { Err(NameError::Device) } else { Ok(Self(name)) }
    }

    /// Reads the name of a document as it stands in a URL or a file's name: `todo`, `todo.md`, `plan.yaml`.
    ///
    /// # Errors
    /// It would not be safe as the name of a file.
    pub fn of_document(text: &str) -> Result<(Self, Format), NameError> {
        let ending = |ending: &str| {
            let (name, last) = text.rsplit_once('.')?;
            last.eq_ignore_ascii_case(ending).then_some(name)
        };
        let (name, format) = match (ending("md"), ending("yaml").or(ending("yml"))) {
            (Some(name), _) => (name, Format::Markdown),
            (_, Some(name)) => (name, Format::Yaml),
            _ => (text, Format::Markdown),
        };
        Ok((Self::parse(name)?, format))
    }

    /// The name of a document whose file is called so, and by no other way of writing it.
    pub fn of_file(file: &str) -> Option<(Self, Format)> {
        Self::of_document(file).ok().filter(|(name, format)| name.file(*format) == file)
    }

    /// What its file is called when it has to make room: `todo~conflict-1a2b3c4d.md`, which is the file of no document.
    pub fn aside(&self, format: Format, digest: &str) -> String {
        let (file, digest) = (self.file(format), digest.get(..8).unwrap_or(digest));
        file.replacen(self.as_str(), &format!("{self}~conflict-{digest}"), 1)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the file that holds a document.
    pub fn file(&self, format: Format) -> String {
        let ending = match format {
            Format::Markdown => "md",
            Format::Yaml => "yaml",
        };
        format!("{}.{ending}", self.0)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether Windows opens a device by that name, whatever its ending (Microsoft, "Naming Files, Paths, and Namespaces").
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name);
    let numbered = |device: &str| {
        stem.strip_prefix(device).is_some_and(|number| number.len() == 1 && number.bytes().all(|c| c.is_ascii_digit()))
    };
    matches!(stem, "con" | "prn" | "aux" | "nul") || numbered("com") || numbered("lpt")
}

/// A text is no folder of the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "names a folder below the workspace by its parts, such as `apps/site`: at most {} bytes in {} parts, none of them empty, `.`, \
     `..`, `.umbra` or with control characters or backslashes in it", MOST_FOLDER.0, MOST_FOLDER.1
)]
pub struct FolderError;

/// The folder of a session's files, from the workspace; in the folder of it that the session is at work in, if it names one.
///
/// # Errors
/// What is named may not lie in the workspace.
pub fn export_folder(within: Option<&str>, session: &Name) -> Result<String, FolderError> {
    let Some(within) = within else { return Ok(format!("{FOLDER}/{session}")) };
    let is_part = |part: &str| {
        let is_ours = part.eq_ignore_ascii_case(FOLDER);
        !is_ours && !matches!(part, "" | "." | "..") && !part.contains(|c: char| c.is_control() || c == '\\')
    };
    let (bytes, parts) = MOST_FOLDER;
    if within.len() > bytes || within.split('/').count() > parts || !within.split('/').all(is_part) {
        return Err(FolderError);
    }
    Ok(format!("{within}/{FOLDER}/{session}"))
}

/// What a file that was exported says by now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadBack {
    /// What was exported: whatever has come since is to be exported again.
    Untouched,
    /// Somebody changed it: the text of the document in the end, to be kept as a change by
    /// [`super::revision::WORKSPACE`].
    Changed(String),
}

/// A file cannot be taken back. The document stays as it is, and so does the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadBackError {
    /// It is no text.
    #[error("the file is no text in UTF-8")]
    NoText,
    /// It is too large, or contradicts what has come since.
    #[error(transparent)]
    Merge(#[from] MergeError),
}

/// Reads a file back that may have been changed since it was exported, by the rules of any other edit: it is merged with
/// what the document has become since. A file that is gone or cannot be opened is no edit, and nothing is removed for it.
///
/// # Errors
/// It is no text, too large, or contradicts what has come since.
pub fn read_back(
    exported: &str,
    current: &str,
    file: &[u8],
    format: Format,
    limits: &Limits,
) -> Result<ReadBack, ReadBackError> {
    if file == exported.as_bytes() {
        return Ok(ReadBack::Untouched);
    }
    let text = std::str::from_utf8(file).ok().filter(|text| !text.contains('\0')).ok_or(ReadBackError::NoText)?;
    Ok(ReadBack::Changed(merge(exported, current, text, format, limits)?))
}
