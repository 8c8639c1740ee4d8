//! Whether calls of tools run: the two modes, and what is laid over the settings at run time.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::OverrideId;

/// Whether calls run. The order is that of strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Execution {
    /// Calls run.
    Live,
    /// Reads run; whatever would change something is answered by a stub, and nothing runs.
    Shadow,
}

impl Execution {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Live, Self::Shadow];

    /// The word in JSON, YAML and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Shadow => "shadow",
        }
    }

    /// The execution that `word` names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|execution| execution.as_str() == word)
    }
}

/// What an override is for. The order is from wide to narrow: the narrowest that applies wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OverrideScope {
    /// Every call.
    Global,
    /// Every call in an environment.
    Environment,
    /// Every call of the agents that a glob names.
    Agent,
    /// Every call in a session.
    Session,
    /// Every call of the tools that a glob names.
    Tool,
}

impl OverrideScope {
    /// All of them, from wide to narrow.
    pub const ALL: [Self; 5] = [Self::Global, Self::Environment, Self::Agent, Self::Session, Self::Tool];

    /// The word in JSON and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Environment => "environment",
            Self::Agent => "agent",
            Self::Session => "session",
            Self::Tool => "tool",
        }
    }

    /// The scope that `word` names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == word)
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
