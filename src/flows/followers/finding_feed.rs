//! Feed of new findings: one reader per process, woken when reviews end, feeds every stream of the process.
//!
//! A subscriber first listens and then reads the stored findings behind its own cursor, so none is missed; it
//! recognises duplicates by their numbers. A subscriber that lags is told so, and reads from the store again.

use std::{sync::Arc, time::Duration};

use tokio::{sync::broadcast, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::flows::followers::Followers;
use umbra_store::{StoreError, findings::FindingItem, paging::Feed};

/// Most findings per page.
const PAGE: u32 = 100;
/// Pages that a stream may lag before it reads from the store instead.
const BEHIND: usize = 32;
/// Least time between looks, at most forty a second; findings of that time are sent together.
const BETWEEN_LOOKS: Duration = Duration::from_millis(25);
/// Longest pause between looks, for lost wake-ups.
const POLL: Duration = Duration::from_secs(5);

/// Broadcast of new findings to streams. Cheap to clone.
#[derive(Debug, Clone)]
pub struct FindingFeed(broadcast::Sender<Arc<NewFindings>>);

/// Findings that have just become visible.
#[derive(Debug)]
pub struct NewFindings {
    /// Findings of every mode with their numbers, in order.
    pub items: Vec<(i64, FindingItem)>,
    /// Number up to which all findings have been sent.
    pub upto: i64,
    /// True if findings before these may not have been sent; the store has them.
    pub gap: bool,
}

impl Default for FindingFeed {
    fn default() -> Self {
        Self(broadcast::Sender::new(BEHIND))
    }
}

impl FindingFeed {
    /// Subscribes from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<NewFindings>> {
        self.0.subscribe()
    }
}

impl Followers {
    /// Feeds the streams until `stop`. Without streams it does not query the database.
    pub async fn tail_until(self, stop: CancellationToken) {
        let mut news = self.verdicts.waiters.news.subscribe();
        // Number up to which findings were sent; `None` while no stream listens.
        let mut position = None;
        loop {
            match self.tell_findings(position).await {
                Ok(reached) => position = reached,
                Err(error) => tracing::debug!(%error, "new findings could not be read; trying again"),
            }
            let rest = async {
                tokio::time::sleep(BETWEEN_LOOKS).await;
                drop(timeout(POLL, news.changed()).await);
            };
            if stop.run_until_cancelled(rest).await.is_none() {
                return;
            }
        }
    }

    /// Sends the findings behind `position` to the streams; returns the number of the last one sent.
    async fn tell_findings(&self, position: Option<i64>) -> Result<Option<i64>, StoreError> {
        let FindingFeed(streams) = &self.tail;
        // The last receiver may have gone meanwhile; then nothing is lost.
        let tell = |news| drop(streams.send(Arc::new(news)));
        if streams.receiver_count() == 0 {
            return Ok(None);
        }
        let Some(mut position) = position else {
            let newest = self.store.upkeep().newest(Feed::Result).await?;
            tell(NewFindings { items: Vec::new(), upto: newest, gap: true });
            return Ok(Some(newest));
        };
        loop {
            let items = self.store.findings().findings_behind(position, PAGE).await?;
            let Some((upto, _)) = items.last() else { return Ok(Some(position)) };
            position = *upto;
            let full = items.len() >= PAGE as usize;
            tell(NewFindings { items, upto: position, gap: false });
            if !full {
                return Ok(Some(position));
            }
        }
    }
}
