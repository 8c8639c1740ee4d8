//! What was decided without the database, brought into the audit.

use std::{io, time::Duration};

use tokio::task::block_in_place;
use tokio_util::sync::CancellationToken;

use super::{Boundary, spool::Faults};
use crate::telemetry::metric;
use umbra_store::StoreError;

/// Between looks at what waits.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// Looks between which the folder is tried, while all is well.
const LOOKS_PER_PROBE: u32 = 5;

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
        let mut failing = false;
        for look in 0_u32.. {
            if look % LOOKS_PER_PROBE == 0 || self.files.complaint().is_some() {
                block_in_place(|| self.spool.probe());
            }
            let merged = self.merge().await;
            self.doubts.lines(self.spool.holds_refused());
            #[expect(clippy::cast_precision_loss, reason = "a gauge")]
            metrics::gauge!(metric::AUDIT_UNMERGED).set(self.spool.len() as f64);
            match &merged {
                Ok(0) => {}
                Ok(rows) => tracing::info!(rows, "what was decided while the database was away is in the audit now"),
                Err(error) if !failing => {
                    tracing::warn!(%error, "what was decided while the database was away is not in the audit yet; trying again");
                }
                Err(_) => {}
            }
            failing = merged.is_err();
            if stop.run_until_cancelled(tokio::time::sleep(BETWEEN_LOOKS)).await.is_none() {
                return;
            }
        }
    }

    async fn merge(&self) -> Result<u64, MergeError> {
        let Some(mut taken) = block_in_place(|| self.spool.take())? else { return Ok(0) };
        let mut merged = 0;
        while let Some(page) = block_in_place(|| taken.page(&self.rows))? {
            let done = self.store.decisions().merge(page).await;
            if let Err(error) = &done {
                // The next look finds it all again.
                self.steps_over(error).await;
            }
            merged += done?;
        }
        let Faults { refused, gaps } = block_in_place(|| taken.done())?;
        if refused > 0 {
            metrics::counter!(metric::AUDIT_REFUSED_LINES, "problem" => "forged").increment(refused);
            tracing::error!(
                stretches = refused,
                "unmerged.jsonl had lines that no server of this installation wrote: they are in unmerged.refused, and not in the \
                 audit; find out who can write to the audit's folder"
            );
        }
        if gaps > 0 {
            metrics::counter!(metric::AUDIT_REFUSED_LINES, "problem" => "missing").increment(gaps);
            tracing::error!(
                places = gaps,
                "lines of unmerged.jsonl are missing or out of order: what was decided while the database was away is not all in \
                 the audit; find out who can write to the audit's folder"
            );
        }
        Ok(merged)
    }
}
