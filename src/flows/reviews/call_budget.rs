//! Budget that the calls of a review, a backtest or a trial are charged to: each call is held before a byte leaves.

use std::fmt;

use crate::flows::reviews::{retry_while_unavailable, trial::TrialAccount};
use umbra_domain::{NanoUsd, Shadow};
use umbra_store::{
    Store, StoreError,
    backtests::BacktestClaim,
    calls::{HoldOutcome, HoldRequest},
    jobs::Job,
};

/// Budget that model calls are charged to.
#[derive(Clone, Copy)]
pub(in crate::flows) enum CallBudget<'a> {
    /// Budget of the review's shadow.
    Review(&'a Store, &'a Job),
    /// Budget of a backtest, for the event with this number.
    Backtest(&'a Store, &'a BacktestClaim, i64),
    /// Budget of a trial, in memory alone.
    Trial(&'a TrialAccount<'a>),
}

impl CallBudget<'_> {
    /// Holds the worst case of a call.
    pub(super) async fn hold(self, shadow: &Shadow, worst: (NanoUsd, u64)) -> Result<HoldOutcome, StoreError> {
        let (store, job) = match self {
            Self::Review(store, job) => (store, job),
            Self::Backtest(store, claim, seq) => {
                return store.backtests().hold(claim, seq, &shadow.model, worst).await;
            }
            Self::Trial(bill) => return Ok(bill.hold(worst)),
        };
        let control = &shadow.cost_control;
        let hold = HoldRequest {
            review: job.review,
            lease: job.lease,
            shadow: &shadow.name,
            zone: &control.time_zone,
            model: &shadow.model,
            worst,
            caps: (control.max_usd_per_day, control.max_tokens_per_day),
        };
        store.reviews().hold(&hold).await
    }

    /// Settles a held call at its actual cost and tokens; `None` charges the hold.
    pub(super) async fn settle(self, n: i16, actual: Option<(NanoUsd, u64)>) -> Result<(), StoreError> {
        match self {
            Self::Review(store, job) => {
                retry_while_unavailable(|| store.reviews().settle(job.review, n, actual)).await.map(drop)
            }
            Self::Backtest(store, claim, seq) => store.backtests().settle(claim, seq, n, actual).await,
            Self::Trial(bill) => {
                bill.settle(actual);
                Ok(())
            }
        }
    }
}

/// Subject of the calls, for the log.
impl fmt::Display for CallBudget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Review(_, job) => job.review.fmt(f),
            Self::Backtest(_, claim, _) => claim.id.fmt(f),
            Self::Trial(_) => f.write_str("a trial"),
        }
    }
}
