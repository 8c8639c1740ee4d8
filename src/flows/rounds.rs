//! Background work in rounds: pauses that end with the process, and logs that tell of changes alone.

use std::{fmt::Display, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout_at},
};
use tokio_util::sync::CancellationToken;

/// Pause between pages of a follower, for other transactions, and so that news close together share a page.
const BETWEEN_PAGES: Duration = Duration::from_millis(50);
/// Longest pause between looks of a follower without a wake-up, and the pause after a failure.
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);

/// Waits between two rounds. Returns false if the process stops.
pub(in crate::flows) async fn pause(stop: &CancellationToken, pause: Duration) -> bool {
    stop.run_until_cancelled(sleep(pause)).await.is_some()
}

/// Waits after a round of a follower: a moment if it found `more`, else until reviews end or the next look. Returns
/// false if the process stops.
pub(in crate::flows) async fn pause_of_follower<E>(
    stop: &CancellationToken,
    news: &mut watch::Receiver<()>,
    more: &Result<bool, E>,
) -> bool {
    let look = Instant::now() + BETWEEN_LOOKS;
    let (more, pause) = more.as_ref().map_or((false, BETWEEN_LOOKS), |more| (*more, BETWEEN_PAGES));
    let rest = async {
        sleep(pause).await;
        if !more {
            drop(timeout_at(look, news.changed()).await);
        }
    };
    stop.run_until_cancelled(rest).await.is_some()
}

/// Log of work in rounds: its first failure, and its recovery, but no failure in between.
pub(in crate::flows) struct FailureLog {
    fails: &'static str,
    works: &'static str,
    pub is_failing: bool,
}

impl FailureLog {
    /// Begins with work that has not failed. The words tell of its failure, and of its recovery.
    pub fn new(fails: &'static str, works: &'static str) -> Self {
        Self { fails, works, is_failing: false }
    }

    /// Logs the result of a round if it differs from the round before.
    pub fn note<T, E: Display>(&mut self, result: &Result<T, E>) {
        match result {
            Ok(_) if self.is_failing => tracing::info!("{}", self.works),
            Err(error) if !self.is_failing => tracing::warn!(%error, "{}; trying again", self.fails),
            _ => {}
        }
        self.is_failing = result.is_err();
    }
}
