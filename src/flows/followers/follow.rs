//! Follows the reviews that ended and the findings of looks, in the order in which these became visible.
//!
//! One process of a cluster follows at a time. Its own workers and the wake-up of other processes wake it; the timer
//! only finds what a lost wake-up has left behind. Consequences are stored exactly once; files are written at least
//! once, and recognised by the id of their review or first finding.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::{
    findings::Artifacts,
    flows::{
        followers::Followers,
        rounds::{FailureLog, pause_of_follower},
    },
    telemetry::metric,
};
use umbra_store::{
    StoreError,
    follow::{Follower, FollowerPage},
};

/// Reviews per transaction.
const PAGE: i64 = 100;
/// Most overdue verdicts per look.
const OVERDUE: i64 = 200;

impl Followers {
    /// Follows until `stop`.
    pub async fn follow_until(self, stop: CancellationToken, artifacts: Arc<Artifacts>) {
        let mut news = self.verdicts.waiters.news.subscribe();
        let mut log = FailureLog::new(
            "breakers, lessons and messages that follow from reviews are delayed",
            "breakers, lessons and messages that follow from reviews are up to date again",
        );
        // Registered at 0, since a counter that appears with its first increment has no rate.
        metrics::counter!(metric::ARTIFACT_FAILURES).increment(0);
        loop {
            let followed = self.follow(&artifacts).await;
            log.note(&followed);
            if !pause_of_follower(&stop, &mut news, &followed).await {
                return;
            }
        }
    }

    /// Processes the next page of each follower; returns true if there is more.
    ///
    /// # Errors
    /// The database does not answer, or files cannot be written.
    pub async fn follow(&self, artifacts: &Arc<Artifacts>) -> anyhow::Result<bool> {
        self.decide_overdue().await?;
        let mut more = false;
        if let Some(page) = self.store.reviews().follow(Follower::Consequences, PAGE).await? {
            more |= self.consequences(page).await?;
        }
        if let Some(page) = self.store.reviews().follow(Follower::Artifacts, PAGE).await? {
            more |= write(artifacts, page).await?;
        }
        Ok(more)
    }

    /// Files overdue verdicts that no request has asked for.
    async fn decide_overdue(&self) -> Result<(), StoreError> {
        let rules = self.rules.load();
        let active = rules.shadows.iter().filter(|armed| armed.shadow.mode == umbra_domain::Mode::Active);
        let Some(soonest) = active.map(|armed| armed.shadow.verdict.within).min() else { return Ok(()) };
        for event in self.store.verdicts().list_undecided(soonest, OVERDUE).await? {
            self.verdicts.verdict(event).await?;
        }
        Ok(())
    }
}

async fn write(artifacts: &Arc<Artifacts>, page: FollowerPage) -> anyhow::Result<bool> {
    let more = page.ended.more;
    if !page.ended.reviews.is_empty() || !page.ended.looks.is_empty() {
        let writing = artifacts.write(&page.ended.reviews, &page.ended.looks);
        writing.await.inspect_err(|_| metrics::counter!(metric::ARTIFACT_FAILURES).increment(1))?;
    }
    page.commit().await?;
    Ok(more)
}
