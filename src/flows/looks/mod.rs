//! Use case: built-in checks look at events that no review looks at, because a budget held back the model. They follow
//! the event feed behind the acknowledgement, in one process of a cluster at a time, with a share of one processor.

mod look;

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    flows::{active_configuration::RulesInForce, rounds::FailureLog, verdicts::Verdicts},
    telemetry::metric,
};
use umbra_config::Settings;
use umbra_domain::{ReviewScope, clock::Clock};
use umbra_store::{
    Store, StoreError,
    installation::Installation,
    looks::{LookBounds, NextLook},
};

/// Longest pause between looks for new events: those of a process that has died.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// Pause after events were stored, so that events close together share a page.
const BETWEEN_PAGES: Duration = Duration::from_millis(25);
/// Longest pause between two pages, so that a page that waited long for the database does not delay the next as long.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Most sequence numbers, events and bytes of a page, and most events of a page that is tried again. A page is in
/// memory as a whole, and its transaction is open while it is checked.
const NUMBERS: i64 = 5_000;
const EVENTS: i64 = 100;
const BYTES: i64 = 256 * 1024;
const EVENTS_AGAIN: i64 = 5;

/// Context of looks. Cheap to clone.
#[derive(Clone)]
pub struct Looks {
    /// The database.
    pub store: Store,
    /// The clock.
    pub clock: Clock,
    /// The configuration in force.
    pub rules: RulesInForce,
    /// Key of this installation's hashes.
    pub installation: Installation,
    /// Source of shadow versions; wakes the followers of findings.
    pub verdicts: Verdicts,
    /// Settings in force since the start.
    pub settings: Arc<Settings>,
    /// Notified when this process has stored events.
    pub stored: Arc<Notify>,
}

impl Looks {
    /// Runs checks on events until `stop`.
    pub async fn look_until(self, stop: CancellationToken) {
        let mut log =
            FailureLog::new("the built-in checks cannot examine events", "the built-in checks examine events again");
        // Registered at 0, since a counter that appears with its first increment has no rate.
        metrics::counter!(metric::LOOKS).increment(0);
        metrics::counter!(metric::CHECK_BACKLOG_SHED).increment(0);
        loop {
            let started = Instant::now();
            let looked = self.look(if log.is_failing { EVENTS_AGAIN } else { EVENTS }).await;
            log.note(&looked);
            let rest = async {
                if looked.unwrap_or(false) {
                    sleep(self.pause(started.elapsed())).await;
                } else if timeout(BETWEEN_LOOKS, self.stored.notified()).await.is_ok() {
                    sleep(BETWEEN_PAGES).await;
                }
            };
            if stop.run_until_cancelled(rest).await.is_none() {
                return;
            }
        }
    }

    /// Returns the pause after so much work that keeps looks to their share of a processor.
    fn pause(&self, worked: Duration) -> Duration {
        let share = self.settings.looks.processor_share.clamp(0.01, 1.0);
        worked.mul_f64(1.0 / share - 1.0).min(LONGEST_PAUSE)
    }

    /// Runs checks on the next page of at most `events` events. Returns true if more wait.
    async fn look(&self, events: i64) -> Result<bool, StoreError> {
        let behind = self.store.looks().behind().await?;
        #[expect(clippy::cast_precision_loss, reason = "a gauge")]
        metrics::gauge!(metric::CHECK_BACKLOG).set(behind as f64);
        if behind <= 0 {
            return Ok(false);
        }
        let rules = self.rules.load_full();
        let steps =
            rules.shadows.iter().any(|armed| armed.shadow.enabled && armed.shadow.scope == ReviewScope::Trajectory);
        let backlog = self.settings.looks.max_backlog.into();
        let bounds = LookBounds { numbers: NUMBERS, events, bytes: BYTES, backlog };
        match self.store.looks().next(bounds, steps).await? {
            NextLook::Elsewhere => Ok(false),
            NextLook::Shed(events) => {
                metrics::counter!(metric::CHECK_BACKLOG_SHED).increment(events.unsigned_abs());
                tracing::warn!(events, "the built-in checks skipped events because too many wait (looks.max_backlog)");
                Ok(true)
            }
            NextLook::Page(page) => self.look_at(&rules, page).await,
        }
    }
}
