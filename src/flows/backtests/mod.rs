//! Backtest: a version of a shadow, tried on stored events before it goes live. Three steps:
//!
//! - [`backtest_plan`]: matches each event against the version's watch and gates ([`simulate`] moves the cooldown and
//!   the caps along, by the time of the events), and forecasts calls and cost;
//! - [`run`]: reviews each remaining event by checks and model, paid from the backtest's own budget;
//! - report: compares the items with the live reviews (`store/backtests/report.rs`).
//!
//! Each event is reviewed alone. Live state is untouched: no meter, no feed of reviews, no finding, no cursor; and a
//! provider that fails here is not avoided by live reviews.

mod backtest_plan;
mod run;
mod simulate;

pub use self::{
    backtest_plan::{PlanError, PlannedBacktest},
    run::Stop,
};
use std::sync::Arc;

use tokio::sync::Notify;

use crate::flows::active_configuration::RulesInForce;
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
    /// Key of this installation's hashes.
    pub installation: Installation,
    /// Notified when a backtest was posted to this process.
    pub bell: Arc<Notify>,
}
