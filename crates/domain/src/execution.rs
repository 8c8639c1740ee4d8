//! Whether calls of tools run: the two modes, and what is laid over the settings at run time.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::OverrideId;

words! {
    /// Whether calls run. The order is that of strictness.
    #[derive(PartialOrd, Ord, ToSchema)]
    pub enum Execution {
        /// Calls run.
        Live = "live",
        /// Reads run; whatever would change something is answered by a stub, and nothing runs.
        Shadow = "shadow",
    }
}

words! {
    /// What an override is for. The order is from wide to narrow: the narrowest that applies wins.
    #[derive(PartialOrd, Ord, ToSchema)]
    pub enum OverrideScope {
        /// Every call.
        Global = "global",
        /// Every call in an environment.
        Environment = "environment",
        /// Every call of the agents that a glob names.
        Agent = "agent",
        /// Every call in a session.
        Session = "session",
        /// Every call of the tools that a glob names.
        Tool = "tool",
    }
}

/// What somebody laid over the settings at run time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Override {
    /// Its id.
    #[schema(value_type = String, example = "ovr_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub id: OverrideId,
    /// What it is for.
    pub scope: OverrideScope,
    /// Which: a name or a glob; empty for all.
    pub value: String,
    /// Whether calls run.
    pub execution: Execution,
    /// Why.
    pub reason: String,
    /// When it was set.
    #[schema(value_type = String, format = DateTime)]
    pub set_at: Timestamp,
    /// When it ends by itself; null: when somebody lifts it.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
}
