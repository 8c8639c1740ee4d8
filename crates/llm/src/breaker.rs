//! Provider health: a small state machine that stops calls to a provider that keeps failing.
//!
//! In: how calls ended, and the time. Out: whether the next call may go. It opens after 5 failures in a row, or
//! when half of the last 20 calls failed within 30 s; it stays open for 30 s, doubling to 5 min; then one call
//! is let through as a probe. It neither calls nor waits, and reads no clock.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Failures in a row that open it.
const IN_A_ROW: u32 = 5;
/// Calls that the failure rate is taken over, and the time within which they must lie.
const WINDOW: usize = 20;
const WITHIN: Duration = Duration::from_secs(30);
/// First and longest time that it stays open.
const FIRST_OPEN: Duration = Duration::from_secs(30);
const LONGEST_OPEN: Duration = Duration::from_mins(5);
/// What a caller is told to wait while another's probe is under way.
const WHILE_PROBING: Duration = Duration::from_secs(5);

/// How a call ended, as far as the provider's health goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It answered.
    Well,
    /// It did not, or said that it cannot. `not_before` is its own word on when to come back.
    Sick { why: String, not_before: Option<Duration> },
    /// It refuses this key or account: there is no point in asking again soon.
    Barred { why: String },
    /// It answered, and the fault is in what we asked (or in how often).
    Blameless { why: String },
}

/// A breaker for one (provider, base URL, model, key).
#[derive(Debug, Default)]
pub(super) struct Breaker(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    phase: Phase,
    in_a_row: u32,
    recent: VecDeque<(Instant, bool)>,
    /// How often it has opened without a good call in between.
    spells: u32,
    last_error: Option<String>,
    /// The provider refuses our key or account: waiting will not help.
    barred: bool,
}

#[derive(Debug, Clone, Copy, Default)]
enum Phase {
    #[default]
    Closed,
    /// Until then nothing goes; from then on, one probe.
    Open {
        until: Instant,
    },
    Probing,
}

/// What the outside may know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub state: State,
    pub in_a_row: u32,
    pub last_error: Option<String>,
    /// Rest of the time that it stays open.
    pub rest: Option<Duration>,
    /// It is open because the provider refuses our key or account.
    pub barred: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Closed,
    Open,
    HalfOpen,
}

impl Breaker {
    /// Leave for one call, or how long to wait for it.
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

    /// How things stand.
    pub fn snapshot(&self, now: Instant) -> Snapshot {
        let inner = self.inner();
        let (state, rest) = match inner.phase {
            Phase::Closed => (State::Closed, None),
            Phase::Open { until } if until > now => (State::Open, Some(until - now)),
            Phase::Open { .. } | Phase::Probing => (State::HalfOpen, None),
        };
        let barred = inner.barred && rest.is_some();
        Snapshot { state, in_a_row: inner.in_a_row, last_error: inner.last_error.clone(), rest, barred }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leave for one call. Dropped without an outcome (the caller was cancelled), it changes nothing.
#[derive(Debug)]
pub(super) struct Permit<'a> {
    breaker: &'a Breaker,
    /// For the probe of a half-open breaker, since when it may be made.
    probe: Option<Instant>,
}

impl Permit<'_> {
    /// Says how the call ended.
    pub fn settle(mut self, outcome: Outcome, now: Instant) {
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
    fn settle(&mut self, outcome: Outcome, probe: bool, now: Instant) {
        // A call from before it opened says nothing about the time since.
        if !probe && !matches!(self.phase, Phase::Closed) {
            return;
        }
        self.barred = matches!(outcome, Outcome::Barred { .. });
        match outcome {
            Outcome::Well => {
                if probe {
                    *self = Self::default();
                }
                self.in_a_row = 0;
                self.last_error = None;
                self.remember(now, true);
            }
            Outcome::Blameless { why } => {
                if probe {
                    *self = Self::default();
                }
                self.last_error = Some(why);
            }
            Outcome::Barred { why } => {
                self.in_a_row = self.in_a_row.saturating_add(1);
                self.last_error = Some(why);
                self.open_until(now + LONGEST_OPEN);
            }
            Outcome::Sick { why, not_before } => {
                self.in_a_row = self.in_a_row.saturating_add(1);
                self.last_error = Some(why);
                self.remember(now, false);
                if probe || self.in_a_row >= IN_A_ROW || self.fails_half(now) {
                    let backoff = FIRST_OPEN.saturating_mul(1 << self.spells.min(8)).min(LONGEST_OPEN);
                    let asked = not_before.unwrap_or_default().min(LONGEST_OPEN);
                    self.open_until(now + backoff.max(asked));
                }
            }
        }
    }

    fn open_until(&mut self, until: Instant) {
        self.phase = Phase::Open { until };
        self.spells = self.spells.saturating_add(1);
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
