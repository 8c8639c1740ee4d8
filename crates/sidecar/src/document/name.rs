//! Names of documents and of their files in a workspace.
//!
//! A file name means the same on every system. The file lies in a folder of its session within the folder `.umbra`, so
//! no path leads out of the workspace. Code that writes there must ensure the rest: open each part without following
//! links, accept regular files only, read no more than a document may have, and write beside the file before replacing
//! it.

use std::fmt;

use super::Format;

/// Longest name, in bytes.
const MOST_NAME: usize = 64;
/// Folder of a workspace that holds exported files.
const FOLDER: &str = ".umbra";
/// Longest path of a folder of the workspace, in bytes, and most parts of it.
const MOST_FOLDER: (usize, usize) = (255, 16);

/// Name of a document or session, without the extension of its file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// Reason why a text is not a valid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NameError(String);

impl Name {
    /// Parses a name of a document or a session. Case is ignored, so that no two names are one file on any system.
    ///
    /// # Errors
    /// The name would not be safe as a file name.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let name = text.to_ascii_lowercase();
        let bytes = name.as_bytes();
        let invalid = |reason: &str| Err(NameError(reason.to_owned()));
        let is_sign = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return invalid("the name is empty") };
        if bytes.len() > MOST_NAME {
            return invalid(&format!("a name has at most {MOST_NAME} bytes"));
        }
        let inside = bytes.iter().all(|c| is_sign(*c) || b"-_.".contains(c)) && !name.contains("..");
        if !inside || !is_sign(*first) || !is_sign(*last) {
            return invalid("a name has letters (a-z), digits, and `-`, `_`, `.` between them");
        }
        if is_device(&name) {
            return invalid("the name is reserved for a device of the operating system");
        }
        Ok(Self(name))
    }

    /// Parses a document name from a URL or a file name, with or without extension: `todo`, `todo.md`, `plan.yaml`.
    ///
    /// # Errors
    /// The name would not be safe as a file name.
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

    /// Returns name and syntax of the document whose file has exactly this name.
    pub fn of_file(file: &str) -> Option<(Self, Format)> {
        Self::of_document(file).ok().filter(|(name, format)| name.file(*format) == file)
    }

    /// Returns the name for a file that is moved aside: `todo~conflict-1a2b3c4d.md`, which is the file of no document.
    pub fn aside(&self, format: Format, digest: &str) -> String {
        let (file, digest) = (self.file(format), digest.get(..8).unwrap_or(digest));
        file.replacen(self.as_str(), &format!("{self}~conflict-{digest}"), 1)
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name of the file that holds the document.
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

/// True if Windows opens a device by that name, whatever its extension (Microsoft, "Naming Files, Paths, and
/// Namespaces").
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name);
    let numbered = |device: &str| {
        stem.strip_prefix(device).is_some_and(|number| number.len() == 1 && number.bytes().all(|c| c.is_ascii_digit()))
    };
    matches!(stem, "con" | "prn" | "aux" | "nul") || numbered("com") || numbered("lpt")
}

/// A text does not name a valid folder of the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be a folder below the workspace, such as `apps/site`: at most {} bytes in {} parts, none of them empty, `.`, \
     `..`, `.umbra` or with control characters or backslashes", MOST_FOLDER.0, MOST_FOLDER.1
)]
pub struct FolderError;

/// Returns the folder of a session's files, relative to the workspace. `within` is the folder that the session works
/// in.
///
/// # Errors
/// `within` is not a valid folder of the workspace.
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
