//! Documents of a session: read, put, edited, with their history. Texts pass the screening of events first, so no
//! document holds a credential.
//!
//! A change names the state that it started from (`If-Match`). If the document has moved on, the change is made on that
//! state, which the history gives back, and merged with the present text; contradictory changes are refused as a whole.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::{
    AgentFilter, Sidecar, cleaned,
    faults::RequestPartFault,
    workspace::{not_seen, not_written},
};
use umbra_domain::SessionId;
use umbra_sidecar::document::{
    Document, DocumentLimits, Format, LimitError, YamlError,
    edit::{self, Edit, EditFault},
    merge::{Conflict, MergeError, merge},
    name::{Name, NameError},
    revision::{DocumentChange, Entry, Etag, replay},
};
use umbra_store::{
    StoreError,
    documents::{NewChange, NewDocument, StoredChange, StoredDocument},
    paging::{Page, Seek},
    sessions::LockedSession,
};

/// Longest wait of a change, since others may be under way on the same document.
const TO_REVISE: Duration = Duration::from_secs(2);

/// Way to change a document.
#[derive(Debug, Clone)]
pub enum Revise {
    /// A new text.
    Put(String),
    /// Edits of the text.
    Edits(Vec<Edit>),
}

/// A requested change of a document.
#[derive(Debug, Clone)]
pub struct Revision {
    /// Name of the document, as the caller wrote it.
    pub name: String,
    /// Format, if the name's ending does not tell it.
    pub format: Option<Format>,
    /// New text, or edits.
    pub revise: Revise,
    /// State that the change started from, as in the header `If-Match`.
    pub if_match: Option<String>,
    /// True if the document must not exist yet (`If-None-Match: *`).
    pub must_be_new: bool,
    /// Author of the change; the session's agent if none is named.
    pub by: Option<String>,
}

/// Result of a change.
#[derive(Debug, Clone)]
pub struct Revised {
    /// The document as it is now.
    pub document: StoredDocument,
    /// True if the document did not exist before.
    pub created: bool,
    /// True if the document had moved on, and has both changes now.
    pub merged: bool,
    /// Warnings about its file.
    pub warnings: Vec<String>,
}

/// Reason why a document is not changed.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// There is no such session.
    #[error("session not found")]
    NoSession,
    /// The session is closed.
    #[error("the session is closed: attach a new session")]
    Closed,
    /// There is no such document.
    #[error("document not found in this session: PUT creates it")]
    NoDocument,
    /// The name is invalid.
    #[error("{0}")]
    Name(#[from] NameError),
    /// The document exists, and the request names no state.
    #[error(
        "the document exists: send the ETag of the state that you changed as `If-Match`, or `If-Match: *` to overwrite \
         any state"
    )]
    Unconditional,
    /// The document exists, and the request wants a new one.
    #[error("a document of this name exists: change it, or use another name")]
    Exists,
    /// The state that the change started from is unknown.
    #[error("no state of this document has that ETag: read the document again, and change the current state")]
    UnknownState,
    /// An edit cannot be made.
    #[error(transparent)]
    Edit(#[from] EditFault),
    /// The change and later changes contradict each other.
    #[error("this change conflicts with later changes of the document: read it again, and resolve the conflicts")]
    Conflicts(Vec<Conflict>),
    /// The document would be too large.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The text of a YAML document is not valid YAML.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// The document has another format.
    #[error("the document's format is {0} and cannot change: use another name for the new format")]
    Format(&'static str),
    /// The session has as many documents as it may have.
    #[error("a session may have {0} documents at most (sidecar.max_documents)")]
    TooMany(usize),
    /// The database does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database does not answer in time.
    #[error("the database does not answer in time")]
    Late,
    /// The database was not asked, since it did not answer lately.
    #[error("the sidecar is passive for a few seconds after repeated failures of the database: try again")]
    Passive,
    /// The stored history cannot be read.
    #[error("the history of this document cannot be read")]
    History,
}

/// Returns the stored word for a format.
pub fn word(format: Format) -> &'static str {
    match format {
        Format::Markdown => "markdown",
        Format::Yaml => "yaml",
    }
}

/// Returns the format of a stored word.
pub fn format_of(word: &str) -> Format {
    if word == "yaml" { Format::Yaml } else { Format::Markdown }
}

/// Parses a stored document, without limits: it was within limits when it was stored.
pub fn parsed(text: &str, format: &str) -> Option<Document> {
    Document::parse(text, format_of(format), &generous()).ok()
}

/// Returns limits for reading stored documents, which may have been written under other limits.
fn generous() -> DocumentLimits {
    DocumentLimits { bytes: usize::MAX, sections: usize::MAX, items: usize::MAX, depth: usize::MAX, edits: usize::MAX }
}

impl Sidecar {
    /// Changes a document, or creates one.
    ///
    /// # Errors
    /// See [`DocumentError`]; nothing is changed then, unless the database did not answer.
    pub async fn revise(
        &self,
        session: SessionId,
        revision: Revision,
        may: AgentFilter<'_>,
    ) -> Result<Revised, DocumentError> {
        if self.health.is_passive() {
            return Err(DocumentError::Passive);
        }
        let revising = self.revise_in_time(session, revision, may);
        tokio::time::timeout(TO_REVISE, revising).await.unwrap_or(Err(DocumentError::Late))
    }

    async fn revise_in_time(
        &self,
        session: SessionId,
        revision: Revision,
        may: AgentFilter<'_>,
    ) -> Result<Revised, DocumentError> {
        let found = self.store.sessions().step(session).await?.filter(|step| may(&step.session.agent));
        let mut step = found.ok_or(DocumentError::NoSession)?;
        if !step.is_open() {
            return Err(DocumentError::Closed);
        }
        let mut warnings = Vec::new();
        let until = Instant::now() + self.settings.sidecar.deadline;
        let looked = self.look_at_files(&step, until).await.inspect_err(|error| warnings.push(not_seen(error)));
        let mut held = looked.unwrap_or_default();
        self.take_files(&mut step, &mut held).await?;
        let versions =
            |step: &LockedSession| step.documents.iter().map(|document| document.version).collect::<Vec<_>>();
        let before = versions(&step);
        let mut revised = self.revise_locked(&mut step, revision).await?;
        let writes = held.plan(&step.documents);
        if held.changed || versions(&step) != before {
            step.keep().await?;
        } else {
            drop(step);
        }
        let written = self.write_files_until(writes, until).await;
        warnings.extend(written.err().map(|error| not_written(&error)));
        revised.warnings = warnings;
        Ok(revised)
    }

    async fn revise_locked(&self, step: &mut LockedSession, revision: Revision) -> Result<Revised, DocumentError> {
        let (name, by_ending) = Name::of_document(&revision.name)?;
        let says = revision.name.to_ascii_lowercase() != name.as_str();
        let said = revision.format.or(says.then_some(by_ending));
        let by = revision.by.as_deref().map_or_else(|| step.session.agent.clone(), cleaned);
        let Some(at) = step.documents.iter().position(|document| document.name == name.as_str()) else {
            return self.create(step, &name, said.unwrap_or(Format::Markdown), revision, by).await;
        };
        let known = step.documents[at].clone();
        if revision.must_be_new {
            return Err(DocumentError::Exists);
        }
        let format = format_of(&known.format);
        if said.is_some_and(|said| said != format) {
            return Err(DocumentError::Format(word(format)));
        }
        let current = Etag::of(&known.text);
        let base = match (&revision.if_match, &revision.revise) {
            (Some(given), _) if current.matches(given) => None,
            (Some(given), _) => Some(state_at(step, &known, given).await?),
            (None, Revise::Edits(_)) => None,
            (None, Revise::Put(_)) => return Err(DocumentError::Unconditional),
        };
        let limits = DocumentLimits::default();
        let from = base.as_deref().unwrap_or(&known.text);
        let (wanted, change) = revised(from, format, &revision.revise, &limits)?;
        let (text, change) = match &base {
            None => (wanted, change),
            Some(base) => {
                let merged = merge(base, &known.text, &wanted, format, &limits).map_err(|error| match error {
                    MergeError::Conflicts(conflicts) => DocumentError::Conflicts(conflicts),
                    MergeError::Limit(limit) => DocumentError::Limit(limit),
                })?;
                (merged, DocumentChange::Merge { from: Etag::of(base), said: None })
            }
        };
        let merged = base.is_some();
        if text == known.text {
            return Ok(Revised { document: known, created: false, merged, warnings: Vec::new() });
        }
        let document = keep(step, &known, &text, change, by).await?;
        step.documents[at] = document.clone();
        Ok(Revised { document, created: false, merged, warnings: Vec::new() })
    }

    async fn create(
        &self,
        step: &mut LockedSession,
        name: &Name,
        format: Format,
        revision: Revision,
        by: String,
    ) -> Result<Revised, DocumentError> {
        let Revise::Put(text) = revision.revise else { return Err(DocumentError::NoDocument) };
        if revision.if_match.is_some() {
            return Err(DocumentError::NoDocument);
        }
        let most = self.settings.sidecar.max_documents;
        if step.documents.len() >= most {
            return Err(DocumentError::TooMany(most));
        }
        let text = cleaned(&text);
        Document::parse(text.as_str(), format, &DocumentLimits::default())?.check()?;
        let document = add(step, name, format, &text, by).await?;
        Ok(Revised { document, created: true, merged: false, warnings: Vec::new() })
    }

    /// Returns a document of a new session.
    ///
    /// # Errors
    /// The name is invalid, or the text is too large, or should be YAML and is not.
    pub(super) fn first_document(
        name: &str,
        format: Option<Format>,
        text: &str,
    ) -> Result<NewDocument, RequestPartFault> {
        let (name, by_ending) = Name::of_document(name).map_err(|error| RequestPartFault::new(name, error))?;
        let (format, text) = (format.unwrap_or(by_ending), cleaned(text));
        let read = Document::parse(text.as_str(), format, &DocumentLimits::default());
        let read = read.map_err(|error| RequestPartFault::new(name.as_str(), error))?;
        read.check().map_err(|error| RequestPartFault::new(name.as_str(), error))?;
        Ok(NewDocument { name: name.as_str().to_owned(), format: word(format), first: text.clone(), text })
    }
}

/// Returns a new document in its stored form.
pub(super) fn begun(new: &NewDocument) -> StoredDocument {
    let NewDocument { name, format, first, text } = new.clone();
    StoredDocument { name, format: format.to_owned(), version: 0, at_turn: first.clone(), first, text }
}

/// Adds a document, with its text as the first version.
pub(super) async fn add(
    step: &mut LockedSession,
    name: &Name,
    format: Format,
    text: &str,
    by: String,
) -> Result<StoredDocument, DocumentError> {
    let (name, format) = (name.as_str().to_owned(), word(format));
    let new = NewDocument { name, format, first: String::new(), text: String::new() };
    step.add_document(&new).await?;
    let document = keep(step, &begun(&new), text, DocumentChange::Put, by).await?;
    let at = step.documents.partition_point(|other| other.name < document.name);
    step.documents.insert(at, document.clone());
    Ok(document)
}

/// Stores the next version of a document.
pub(super) async fn keep(
    step: &mut LockedSession,
    known: &StoredDocument,
    text: &str,
    change: DocumentChange,
    by: String,
) -> Result<StoredDocument, DocumentError> {
    let entry = Entry::between(by, Some(step.now), change, &known.text, text);
    let (before, after) = (entry.before.to_string(), entry.after.to_string());
    let written = serde_json::to_string(&entry).map_err(|_| DocumentError::History)?;
    let change = NewChange { before: &before, after: &after, entry: &written };
    let version = step.change_document(&known.name, text, change).await?;
    Ok(StoredDocument { version, text: text.to_owned(), ..known.clone() })
}

/// Returns the changed text and its history entry, without hidden characters and credentials.
fn revised(
    from: &str,
    format: Format,
    revise: &Revise,
    limits: &DocumentLimits,
) -> Result<(String, DocumentChange), DocumentError> {
    match revise {
        Revise::Put(text) => {
            let text = cleaned(text);
            Document::parse(text.as_str(), format, limits)?.check()?;
            Ok((text, DocumentChange::Put))
        }
        Revise::Edits(edits) => {
            let document = Document::parse(from, format, &generous())?;
            let edits = screened_edits(edits);
            let edited = edit::apply(&document, &edits, limits)?;
            // An edit and the text around it may form a credential together.
            Ok((cleaned(edited.text()), DocumentChange::Edits { edits }))
        }
    }
}

/// Returns the edits as they are stored, with the screened texts that the document gets.
fn screened_edits(edits: &[Edit]) -> Vec<Edit> {
    let screened = |edit: &Edit| {
        let mut value = serde_json::to_value(edit).ok()?;
        umbra_checks::redact_json(&mut value);
        serde_json::from_value(value).ok()
    };
    edits.iter().map(|edit| screened(edit).unwrap_or_else(|| edit.clone())).collect()
}

/// Returns the text of a document at an earlier state.
async fn state_at(step: &mut LockedSession, known: &StoredDocument, if_match: &str) -> Result<String, DocumentError> {
    let first = Etag::of(&known.first);
    for etag in if_match.split(',').map(|etag| etag.trim().trim_matches('"')) {
        if etag == first.to_string() {
            return Ok(known.first.clone());
        }
        if let Some(changes) = step.changes_to(&known.name, etag).await? {
            let entries = entries(&changes).ok_or(DocumentError::History)?;
            return replay(&known.first, entries.iter()).ok_or(DocumentError::History);
        }
    }
    Err(DocumentError::UnknownState)
}

/// Parses the stored entries of a history.
pub fn entries<'c>(changes: impl IntoIterator<Item = &'c StoredChange>) -> Option<Vec<Entry>> {
    changes.into_iter().map(|change| serde_json::from_str(&change.entry).ok()).collect()
}

/// Version of a document.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Version {
    /// Number of the version, counted from 1.
    pub version: i32,
    /// Time of the change.
    pub at: Timestamp,
    /// Record of the change: author, requested edits, and the difference.
    pub entry: Entry,
}

impl Sidecar {
    /// Returns a document; `None` if there is none.
    ///
    /// # Errors
    /// There is no such session, or the database does not answer.
    pub async fn document(
        &self,
        session: SessionId,
        name: &str,
        may: AgentFilter<'_>,
    ) -> Result<Option<StoredDocument>, DocumentError> {
        let (name, _) = Name::of_document(name)?;
        let found = self.read(self.store.sessions().get(session)).await?.filter(|(session, _)| may(&session.agent));
        let (_, documents) = found.ok_or(DocumentError::NoSession)?;
        Ok(documents.into_iter().find(|document| document.name == name.as_str()))
    }

    /// Returns a page of a document's versions; `None` if there is no such document.
    ///
    /// # Errors
    /// There is no such session, the database does not answer, or the history cannot be read.
    pub async fn history(
        &self,
        session: SessionId,
        name: &str,
        seek: Seek,
        may: AgentFilter<'_>,
    ) -> Result<Option<Page<Version>>, DocumentError> {
        let (name, _) = Name::of_document(name)?;
        if self.session(session, may).await?.is_none() {
            return Err(DocumentError::NoSession);
        }
        if self.read(self.store.sessions().document(session, name.as_str())).await?.is_none() {
            return Ok(None);
        }
        let Page { items, more } =
            self.read(self.store.sessions().document_changes(session, name.as_str(), seek)).await?;
        let entries = entries(items.iter().map(|(_, change)| change)).ok_or(DocumentError::History)?;
        let versions = items.iter().zip(entries);
        let version = |((number, change), entry): (&(i64, StoredChange), Entry)| {
            (*number, Version { version: change.version, at: change.at, entry })
        };
        Ok(Some(Page { items: versions.map(version).collect(), more }))
    }
}
