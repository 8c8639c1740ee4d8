//! The tail of the findings: one reader a process, woken when reviews end, that feeds every stream of the process.
//!
//! A subscriber first listens and then reads what is stored behind its own cursor, so nothing falls in between; what
//! it hears twice it knows by the number. One that lags behind is told so, and reads from the store again.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{broadcast, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::flows::followers::Followers;
use umbra_store::{StoreError, findings::FindingItem, seek::Feed};

/// Most findings in one page.
const PAGE: u32 = 100;
/// Pages that a stream may lie behind before it reads from the store instead.
const BEHIND: usize = 32;
/// At most forty looks a second: what ends meanwhile is told together.
const BETWEEN_LOOKS: Duration = Duration::from_millis(25);
/// Between looks when every wake-up was lost.
const POLL: Duration = Duration::from_secs(5);

/// Where streams hear of new findings. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Tail(broadcast::Sender<Arc<NewFindings>>);

/// Findings that have just become visible.
#[derive(Debug)]
pub struct NewFindings {
    /// Each with its number, in order, of every mode.
    pub items: Vec<(i64, FindingItem)>,
    /// All findings up to this number have been told.
    pub upto: i64,
    /// Some before them may not have been: they stand in the store.
    pub gap: bool,
}

impl Default for Tail {
    fn default() -> Self {
        Self(broadcast::Sender::new(BEHIND))
    }
}

impl Tail {
    /// Listens from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<NewFindings>> {
        self.0.subscribe()
    }
}

impl Followers {
    /// Feeds the streams until `stop`. While there are none it asks the database nothing.
    pub async fn tail_until(self, stop: CancellationToken) {
        let mut news = self.verdicts.waiters.news();
        // Up to where findings were told; `None` while nobody listened.
        let mut position = None;
        loop {
            match self.tell_findings(position).await {
                Ok(reached) => position = reached,
                Err(error) => tracing::debug!(%error, "new findings could not be read; trying again"),
            }
            let rest = async {
                tokio::time::sleep(BETWEEN_LOOKS).await;
                drop(timeout(POLL, woken(&mut news)).await);
            };
            if stop.run_until_cancelled(rest).await.is_none() {
                return;
            }
        }
    }

    /// Tells the streams what stands behind `position`, and answers how far that was.
    async fn tell_findings(&self, position: Option<i64>) -> Result<Option<i64>, StoreError> {
        let Tail(streams) = &self.tail;
        // Nobody may listen any more when it is said: then nothing is lost.
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

async fn woken(news: &mut watch::Receiver<()>) {
    if news.changed().await.is_err() {
        // Its sender lives as long as the pipeline.
        std::future::pending::<()>().await;
    }
}
