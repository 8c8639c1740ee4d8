//! Trigger: the kind of an action, named by its sender or derived from the event.

use serde::{Deserialize, Serialize};

/// Kind of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// The agent produced or changed code.
    CodeWritten,
    /// Credentials, outside hosts, privileged or destructive operations.
    SecurityRisk,
    /// The agent finished a task.
    TaskComplete,
    /// Something failed.
    Error,
    /// An action without any of these, matched by a watch rule that says `all`.
    All,
}

impl Trigger {
    /// Triggers that an event can carry, in the order of their codes.
    pub const NAMED: [Self; 4] = [Self::CodeWritten, Self::SecurityRisk, Self::TaskComplete, Self::Error];

    /// Returns the word in YAML and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CodeWritten => "code_written",
            Self::SecurityRisk => "security_risk",
            Self::TaskComplete => "task_complete",
            Self::Error => "error",
            Self::All => "all",
        }
    }

    /// Returns the trigger that `word` names; never [`Self::All`], which no event carries.
    pub fn parse(word: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|trigger| trigger.as_str() == word)
    }

    /// Returns the trigger that a stored `word` names, `all` included.
    pub fn parse_stored(word: &str) -> Option<Self> {
        Self::parse(word).or((word == Self::All.as_str()).then_some(Self::All))
    }

    /// Returns a small stable number, as stored.
    pub fn code(self) -> i16 {
        match self {
            Self::CodeWritten => 0,
            Self::SecurityRisk => 1,
            Self::TaskComplete => 2,
            Self::Error => 3,
            Self::All => 4,
        }
    }

    /// Returns the trigger with this stored number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::NAMED.into_iter().chain([Self::All]).find(|trigger| trigger.code() == code)
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
