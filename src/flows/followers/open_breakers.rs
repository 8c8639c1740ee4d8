//! Cache of the breakers that are not closed, so that each answer to an agent's posts can tell of its breaker without a
//! read. This process reloads it when it has moved a breaker on, and each second for the changes of other processes.

use std::{collections::HashMap, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use super::{Followers, breaker_item::BreakerItem};
use umbra_domain::BreakerState;
use umbra_store::StoreError;

/// Most agents in the cache, those whose breakers opened last.
const MOST_KNOWN: i64 = 1_000;
/// Pause between reloads.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// Cache of the breakers that are not closed. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct OpenBreakers(Arc<ArcSwap<HashMap<String, BreakerAdvice>>>);

/// Recommendation about an agent whose breaker is not closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct BreakerAdvice {
    /// `open` to hold the agent back, `half_open` to let it try.
    pub recommendation: BreakerState,
    /// Reasons, in sentences.
    pub reasons: Vec<String>,
}

impl OpenBreakers {
    /// Returns the recommendation about an agent, unless its breaker is closed.
    pub fn of(&self, agent: &str) -> Option<BreakerAdvice> {
        self.0.load().get(agent).cloned()
    }
}

impl Followers {
    /// Keeps the cache of open breakers up to date until `stop`.
    pub async fn know_breakers_until(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            self.know_breakers().await;
            stop.run_until_cancelled(tokio::time::sleep(BETWEEN_LOOKS)).await;
        }
    }

    /// Reloads the cache of open breakers. While the database is away, the cache stays as it is.
    pub(super) async fn know_breakers(&self) {
        match self.read_open_breakers().await {
            Ok(known) => self.open_breakers.0.store(Arc::new(known)),
            Err(error) => tracing::debug!(%error, "open breakers could not be read; trying again"),
        }
    }

    async fn read_open_breakers(&self) -> Result<HashMap<String, BreakerAdvice>, StoreError> {
        let troubled = self.store.breakers().troubled(MOST_KNOWN).await?;
        if troubled.is_empty() {
            return Ok(HashMap::new());
        }
        let items = self.dressed(troubled).await?.into_iter();
        let open = items.filter(|item| item.recommendation != BreakerState::Closed);
        let advice =
            |BreakerItem { agent, recommendation, reasons, .. }| (agent, BreakerAdvice { recommendation, reasons });
        Ok(open.map(advice).collect())
    }
}
