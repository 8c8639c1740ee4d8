//! Waiting reviews that take further events: batches, and reviews of whole tasks. The store provides those that it has
//! locked; each candidate then joins or opens one. Joining costs neither a unit nor a cooldown.

use std::collections::HashMap;

use jiff::Timestamp;

use super::signed;
use umbra_domain::{BatchRules, ReviewId};

/// Way in which a candidate may share a review.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Grouping {
    /// Review of its own.
    #[default]
    None,
    /// Batch with small events of its agent, by the shadow's rules; the number is the event's characters.
    Batch(u64),
    /// Review of a whole task.
    Task {
        /// Id of the task.
        id: String,
        /// True if the event completes the task; otherwise it only reopens a reviewed one.
        completes: bool,
    },
}

/// Waiting review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingReview {
    /// Id of the review, if it was stored before this flush.
    pub review: Option<ReviewId>,
    /// Number of its events.
    pub events: u32,
    /// Characters of their texts.
    pub chars: u64,
    /// Earliest time at which it may run: the end of a cooldown.
    pub not_before: Timestamp,
    /// Time at which it runs.
    pub run_at: Timestamp,
    /// True if this flush changed it.
    pub changed: bool,
}

/// Waiting reviews, by shadow position and by agent or task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaitingReviews {
    ahead: HashMap<(usize, String), usize>,
    all: Vec<WaitingReview>,
    /// Number of reviews of each task, including waiting ones.
    rounds: HashMap<(usize, String), u32>,
}

/// Result of joining a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JoinOutcome {
    /// The event joined the review at this index.
    Joined(usize),
    /// The open batch is full and waits for its cooldown.
    Full,
    /// There is no open batch that the event fits into.
    None,
}

impl WaitingReviews {
    /// Adds a waiting review that the store has locked.
    pub fn found(&mut self, shadow: usize, of: &str, waiting: WaitingReview) {
        self.put(shadow, of, waiting);
    }

    /// Sets the number of reviews of a task.
    pub fn reviewed(&mut self, shadow: usize, task: &str, rounds: u32) {
        self.rounds.insert((shadow, task.to_owned()), rounds);
    }

    /// True if a review waits for this agent or task.
    pub fn is_ahead(&self, shadow: usize, of: &str) -> bool {
        self.ahead.contains_key(&(shadow, of.to_owned()))
    }

    /// Returns all reviews that wait or waited in this flush; decisions name them by index.
    pub fn all(&self) -> &[WaitingReview] {
        &self.all
    }

    pub(super) fn rounds(&self, shadow: usize, task: &str) -> u32 {
        self.rounds.get(&(shadow, task.to_owned())).copied().unwrap_or(0)
    }

    /// Joins the batch of an agent. A batch that is full runs at once, unless a cooldown holds it; one without room for
    /// this event closes.
    pub(super) fn join(
        &mut self,
        shadow: usize,
        agent: &str,
        chars: u64,
        rules: BatchRules,
        now: Timestamp,
    ) -> JoinOutcome {
        let key = (shadow, agent.to_owned());
        let Some(&place) = self.ahead.get(&key) else { return JoinOutcome::None };
        let Some(batch) = self.all.get_mut(place) else { return JoinOutcome::None };
        let fits = batch.events < rules.max_events && batch.chars + chars <= u64::from(rules.max_chars);
        if fits {
            batch.events += 1;
            batch.chars += chars;
            batch.changed = true;
            if is_full(batch, rules) {
                batch.run_at = batch.not_before.max(now);
            }
        } else if batch.not_before > now {
            return JoinOutcome::Full;
        } else {
            batch.run_at = now;
            batch.changed = true;
        }
        if batch.run_at <= now {
            self.ahead.remove(&key);
        }
        if fits { JoinOutcome::Joined(place) } else { JoinOutcome::None }
    }

    /// Opens a batch with its first event.
    pub(super) fn open(
        &mut self,
        (shadow, agent): (usize, &str),
        chars: u64,
        rules: BatchRules,
        now: Timestamp,
        not_before: Timestamp,
    ) -> usize {
        let patient = now.saturating_add(signed(rules.max_wait)).unwrap_or(now);
        let mut batch = WaitingReview {
            review: None,
            events: 1,
            chars,
            not_before,
            run_at: patient.max(not_before),
            changed: true,
        };
        if is_full(&batch, rules) {
            batch.run_at = not_before.max(now);
        }
        self.put(shadow, agent, batch)
    }

    /// Joins the waiting review of a task.
    pub(super) fn join_task(&mut self, shadow: usize, task: &str) -> Option<usize> {
        let place = *self.ahead.get(&(shadow, task.to_owned()))?;
        let waiting = self.all.get_mut(place)?;
        waiting.events += 1;
        waiting.changed = true;
        Some(place)
    }

    /// Opens the next review of a task.
    pub(super) fn open_task(&mut self, shadow: usize, task: &str, now: Timestamp, run_at: Timestamp) -> usize {
        *self.rounds.entry((shadow, task.to_owned())).or_default() += 1;
        let waiting = WaitingReview { review: None, events: 1, chars: 0, not_before: now, run_at, changed: true };
        self.put(shadow, task, waiting)
    }

    fn put(&mut self, shadow: usize, of: &str, waiting: WaitingReview) -> usize {
        let place = self.all.len();
        self.all.push(waiting);
        self.ahead.insert((shadow, of.to_owned()), place);
        place
    }
}

fn is_full(batch: &WaitingReview, rules: BatchRules) -> bool {
    batch.events >= rules.max_events || batch.chars >= u64::from(rules.max_chars)
}
