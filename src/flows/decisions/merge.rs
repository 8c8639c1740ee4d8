//! Merges decisions made without the database into the audit.

use std::{io, time::Duration};

use tokio::task::block_in_place;
use tokio_util::sync::CancellationToken;

use super::{Boundary, spool::SpooledDecision};
use crate::{flows::rounds::pause, spool::Segment, telemetry::metric};
use umbra_store::decisions::{DecisionRows, NewCall};

/// Pause between looks at the spool.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// Looks between two probes of the folder, while it can be written.
const LOOKS_PER_PROBE: u32 = 5;
/// Most rows of one transaction, and most bytes.
const PAGE: usize = 500;
const PAGE_BYTES: usize = 4 * 1024 * 1024;

impl Boundary {
    /// Merges decisions made without the database into the audit, until `stop`.
    pub async fn merge_until(self, stop: CancellationToken) {
        let mut failing = false;
        for look in 0_u32.. {
            if look % LOOKS_PER_PROBE == 0 || self.files.complaint().is_some() {
                block_in_place(|| self.spool.probe());
            }
            let merged = self.merge().await;
            self.doubts.lines(self.spool.files().holds_refused());
            #[expect(clippy::cast_precision_loss, reason = "a gauge")]
            metrics::gauge!(metric::AUDIT_UNMERGED).set(self.spool.files().bytes() as f64);
            match &merged {
                Ok(0) => {}
                Ok(rows) => {
                    tracing::info!(rows, "decisions made while the database did not answer are now in the audit");
                }
                Err(error) if !failing => {
                    tracing::warn!(
                        %error,
                        "decisions made while the database did not answer are not in the audit yet; trying again"
                    );
                }
                Err(_) => {}
            }
            failing = merged.is_err();
            if !pause(&stop, BETWEEN_LOOKS).await {
                return;
            }
        }
    }

    async fn merge(&self) -> anyhow::Result<u64> {
        let spool = self.spool.files();
        block_in_place(|| spool.take_over())?;
        let (mut merged, mut refused) = (0, 0);
        while let Some(mut segment) = block_in_place(|| spool.next())? {
            while let Some(page) = block_in_place(|| page(&mut segment))? {
                merged += self.store.decisions().merge(page).await?;
            }
            refused += block_in_place(|| segment.done())?;
        }
        if refused > 0 {
            metrics::counter!(metric::AUDIT_REFUSED_LINES).increment(refused);
            tracing::error!(
                stretches = refused,
                "the audit's folder `unmerged` had unreadable lines: they are in unmerged/refused and not in the \
                 audit; look at them, then move that file away"
            );
        }
        Ok(merged)
    }
}

/// Reads the next rows of a segment, in order; `None` at the end.
fn page(segment: &mut Segment) -> io::Result<Option<DecisionRows>> {
    let (mut page, mut bytes) = (DecisionRows::default(), 0);
    while page.audit.len() < PAGE && bytes < PAGE_BYTES {
        let Some(line) = segment.line()? else { break };
        bytes += line.json.len();
        match serde_json::from_slice::<SpooledDecision>(&line.json) {
            Ok(SpooledDecision { audit, call }) => {
                page.audit.push(audit);
                page.calls.push(NewCall { row: page.audit.len(), ..call });
            }
            Err(_) => segment.refuse(line.place),
        }
    }
    Ok((!page.audit.is_empty()).then_some(page))
}
