//! What the files of a session said when it was locked, and what is to be written to them: decided without a disk.

use std::io;

use super::{about, count};
use crate::{
    flows::sessions::documents::format_of,
    workspace::{Content, Entry, Folder, Mark, Workspace, digest},
};
use umbra_sidecar::document::{Document, Format, Limits, name::Name, revision::Etag};
use umbra_store::documents::StoredDocument;

/// Whether what a file says is in its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// It is: nobody has changed the file since it was given, or the change was taken.
    Known,
    /// Somebody has changed it.
    Changed,
    /// Somebody is at it right now.
    Moving,
}

/// A file that is a document's, or is to become one's.
#[derive(Debug)]
pub struct Seen {
    pub name: Name,
    pub format: Format,
    pub entry: Entry,
    pub said: Said,
}

impl Seen {
    pub fn of(entry: Entry) -> Option<Self> {
        let (name, format) = Name::of_file(&entry.name)?;
        let said = if is_as_given(&entry) { Said::Known } else { Said::Changed };
        Some(Self { name, format, entry, said })
    }

    /// Whether it cannot be meant as it is: no text, no YAML, or nothing at all.
    pub fn is_unfinished(&self) -> bool {
        let Content::Bytes(bytes) = &self.entry.content else { return false };
        let Some(text) = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0')) else { return true };
        text.trim().is_empty()
            || Document::parse(text, self.format, &Limits::default()).is_ok_and(|read| read.check().is_err())
    }

    /// What the file is called when it makes room.
    pub fn aside(&self) -> String {
        let digest = match &self.entry.content {
            Content::Bytes(bytes) => digest(bytes),
            Content::Large | Content::Other(_) => format!("{:08x}", rand::random::<u32>()),
        };
        self.name.aside(self.format, &digest)
    }
}

/// Whether a file says what it was given.
pub(super) fn is_as_given(entry: &Entry) -> bool {
    let given = entry.mark.as_ref().map(|mark| mark.digest.as_str());
    matches!(&entry.content, Content::Bytes(bytes) if given == Some(digest(bytes).as_str()))
}

/// What the files of a session said when it was locked.
#[derive(Debug, Default)]
pub struct Held {
    /// The session's folder; `None` where there are no files, or they were not seen.
    pub folder: Option<String>,
    /// What lies there.
    pub seen: Vec<Seen>,
    /// Files that are to get another name: from, to.
    pub aside: Vec<(String, String)>,
    /// Whether the session is another one for it.
    pub changed: bool,
    /// There are files, and nobody knows what they say: neither does anybody know the documents.
    pub is_unknown: bool,
}

/// What is to be written to files.
#[derive(Debug)]
pub struct Writes {
    /// The session's folder.
    pub folder: String,
    aside: Vec<(String, String)>,
    files: Vec<Given>,
}

/// A file that is to be given a state of its document.
#[derive(Debug)]
struct Given {
    file: String,
    mark: Mark,
    /// The text, and what it takes the place of; `None` where the file says it already.
    text: Option<(String, Option<String>)>,
}

impl Held {
    /// Of a session that has just begun.
    pub fn new(folder: Option<String>) -> Self {
        Self { folder, ..Self::default() }
    }

    /// Of files that could not be looked at.
    pub fn unknown() -> Self {
        Self { is_unknown: true, ..Self::default() }
    }

    /// Files that somebody was at.
    pub fn moving(&self) -> impl Iterator<Item = &str> {
        self.seen.iter().filter(|seen| seen.said == Said::Moving).map(|seen| seen.entry.name.as_str())
    }

    /// What the files lack of these documents; to be written once the documents are kept. Nothing is written over a file that
    /// says what is not in its document.
    pub fn plan(&mut self, documents: &[StoredDocument]) -> Option<Writes> {
        let files: Vec<Given> = documents.iter().filter_map(|document| self.given(document)).collect();
        let (folder, aside) = (self.folder.clone()?, std::mem::take(&mut self.aside));
        (!files.is_empty() || !aside.is_empty()).then_some(Writes { folder, aside, files })
    }

    fn given(&self, document: &StoredDocument) -> Option<Given> {
        let file = Name::parse(&document.name).ok()?.file(format_of(&document.format));
        let mark = Mark { version: document.version, digest: Etag::of(&document.text).to_string() };
        let there = self.seen.iter().find(|seen| seen.entry.name == file);
        let text = match there.map(|seen| (seen, &seen.entry.content)) {
            None => Some((document.text.clone(), None)),
            Some((seen, Content::Bytes(bytes))) if *bytes == document.text.as_bytes() => {
                (seen.entry.mark.as_ref() != Some(&mark)).then_some(None)?
            }
            Some((seen, Content::Bytes(bytes))) if seen.said == Said::Known => {
                Some((document.text.clone(), Some(digest(bytes))))
            }
            Some(_) => return None,
        };
        Some(Given { file, mark, text })
    }
}

impl Writes {
    /// Writes them; `false` where the workspace does not have the folder in which the session is at work.
    pub fn carry_out(self, workspace: &Workspace) -> io::Result<bool> {
        let folder = match workspace.folder(&self.folder, true) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            folder => folder?,
        };
        self.write(&folder).map(|()| true).map_err(|error| about(&self.folder, &error))
    }

    fn write(&self, folder: &Folder) -> io::Result<()> {
        for (file, name) in &self.aside {
            folder.set_aside(file, name)?;
        }
        for Given { file, mark, text } in &self.files {
            if let Some((text, over)) = text {
                // Who was quicker is seen at the next look.
                if !folder.put(file, text.as_bytes(), over.as_deref())? {
                    continue;
                }
                count("given", 1);
            }
            folder.mark(file, mark)?;
        }
        Ok(())
    }
}
