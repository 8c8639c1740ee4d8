//! Seals the audit and keeps it outside of the database: one process at a time chains rows into blocks; each process
//! signs the end of the chain and writes the rows to its own files. No request waits for it.

use std::time::Duration;

use tokio::task::block_in_place;
use tokio_util::sync::CancellationToken;

use crate::flows::{
    decisions::{AuditFile, Boundary},
    rounds::pause,
};
use umbra_boundary::{
    checkpoints::{Signer, public_key},
    journal::Journal,
    record_json::line,
    seal::{GENESIS, block},
};
use umbra_domain::audit::{AuditFolder, AuditSeal};
use umbra_store::{StoreError, audit::AuditFilter, paging::Feed};

/// Pause between looks for rows that are not sealed or written yet.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// Rows of one block, and of one page.
const PAGE: i64 = 1_000;

/// Reason why something is not sealed or written yet.
#[derive(Debug, thiserror::Error)]
enum SealError {
    #[error("{0}")]
    File(#[from] std::io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Boundary {
    /// Seals new rows and signs the end of the chain, until `stop`.
    pub async fn seal_until(self, stop: CancellationToken) {
        let mut signer = None;
        let mut failing = false;
        loop {
            let sealed = self.seal(&mut signer).await;
            failing = self.note_file(AuditFile::Checkpoints, &sealed, failing, "the audit is not sealed");
            if stop.is_cancelled() {
                return;
            }
            // A last round after `stop` seals the last rows.
            pause(&stop, BETWEEN_LOOKS).await;
        }
    }

    /// Writes the audit to files, until `stop`.
    pub async fn write_audit_until(self, stop: CancellationToken) {
        let mut journal = None;
        let mut failing = false;
        loop {
            let written = self.write_audit(&mut journal).await;
            failing = self.note_file(AuditFile::Rows, &written, failing, "the audit is not written to files");
            if stop.is_cancelled() {
                return;
            }
            pause(&stop, BETWEEN_LOOKS).await;
        }
    }

    /// Records the state of a file of the audit, and logs the first failure of a series and the series' end. An error
    /// of the database says nothing about files. Returns true if `result` is a failure.
    fn note_file(&self, file: AuditFile, result: &Result<(), SealError>, failing: bool, what: &str) -> bool {
        match result {
            Ok(()) => self.files.note(file, None),
            Err(SealError::File(error)) => self.files.note(file, Some(error)),
            Err(SealError::Store(error)) if failing => tracing::debug!(%error, "still: {what}"),
            Err(SealError::Store(error)) => tracing::warn!(%error, "{what}; trying again"),
        }
        if failing && result.is_ok() {
            tracing::info!("resolved: {what}");
        }
        result.is_err()
    }

    async fn seal(&self, signer: &mut Option<Signer>) -> Result<(), SealError> {
        let signer = if let Some(signer) = signer {
            signer
        } else {
            let (noted, unsigned) =
                (self.store.audit().audit_folders().await?, self.store.audit().last_unsigned().await?);
            signer.insert(block_in_place(|| Signer::open(&self.settings.audit_dir(), &noted, unsigned))?)
        };
        while let Some(sealing) = self.store.audit().begin_sealing(PAGE).await? {
            let (Some(first), Some(last)) = (sealing.rows.first(), sealing.rows.last()) else { break };
            let (number, previous) = match &sealing.last {
                Some(seal) => (seal.block + 1, seal.hash.clone()),
                None => (1, GENESIS.to_vec()),
            };
            let hash = block(&previous, number, &sealing.rows).to_vec();
            let seal = AuditSeal { block: number, first: first.seq, last: last.seq, hash };
            let more = i64::try_from(sealing.rows.len()) == Ok(PAGE);
            sealing.seal(&seal).await?;
            if !more {
                break;
            }
        }
        let Some(newest) = self.store.audit().newest_seal().await? else { return Ok(()) };
        if block_in_place(|| signer.append(&newest, self.clock.now()))? {
            let key = signer.public_key().to_vec();
            self.store.audit().note_folder(&AuditFolder { key, block: newest.block, written: 0 }).await?;
        }
        Ok(())
    }

    async fn write_audit(&self, journal: &mut Option<Journal>) -> Result<(), SealError> {
        if journal.is_none() {
            let most = self.settings.boundary.audit.max_log_size_mb.saturating_mul(1024 * 1024);
            *journal = block_in_place(|| Journal::open(&self.settings.audit_dir(), most))?;
        }
        // Another process writes to this directory.
        let Some(journal) = journal else { return Ok(()) };
        loop {
            let after = block_in_place(|| journal.last())?;
            let drawn = self.store.upkeep().newest(Feed::Audit).await?;
            let mut page = self.store.audit().list(&AuditFilter::default(), after, PAGE).await?;
            // No process of Umbra has written a row whose number was not drawn.
            page.retain(|record| record.row.seq <= drawn);
            let lines: Vec<_> = page.iter().map(|record| (record.row.seq, line(record))).collect();
            block_in_place(|| journal.append(&lines))?;
            // After the append, so that the database counts only rows that are in the file.
            if let Some((written, _)) = lines.last()
                && let Some(key) = block_in_place(|| public_key(&self.settings.audit_dir()))?
            {
                self.store.audit().note_folder(&AuditFolder { key, block: 0, written: *written }).await?;
            }
            if i64::try_from(lines.len()) != Ok(PAGE) {
                return Ok(());
            }
        }
    }
}
