//! Decisions made without the database: durable in a [`Spool`] before they are answered, then merged into the audit, in
//! order and once.
//!
//! Lines wait in a queue; one thread writes all waiting lines with one sync.

use std::{path::Path, sync::Arc};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};
use uuid::Uuid;

use super::files::{AuditFile, AuditFiles};
use crate::{flows::serialise::to_json, spool::Spool};
use umbra_store::{
    StoreError,
    decisions::{NewAudit, NewCall},
};

/// Folder of the spool, within the audit's folder.
const FOLDER: &str = "unmerged";
/// Most lines that may wait to be written.
const MOST_WAITING: usize = 8_192;
/// Most bytes that may wait to be merged.
const MOST_BYTES: u64 = 512 * 1024 * 1024;

/// Spool of decisions. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct DecisionSpool(Arc<DecisionSpoolParts>);

#[derive(Debug)]
struct DecisionSpoolParts {
    files: Spool,
    audit: Arc<AuditFiles>,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<(Vec<u8>, oneshot::Sender<bool>)>,
    /// True while a thread writes; it takes the lines that come meanwhile.
    writing: bool,
}

/// Reason why a decision is not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpoolAppendError {
    /// The line was not written.
    Failed,
    /// The line was not written in time, and may be written yet.
    Late,
}

impl From<StoreError> for SpoolAppendError {
    /// A value that cannot be written as JSON; the error is logged.
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "a decision made without the database could not be recorded");
        Self::Failed
    }
}

/// A line of the spool: a decision that waits for the database.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SpooledDecision {
    pub audit: NewAudit,
    /// Call of the decision; its `row` counts within a page, and is set when the page is read.
    pub call: NewCall,
}

impl DecisionSpool {
    pub fn new(dir: &Path, owner: Uuid, audit: Arc<AuditFiles>) -> Self {
        let files = Spool::new(&dir.join(FOLDER), MOST_BYTES, owner);
        Self(Arc::new(DecisionSpoolParts { files, audit, queue: Mutex::default() }))
    }

    /// Returns the files of the spool.
    pub fn files(&self) -> &Spool {
        &self.0.files
    }

    /// Appends a line durably; waits until `by` at the latest.
    pub async fn append(&self, decision: &SpooledDecision, by: Instant) -> Result<(), SpoolAppendError> {
        match timeout_at(by, self.push(decision)?).await {
            Ok(Ok(true)) => Ok(()),
            Ok(_) => Err(SpoolAppendError::Failed),
            Err(_) => Err(SpoolAppendError::Late),
        }
    }

    /// Appends a line behind those that wait, at some later time.
    pub fn push(&self, decision: &SpooledDecision) -> Result<oneshot::Receiver<bool>, SpoolAppendError> {
        let text = to_json("a line of the outage", decision)?.into_bytes();
        let (written, answer) = oneshot::channel();
        let mut queue = self.0.queue.lock();
        if queue.waiting.len() >= MOST_WAITING {
            return Err(SpoolAppendError::Failed);
        }
        queue.waiting.push((text, written));
        if !std::mem::replace(&mut queue.writing, true) {
            let spool = self.clone();
            tokio::task::spawn_blocking(move || spool.write_waiting());
        }
        Ok(answer)
    }

    fn write_waiting(&self) {
        loop {
            let mut queue = self.0.queue.lock();
            if queue.waiting.is_empty() {
                queue.writing = false;
                return;
            }
            let (lines, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut queue.waiting).into_iter().unzip();
            drop(queue);
            let result = self.0.files.append(&lines);
            self.0.audit.note(AuditFile::Spool, result.as_ref().err());
            for one in waiting {
                let _ = one.send(result.is_ok());
            }
        }
    }

    /// Probes the folder, and records whether it can be written.
    pub fn probe(&self) {
        self.0.audit.note(AuditFile::Spool, self.0.files.probe().as_ref().err());
    }
}
