//! A version of a shadow, tried on stored events before it goes live. Three steps:
//!
//! - [`plan`]: its watch and its gates on each event ([`simulate`] moves the cooldown and the caps along, by the time of
//!   the events), and from that the forecast of calls and cost;
//! - [`run`]: checks and model on each event that remains, by the usual walk, paid from the backtest's own budget;
//! - what differs from what really ran is read from the items (`store/backtests/report.rs`).
//!
//! Each event is reviewed alone. Nothing that is live is touched: no meter, no feed of reviews, no finding, no cursor, and
//! a provider that fails here is not left alone elsewhere.

mod plan;
mod run;
mod simulate;

pub use self::{
    plan::{PlanError, Tried},
    run::Stop,
};
use std::sync::Arc;

use tokio::sync::Notify;

use crate::flows::rules::RulesInForce;
use umbra_domain::clock::Clock;
use umbra_store::{Store, installation::Installation};

/// Context of backtests. Cheap to clone.
#[derive(Clone)]
pub struct Backtests {
    /// The database.
    pub store: Store,
    /// The clock.
    pub clock: Clock,
    /// The configuration in force.
    pub rules: RulesInForce,
    /// The key of our hashes.
    pub installation: Installation,
    /// Notified when a backtest was posted here.
    pub bell: Arc<Notify>,
}
