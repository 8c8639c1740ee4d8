//! How the service stands: what waits, each shadow's day so far, each provider.

use std::collections::BTreeMap;

use jiff::{Timestamp, civil::Date};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Pipeline, Rules};
use crate::{
    checks,
    domain::{Mode, NanoUsd, Shadow},
    llm::{ProviderHealth, ProviderState, Readiness, Rest},
    store::StoreError,
};

/// How the service stands.
#[derive(Debug, Serialize, ToSchema)]
pub struct Status {
    /// Umbra's version.
    pub version: &'static str,
    /// The database's time.
    #[schema(value_type = String, format = DateTime)]
    pub now: Timestamp,
    /// What waits.
    pub queue: QueueStatus,
    /// Each shadow's day so far.
    pub shadows: Vec<ShadowStatus>,
    /// Each model's provider.
    pub providers: Vec<ProviderStatus>,
    /// The database.
    pub database: DatabaseStatus,
    /// Events kept on the local disk while the database is away; null: this version answers 503 instead.
    #[schema(value_type = Option<Object>)]
    pub spool: Option<()>,
}

/// What waits.
#[derive(Debug, Serialize, ToSchema)]
pub struct QueueStatus {
    /// Reviews waiting.
    pub queued: i64,
    /// Reviews running, over all processes.
    pub running: i64,
    /// How long the oldest waiting review has been due.
    pub oldest_age_seconds: f64,
}

/// A shadow's day so far.
#[derive(Debug, Serialize, ToSchema)]
pub struct ShadowStatus {
    /// Its name.
    pub name: String,
    /// Its mode.
    pub mode: Mode,
    /// The alias of its model.
    pub model: String,
    /// `model`, or `checks` where the built-in checks review alone.
    pub reviewer: &'static str,
    /// Its local day.
    #[schema(value_type = String, format = Date)]
    pub day: Date,
    /// Reviews reserved.
    pub reviews_today: i64,
    /// Its cap of reviews; null for none.
    pub max_reviews_per_day: Option<u32>,
    /// Money spent, in US dollars.
    pub usd_today: f64,
    /// Money held for calls under way, in US dollars.
    pub usd_held: f64,
    /// Its cap of money, in US dollars; null for none.
    pub max_usd_per_day: Option<f64>,
    /// Tokens spent.
    pub tokens_today: i64,
    /// Matched events that were not reviewed, by reason.
    #[schema(value_type = std::collections::HashMap<String, i64>)]
    pub skips_today: BTreeMap<&'static str, i64>,
    /// `ok`, or in words what keeps it from its model.
    pub health: String,
}

/// A model's provider.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProviderStatus {
    /// The aliases that lead to it.
    pub name: String,
    /// The wire protocol.
    pub provider: String,
    /// The provider's name for the model.
    pub model: String,
    /// ok, open, `half_open`, `no_key` or checks.
    pub state: ProviderState,
    /// Failures since the last success.
    pub consecutive_failures: u32,
    /// The last failure, in words.
    pub last_error: Option<String>,
    /// When it will be tried again, in milliseconds from now.
    pub retry_in_ms: Option<u64>,
}

/// The database.
#[derive(Debug, Serialize, ToSchema)]
pub struct DatabaseStatus {
    /// Postgres' version.
    pub version: String,
    /// `ok`: it answered this request.
    pub state: &'static str,
}

impl From<ProviderHealth> for ProviderStatus {
    fn from(health: ProviderHealth) -> Self {
        Self {
            name: health.aliases.join(", "),
            provider: health.provider.as_str().to_owned(),
            model: health.model,
            state: health.state,
            consecutive_failures: health.consecutive_failures,
            last_error: health.last_error.map(|error| checks::redact(&error).as_str().to_owned()),
            retry_in_ms: health.retry_in_ms,
        }
    }
}

impl Pipeline {
    /// How the service stands now.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn status(&self) -> Result<Status, StoreError> {
        let rules = self.rules.load_full();
        let depth = self.store.queue_depth().await?;
        let mut shadows = Vec::with_capacity(rules.shadows.len());
        for armed in &rules.shadows {
            shadows.push(self.shadow_status(&rules, &armed.shadow).await?);
        }
        Ok(Status {
            version: env!("CARGO_PKG_VERSION"),
            now: self.store.now().await?,
            queue: QueueStatus {
                queued: depth.queued,
                running: depth.running,
                oldest_age_seconds: depth.oldest_age_seconds,
            },
            shadows,
            providers: rules.gateway.health().into_iter().map(Into::into).collect(),
            database: DatabaseStatus { version: self.store.server_version().await?, state: "ok" },
            spool: None,
        })
    }

    async fn shadow_status(&self, rules: &Rules, shadow: &Shadow) -> Result<ShadowStatus, StoreError> {
        let control = &shadow.cost_control;
        let day = self.store.shadow_day(&shadow.name, &control.time_zone).await?;
        let (reviewer, health) = rules.reviewer(shadow);
        Ok(ShadowStatus {
            name: shadow.name.clone(),
            mode: shadow.mode,
            model: shadow.model.clone(),
            reviewer,
            day: day.day,
            reviews_today: day.reviews,
            max_reviews_per_day: control.max_reviews_per_day,
            usd_today: day.spent.usd(),
            usd_held: day.held.usd(),
            max_usd_per_day: control.max_usd_per_day.map(NanoUsd::usd),
            tokens_today: day.tokens,
            skips_today: day.skips.into_iter().map(|(reason, n)| (reason.as_str(), n)).collect(),
            health,
        })
    }
}

impl Rules {
    /// Who reviews for a shadow (`model` or `checks`), and `ok` or in words what keeps it from its model.
    pub fn reviewer(&self, shadow: &Shadow) -> (&'static str, String) {
        if !shadow.enabled {
            return ("checks", "switched off".into());
        }
        match self.gateway.reviewer(&shadow.model) {
            Readiness::Ready => {
                let health = match self.gateway.rest(&shadow.model) {
                    None => "ok".into(),
                    Some(Rest::Sick { wait, why }) => format!("left alone for {} s: {why}", wait.as_secs()),
                    Some(Rest::Barred { why }) => format!("refused by its provider: {why}"),
                };
                ("model", health)
            }
            Readiness::ChecksOnly { why } => ("checks", why),
        }
    }
}
