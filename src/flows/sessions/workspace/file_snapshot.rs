//! Content of a session's files when the session was locked, and the plan of the writes to them.

use std::io;

use super::{about, count};
use crate::{
    flows::sessions::documents::format_of,
    workspace::{FileContent, Folder, FolderEntry, Mark, Workspace, digest},
};
use umbra_sidecar::document::{Document, DocumentLimits, Format, name::Name, revision::Etag};
use umbra_store::documents::StoredDocument;

/// Relation of a file's content to its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState {
    /// The document has the content: the file is unchanged since it was written, or its change was taken.
    Known,
    /// The file was changed.
    Changed,
    /// The file is being changed right now.
    Moving,
}

/// A file of a document, or of a document to be.
#[derive(Debug)]
pub struct WorkspaceFile {
    pub name: Name,
    pub format: Format,
    pub entry: FolderEntry,
    pub said: FileState,
}

impl WorkspaceFile {
    pub fn of(entry: FolderEntry) -> Option<Self> {
        let (name, format) = Name::of_file(&entry.name)?;
        let said = if is_as_given(&entry) { FileState::Known } else { FileState::Changed };
        Some(Self { name, format, entry, said })
    }

    /// True if the content cannot be final: not text, invalid YAML, or empty.
    pub fn is_unfinished(&self) -> bool {
        let FileContent::Bytes(bytes) = &self.entry.content else { return false };
        let Some(text) = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0')) else { return true };
        text.trim().is_empty()
            || Document::parse(text, self.format, &DocumentLimits::default()).is_ok_and(|read| read.check().is_err())
    }

    /// Returns the name under which the file is set aside.
    pub fn aside(&self) -> String {
        let digest = match &self.entry.content {
            FileContent::Bytes(bytes) => digest(bytes),
            FileContent::Large | FileContent::Other(_) => format!("{:08x}", rand::random::<u32>()),
        };
        self.name.aside(self.format, &digest)
    }
}

/// True if a file has the content that was last written to it.
pub(super) fn is_as_given(entry: &FolderEntry) -> bool {
    let given = entry.mark.as_ref().map(|mark| mark.digest.as_str());
    matches!(&entry.content, FileContent::Bytes(bytes) if given == Some(digest(bytes).as_str()))
}

/// Content of a session's files when the session was locked.
#[derive(Debug, Default)]
pub struct SessionFiles {
    /// Folder of the session; `None` if there are no files, or they were not read.
    pub folder: Option<String>,
    /// Files in the folder.
    pub seen: Vec<WorkspaceFile>,
    /// Files to be renamed: from, to.
    pub aside: Vec<(String, String)>,
    /// True if the files have changed the session.
    pub changed: bool,
    /// True if there are files whose content is unknown; then the documents are unknown too.
    pub is_unknown: bool,
}

/// Writes to the files of a session.
#[derive(Debug)]
pub struct Writes {
    /// Folder of the session.
    pub folder: String,
    aside: Vec<(String, String)>,
    files: Vec<FileWrite>,
}

/// A file that is to get a state of its document.
#[derive(Debug)]
struct FileWrite {
    file: String,
    mark: Mark,
    /// Text, and the digest of the content that it replaces; `None` if the file has the text already.
    text: Option<(String, Option<String>)>,
}

impl SessionFiles {
    /// Returns the state of a new session.
    pub fn new(folder: Option<String>) -> Self {
        Self { folder, ..Self::default() }
    }

    /// Returns the state of files that could not be read.
    pub fn unknown() -> Self {
        Self { is_unknown: true, ..Self::default() }
    }

    /// Returns the names of the files that were being changed.
    pub fn moving(&self) -> impl Iterator<Item = &str> {
        self.seen.iter().filter(|seen| seen.said == FileState::Moving).map(|seen| seen.entry.name.as_str())
    }

    /// Plans the writes that bring the files up to these documents, to be made once the documents are stored. A file is
    /// never overwritten while its content is not in its document.
    pub fn plan(&mut self, documents: &[StoredDocument]) -> Option<Writes> {
        let files: Vec<FileWrite> = documents.iter().filter_map(|document| self.given(document)).collect();
        let (folder, aside) = (self.folder.clone()?, std::mem::take(&mut self.aside));
        (!files.is_empty() || !aside.is_empty()).then_some(Writes { folder, aside, files })
    }

    fn given(&self, document: &StoredDocument) -> Option<FileWrite> {
        let file = Name::parse(&document.name).ok()?.file(format_of(&document.format));
        let mark = Mark { version: document.version, digest: Etag::of(&document.text).to_string() };
        let there = self.seen.iter().find(|seen| seen.entry.name == file);
        let text = match there.map(|seen| (seen, &seen.entry.content)) {
            None => Some((document.text.clone(), None)),
            Some((seen, FileContent::Bytes(bytes))) if *bytes == document.text.as_bytes() => {
                (seen.entry.mark.as_ref() != Some(&mark)).then_some(None)?
            }
            Some((seen, FileContent::Bytes(bytes))) if seen.said == FileState::Known => {
                Some((document.text.clone(), Some(digest(bytes))))
            }
            Some(_) => return None,
        };
        Some(FileWrite { file, mark, text })
    }
}

impl Writes {
    /// Makes the writes; `false` if the workspace does not have the folder that the agent works in.
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
        for FileWrite { file, mark, text } in &self.files {
            if let Some((text, over)) = text {
                // A change that came first is found at the next look.
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
