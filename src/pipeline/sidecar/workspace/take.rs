//! What somebody changed in a file becomes a change of its document, by the rules of any other edit; what cannot, is set aside.

use super::{
    count,
    held::{Held, Said, Seen},
};
use crate::{
    pipeline::sidecar::{
        Sidecar,
        documents::{DocumentError, add, entries, format_of, keep, screened},
    },
    sidecar::document::{
        Document, Limits,
        name::{ReadBack, read_back},
        revision::{Change, Etag, WORKSPACE},
        unseen::made_from,
    },
    store::{StoreError, documents::StoredDocument, sessions::Stepping},
    workspace::{Content, digest},
};

impl Sidecar {
    /// Takes what was changed in files into the documents of a session that is locked.
    ///
    /// # Errors
    /// The database does not answer: the step is lost.
    pub(in crate::pipeline::sidecar) async fn take_files(
        &self,
        step: &mut Stepping,
        held: &mut Held,
    ) -> Result<(), StoreError> {
        if !step.is_open() {
            return Ok(());
        }
        let folder = held.folder.clone().unwrap_or_default();
        let mut stay = Vec::new();
        for mut seen in std::mem::take(&mut held.seen) {
            if seen.said == Said::Changed {
                match self.take_one(step, &seen).await? {
                    Ok(changed) => {
                        count("taken", changed.into());
                        held.changed |= changed;
                        seen.said = Said::Known;
                    }
                    Err(why) => {
                        let (file, aside) = (&seen.entry.name, seen.aside());
                        tracing::info!(session = %step.session.id, file, "a file is no change of its document: it is set aside");
                        count("aside", 1);
                        step.session.notice(format!(
                            "{folder}/{file} could not be taken: {why}. It lies in {folder}/{aside} now; see what of it the document lacks"
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

    /// Takes what one file says; whether the session is another one for it, or why it cannot be taken.
    async fn take_one(&self, step: &mut Stepping, seen: &Seen) -> Result<Result<bool, String>, StoreError> {
        let limits = Limits::default();
        let bytes = match &seen.entry.content {
            Content::Bytes(bytes) => bytes,
            Content::Large => return Ok(Err(format!("it has more than {} bytes", limits.bytes))),
            Content::Other(why) => return Ok(Err(format!("it {why}"))),
        };
        let Some(text) = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0')) else {
            return Ok(Err("it is no text in UTF-8".to_owned()));
        };
        let (text, name) = (screened(text), seen.name.as_str());
        let read = Document::parse(text.as_str(), seen.format, &limits);
        if let Err(why) =
            read.map_err(|error| error.to_string()).and_then(|read| read.check().map_err(|error| error.to_string()))
        {
            return Ok(Err(why));
        }
        let Some(at) = step.documents.iter().position(|document| document.name == name) else {
            return self.take_new(step, seen, &text).await;
        };
        let known = step.documents[at].clone();
        if format_of(&known.format) != seen.format {
            return Ok(Err(format!("the document {name} is {}", known.format)));
        }
        if text == known.text {
            return Ok(Ok(false));
        }
        let (state, first) = (digest(bytes), Etag::of(&known.first).to_string());
        let was = if state == first { Some(0) } else { step.version_of(name, &state).await? };
        let mark = match &seen.entry.mark {
            // A state of the document that was never noted for the file, or one that came after what was noted: ours.
            None if was.is_some() => return Ok(Ok(false)),
            Some(mark) if was.is_some_and(|was| was > mark.version) => return Ok(Ok(false)),
            None => return Ok(Err("nobody knows which state of the document it was made from".to_owned())),
            Some(mark) => mark,
        };
        let changes = if mark.digest == first { Some(Vec::new()) } else { step.changes_to(name, &mark.digest).await? };
        let entries = changes.as_deref().and_then(entries);
        let base = entries.and_then(|entries| made_from(&known.first, &entries, &text, seen.format).ok());
        let Some(base) = base else {
            return Ok(Err("it was made from a state that the document never had".to_owned()));
        };
        let merged = match read_back(&base, &known.text, text.as_bytes(), seen.format, &limits) {
            Ok(ReadBack::Untouched) => return Ok(Ok(false)),
            // What came in whole may come together to a credential with what stood there.
            Ok(ReadBack::Changed(merged)) => screened(&merged),
            Err(error) => return Ok(Err(error.to_string())),
        };
        if merged == known.text {
            return Ok(Ok(false));
        }
        let change = if base == known.text { Change::Put } else { Change::Merge { from: Etag::of(&base) } };
        step.documents[at] = kept(keep(step, &known, &merged, change, WORKSPACE.to_owned()).await)?;
        Ok(Ok(true))
    }

    /// A file that nobody knows becomes a document.
    async fn take_new(&self, step: &mut Stepping, seen: &Seen, text: &str) -> Result<Result<bool, String>, StoreError> {
        let most = self.settings.max_documents;
        if step.documents.len() >= most {
            return Ok(Err(format!("a session has at most {most} documents (sidecar.max_documents)")));
        }
        kept(add(step, &seen.name, seen.format, text, WORKSPACE.to_owned()).await)?;
        Ok(Ok(true))
    }
}

/// A file's change is always of a document that can be kept.
fn kept(document: Result<StoredDocument, DocumentError>) -> Result<StoredDocument, StoreError> {
    document.map_err(|error| match error {
        DocumentError::Store(error) => error,
        _ => StoreError::Inconsistent { table: "sidecar_change", problem: "a change cannot be written".to_owned() },
    })
}
