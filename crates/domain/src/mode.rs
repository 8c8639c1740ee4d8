//! What a shadow may do with what it finds.

use serde::{Deserialize, Serialize};

/// How far a shadow's opinion reaches; further is greater.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Logged only.
    Passive,
    /// Comments that people and orchestrators see.
    Review,
    /// May reject an output.
    Active,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 3] = [Self::Passive, Self::Review, Self::Active];

    /// The word in YAML and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passive => "passive",
            Self::Review => "review",
            Self::Active => "active",
        }
    }

    /// The mode that `word` names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }

    /// Rank in the queue: lower runs first (somebody may be waiting for an active review).
    pub fn priority(self) -> i16 {
        match self {
            Self::Active => 0,
            Self::Review => 1,
            Self::Passive => 2,
        }
    }
}
