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
        for part in PARTS {
            for _ in 0..BATCHES {
                let deleted = part.delete(&mut sweep, keep).await?;
                count(part.word(), deleted);
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
#[derive(Clone, Copy)]
enum ExpiringRows {
    Reviews,
    Counts,
    Cooldowns,
    Keys,
    Calls,
    Sessions,
    Tools,
}

const PARTS: [ExpiringRows; 7] = [
    ExpiringRows::Reviews,
    ExpiringRows::Counts,
    ExpiringRows::Cooldowns,
    ExpiringRows::Keys,
    ExpiringRows::Calls,
    ExpiringRows::Sessions,
    ExpiringRows::Tools,
];

impl ExpiringRows {
    async fn delete(self, sweep: &mut RetentionLock, keep: &Retention) -> Result<u64, StoreError> {
        match self {
            Self::Reviews if keep.reviews_days > 0 => sweep.delete_reviews(keep.reviews_days).await,
            Self::Counts if keep.counts_days > 0 => sweep.delete_counts(keep.counts_days).await,
            Self::Tools if keep.counts_days > 0 => sweep.delete_tools(keep.counts_days).await,
            // A session keeps its labels, and a run its execution, as long as their events are kept.
            Self::Calls if keep.events_days > 0 => sweep.delete_calls(keep.events_days).await,
            Self::Sessions if keep.events_days > 0 => sweep.delete_sessions(keep.events_days).await,
            Self::Reviews | Self::Counts | Self::Tools | Self::Calls | Self::Sessions => Ok(0),
            Self::Cooldowns => sweep.delete_cooldowns().await,
            Self::Keys => sweep.delete_keys(keep.idempotency_hours).await,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Reviews => "reviews",
            Self::Counts => "counts",
            Self::Cooldowns => "cooldowns",
            Self::Keys => "keys",
            Self::Calls => "calls",
            Self::Sessions => "sessions",
            Self::Tools => "tools",
        }
    }
}

fn count(kind: &'static str, deleted: u64) {
    metrics::counter!(metric::RETENTION, "kind" => kind).increment(deleted);
}
