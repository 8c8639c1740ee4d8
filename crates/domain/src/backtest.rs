//! A version of a shadow that is tried on stored events: where it stands, and what it would change.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Assessment;

words! {
    /// Where a backtest stands.
    #[derive(PartialOrd, Ord, utoipa::ToSchema)]
    pub enum BacktestState {
        /// Its events are being looked through for the forecast.
        Planning = "planning",
        /// The forecast stands; it waits to be confirmed.
        Planned = "planned",
        /// It reviews.
        Running = "running",
        /// Something keeps it from going on; it can be resumed.
        Stopped = "stopped",
        /// It is done.
        Done = "done",
    }
}

words! {
    /// What becomes of an event in a backtest.
    #[derive(PartialOrd, Ord, utoipa::ToSchema)]
    pub enum ItemOutcome {
        /// It is still to be reviewed.
        Waiting = "waiting",
        /// It was reviewed.
        Reviewed = "reviewed",
        /// The reviewer gave no answer, or the event is gone.
        Failed = "failed",
        /// The version would not have reviewed it, for the reason given.
        Skipped = "skipped",
        /// The version does not watch it, though a review of the shadow stands.
        NotWatched = "not_watched",
    }
}

words! {
    /// How an event fares under the tried version, beside what really ran.
    #[derive(PartialOrd, Ord, utoipa::ToSchema)]
    pub enum Change {
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
        /// The same assessment; nothing found by a model is the same as nothing found by the checks alone.
        Same = "same",
    }
}

impl Change {
    /// What lies between two assessments, each of which may be missing; `None` where both are.
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
    /// From what the cost that is to be expected was reckoned.
    #[derive(PartialOrd, Ord, utoipa::ToSchema)]
    pub enum Basis {
        /// The built-in checks review, which costs nothing.
        Checks = "checks",
        /// What this shadow's reviews by the same model have cost.
        PastReviews = "past_reviews",
        /// The lengths of the prompts: a token for four bytes, and a reply of ordinary length.
        PromptSizes = "prompt_sizes",
    }
}

/// What a backtest will do and cost, before it begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Forecast {
    /// Events looked at.
    pub events: u64,
    /// Whether the range held more than `max_events`: then the oldest were left out.
    pub is_cut: bool,
    /// Of them, those that the version watches.
    pub watched: u64,
    /// Of those, what would not be reviewed, by reason. Cooldown and caps go by the time of the events.
    #[schema(value_type = HashMap<String, u64>)]
    pub skips: BTreeMap<String, u64>,
    /// The rest: reviews to be made.
    pub reviews: u64,
    /// `model`, or `checks` where the built-in checks review alone.
    pub reviewer: String,
    /// Calls to the model, one a review.
    pub calls: u64,
    /// Calls at most: a review that fails or cannot be read is asked for again.
    pub max_calls: u64,
    /// What is to be expected, in US dollars; null where the model has no price.
    pub expected_usd: Option<f64>,
    /// What it costs at worst, in US dollars, but for the budget.
    pub worst_usd: Option<f64>,
    /// Tokens to be expected.
    pub expected_tokens: u64,
    /// Tokens at worst, but for the budget.
    pub worst_tokens: u64,
    /// From what the expectation was reckoned.
    pub basis: Basis,
    /// What a reader should know.
    pub notes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_by_both_assessments() {
        use Assessment::{Approve, Checked, Flag, Inconclusive, Suggest};
        let table = [
            (None, None, None),
            (None, Some(Flag), Some(Change::NewlyFlagged)),
            (Some(Suggest), Some(Flag), Some(Change::NewlyFlagged)),
            (Some(Flag), Some(Flag), Some(Change::Same)),
            (Some(Flag), None, Some(Change::NoLongerFlagged)),
            (Some(Flag), Some(Approve), Some(Change::NoLongerFlagged)),
            (None, Some(Approve), Some(Change::NewlyReviewed)),
            (Some(Suggest), None, Some(Change::NoLongerReviewed)),
            (Some(Approve), Some(Inconclusive), Some(Change::Stricter)),
            (Some(Suggest), Some(Approve), Some(Change::Milder)),
            (Some(Approve), Some(Approve), Some(Change::Same)),
            (Some(Checked), Some(Approve), Some(Change::Same)),
            (Some(Approve), Some(Checked), Some(Change::Same)),
            (Some(Checked), Some(Suggest), Some(Change::Stricter)),
            (Some(Inconclusive), Some(Checked), Some(Change::Milder)),
        ];
        for (before, after, change) in table {
            assert_eq!(Change::between(before, after), change, "{before:?} {after:?}");
        }
    }

    #[test]
    fn words_are_those_of_json() {
        for change in Change::ALL {
            assert_eq!(serde_json::to_value(change).ok(), Some(change.as_str().into()));
            assert_eq!(Change::parse(change.as_str()), Some(change));
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
