//! The words of a review's life and result.

use serde::{Deserialize, Serialize};

/// What a review concludes. Stricter is greater, so the stricter of two is their maximum:
/// [`Self::Inconclusive`] only ever replaces an approval.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
    utoipa::ToSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Assessment {
    /// Nothing stands against it.
    Approve,
    /// The reviewer could not tell: no approval and no rejection.
    Inconclusive,
    /// Something to improve.
    Suggest,
    /// Something that must not pass.
    Flag,
}

impl Assessment {
    /// Every assessment.
    pub const ALL: [Self; 4] = [Self::Approve, Self::Inconclusive, Self::Suggest, Self::Flag];

    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "APPROVE",
            Self::Inconclusive => "INCONCLUSIVE",
            Self::Suggest => "SUGGEST",
            Self::Flag => "FLAG",
        }
    }

    /// The assessment that `word` names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|assessment| assessment.as_str() == word)
    }
}

/// Where a review stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReviewState {
    /// Reserved, waiting for a worker.
    Queued,
    /// A worker holds it.
    Running,
    /// An assessment stands.
    Done,
    /// Given up without an assessment.
    Failed,
    /// Given up, and its unit returned.
    Released,
}

impl ReviewState {
    /// Every state.
    pub const ALL: [Self; 5] = [Self::Queued, Self::Running, Self::Done, Self::Failed, Self::Released];

    /// As it is told outside: that a unit returned is the budget's affair, the review failed.
    #[must_use]
    pub fn shown(self) -> Self {
        if self == Self::Released { Self::Failed } else { self }
    }

    /// The word in JSON and in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Released => "released",
        }
    }

    /// The state that `word` names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// What a review is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReviewScope {
    /// One event.
    #[default]
    Event,
    /// Small events of one agent that share a call; each is judged by itself.
    Batch,
    /// All events of a task, judged as a whole.
    Trajectory,
}

impl ReviewScope {
    /// Every scope.
    pub const ALL: [Self; 3] = [Self::Event, Self::Batch, Self::Trajectory];

    /// The word in YAML and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Batch => "batch",
            Self::Trajectory => "trajectory",
        }
    }

    /// A small stable number, as stored.
    pub fn code(self) -> i16 {
        match self {
            Self::Event => 0,
            Self::Batch => 1,
            Self::Trajectory => 2,
        }
    }

    /// The scope with this stored number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.code() == code)
    }

    /// Whether it is the ordinary one.
    pub fn is_event(&self) -> bool {
        *self == Self::Event
    }
}

/// Who performed a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reviewer {
    /// A model answered (the built-in checks ran as well).
    Model,
    /// The built-in checks alone.
    Checks,
}

impl Reviewer {
    /// The word in JSON and in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Checks => "checks",
        }
    }

    /// The reviewer that `word` names.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Model, Self::Checks].into_iter().find(|reviewer| reviewer.as_str() == word)
    }
}
