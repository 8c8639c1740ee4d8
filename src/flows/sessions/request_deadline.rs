//! Deadline and circuit breaker of sidecar requests: late parts are left out of the answer and named in warnings. After
//! faults in a row the sidecar leaves the database alone for a while and answers by its rules.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use super::Sidecar;
use crate::telemetry::metric;
use umbra_store::StoreError;

/// Faults in a row after which the sidecar is passive.
const FAULTS: u32 = 5;
/// Time without an answer that must have passed as well.
const QUIET: Duration = Duration::from_millis(500);
/// Time for which the sidecar is passive.
const PASSIVE: Duration = Duration::from_secs(15);
/// Least wait for the database that counts as a fault when it times out; half of the time left if that is shorter.
const A_WAIT: Duration = Duration::from_millis(50);
/// Lateness above which an answer says that it is late.
const LATE: Duration = Duration::from_millis(50);
/// Most warnings of one answer.
const MOST_WARNINGS: usize = 32;

/// Circuit breaker on the database.
#[derive(Debug, Default)]
pub(super) struct DatabaseBreaker(Mutex<FailureWindow>);

/// Recent faults and answers.
#[derive(Debug, Default)]
struct FailureWindow {
    faults: u32,
    answered: Option<Instant>,
    passive_until: Option<Instant>,
}

impl DatabaseBreaker {
    /// True if the sidecar leaves the database alone.
    pub fn is_passive(&self) -> bool {
        self.0.lock().passive_until.is_some_and(|until| Instant::now() < until)
    }

    fn answered(&self) {
        let mut lately = self.0.lock();
        (lately.faults, lately.answered) = (0, Some(Instant::now()));
    }

    /// Records a fault. Many faults at once, such as of steps that wait for one session, count for nothing while other
    /// requests are answered.
    fn failed(&self) {
        let (mut lately, now) = (self.0.lock(), Instant::now());
        lately.faults = lately.faults.saturating_add(1);
        let quiet = lately.answered.is_none_or(|answered| now.saturating_duration_since(answered) >= QUIET);
        if lately.faults >= FAULTS && quiet {
            (lately.faults, lately.passive_until) = (0, Some(now + PASSIVE));
            metrics::counter!(metric::SIDECAR_PASSIVE).increment(1);
            tracing::warn!(
                "the sidecar is passive for {} s after repeated failures of the database",
                PASSIVE.as_secs()
            );
        }
    }
}

/// Longest wait of a read.
const TO_READ: Duration = Duration::from_secs(2);

impl Sidecar {
    /// Reads from the database, in time or not at all.
    ///
    /// # Errors
    /// The database does not answer in time, or did not lately.
    pub(super) async fn read<T>(&self, reading: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        if self.health.is_passive() {
            return Err(StoreError::late());
        }
        let read = tokio::time::timeout(TO_READ, reading).await;
        read.unwrap_or(Err(StoreError::late()))
    }
}

/// Deadline of a request, and the warnings about what was missed for it.
#[derive(Debug)]
pub(super) struct RequestDeadline<'h> {
    health: &'h DatabaseBreaker,
    pub deadline: Instant,
    /// Deadline that the caller named, if it named one.
    said: Option<Instant>,
    /// True if the deadline is the sidecar's own; a shorter one of the caller is no fault of the database.
    ours: bool,
    /// Least wait that counts as a fault; with a shorter one the time was spent elsewhere.
    a_wait: Duration,
    warnings: Vec<String>,
    degraded: bool,
}

impl<'h> RequestDeadline<'h> {
    /// Returns a patience until `most`, or until the deadline of the caller if that is earlier.
    pub fn until(health: &'h DatabaseBreaker, most: Instant, said: Option<Instant>) -> Self {
        let deadline = said.map_or(most, |said| said.min(most));
        let a_wait = A_WAIT.min(deadline.saturating_duration_since(Instant::now()) / 2);
        Self { health, deadline, said, ours: deadline == most, a_wait, warnings: Vec::new(), degraded: false }
    }

    /// Extends the deadline for work that is long and happens once, unless the caller named a deadline.
    pub fn at_least(mut self, wait: Duration) -> Self {
        if self.said.is_none() {
            self.deadline = self.deadline.max(Instant::now() + wait);
        }
        self
    }

    /// Returns the middle of the time left, so that some of it is left for the work that follows.
    pub fn half(&self) -> Instant {
        let now = Instant::now();
        now + self.deadline.saturating_duration_since(now) / 2
    }

    /// Returns the answer of the database if it comes in time; otherwise `None`, and `missed` becomes a warning.
    pub async fn ask<T>(&mut self, missed: &str, answer: impl Future<Output = Result<T, StoreError>>) -> Option<T> {
        if self.health.is_passive() {
            self.miss(
                "passive",
                format!("{missed}: the sidecar is passive for a few seconds after repeated failures of the database"),
            );
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
                tracing::debug!(%error, "the sidecar continues without the database");
                self.miss("database", format!("{missed}: {error}"));
                None
            }
            Err(_) => {
                if self.ours && began.elapsed() >= self.a_wait {
                    self.health.failed();
                }
                self.miss("deadline", format!("{missed}: the database did not answer in time"));
                None
            }
        }
    }

    /// Marks the answer as incomplete, with a warning.
    pub fn miss(&mut self, why: &'static str, warning: String) {
        metrics::counter!(metric::SIDECAR_MISSED, "why" => why).increment(1);
        self.degraded = true;
        self.warn(warning);
    }

    /// Adds a warning.
    pub fn warn(&mut self, warning: impl Into<String>) {
        if self.warnings.len() < MOST_WARNINGS {
            self.warnings.push(warning.into());
        }
    }

    /// Returns the deadline of rules in words that ask for `wait`: no later than the caller's own.
    pub fn for_words(&self, wait: Duration) -> Instant {
        let until = Instant::now() + wait;
        self.said.map_or(until, |said| said.min(until))
    }

    /// Returns true if something is missing, and the warnings.
    pub fn end(mut self) -> (bool, Vec<String>) {
        // Texts and tools are judged to the end; their size is bounded by what was sent.
        let late = Instant::now().saturating_duration_since(self.deadline);
        if late > LATE && !self.degraded {
            self.warn(format!("the answer is {} ms late: checking all that was sent took too long", late.as_millis()));
        }
        (self.degraded, self.warnings)
    }
}
