//! Nobody waits for the sidecar longer than it was given: what is late is left out and said. After faults in a row it
//! leaves the database alone for a while and answers by its rules.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, timeout_at};

use crate::{store::StoreError, telemetry::metric};

/// Faults in a row after which the sidecar is passive.
const FAULTS: u32 = 5;
/// How long it is passive.
const PASSIVE: Duration = Duration::from_secs(15);
/// Most warnings of one answer.
const MOST_WARNINGS: usize = 32;

/// Whether what the sidecar stands on answers.
#[derive(Debug, Default)]
pub(super) struct Health {
    faults: AtomicU32,
    passive_until: Mutex<Option<Instant>>,
}

impl Health {
    fn until(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.passive_until.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Whether the sidecar leaves the database alone.
    pub fn is_passive(&self) -> bool {
        self.until().is_some_and(|until| Instant::now() < until)
    }

    fn answered(&self) {
        self.faults.store(0, Ordering::Relaxed);
    }

    fn failed(&self) {
        if self.faults.fetch_add(1, Ordering::Relaxed) + 1 >= FAULTS {
            self.faults.store(0, Ordering::Relaxed);
            *self.until() = Some(Instant::now() + PASSIVE);
            metrics::counter!(metric::SIDECAR_PASSIVE).increment(1);
            tracing::warn!("the sidecar is passive for {} s: what it stands on does not answer", PASSIVE.as_secs());
        }
    }
}

/// What is left of a caller's patience, and what was missed for it.
#[derive(Debug)]
pub(super) struct Patience<'h> {
    health: &'h Health,
    deadline: Instant,
    /// When the caller goes on, as far as it said so.
    said: Option<Instant>,
    warnings: Vec<String>,
    degraded: bool,
}

impl<'h> Patience<'h> {
    /// Until this moment.
    pub fn until(health: &'h Health, deadline: Instant, said: Option<Instant>) -> Self {
        Self { health, deadline, said, warnings: Vec::new(), degraded: false }
    }

    /// The same for what takes longer and happens once.
    pub fn at_least(mut self, wait: Duration) -> Self {
        self.deadline = self.deadline.max(Instant::now() + wait);
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
                self.health.failed();
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
    pub fn warn(&mut self, warning: String) {
        if self.warnings.len() < MOST_WARNINGS {
            self.warnings.push(warning);
        }
    }

    /// How long a rule in words may wait that asks for so much: no longer than the caller itself said.
    pub fn for_words(&self, wait: Duration) -> Duration {
        self.said.map_or(wait, |said| said.saturating_duration_since(Instant::now()).min(wait))
    }

    /// So much was waited for somebody else: what is left to do is not late for it.
    pub fn prolong(&mut self, by: Duration) {
        self.deadline += by;
    }

    /// Whether something is missing, and what is to be said.
    pub fn end(self) -> (bool, Vec<String>) {
        (self.degraded, self.warnings)
    }
}
