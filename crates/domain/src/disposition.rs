//! Dispositions: the outcome of an event for one shadow.

use serde::{Deserialize, Serialize};

use super::{Mode, ReviewId, Trigger};

/// Outcome of a matched (event, shadow) pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A review was reserved.
    Queued,
    /// The event joined a review that waits to be batched.
    Batched,
    /// The event will not be reviewed; the reason is given.
    Skipped,
}

words! {
    /// Reason for which a matched event was not reviewed. Of several, the first in this order is given.
    #[derive(PartialOrd, Ord, utoipa::ToSchema)]
    pub enum SkipReason {
        /// The shadow is switched off.
        ShadowDisabled = "shadow_disabled" as 10,
        /// The event is Umbra's own traffic, or may be.
        LoopGuard = "loop_guard" as 11,
        /// The event was left out by the sample.
        NotSampled = "not_sampled" as 12,
        /// The task cost less than the floor.
        CostBelowFloor = "cost_below_floor" as 13,
        /// A review of the same shadow, agent and trigger was made recently.
        Cooldown = "cooldown" as 14,
        /// This agent's reviews of the day are used up.
        TargetCap = "target_cap" as 15,
        /// The shadow's reviews of the day are used up.
        DailyCap = "daily_cap" as 16,
        /// The shadow's tokens of the day are used up.
        TokenCap = "token_cap" as 17,
        /// The shadow's money of the day is used up.
        UsdCap = "usd_cap" as 18,
        /// Too many reviews were waiting.
        Overload = "overload" as 19,
        /// The model could not be reached in any of the calls that a review may make.
        ProviderUnavailable = "provider_unavailable" as 20,
        /// The event was erased on request before its review.
        Erased = "erased" as 21,
    }
}

impl SkipReason {
    /// Returns the reason as a phrase behind a number of events or steps: "3 below the cost floor".
    pub fn in_words(self) -> &'static str {
        match self {
            Self::ShadowDisabled => "of a disabled shadow",
            Self::LoopGuard => "held back as Umbra's own traffic",
            Self::NotSampled => "left out by the sample",
            Self::CostBelowFloor => "below the cost floor",
            Self::Cooldown => "held back by a cooldown",
            Self::TargetCap => "beyond the agent's reviews of the day",
            Self::DailyCap => "beyond the reviews of the day",
            Self::TokenCap => "beyond the tokens of the day",
            Self::UsdCap => "beyond the money of the day",
            Self::Overload => "left out under overload",
            Self::ProviderUnavailable => "without an answer of the model",
            Self::Erased => "erased before a review",
        }
    }

    /// True if the built-in checks look at the event all the same, since only the model was held back.
    pub fn leaves_checks(self) -> bool {
        !matches!(self, Self::ShadowDisabled | Self::LoopGuard | Self::Erased)
    }
}

/// Stored number of [`Outcome::Queued`].
pub const QUEUED_CODE: i16 = 0;
/// Stored number of [`Outcome::Batched`].
pub const BATCHED_CODE: i16 = 1;

/// Outcome of an event for one shadow, as callers see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Disposition {
    /// Name of the shadow.
    pub shadow: String,
    /// Trigger by which the event matched.
    pub trigger: Trigger,
    /// Mode of the shadow.
    pub mode: Mode,
    /// Outcome of the pair.
    pub outcome: Outcome,
    /// Reason, if the event was skipped.
    pub reason: Option<SkipReason>,
    /// Review, if the event was queued or batched.
    #[schema(value_type = Option<String>, example = "rev_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub review_id: Option<ReviewId>,
}

impl Disposition {
    /// True if a review was reserved that may reject the event.
    pub fn gives_verdict(&self) -> bool {
        self.mode == Mode::Active && self.outcome != Outcome::Skipped
    }
}
