//! What became of an event for one shadow.

use serde::{Deserialize, Serialize};

use super::{Mode, ReviewId, Trigger};

/// What became of a matched (event, shadow) pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A review was reserved.
    Queued,
    /// It joined a review that waits for company.
    Batched,
    /// It will not be reviewed; the reason says why.
    Skipped,
}

macro_rules! skip_reasons {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $word:literal;)*) => {
        /// Why a matched event was not reviewed. The first that applies wins, in this order.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum SkipReason {
            $($(#[$doc])* $name,)*
        }

        impl SkipReason {
            /// Every reason, in order of precedence.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The word in JSON.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// A small stable number, as stored.
            pub fn code(self) -> i16 {
                match self { $(Self::$name => $code,)* }
            }
        }
    };
}

skip_reasons! {
    /// The shadow is switched off.
    ShadowDisabled = 10, "shadow_disabled";
    /// The event is Umbra's own traffic, or may be.
    LoopGuard = 11, "loop_guard";
    /// The sample left it out.
    NotSampled = 12, "not_sampled";
    /// The task cost less than the floor.
    CostBelowFloor = 13, "cost_below_floor";
    /// A review of the same shadow, agent and trigger was made lately.
    Cooldown = 14, "cooldown";
    /// This agent's reviews of the day are used up.
    TargetCap = 15, "target_cap";
    /// The shadow's reviews of the day are used up.
    DailyCap = 16, "daily_cap";
    /// The shadow's tokens of the day are used up.
    TokenCap = 17, "token_cap";
    /// The shadow's money of the day is used up.
    UsdCap = 18, "usd_cap";
    /// Too much was waiting.
    Overload = 19, "overload";
    /// The model could not be reached in the calls that a review may make.
    ProviderUnavailable = 20, "provider_unavailable";
    /// The event was erased on request before its review.
    Erased = 21, "erased";
}

impl SkipReason {
    /// The reason with this stored number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.code() == code)
    }

    /// The reason that `word` names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.as_str() == word)
    }
}

/// Stored number of [`Outcome::Queued`].
pub const QUEUED_CODE: i16 = 0;
/// Stored number of [`Outcome::Batched`].
pub const BATCHED_CODE: i16 = 1;

/// What became of an event for one shadow, as callers see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Disposition {
    /// The shadow's name.
    pub shadow: String,
    /// The trigger by which it matched.
    pub trigger: Trigger,
    /// The shadow's mode.
    pub mode: Mode,
    /// What became of the pair.
    pub outcome: Outcome,
    /// Set when skipped.
    pub reason: Option<SkipReason>,
    /// Set when queued or batched.
    #[schema(value_type = Option<String>, example = "rev_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub review_id: Option<ReviewId>,
}

impl Disposition {
    /// Whether a review was reserved that may reject the event.
    pub fn gives_verdict(&self) -> bool {
        self.mode == Mode::Active && self.outcome != Outcome::Skipped
    }
}
