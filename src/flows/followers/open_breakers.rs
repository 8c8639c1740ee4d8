//! Breakers that are not closed, as this process knows them: an agent is told of its own with each answer to its posts,
//! which costs no read. They are read anew when this process moved one on, and each second for what others moved on.

use std::{collections::HashMap, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use super::{Followers, breaker_item::BreakerItem};
use umbra_domain::BreakerState;
use umbra_store::StoreError;

/// Most agents that are known, those that opened last.
const MOST_KNOWN: i64 = 1_000;
/// Time between looks at what other processes moved on.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// Breakers that are not closed. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct OpenBreakers(Arc<ArcSwap<HashMap<String, BreakerAdvice>>>);

/// Recommendation about an agent whose breaker is not closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct BreakerAdvice {
    /// `open` to hold the agent back, `half_open` to let it try.
    pub recommendation: BreakerState,
    /// Why, in sentences.
    pub reasons: Vec<String>,
}

impl OpenBreakers {
    /// Recommendation about an agent, unless its breaker is closed.
    pub fn of(&self, agent: &str) -> Option<BreakerAdvice> {
        self.0.load().get(agent).cloned()
    }
}

impl Followers {
    /// Keeps the open breakers known until `stop`.
    pub async fn know_breakers_until(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            self.know_breakers().await;
            stop.run_until_cancelled(tokio::time::sleep(BETWEEN_LOOKS)).await;
        }
    }

    /// Reads the open breakers. While the database is away, what was known stays.
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
