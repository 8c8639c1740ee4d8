//! Execution of tool calls: live or shadow, and the overrides that are set at run time.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::OverrideId;

words! {
    /// Execution of calls, in order of strictness.
    #[derive(PartialOrd, Ord, ToSchema)]
    pub enum Execution {
        /// Calls run.
        Live = "live",
        /// Reads run; every other call is answered by a stub and does not run.
        Shadow = "shadow",
    }
}

/// A value for each execution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ByExecution<T> {
    /// Value for calls that run.
    pub live: T,
    /// Value for rehearsed calls.
    pub shadow: T,
}

impl<T> ByExecution<T> {
    /// Returns the value for an execution.
    pub const fn of(&self, execution: Execution) -> &T {
        match execution {
            Execution::Live => &self.live,
            Execution::Shadow => &self.shadow,
        }
    }

    /// Makes a value of each.
    pub fn map<U>(self, mut of: impl FnMut(T) -> U) -> ByExecution<U> {
        ByExecution { live: of(self.live), shadow: of(self.shadow) }
    }
}

words! {
    /// Scope of an override, from wide to narrow: the narrowest that applies wins.
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

/// Override of the configured execution, set at run time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Override {
    /// Id of the override.
    #[schema(value_type = String, example = "ovr_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub id: OverrideId,
    /// Scope of the override.
    pub scope: OverrideScope,
    /// Name or glob within the scope; empty for all.
    pub value: String,
    /// Execution of the calls in scope.
    pub execution: Execution,
    /// Reason for the override.
    pub reason: String,
    /// Time at which the override was set.
    pub set_at: Timestamp,
    /// Time at which the override ends by itself; null if it stands until it is lifted.
    pub expires_at: Option<Timestamp>,
}
