//! Circuit breaker of a provider: a small state machine that stops calls to a provider that keeps failing.
//!
//! In: outcomes of calls, and the time. Out: whether the next call may go. The breaker opens after 5 failures in a row,
//! or when half of the last 20 calls failed within 30 s. It stays open for 30 s, doubling up to 5 min; then one call is
//! let through as a probe. It makes no calls, does not wait, and reads no clock.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::ProviderState;

/// Failures in a row that open the breaker.
const IN_A_ROW: u32 = 5;
/// Calls that the failure rate is taken over, and the time within which they must lie.
const WINDOW: usize = 20;
const WITHIN: Duration = Duration::from_secs(30);
/// First and longest time that the breaker stays open.
const FIRST_OPEN: Duration = Duration::from_secs(30);
const LONGEST_OPEN: Duration = Duration::from_mins(5);
/// Wait that a caller is told while the probe of another caller is under way.
const WHILE_PROBING: Duration = Duration::from_secs(5);

/// Outcome of a call, as far as the provider's health is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProviderCallOutcome {
    /// The provider answered.
    Answered,
    /// The provider did not answer, or reported that it cannot. `not_before` is the wait that it asked for.
    Failed { why: String, not_before: Option<Duration> },
    /// The provider refuses this key or account: asking again soon is useless.
    AccessRefused { why: String },
    /// The provider answered, and the fault lies in the request, or in the rate of requests.
    CallerFault { why: String },
}

/// A breaker for one (provider, base URL, model, key).
#[derive(Debug, Default)]
pub(super) struct Breaker(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    phase: Phase,
    in_a_row: u32,
    recent: VecDeque<(Instant, bool)>,
    /// Times that the breaker opened without a good call in between.
    openings: u32,
    last_error: Option<String>,
    /// True if the provider refuses our key or account: waiting does not help.
    barred: bool,
}

#[derive(Debug, Clone, Copy, Default)]
enum Phase {
    #[default]
    Closed,
    /// No call goes until that time; from then on, one probe.
    Open {
        until: Instant,
    },
    Probing,
}

/// State of a breaker, as shown outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Snapshot {
    /// `Ok` (closed), `Open` or `HalfOpen`.
    pub state: ProviderState,
    pub in_a_row: u32,
    pub last_error: Option<String>,
    /// Remaining time that the breaker stays open.
    pub rest: Option<Duration>,
    /// True if the breaker is open because the provider refuses our key or account.
    pub barred: bool,
}

impl Breaker {
    /// Returns a permit for one call, or the time to wait for it.
    pub fn admit(&self, now: Instant) -> Result<Permit<'_>, Duration> {
        let mut inner = self.inner();
        let probe = match inner.phase {
            Phase::Closed => None,
            Phase::Open { until } if until <= now => {
                inner.phase = Phase::Probing;
                Some(until)
            }
            Phase::Open { until } => return Err(until - now),
            Phase::Probing => return Err(WHILE_PROBING),
        };
        Ok(Permit { breaker: self, probe })
    }

    /// Returns the state at this time.
    pub fn snapshot(&self, now: Instant) -> Snapshot {
        let inner = self.inner();
        let (state, rest) = match inner.phase {
            Phase::Closed => (ProviderState::Ok, None),
            Phase::Open { until } if until > now => (ProviderState::Open, Some(until - now)),
            Phase::Open { .. } | Phase::Probing => (ProviderState::HalfOpen, None),
        };
        let barred = inner.barred && rest.is_some();
        Snapshot { state, in_a_row: inner.in_a_row, last_error: inner.last_error.clone(), rest, barred }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Permit for one call. Dropped without an outcome (the caller was cancelled), it changes nothing.
#[derive(Debug)]
pub(super) struct Permit<'a> {
    breaker: &'a Breaker,
    /// For the probe of a half-open breaker: the time since which it may be made.
    probe: Option<Instant>,
}

impl Permit<'_> {
    /// Records the outcome of the call.
    pub fn settle(mut self, outcome: ProviderCallOutcome, now: Instant) {
        let probe = self.probe.take().is_some();
        self.breaker.inner().settle(outcome, probe, now);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if let Some(until) = self.probe {
            self.breaker.inner().phase = Phase::Open { until };
        }
    }
}

impl Inner {
    fn settle(&mut self, outcome: ProviderCallOutcome, probe: bool, now: Instant) {
        // A call from before the breaker opened says nothing about the time since.
        if !probe && !matches!(self.phase, Phase::Closed) {
            return;
        }
        self.barred = matches!(outcome, ProviderCallOutcome::AccessRefused { .. });
        match outcome {
            ProviderCallOutcome::Answered => {
                if probe {
                    *self = Self::default();
                }
                self.in_a_row = 0;
                self.last_error = None;
                self.remember(now, true);
            }
            ProviderCallOutcome::CallerFault { why } => {
                if probe {
                    *self = Self::default();
                }
                self.last_error = Some(why);
            }
            ProviderCallOutcome::AccessRefused { why } => {
                self.in_a_row = self.in_a_row.saturating_add(1);
                self.last_error = Some(why);
                self.open_until(now + LONGEST_OPEN);
            }
            ProviderCallOutcome::Failed { why, not_before } => {
                self.in_a_row = self.in_a_row.saturating_add(1);
                self.last_error = Some(why);
                self.remember(now, false);
                if probe || self.in_a_row >= IN_A_ROW || self.fails_half(now) {
                    let backoff = FIRST_OPEN.saturating_mul(1 << self.openings.min(8)).min(LONGEST_OPEN);
                    let asked = not_before.unwrap_or_default().min(LONGEST_OPEN);
                    self.open_until(now + backoff.max(asked));
                }
            }
        }
    }

    fn open_until(&mut self, until: Instant) {
        self.phase = Phase::Open { until };
        self.openings = self.openings.saturating_add(1);
        self.recent.clear();
    }

    fn remember(&mut self, now: Instant, good: bool) {
        if self.recent.len() == WINDOW {
            self.recent.pop_front();
        }
        self.recent.push_back((now, good));
    }

    fn fails_half(&self, now: Instant) -> bool {
        let fresh = |(at, _): &&(Instant, bool)| now.duration_since(*at) <= WITHIN;
        self.recent.iter().filter(fresh).count() == WINDOW
            && self.recent.iter().filter(|(_, good)| !good).count() * 2 >= WINDOW
    }
}
