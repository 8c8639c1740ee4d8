//! Backtests, which try a version of a shadow on stored events: state, forecast and changes of assessments.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Assessment;

words! {
    /// State of a backtest.
    #[derive(PartialOrd, Ord, utoipa::ToSchema)]
    pub enum BacktestState {
        /// The events are being read for the forecast.
        Planning = "planning",
        /// The forecast is ready; the backtest waits to be confirmed.
        Planned = "planned",
        /// Reviews are being made.
        Running = "running",
        /// An obstacle stopped the backtest; it can be resumed.
        Stopped = "stopped",
        /// The backtest has ended.
        Done = "done",
    }
}

words! {
    /// Outcome of an event in a backtest.
    #[derive(PartialOrd, Ord, utoipa::ToSchema)]
    pub enum ItemOutcome {
        /// The event is still to be reviewed.
        Waiting = "waiting",
        /// The event was reviewed.
        Reviewed = "reviewed",
        /// The reviewer gave no answer, or the event is gone.
        Failed = "failed",
        /// The version would have skipped the event, for the reason given.
        Skipped = "skipped",
        /// The version does not watch the event, though the shadow has a review of it.
        NotWatched = "not_watched",
    }
}

words! {
    /// Change of an event's assessment under the tried version, compared with the review that really ran.
    #[derive(PartialOrd, Ord, utoipa::ToSchema)]
    pub enum AssessmentChange {
        /// FLAG now, and not before.
        NewlyFlagged = "newly_flagged",
        /// FLAG before, and not now.
        NoLongerFlagged = "no_longer_flagged",
        /// Stricter now, without a FLAG on either side.
        Stricter = "stricter",
        /// Milder now, without a FLAG on either side.
        Milder = "milder",
        /// Reviewed now, and not before; not flagged.
        NewlyReviewed = "newly_reviewed",
        /// Reviewed before, and not now; not flagged.
        NoLongerReviewed = "no_longer_reviewed",
        /// The same assessment. A model's approval and a clean result of the checks alone count as the same.
        Same = "same",
    }
}

impl AssessmentChange {
    /// Returns the change between two assessments, each of which may be missing; `None` if both are.
    pub fn between(before: Option<Assessment>, after: Option<Assessment>) -> Option<Self> {
        let flagged = |assessment| assessment == Some(Assessment::Flag);
        Some(match (before, after) {
            (None, None) => return None,
            _ if flagged(after) && !flagged(before) => Self::NewlyFlagged,
            _ if flagged(before) && !flagged(after) => Self::NoLongerFlagged,
            (None, Some(_)) => Self::NewlyReviewed,
            (Some(_), None) => Self::NoLongerReviewed,
            (Some(before), Some(after)) if before.is_clean() && after.is_clean() => Self::Same,
            (Some(before), Some(after)) if after > before => Self::Stricter,
            (Some(before), Some(after)) if after < before => Self::Milder,
            (Some(_), Some(_)) => Self::Same,
        })
    }
}

words! {
    /// Basis of the expected cost.
    #[derive(PartialOrd, Ord, utoipa::ToSchema)]
    pub enum Basis {
        /// No cost: the built-in checks review.
        Checks = "checks",
        /// Cost of this shadow's past reviews by the same model.
        PastReviews = "past_reviews",
        /// Lengths of the prompts, at four bytes a token, and a reply of ordinary length.
        PromptSizes = "prompt_sizes",
    }
}

/// Extent and cost of a backtest, estimated before it begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Forecast {
    /// Events examined.
    pub events: u64,
    /// True if the range held more than `max_events` events; the oldest were left out.
    pub is_cut: bool,
    /// Examined events that the version watches.
    pub watched: u64,
    /// Watched events that would be skipped, by reason. Cooldown and caps are applied at the time of the events.
    #[schema(value_type = HashMap<String, u64>)]
    pub skips: BTreeMap<String, u64>,
    /// Reviews to be made.
    pub reviews: u64,
    /// `model`, or `checks` if the built-in checks review alone.
    pub reviewer: String,
    /// Model calls, one for each review.
    pub calls: u64,
    /// Most model calls: a failed or unreadable review is asked for again.
    pub max_calls: u64,
    /// Expected cost in US dollars; null if the model has no price.
    pub expected_usd: Option<f64>,
    /// Highest cost in US dollars, ignoring the budget; null if the model has no price.
    pub worst_usd: Option<f64>,
    /// Expected tokens.
    pub expected_tokens: u64,
    /// Highest number of tokens, ignoring the budget.
    pub worst_tokens: u64,
    /// Basis of the expected cost.
    pub basis: Basis,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_is_classified_by_both_assessments() {
        use Assessment::{Approve, Checked, Flag, Inconclusive, Suggest};
        let table = [
            (None, None, None),
            (None, Some(Flag), Some(AssessmentChange::NewlyFlagged)),
            (Some(Suggest), Some(Flag), Some(AssessmentChange::NewlyFlagged)),
            (Some(Flag), Some(Flag), Some(AssessmentChange::Same)),
            (Some(Flag), None, Some(AssessmentChange::NoLongerFlagged)),
            (Some(Flag), Some(Approve), Some(AssessmentChange::NoLongerFlagged)),
            (None, Some(Approve), Some(AssessmentChange::NewlyReviewed)),
            (Some(Suggest), None, Some(AssessmentChange::NoLongerReviewed)),
            (Some(Approve), Some(Inconclusive), Some(AssessmentChange::Stricter)),
            (Some(Suggest), Some(Approve), Some(AssessmentChange::Milder)),
            (Some(Approve), Some(Approve), Some(AssessmentChange::Same)),
            (Some(Checked), Some(Approve), Some(AssessmentChange::Same)),
            (Some(Approve), Some(Checked), Some(AssessmentChange::Same)),
            (Some(Checked), Some(Suggest), Some(AssessmentChange::Stricter)),
            (Some(Inconclusive), Some(Checked), Some(AssessmentChange::Milder)),
        ];
        for (before, after, change) in table {
            assert_eq!(AssessmentChange::between(before, after), change, "{before:?} {after:?}");
        }
    }

    #[test]
    fn enum_words_equal_their_json_form() {
        for change in AssessmentChange::ALL {
            assert_eq!(serde_json::to_value(change).ok(), Some(change.as_str().into()));
            assert_eq!(AssessmentChange::parse(change.as_str()), Some(change));
        }
        for state in BacktestState::ALL {
            assert_eq!(serde_json::to_value(state).ok(), Some(state.as_str().into()));
        }
        for outcome in ItemOutcome::ALL {
            assert_eq!(serde_json::to_value(outcome).ok(), Some(outcome.as_str().into()));
        }
        for basis in Basis::ALL {
            assert_eq!(serde_json::to_value(basis).ok(), Some(basis.as_str().into()));
        }
    }
}
