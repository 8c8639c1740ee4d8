//! Work by time alone: heartbeats, takeover from silent processes, partitions made ahead, deletion of old rows,
//! wake-ups of other processes.

use std::{sync::Arc, time::Duration};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    flows::{
        followers::feedback::show_precision,
        maintenance::{Maintenance, needs::Need},
        rounds::pause,
    },
    telemetry::metric,
};
use umbra_config::settings::Retention;
use umbra_store::wake_ups::WakeUpKind;

/// Pause between rounds of making partitions and deleting old rows.
const HOUSEKEEPING: Duration = Duration::from_mins(10);
/// Pause between looks for released units: a few fit into the second within which a release must be noticed.
const BETWEEN_RELEASES: Duration = Duration::from_millis(250);
/// Pause between looks for silent processes: with the heartbeat's three seconds instead, a takeover could take as much
/// longer.
const BETWEEN_RELIEFS: Duration = Duration::from_millis(500);
/// Pause between wake-ups of other processes, at most twenty a second.
const BETWEEN_RINGS: Duration = Duration::from_millis(50);
/// Pause between counts of the service's needs.
const BETWEEN_COUNTS: Duration = Duration::from_secs(15);
/// Pause before listening anew after the database went away.
const BETWEEN_LISTENS: Duration = Duration::from_secs(1);

impl Maintenance {
    /// Beats until `stop`, then leaves and hands back the reviews that are still leased.
    pub async fn beat_until(self, stop: CancellationToken) {
        let mut failing = false;
        loop {
            match self.pulse.beat().await {
                Ok(()) if failing => {
                    failing = false;
                    tracing::info!("the database answers again");
                }
                Ok(()) => {
                    if let Err(error) = self.file_standing().await {
                        tracing::debug!(
                            %error,
                            "the state of this process could not be stored; the next heartbeat tries again"
                        );
                    }
                }
                Err(error) if failing => tracing::debug!(%error, "the heartbeat still fails"),
                Err(error) => {
                    failing = true;
                    tracing::warn!(%error, "the heartbeat failed: no review starts until it succeeds");
                }
            }
            let (queued, running) = self.pulse.depth();
            #[expect(clippy::cast_precision_loss, reason = "a gauge")]
            for (state, value) in [("queued", queued as f64), ("running", running as f64)] {
                metrics::gauge!(metric::QUEUE_REVIEWS, "state" => state).set(value);
            }
            if !pause(&stop, self.pulse.settings().heartbeat).await {
                break;
            }
        }
        match self.pulse.leave().await {
            Ok(0) => {}
            Ok(reviews) => tracing::info!(reviews, "returned reviews to the queue for other processes"),
            Err(error) => {
                tracing::warn!(
                    %error,
                    "reviews could not be returned to the queue; other processes take them over later"
                );
            }
        }
    }

    /// Counts the needs of the service, until `stop`.
    pub async fn count_needs_until(self, stop: CancellationToken) {
        loop {
            match self.status().await {
                Ok(status) => {
                    for kind in Need::KINDS {
                        let count = status.needs.iter().filter(|need| need.kind == kind).count();
                        #[expect(clippy::cast_precision_loss, reason = "a gauge")]
                        metrics::gauge!(metric::NEEDS, "kind" => kind).set(count as f64);
                    }
                }
                Err(error) => tracing::debug!(%error, "problems that need attention could not be determined"),
            }
            if !pause(&stop, BETWEEN_COUNTS).await {
                return;
            }
        }
    }

    /// Takes over from silent processes, and wakes the workers with free slots for their reviews, until `stop`.
    pub async fn relieve_until(self, stop: CancellationToken) {
        let rest = BETWEEN_RELIEFS.min(self.pulse.settings().heartbeat);
        while pause(&stop, rest).await {
            match self.pulse.take_over_dead_workers().await {
                Ok(false) => {}
                Ok(true) => {
                    self.intake.wake();
                    if let Err(error) = self.store.queue().send_wake_up(WakeUpKind::Jobs).await {
                        tracing::debug!(
                            %error,
                            "other processes could not be notified; they find the work at their next poll"
                        );
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "it could not be checked whether other processes stopped responding");
                }
            }
        }
    }

    /// Looks for released units while spent caps are remembered, until `stop`.
    pub async fn watch_releases_until(self, stop: CancellationToken) {
        while pause(&stop, BETWEEN_RELEASES).await {
            let rules = self.rules.load_full();
            if rules.memory.is_empty() {
                continue;
            }
            let asked_at = self.clock.now();
            match self.store.queue().releases().await {
                Ok(releases) => rules.memory.confirm(releases, asked_at),
                // Without confirmation, remembered refusals soon lose effect.
                Err(error) => tracing::debug!(%error, "it could not be checked whether units of caps were released"),
            }
        }
    }

    /// Makes partitions ahead, deletes old rows and updates the precision of shadows, until `stop`.
    pub async fn keep_house_until(self, stop: CancellationToken, retention: Retention) {
        loop {
            let rules = self.rules.load_full();
            let shadows: Vec<&str> = rules.shadows.iter().map(|armed| armed.shadow.name.as_str()).collect();
            if let Err(error) = show_precision(&self.store, &shadows).await {
                tracing::debug!(%error, "people's feedback could not be counted");
            }
            stop.run_until_cancelled(self.sweep(&retention)).await;
            if !pause(&stop, HOUSEKEEPING).await {
                return;
            }
            if let Err(error) = self.store.upkeep().make_partitions(self.clock.now()).await {
                tracing::warn!(%error, "partitions for coming events could not be made; trying again");
            }
            if let Err(error) = self.store.backtests().forget_plans().await {
                tracing::warn!(%error, "backtests without a confirmation could not be deleted; trying again");
            }
        }
    }

    /// Wakes other processes when jobs wait here without a slot, or reviews ended, until `stop`.
    pub async fn ring_until(self, stop: CancellationToken, unleased: Arc<Notify>) {
        let ended = &self.verdicts.waiters.ring;
        loop {
            let news = tokio::select! {
                () = stop.cancelled() => return,
                () = unleased.notified() => WakeUpKind::Jobs,
                () = ended.notified() => WakeUpKind::Reviews,
            };
            if let Err(error) = self.store.queue().send_wake_up(news).await {
                tracing::debug!(%error, "other processes could not be notified; they find the work at their next poll");
            }
            tokio::time::sleep(BETWEEN_RINGS).await;
        }
    }

    /// Listens for the wake-ups of other processes, until `stop`.
    pub async fn listen_until(self, stop: CancellationToken) {
        loop {
            let heard = async {
                let mut listener = self.store.queue().listen().await?;
                loop {
                    let news = listener.next_wake_up().await?;
                    if news != Some(WakeUpKind::Reviews) {
                        self.intake.wake();
                    }
                    if news != Some(WakeUpKind::Jobs) {
                        self.verdicts.hear_of_reviews().await?;
                    }
                }
            };
            let ended: Result<std::convert::Infallible, umbra_store::StoreError> = tokio::select! {
                () = stop.cancelled() => return,
                ended = heard => ended,
            };
            let Err(error) = ended;
            tracing::debug!(%error, "notifications of the database cannot be received; reviews are found by polling");
            if !pause(&stop, BETWEEN_LISTENS).await {
                return;
            }
        }
    }
}
