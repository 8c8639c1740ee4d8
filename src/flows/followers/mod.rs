//! Use case: consequences of a review that ended: breakers, reflexions, scores, messages, briefings, feedback.

pub mod breaker_item;
pub mod breakers;
pub mod briefings;
pub mod consequences;
pub mod deliver;
pub mod evaluations;
pub mod feedback;
pub mod finding_feed;
pub mod follow;
pub mod notify;
pub mod open_breakers;
pub mod reflexions;

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::Notify;

pub use self::{finding_feed::FindingFeed, open_breakers::OpenBreakers};
use crate::{
    flows::{active_configuration::RulesInForce, verdicts::Verdicts},
    webhooks::Endpoints,
};
use umbra_config::Settings;
use umbra_domain::clock::Clock;
use umbra_store::Store;

/// Context of the consequences of reviews. Cheap to clone.
#[derive(Clone)]
pub struct Followers {
    /// The database.
    pub store: Store,
    /// The clock.
    pub clock: Clock,
    /// The configuration in force.
    pub rules: RulesInForce,
    /// Verdicts, filed when they are overdue, and news of reviews that ended.
    pub verdicts: Verdicts,
    /// Settings in force since the start.
    pub settings: Arc<Settings>,
    /// Breakers that are not closed, as this process last read them.
    pub open_breakers: OpenBreakers,
    /// Feed of new findings for streams.
    pub tail: FindingFeed,
    /// Receivers of messages.
    pub webhooks: Arc<ArcSwap<Endpoints>>,
    /// Notified when messages wait in the outbox.
    pub outbox: Arc<Notify>,
}
