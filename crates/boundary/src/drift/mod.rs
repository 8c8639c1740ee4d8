//! Drift: compares observed calls with contracts and with past behaviour.
//!
//! [`contract`] checks live results against their contract and the shape of a stub ([`shape`]), tells when a contract
//! is stale, and proposes the next one. [`behaviour`] tells if an agent calls differently than before. [`bypass`]
//! matches observed calls with decisions.

pub mod behaviour;
pub mod bypass;
pub mod contract;
mod shape;
#[cfg(test)]
mod tests;

pub(crate) use self::shape::kind;

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// Stale contract that is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct StaleContract {
    /// `tool@version`.
    #[schema(example = "stripe.process_refund@2")]
    pub contract: String,
    /// Time since when it is stale.
    pub since: Timestamp,
    /// Reason, in words.
    pub why: String,
}
