//! Recommends to hold an agent back: three verified rejections in a row open its breaker. It stops nobody.
//!
//! In: what one shadow's reviews said of one agent's events, in any order of their ends, and the time. Out: closed,
//! open or half open, since when, and which reviews brought it about. It reads no clock and stores nothing.
//!
//! # States
//! - **closed**: `threshold` rejections in a row open it, and so do as many of one and the same content: the agent is stuck.
//!   An approval resets both counts.
//! - **open**: nothing that comes in meanwhile changes it, until `cool_off` has passed.
//! - **half open**: reviews of events that came in since are trials. `trials` approvals close it, one rejection opens
//!   it again.
//!
//! # What counts
//! A review that flagged on verified evidence is a rejection; one that approved or suggested is an approval, and so is a
//! clean one (CHECKED) of a shadow that runs on the built-in checks. Anything else (inconclusive, CHECKED where the shadow
//! has a model, a rejection without evidence, no result) is neither, and is not told to this room. A rejection that a
//! text forged, with quotes that stand nowhere, thus moves nothing, neither up nor down. Copies of one content count once
//! within a run, and apart from it as `stuck`; an attempt at doing it again is content of its own, even word for word.
//!
//! # Order
//! Reviews end out of order, so a state is never moved on by hand: what was said is kept in order of receipt, and the
//! state is folded from it anew whenever something is added. A review that ends late takes the place of its event, and
//! may open or close a breaker in retrospect. Only the last [`MOST_RECENT`] are kept so; before them lies a settled
//! state, and what comes too late for it changes nothing.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use umbra_domain::{Assessment, BreakerState, Event, EventId, ReviewId, Severity};

/// How many reviews may end after one of a later event and still be taken in their place.
pub const MOST_RECENT: usize = 32;
/// Most rejections of a run, and most contents, that are remembered one by one; the count goes on.
const MOST_REMEMBERED: usize = 32;

/// When it opens and closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Rejections in a row that open it, of different contents or of one; at least 1.
    pub threshold: u32,
    /// How long it stays open.
    pub cool_off: Duration,
    /// Approvals that close it when it is half open, at least 1.
    pub trials: u32,
}

/// What a review said of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opinion {
    /// The event's number in the feed: its place in order of receipt.
    pub order: i64,
    /// The event.
    pub event: EventId,
    /// The review.
    pub review: ReviewId,
    /// Whether it rejected; otherwise it approved.
    pub rejected: bool,
    /// What makes two events the same content.
    pub content: String,
    /// When the event was received.
    pub received_at: Timestamp,
    /// When the review ended.
    pub ended_at: Timestamp,
}

/// Meaning of an assessment for an agent: `Some(true)` a rejection, `Some(false)` an approval, `None` neither. A rejection
/// stands on evidence: `verified` is the worst severity of a finding against the agent whose evidence stands.
/// `has_model` is false for a shadow that runs on the built-in checks.
pub fn rejects(assessment: Assessment, has_model: bool, verified: Option<Severity>) -> Option<bool> {
    match assessment {
        Assessment::Approve | Assessment::Suggest => Some(false),
        // Where the checks' FLAGs count, their clean reviews do; beside a model they judge nothing.
        Assessment::Checked => (!has_model).then_some(false),
        Assessment::Inconclusive => None,
        Assessment::Flag => (verified >= Some(Severity::Warning)).then_some(true),
    }
}

/// What makes two events the same content: their texts, but for white space, and which attempt they are. 16 hex digits.
pub fn content(event: &Event) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut part = |name: &str, text: &str| {
        hasher.update(name.as_bytes());
        for word in text.split_whitespace() {
            hasher.update(&[0]);
            hasher.update(word.as_bytes());
        }
        hasher.update(&[1]);
    };
    event.for_each_text(|field, text| part(field.as_str(), text));
    part("tool.name", event.tool.as_ref().map_or("", |tool| &tool.name));
    part("attempt", &event.attempt.map(|attempt| attempt.to_string()).unwrap_or_default());
    part("supersedes", &event.supersedes.map(|id| id.to_string()).unwrap_or_default());
    hasher.finalize().to_hex().chars().take(16).collect()
}

/// Where a breaker stands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Standing {
    /// What is recommended.
    pub recommendation: BreakerState,
    /// Since when; `None` where it was never anything but closed.
    pub since: Option<Timestamp>,
    /// Since when it has not been closed.
    pub troubled_since: Option<Timestamp>,
    /// Rejections in a row, those while it is open among them.
    pub rejections: u32,
    /// The reviews that rejected, oldest first.
    pub rejected_by: Vec<ReviewId>,
    /// What content they were of, or, half open, what content was approved.
    seen: Vec<String>,
    /// Rejections of a content beyond its first, by the content.
    #[serde(default)]
    copies: BTreeMap<String, u32>,
    /// When the last of these reviews ended.
    known_at: Option<Timestamp>,
}

/// What one shadow has said of one agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct History {
    /// Where it stood after everything up to `settled_to`.
    settled: Standing,
    /// The order of the last event that is settled: what is told of it or of earlier ones comes too late.
    settled_to: i64,
    /// What was said since, in order of receipt.
    recent: Vec<Opinion>,
}

impl History {
    /// Takes in what a review said, in the place of its event.
    pub fn add(&mut self, opinion: Opinion, limits: &Limits) {
        let place = self.recent.partition_point(|known| known.order < opinion.order);
        let known = self.recent.get(place).is_some_and(|next| next.order == opinion.order);
        if known || opinion.order <= self.settled_to {
            return;
        }
        self.recent.insert(place, opinion);
        if self.recent.len() > MOST_RECENT {
            let oldest = self.recent.remove(0);
            self.settled_to = oldest.order;
            self.settled = std::mem::take(&mut self.settled).after(&oldest, limits);
        }
    }

    /// Forgets everything: closed at `now`, and nothing counts that is said of events up to `order`.
    pub fn reset(&mut self, now: Timestamp, order: i64) {
        *self = Self {
            settled: Standing { since: Some(now), ..Standing::default() },
            settled_to: order,
            recent: Vec::new(),
        };
    }

    /// Where it stands at `now`.
    pub fn standing(&self, now: Timestamp, limits: &Limits) -> Standing {
        let settled = self.settled.clone();
        self.recent.iter().fold(settled, |standing, opinion| standing.after(opinion, limits)).at(now, limits)
    }
}

impl Standing {
    /// Rejections of the content that was rejected most often; 0 where none was rejected twice.
    pub fn stuck(&self) -> u32 {
        self.copies.values().max().map_or(0, |copies| copies.saturating_add(1))
    }

    /// When it becomes half open, if it is open.
    pub fn half_open_at(&self, limits: &Limits) -> Option<Timestamp> {
        let since = self.since.filter(|_| self.recommendation == BreakerState::Open)?;
        Some(since.saturating_add(limits.cool_off).unwrap_or(since))
    }

    /// What time alone makes of it.
    fn at(mut self, now: Timestamp, limits: &Limits) -> Self {
        if let Some(half_open_at) = self.half_open_at(limits).filter(|at| *at <= now) {
            self.recommendation = BreakerState::HalfOpen;
            self.since = Some(half_open_at);
            self.seen.clear();
            self.known_at = None;
        }
        self
    }

    /// What an opinion makes of it.
    fn after(self, opinion: &Opinion, limits: &Limits) -> Self {
        let mut standing = self.at(opinion.received_at, limits);
        match (standing.recommendation, opinion.rejected) {
            (BreakerState::Closed, false) => standing.clear(),
            (BreakerState::Open, false) => {}
            (BreakerState::Closed, true) => {
                standing.count(opinion);
                if standing.rejections.max(standing.stuck()) >= limits.threshold {
                    standing.open();
                }
            }
            (BreakerState::Open, true) => standing.count(opinion),
            (BreakerState::HalfOpen, true) => {
                standing.seen.clear();
                standing.count(opinion);
                standing.open();
            }
            (BreakerState::HalfOpen, false) => {
                if standing.is_new(opinion) && standing.seen.len() >= limits.trials as usize {
                    standing = Self { since: standing.known_at, ..Self::default() };
                }
            }
        }
        standing
    }

    /// Whether its content has not been seen in this run; from now on it has.
    fn is_new(&mut self, opinion: &Opinion) -> bool {
        if self.seen.contains(&opinion.content) {
            return false;
        }
        if self.seen.len() < MOST_REMEMBERED {
            self.seen.push(opinion.content.clone());
        }
        self.known_at = self.known_at.max(Some(opinion.ended_at));
        true
    }

    /// Counts a rejection, or a copy of one.
    fn count(&mut self, opinion: &Opinion) {
        if self.is_new(opinion) {
            self.rejections = self.rejections.saturating_add(1);
        } else {
            if self.copies.len() < MOST_REMEMBERED || self.copies.contains_key(&opinion.content) {
                let copies = self.copies.entry(opinion.content.clone()).or_default();
                *copies = copies.saturating_add(1);
            }
            self.known_at = self.known_at.max(Some(opinion.ended_at));
        }
        if self.rejected_by.len() == MOST_REMEMBERED {
            self.rejected_by.remove(0);
        }
        self.rejected_by.push(opinion.review);
    }

    /// Opens it. Reviews end out of order: it is open since the last of its reasons was known.
    fn open(&mut self) {
        self.recommendation = BreakerState::Open;
        self.since = self.known_at;
        self.troubled_since = self.troubled_since.or(self.since);
    }

    fn clear(&mut self) {
        self.rejections = 0;
        self.rejected_by.clear();
        self.seen.clear();
        self.copies.clear();
        self.known_at = None;
    }
}
