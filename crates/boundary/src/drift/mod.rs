//! What was seen, held against what was promised and against what was usual.
//!
//! [`contract`]: whether a live result is what its contract says and what a stub would have looked like ([`shape`]); when a
//! contract is stale, and what could take its place. [`behaviour`]: whether an
//! agent calls as it used to. [`bypass`]: whether a call that was seen is one that was decided.

pub mod behaviour;
pub mod bypass;
pub mod contract;
mod shape;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// A contract in force that is not believed any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct StaleContract {
    /// `tool@version`.
    #[schema(example = "stripe.process_refund@2")]
    pub contract: String,
    /// Since when.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    /// Why, in words.
    pub why: String,
}
