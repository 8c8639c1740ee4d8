//! Nobody waits for the sidecar longer than it was given: what is late is left out and said. After faults in a row it
//! leaves the database alone for a while and answers by its rules.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, timeout_at};

use super::Sidecar;
use crate::telemetry::metric;
use umbra_store::StoreError;

/// Faults in a row after which the sidecar is passive.
const FAULTS: u32 = 5;
/// And nothing was answered for so long.
const QUIET: Duration = Duration::from_millis(500);
/// How long it is passive.
const PASSIVE: Duration = Duration::from_secs(15);
/// The longest that a wait for the database is too short to be a fault of it.
const A_WAIT: Duration = Duration::from_millis(50);
/// An answer that is later than this is called late.
const LATE: Duration = Duration::from_millis(50);
/// Most warnings of one answer.
const MOST_WARNINGS: usize = 32;

/// Whether what the sidecar stands on answers.
#[derive(Debug, Default)]
pub(super) struct Health(Mutex<Lately>);

/// What came of asking lately.
#[derive(Debug, Default)]
struct Lately {
    faults: u32,
    answered: Option<Instant>,
    passive_until: Option<Instant>,
}

impl Health {
    fn lately(&self) -> MutexGuard<'_, Lately> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the sidecar leaves the database alone.
    pub fn is_passive(&self) -> bool {
        self.lately().passive_until.is_some_and(|until| Instant::now() < until)
    }

    fn answered(&self) {
        let mut lately = self.lately();
        (lately.faults, lately.answered) = (0, Some(Instant::now()));
    }

    /// A fault. Many at once, such as of steps that wait for one session, say nothing where others are answered.
    fn failed(&self) {
        let (mut lately, now) = (self.lately(), Instant::now());
        lately.faults = lately.faults.saturating_add(1);
        let quiet = lately.answered.is_none_or(|answered| now.saturating_duration_since(answered) >= QUIET);
        if lately.faults >= FAULTS && quiet {
            (lately.faults, lately.passive_until) = (0, Some(now + PASSIVE));
            metrics::counter!(metric::SIDECAR_PASSIVE).increment(1);
            tracing::warn!("the sidecar is passive for {} s: what it stands on does not answer", PASSIVE.as_secs());
        }
    }
}

/// Longest that who only reads waits.
const TO_READ: Duration = Duration::from_secs(2);

impl Sidecar {
    /// What the database answers to who only reads: soon, or not at all.
    ///
    /// # Errors
    /// It does not answer in time, or did not lately.
    pub(super) async fn read<T>(&self, reading: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        if self.health.is_passive() {
            return Err(StoreError::late());
        }
        let read = tokio::time::timeout(TO_READ, reading).await;
        read.unwrap_or(Err(StoreError::late()))
    }
}

/// What is left of a caller's patience, and what was missed for it.
#[derive(Debug)]
pub(super) struct Patience<'h> {
    health: &'h Health,
    deadline: Instant,
    /// When the caller goes on, as far as it said so.
    said: Option<Instant>,
    /// What is late is late by our measure: that a caller has no time is no fault of the database.
    ours: bool,
    /// Who waited less for the database has spent the time elsewhere, which is no fault of it.
    a_wait: Duration,
    warnings: Vec<String>,
    degraded: bool,
}

impl<'h> Patience<'h> {
    /// Until this moment, or until the caller goes on.
    pub fn until(health: &'h Health, most: Instant, said: Option<Instant>) -> Self {
        let deadline = said.map_or(most, |said| said.min(most));
        let a_wait = A_WAIT.min(deadline.saturating_duration_since(Instant::now()) / 2);
        Self { health, deadline, said, ours: deadline == most, a_wait, warnings: Vec::new(), degraded: false }
    }

    /// The same for what takes longer and happens once, unless the caller said how long it waits.
    pub fn at_least(mut self, wait: Duration) -> Self {
        if self.said.is_none() {
            self.deadline = self.deadline.max(Instant::now() + wait);
        }
        self
    }

    /// When what is left to do has to be done.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// When what others wait for has to be done, so that something is left for them.
    pub fn half(&self) -> Instant {
        let now = Instant::now();
        now + self.deadline.saturating_duration_since(now) / 2
    }

    /// What the database answers in time. Otherwise nothing, and `missed` is said: what the answer lacks for it.
    pub async fn ask<T>(&mut self, missed: &str, answer: impl Future<Output = Result<T, StoreError>>) -> Option<T> {
        if self.health.is_passive() {
            self.miss("passive", format!("{missed}: the sidecar is passive after faults in a row"));
            return None;
        }
        let began = Instant::now();
        match timeout_at(self.deadline, answer).await {
            Ok(Ok(answer)) => {
                self.health.answered();
                Some(answer)
            }
            Ok(Err(error)) => {
                self.health.failed();
                tracing::debug!(%error, "the sidecar goes on without its database");
                self.miss("database", format!("{missed}: {error}"));
                None
            }
            Err(_) => {
                if self.ours && began.elapsed() >= self.a_wait {
                    self.health.failed();
                }
                self.miss("deadline", format!("{missed}: it was not had in time"));
                None
            }
        }
    }

    /// What the answer lacks.
    pub fn miss(&mut self, why: &'static str, warning: String) {
        metrics::counter!(metric::SIDECAR_MISSED, "why" => why).increment(1);
        self.degraded = true;
        self.warn(warning);
    }

    /// What is worth saying beside.
    pub fn warn(&mut self, warning: impl Into<String>) {
        if self.warnings.len() < MOST_WARNINGS {
            self.warnings.push(warning.into());
        }
    }

    /// Until when rules in words may wait that ask for so much: no longer than the caller itself said.
    pub fn for_words(&self, wait: Duration) -> Instant {
        let until = Instant::now() + wait;
        self.said.map_or(until, |said| said.min(until))
    }

    /// So much was waited for somebody else: what is left to do is not late for it.
    pub fn prolong(&mut self, by: Duration) {
        self.deadline += by;
    }

    /// Whether something is missing, and what is to be said.
    pub fn end(mut self) -> (bool, Vec<String>) {
        // What is looked at in texts and tools is no more than was sent, and is looked at to its end.
        let late = Instant::now().saturating_duration_since(self.deadline);
        if late > LATE && !self.degraded {
            self.warn(format!("the answer is {} ms late: to look at all that was sent took so long", late.as_millis()));
        }
        (self.degraded, self.warnings)
    }
}
