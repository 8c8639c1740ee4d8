//! Changes of files become changes of their documents, by the rules of any other edit; files that cannot be taken are
//! set aside.

use tokio::task::block_in_place;

use super::{
    count,
    file_snapshot::{FileState, SessionFiles, WorkspaceFile},
};
use crate::{
    flows::sessions::{
        Sidecar, cleaned,
        documents::{DocumentError, add, entries, format_of, keep},
    },
    workspace::{FileContent, digest},
};
use umbra_sidecar::document::{
    Document, DocumentLimits, Format,
    merge::merge,
    merge_base::{MergeBase, UNREADABLE_HISTORY, merge_base},
    patch::Patch,
    revision::{DocumentChange, Etag, WORKSPACE},
};
use umbra_store::{
    StoreError,
    documents::{StoredChange, StoredDocument},
    sessions::LockedSession,
};

impl Sidecar {
    /// Takes the changes of files into the documents of a locked session.
    ///
    /// # Errors
    /// The database does not answer; the step is lost.
    pub(in crate::flows::sessions) async fn take_files(
        &self,
        step: &mut LockedSession,
        held: &mut SessionFiles,
    ) -> Result<(), StoreError> {
        if !step.is_open() {
            return Ok(());
        }
        let folder = held.folder.clone().unwrap_or_default();
        let mut stay = Vec::new();
        for mut seen in std::mem::take(&mut held.seen) {
            if seen.said == FileState::Changed {
                match self.take_one(step, &seen).await? {
                    Ok(changed) => {
                        count("taken", changed.into());
                        held.changed |= changed;
                        seen.said = FileState::Known;
                    }
                    Err(why) => {
                        let (file, aside) = (&seen.entry.name, seen.aside());
                        tracing::info!(
                            session = %step.session.id,
                            file,
                            "a file could not be applied to its document and is set aside"
                        );
                        count("aside", 1);
                        step.session.add_notice(format!(
                            "{folder}/{file} could not be applied to its document: {why}. The file is now \
                             {folder}/{aside}; add what the document lacks"
                        ));
                        held.aside.push((file.clone(), aside));
                        held.changed = true;
                        continue;
                    }
                }
            }
            stay.push(seen);
        }
        held.seen = stay;
        Ok(())
    }

    /// Takes the content of one file. Returns true if that changed the session, or the reason why the file cannot be
    /// taken.
    async fn take_one(
        &self,
        step: &mut LockedSession,
        seen: &WorkspaceFile,
    ) -> Result<Result<bool, String>, StoreError> {
        let limits = DocumentLimits::default();
        let bytes = match &seen.entry.content {
            FileContent::Bytes(bytes) => bytes,
            FileContent::Large => return Ok(Err(format!("the file has more than {} bytes", limits.bytes))),
            FileContent::Other(why) => return Ok(Err(format!("the file {why}"))),
        };
        let text = match std::str::from_utf8(bytes) {
            Ok(text) if text.contains('\0') => return Ok(Err("the file has a NUL byte".to_owned())),
            Ok(text) => text,
            Err(_) => return Ok(Err("the file is not UTF-8 text".to_owned())),
        };
        let read = || {
            let text = cleaned(text);
            let read = Document::parse(text.as_str(), seen.format, &limits).map_err(|error| error.to_string())?;
            read.check().map_err(|error| error.to_string()).map(|()| text)
        };
        let (text, name) = match block_in_place(read) {
            Ok(text) => (text, seen.name.as_str()),
            Err(why) => return Ok(Err(why)),
        };
        let Some(at) = step.documents.iter().position(|document| document.name == name) else {
            return self.take_new(step, seen, &text).await;
        };
        let known = step.documents[at].clone();
        if format_of(&known.format) != seen.format {
            return Ok(Err(format!("the document {name} has the format {}", known.format)));
        }
        if text == known.text {
            return Ok(Ok(false));
        }
        let (state, first) = (digest(bytes), Etag::of(&known.first).to_string());
        let was = if state == first { Some(0) } else { step.version_of(name, &state).await? };
        let mark = match &seen.entry.mark {
            // Umbra wrote this content: a state of the document that was never noted for the file, or a later one than
            // noted.
            None if was.is_some() => return Ok(Ok(false)),
            Some(mark) if was.is_some_and(|was| was > mark.version) => return Ok(Ok(false)),
            None => return Ok(Err("the state of the document that it changes is unknown".to_owned())),
            Some(mark) => mark,
        };
        let changes = if mark.digest == first { Some(Vec::new()) } else { step.changes_to(name, &mark.digest).await? };
        let (made, merged) = match block_in_place(|| joined(&known, changes.as_deref(), &text, seen.format)) {
            Ok(Some(joined)) => joined,
            Ok(None) => return Ok(Ok(false)),
            Err(why) => return Ok(Err(why)),
        };
        let change = if made.text == known.text {
            DocumentChange::Put
        } else {
            let said = (merged != text).then(|| Patch::between(&merged, &text));
            DocumentChange::Merge { from: Etag::of(&made.text), said }
        };
        let version = known.version + 1;
        step.documents[at] = kept(keep(step, &known, &merged, change, WORKSPACE.to_owned()).await)?;
        for notice in told(&made) {
            let file = format!("{}/{}", step.session.files.as_deref().unwrap_or_default(), seen.entry.name);
            step.session
                .add_notice(format!("{file} {notice} (version {version}; the history of {name} has all versions)"));
        }
        Ok(Ok(true))
    }

    /// Makes a document of a new file.
    async fn take_new(
        &self,
        step: &mut LockedSession,
        seen: &WorkspaceFile,
        text: &str,
    ) -> Result<Result<bool, String>, StoreError> {
        let most = self.settings.sidecar.max_documents;
        if step.documents.len() >= most {
            return Ok(Err(format!("a session may have {most} documents at most (sidecar.max_documents)")));
        }
        kept(add(step, &seen.name, seen.format, text, WORKSPACE.to_owned()).await)?;
        Ok(Ok(true))
    }
}

/// Returns the merged text of a document and a file, with the merge base; `None` if the document stays as it is.
fn joined(
    known: &StoredDocument,
    changes: Option<&[StoredChange]>,
    text: &str,
    format: Format,
) -> Result<Option<(MergeBase, String)>, String> {
    let entries = changes.and_then(entries).ok_or(UNREADABLE_HISTORY)?;
    let made = merge_base(&known.first, &entries, text)?;
    if made.text == text {
        return Ok(None);
    }
    let merged = merge(&made.text, &known.text, text, format, &DocumentLimits::default());
    // The file's text and the document's may form a credential together.
    let merged = cleaned(&merged.map_err(|error| error.to_string())?);
    Ok((merged != known.text).then_some((made, merged)))
}

/// Returns notices about a save whose result may differ from what its author meant.
fn told(made: &MergeBase) -> impl Iterator<Item = String> {
    let older =
        "was saved from an older text: the changes made in between are kept and merged; remove again what should go";
    let without = match made.without {
        0 => None,
        1 => Some("was saved without a line that others had added: that line is removed".to_owned()),
        lines => Some(format!("was saved without {lines} lines that others had added: those lines are removed")),
    };
    made.is_older.then(|| older.to_owned()).into_iter().chain(without)
}

/// Returns the document that was stored; a change from a file can fail in the database alone.
fn kept(document: Result<StoredDocument, DocumentError>) -> Result<StoredDocument, StoreError> {
    document.map_err(|error| match error {
        DocumentError::Store(error) => error,
        _ => StoreError::Inconsistent { table: "sidecar_change", problem: "a change cannot be written".to_owned() },
    })
}
