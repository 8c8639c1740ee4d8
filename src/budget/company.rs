//! Reviews that wait and take further events: batches for company, whole tasks for their turn. In: those that the
//! store has locked, then candidates one by one. Out: which review each joins or opens, and how the reviews stand
//! afterwards. Joining costs neither a unit nor a cooldown.

use std::collections::HashMap;

use jiff::Timestamp;

use super::signed;
use umbra_domain::{BatchRules, ReviewId};

/// How a candidate may share a review.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Company {
    /// It does not.
    #[default]
    None,
    /// With small events of its agent, by the shadow's rules; it has so many characters.
    Batch(u64),
    /// With all events of this task.
    Task {
        /// The task.
        id: String,
        /// Whether it completes the task; otherwise it only reopens what was reviewed.
        completes: bool,
    },
}

/// A review that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Its id, where it was stored before this flush.
    pub review: Option<ReviewId>,
    /// Events that hold it.
    pub events: u32,
    /// Characters of their texts.
    pub chars: u64,
    /// When it may run at the earliest: a cooldown ends then.
    pub not_before: Timestamp,
    /// When it runs.
    pub run_at: Timestamp,
    /// Whether this flush changed it.
    pub changed: bool,
}

/// What is waiting, by shadow position, and by agent or task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waitings {
    ahead: HashMap<(usize, String), usize>,
    all: Vec<Waiting>,
    /// How often tasks were reviewed, what waits included.
    rounds: HashMap<(usize, String), u32>,
}

/// Whether a batch takes an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// It joined this one.
    Joined(usize),
    /// There is one that waits for its cooldown and is full.
    Full,
    /// None is open.
    None,
}

impl Waitings {
    /// Notes a review that waits, as it was locked.
    pub fn found(&mut self, shadow: usize, of: &str, waiting: Waiting) {
        self.put(shadow, of, waiting);
    }

    /// Notes how often a task was reviewed.
    pub fn reviewed(&mut self, shadow: usize, task: &str, rounds: u32) {
        self.rounds.insert((shadow, task.to_owned()), rounds);
    }

    /// Whether a review waits there.
    pub fn is_ahead(&self, shadow: usize, of: &str) -> bool {
        self.ahead.contains_key(&(shadow, of.to_owned()))
    }

    /// Every review that waits or waited, by its place; a decision names it by this.
    pub fn all(&self) -> &[Waiting] {
        &self.all
    }

    pub(super) fn rounds(&self, shadow: usize, task: &str) -> u32 {
        self.rounds.get(&(shadow, task.to_owned())).copied().unwrap_or(0)
    }

    /// Joins the batch of an agent. One that is full runs at once, unless a cooldown holds it; one that has no room for
    /// this event closes.
    pub(super) fn join(&mut self, shadow: usize, agent: &str, chars: u64, rules: BatchRules, now: Timestamp) -> Room {
        let key = (shadow, agent.to_owned());
        let Some(&place) = self.ahead.get(&key) else { return Room::None };
        let Some(batch) = self.all.get_mut(place) else { return Room::None };
        let fits = batch.events < rules.max_events && batch.chars + chars <= u64::from(rules.max_chars);
        if fits {
            batch.events += 1;
            batch.chars += chars;
            batch.changed = true;
            if is_full(batch, rules) {
                batch.run_at = batch.not_before.max(now);
            }
        } else if batch.not_before > now {
            return Room::Full;
        } else {
            batch.run_at = now;
            batch.changed = true;
        }
        if batch.run_at <= now {
            self.ahead.remove(&key);
        }
        if fits { Room::Joined(place) } else { Room::None }
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
        let mut batch =
            Waiting { review: None, events: 1, chars, not_before, run_at: patient.max(not_before), changed: true };
        if is_full(&batch, rules) {
            batch.run_at = not_before.max(now);
        }
        self.put(shadow, agent, batch)
    }

    /// Joins the review of a task that waits for its turn.
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
        let waiting = Waiting { review: None, events: 1, chars: 0, not_before: now, run_at, changed: true };
        self.put(shadow, task, waiting)
    }

    fn put(&mut self, shadow: usize, of: &str, waiting: Waiting) -> usize {
        let place = self.all.len();
        self.all.push(waiting);
        self.ahead.insert((shadow, of.to_owned()), place);
        place
    }
}

fn is_full(batch: &Waiting, rules: BatchRules) -> bool {
    batch.events >= rules.max_events || batch.chars >= u64::from(rules.max_chars)
}
