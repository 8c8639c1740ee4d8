//! The kind of an action, named by its sender or derived from what it did.

use serde::{Deserialize, Serialize};

/// The kind of an action.
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
    /// An action that carries none of these, seen by a watch rule that says `all`.
    All,
}

impl Trigger {
    /// The triggers that an event can carry, in the order of their codes.
    pub const NAMED: [Self; 4] = [Self::CodeWritten, Self::SecurityRisk, Self::TaskComplete, Self::Error];

    /// The word in YAML and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CodeWritten => "code_written",
            Self::SecurityRisk => "security_risk",
            Self::TaskComplete => "task_complete",
            Self::Error => "error",
            Self::All => "all",
        }
    }

    /// The trigger that `word` names; `all` is none that an event could carry.
    pub fn parse(word: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|trigger| trigger.as_str() == word)
    }

    /// The trigger that a stored `word` names, `all` among them.
    pub fn parse_stored(word: &str) -> Option<Self> {
        Self::parse(word).or((word == Self::All.as_str()).then_some(Self::All))
    }

    /// A small stable number, as stored.
    pub fn code(self) -> i16 {
        match self {
            Self::CodeWritten => 0,
            Self::SecurityRisk => 1,
            Self::TaskComplete => 2,
            Self::Error => 3,
            Self::All => 4,
        }
    }

    /// The trigger with this stored number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::NAMED.into_iter().chain([Self::All]).find(|trigger| trigger.code() == code)
    }
}

/// Who said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TriggerSource {
    /// The sender named it.
    Declared,
    /// Umbra saw it in the event.
    Derived,
}

/// A trigger that an event carries, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TriggerMark {
    /// The kind.
    pub name: Trigger,
    /// Declared by the sender or derived by Umbra.
    pub source: TriggerSource,
    /// One sentence; for a declared trigger "named by the sender".
    pub why: String,
}
