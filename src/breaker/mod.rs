//! Recommends to hold an agent back: three verified rejections in a row open its breaker. A breaker stops no agent by
//! itself.
//!
//! Opinions of one shadow about one agent, in any order of their ends, and the time become a state: closed, open or
//! half open, since when, and because of which reviews. This module reads no clock and stores nothing.
//!
//! # States
//! - **closed**: `threshold` rejections in a row open it, and so do as many of the same content: the agent is stuck. An
//!   approval resets both counts.
//! - **open**: no review changes it until `cool_off` has passed.
//! - **half open**: reviews of events received since then are trials. `trials` approvals close it, one rejection opens
//!   it again.
//!
//! # Which reviews count
//! A review that flagged on verified evidence is a rejection; one that approved or suggested is an approval, and so is
//! a clean one (CHECKED) of a shadow that runs on the built-in checks. All others (inconclusive, CHECKED where the
//! shadow has a model, a rejection without evidence, no result) are neither, and do not reach this module. A rejection
//! that a text forged, with quotes that are not in it, thus changes nothing. Copies of one content count once within a
//! run of rejections, and separately as `stuck`; another attempt is content of its own, even word for word.
//!
//! # Order
//! Reviews end out of order, so a state is never updated in place: opinions are kept in order of receipt, and the state
//! is folded from them again whenever one is added. A review that ends late takes the place of its event, and may open
//! or close a breaker in retrospect. Only the last [`MOST_RECENT`] opinions are kept; before them lies a settled state,
//! and an opinion that comes too late for it changes nothing.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use umbra_config::settings::Breaker;
use umbra_domain::{Assessment, BreakerState, Event, EventId, ReviewId, Severity};

/// Number of latest opinions that are kept one by one; an opinion about an earlier event comes too late.
pub const MOST_RECENT: usize = 32;
/// Most rejections of a run, and most contents, that are remembered one by one; the count goes on.
const MOST_REMEMBERED: usize = 32;

/// Opinion of a review about an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opinion {
    /// Number of the event in the feed, which gives the order of receipt.
    pub order: i64,
    /// Id of the event.
    pub event: EventId,
    /// Id of the review.
    pub review: ReviewId,
    /// True if the review rejected, false if it approved.
    pub rejected: bool,
    /// Hash of the event's content, as by [`content`].
    pub content: String,
    /// Time at which the event was received.
    pub received_at: Timestamp,
    /// Time at which the review ended.
    pub ended_at: Timestamp,
}

/// Returns the meaning of an assessment for the agent: `Some(true)` a rejection, `Some(false)` an approval, `None`
/// neither. A rejection needs evidence: `verified` is the highest severity of a finding against the agent whose
/// evidence was verified. `has_model` is false for a shadow that runs on the built-in checks.
pub fn rejects(assessment: Assessment, has_model: bool, verified: Option<Severity>) -> Option<bool> {
    match assessment {
        Assessment::Approve | Assessment::Suggest => Some(false),
        // Clean reviews of the checks count where their FLAGs do; beside a model they judge nothing.
        Assessment::Checked => (!has_model).then_some(false),
        Assessment::Inconclusive => None,
        Assessment::Flag => (verified >= Some(Severity::Warning)).then_some(true),
    }
}

/// Returns a hash of the event's texts, white space aside, and of its attempt: 16 hex digits, equal for the same
/// content.
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

/// State of a breaker.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BreakerStatus {
    /// Recommendation about the agent.
    pub recommendation: BreakerState,
    /// Start of this state; `None` where it was never anything but closed.
    pub since: Option<Timestamp>,
    /// Time since which it has not been closed.
    pub troubled_since: Option<Timestamp>,
    /// Rejections in a row, including those while it is open.
    pub rejections: u32,
    /// Reviews that rejected, oldest first.
    pub rejected_by: Vec<ReviewId>,
    /// Contents of the rejections; while half open, contents that were approved.
    seen: Vec<String>,
    /// Rejections of a content beyond its first, by the content.
    #[serde(default)]
    copies: BTreeMap<String, u32>,
    /// End of the last of these reviews.
    known_at: Option<Timestamp>,
}

/// Opinions of one shadow about one agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct History {
    /// State after all opinions up to `settled_to`.
    settled: BreakerStatus,
    /// Order of the last settled event: opinions about it or earlier ones come too late.
    settled_to: i64,
    /// Later opinions, in order of receipt.
    recent: Vec<Opinion>,
}

impl History {
    /// Adds an opinion, in the place of its event.
    pub fn add(&mut self, opinion: Opinion, limits: &Breaker) {
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

    /// Forgets everything: closed at `now`, and opinions about events up to `order` no longer count.
    pub fn reset(&mut self, now: Timestamp, order: i64) {
        *self = Self {
            settled: BreakerStatus { since: Some(now), ..BreakerStatus::default() },
            settled_to: order,
            recent: Vec::new(),
        };
    }

    /// Returns the state at `now`.
    pub fn standing(&self, now: Timestamp, limits: &Breaker) -> BreakerStatus {
        let settled = self.settled.clone();
        self.recent.iter().fold(settled, |standing, opinion| standing.after(opinion, limits)).at(now, limits)
    }
}

impl BreakerStatus {
    /// Number of rejections of the most often rejected content; 0 where none was rejected twice.
    pub fn stuck(&self) -> u32 {
        self.copies.values().max().map_or(0, |copies| copies.saturating_add(1))
    }

    /// Returns the time at which an open breaker becomes half open.
    pub fn half_open_at(&self, limits: &Breaker) -> Option<Timestamp> {
        let since = self.since.filter(|_| self.recommendation == BreakerState::Open)?;
        Some(since.saturating_add(limits.cool_off).unwrap_or(since))
    }

    /// Applies the passing of time.
    fn at(mut self, now: Timestamp, limits: &Breaker) -> Self {
        if let Some(half_open_at) = self.half_open_at(limits).filter(|at| *at <= now) {
            self.recommendation = BreakerState::HalfOpen;
            self.since = Some(half_open_at);
            self.seen.clear();
            self.known_at = None;
        }
        self
    }

    /// Applies an opinion.
    fn after(self, opinion: &Opinion, limits: &Breaker) -> Self {
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

    /// Remembers the opinion's content; true if it was not seen in this run before.
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

    /// Opens the breaker. Reviews end out of order: it is open since the last of its reasons was known.
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
