//! Decisions that were made while the database was away: a line of JSON each, on the disk before they are answered, and
//! from there into the audit.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Boundary;
use crate::{
    boundary::seal::payload_mac,
    domain::audit::{AuditKind, AuditPayload},
    store::{StoreError, decisions::NewAudit},
};

/// The file, in the audit's folder.
const FILE: &str = "unmerged.jsonl";
/// Between looks at it.
const BETWEEN_LOOKS: std::time::Duration = std::time::Duration::from_secs(1);

/// The file's way in.
#[derive(Debug, Clone)]
pub(super) struct Spool(Arc<(PathBuf, Mutex<()>)>);

/// A row on its way.
#[derive(Serialize, Deserialize)]
struct Line {
    id: Uuid,
    agent: Option<String>,
    session: Option<String>,
    run: Option<String>,
    call_id: Option<String>,
    tool: Option<String>,
    body: String,
    salt: String,
    payload: String,
}

impl Spool {
    pub fn new(dir: &Path) -> Self {
        Self(Arc::new((dir.join(FILE), Mutex::default())))
    }

    /// Appends a row, durably.
    pub async fn append(&self, row: NewAudit) -> io::Result<()> {
        let spool = self.clone();
        let written = tokio::task::spawn_blocking(move || spool.append_blocking(row)).await;
        written.unwrap_or_else(|_| Err(io::Error::other("the writer has failed")))
    }

    fn append_blocking(&self, row: NewAudit) -> io::Result<()> {
        let NewAudit { id, agent, session, run, call_id, tool, body, payload, .. } = row;
        let Some((AuditPayload { salt, body: payload }, _)) = payload else { return Ok(()) };
        let line = Line { id, agent, session, run, call_id, tool, body, salt: hex::encode(salt), payload };
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        let (path, turn) = &*self.0;
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        file.write_all(&text)?;
        file.sync_all()
    }

    /// Takes what is there out of the way of new rows; it is there again after a crash.
    fn take(&self) -> io::Result<Vec<NewAudit>> {
        let (path, turn) = &*self.0;
        let taken = path.with_extension("merging");
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        if !taken.exists() {
            match fs::rename(path, &taken) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                renamed => renamed?,
            }
        }
        let text = fs::read_to_string(&taken)?;
        // A line that a crash has torn was not answered.
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).map(row).collect())
    }

    fn taken(&self) -> io::Result<()> {
        fs::remove_file(self.0.0.with_extension("merging"))
    }
}

fn row(line: Line) -> NewAudit {
    let Line { id, agent, session, run, call_id, tool, body, salt, payload } = line;
    let payload = AuditPayload { salt: hex::decode(salt).unwrap_or_default(), body: payload };
    let mac = payload_mac(&payload);
    let payload = Some((payload, mac));
    NewAudit { id, kind: AuditKind::Merged, agent, session, run, call_id, tool, body, payload }
}

/// Why rows are not merged yet.
#[derive(Debug, thiserror::Error)]
enum MergeError {
    #[error(transparent)]
    File(#[from] io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Boundary {
    /// Brings what was decided without the database into the audit, until `stop`.
    pub async fn merge_until(self, stop: CancellationToken) {
        loop {
            match self.merge().await {
                Ok(0) => {}
                Ok(rows) => tracing::info!(rows, "calls that ran while the database was away are in the audit now"),
                Err(error) => {
                    tracing::warn!(%error, "calls that ran while the database was away are not in the audit yet");
                }
            }
            if stop.run_until_cancelled(tokio::time::sleep(BETWEEN_LOOKS)).await.is_none() {
                return;
            }
        }
    }

    async fn merge(&self) -> Result<usize, MergeError> {
        let rows = self.spool.take()?;
        let count = rows.len();
        for row in rows {
            // By its id: what was merged before a crash is not there twice.
            self.store.append_audit(&row).await?;
        }
        if count > 0 {
            self.spool.taken()?;
        }
        Ok(count)
    }
}
