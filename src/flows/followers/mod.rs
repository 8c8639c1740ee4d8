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

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use tokio::sync::Notify;

pub use self::{finding_feed::FindingFeed, open_breakers::OpenBreakers};
use crate::{
    breaker,
    flows::{active_configuration::RulesInForce, verdicts::Verdicts},
    reflexion,
    webhooks::Endpoints,
};
use umbra_domain::{Mode, clock::Clock};
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
    /// Bounds of breakers, reflexions and baselines.
    pub settings: FollowerSettings,
    /// Breakers that are not closed, as this process last read them.
    pub open_breakers: OpenBreakers,
    /// Feed of new findings for streams.
    pub tail: FindingFeed,
    /// Receivers of messages.
    pub webhooks: Arc<ArcSwap<Endpoints>>,
    /// Notified when messages wait in the outbox.
    pub outbox: Arc<Notify>,
}

/// Bounds of breakers, reflexions and baselines.
#[derive(Debug, Clone)]
pub struct FollowerSettings {
    /// Faults that open a breaker, and how it closes.
    pub breaker: breaker::BreakerLimits,
    /// Modes of the shadows whose reviews move breakers.
    pub breaker_modes: Vec<Mode>,
    /// Time in a state other than closed after which a breaker is announced again.
    pub alert_after: Duration,
    /// Recurrence that makes a fault a lesson.
    pub reflexion: reflexion::ReflexionLimits,
    /// Age up to which scores count for a baseline.
    pub baseline_window: Duration,
}
