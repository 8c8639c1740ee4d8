//! Trigger: the kind of an action, named by its sender or derived from the event.

use serde::{Deserialize, Serialize};

words! {
    /// Kind of an action.
    #[derive(schemars::JsonSchema, utoipa::ToSchema)]
    pub enum Trigger {
        /// The agent produced or changed code.
        CodeWritten = "code_written" as 0,
        /// Credentials, outside hosts, privileged or destructive operations.
        SecurityRisk = "security_risk" as 1,
        /// The agent finished a task.
        TaskComplete = "task_complete" as 2,
        /// Something failed.
        Error = "error" as 3,
        /// An action without any of these, matched by a watch rule that says `all`.
        All = "all" as 4,
    }
}

impl Trigger {
    /// Triggers that an event can carry, in the order of their codes.
    pub const NAMED: [Self; 4] = [Self::CodeWritten, Self::SecurityRisk, Self::TaskComplete, Self::Error];

    /// Returns the trigger that an event can carry and that `word` names; never [`Self::All`].
    pub fn parse_named(word: &str) -> Option<Self> {
        Self::parse(word).filter(|trigger| *trigger != Self::All)
    }
}

/// Source of a trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TriggerSource {
    /// Named by the sender.
    Declared,
    /// Derived from the event by Umbra.
    Derived,
}

/// Trigger of an event, with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TriggerMark {
    /// Kind of the action.
    pub name: Trigger,
    /// Declared by the sender or derived by Umbra.
    pub source: TriggerSource,
    /// Reason in one sentence; for a declared trigger "named by the sender".
    pub why: String,
}
