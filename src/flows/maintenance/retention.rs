//! Deletion of old rows: events first, then their reviews, then counters and keys; a little at a time.
//!
//! A sweep that is dropped in the middle, or fails, leaves nothing half done; the next one continues.

use std::time::Duration;

use crate::{flows::maintenance::Maintenance, telemetry::metric};
use umbra_config::settings::Retention;
use umbra_store::{StoreError, retention::RetentionLock};

/// Most batches of a kind per sweep; the rest waits for the next sweep.
const BATCHES: u32 = 500;
/// Pause between batches, for other transactions.
const PAUSE: Duration = Duration::from_millis(20);

impl Maintenance {
    /// Deletes rows that are older than `keep` allows, unless another process is doing it.
    pub(in crate::flows) async fn sweep(&self, keep: &Retention) {
        match self.delete_old(keep).await {
            Ok(()) => {}
            Err(error) if error.is_transient() => {
                tracing::info!(%error, "rows beyond their retention could not be deleted yet; trying again");
            }
            Err(error) => tracing::warn!(%error, "rows beyond their retention could not be deleted; trying again"),
        }
    }

    async fn delete_old(&self, keep: &Retention) -> Result<(), StoreError> {
        let Some(mut sweep) = self.store.upkeep().sweep().await? else { return Ok(()) };
        if keep.events_days > 0 {
            let dropped = sweep.drop_partitions(keep.events_days).await?;
            count("partitions", dropped);
            if dropped > 0 {
                tracing::info!(partitions = dropped, "dropped events older than retention.events_days");
            }
        }
        for kind in KINDS {
            for _ in 0..BATCHES {
                let deleted = delete(kind, &mut sweep, keep).await?;
                count(kind, deleted);
                if deleted == 0 {
                    break;
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(())
    }
}

/// Kinds of rows that are deleted in batches. Reviews go only after their events, since an event shows its reviews.
const KINDS: [&str; 7] = ["reviews", "counts", "cooldowns", "keys", "calls", "sessions", "tools"];

/// Deletes a batch of a kind.
async fn delete(kind: &str, sweep: &mut RetentionLock, keep: &Retention) -> Result<u64, StoreError> {
    match kind {
        "reviews" if keep.reviews_days > 0 => sweep.delete_reviews(keep.reviews_days).await,
        "counts" if keep.counts_days > 0 => sweep.delete_counts(keep.counts_days).await,
        "tools" if keep.counts_days > 0 => sweep.delete_tools(keep.counts_days).await,
        // A session keeps its labels, and a run its execution, as long as their events are kept.
        "calls" if keep.events_days > 0 => sweep.delete_calls(keep.events_days).await,
        "sessions" if keep.events_days > 0 => sweep.delete_sessions(keep.events_days).await,
        "cooldowns" => sweep.delete_cooldowns().await,
        "keys" => sweep.delete_keys(keep.idempotency_hours).await,
        _ => Ok(0),
    }
}

fn count(kind: &'static str, deleted: u64) {
    metrics::counter!(metric::RETENTION, "kind" => kind).increment(deleted);
}
