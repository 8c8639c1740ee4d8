//! What is recommended about an agent.

use serde::{Deserialize, Serialize};

/// Where an agent's breaker stands: what is recommended to whoever steers the agent.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// Let the agent work.
    #[default]
    Closed,
    /// Let it try: its next reviews decide.
    HalfOpen,
    /// Hold it back.
    Open,
}

impl BreakerState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Closed, Self::HalfOpen, Self::Open];

    /// The word in JSON and in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half_open",
            Self::Open => "open",
        }
    }

    /// The state that `word` names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == word)
    }
}
