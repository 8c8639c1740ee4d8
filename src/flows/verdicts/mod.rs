//! Verdicts: decided as soon as the active reviews of an event allow it.
//!
//! A verdict is filed once and stands, so every waiter gets the same. The worker that ended a review files it, or the
//! first request that asks after the time is over. A rejection by the built-in checks is due at once.

pub mod wait;

pub use self::wait::Waiters;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::time::{Instant, timeout_at};

use crate::flows::{
    active_configuration::RulesInForce,
    events::{Durability, EventReceipt},
};
use umbra_domain::{
    Assessment, EventId, FindingSubject, ReviewId, Severity, Shadow, StoredEvent, Trigger,
    verdict::{self, ReviewProgress, VerdictInput, VerdictRules},
};
use umbra_review::{EventInput, Judgement, ReviewSubject};
use umbra_store::{
    Store, StoreError,
    events::received_at,
    reviews::Review,
    verdicts::{ActiveReview, EventVerdict, StoredVerdict},
};

/// Context of verdicts, and of requests that wait for one. Cheap to clone.
#[derive(Clone)]
pub struct Verdicts {
    /// The database.
    pub store: Store,
    /// The configuration in force.
    pub rules: RulesInForce,
    /// Requests that wait in this process.
    pub waiters: Waiters,
}

impl Verdicts {
    /// Returns the state of an event's verdict. Files the verdict if it is due.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn verdict(&self, event: EventId) -> Result<EventVerdict, StoreError> {
        self.current_verdict(event).await.map(|(item, _)| item)
    }

    /// Waits for the verdict of an event, for `wait` at most, and returns its state.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn await_verdict(&self, event: EventId, wait: Duration) -> Result<EventVerdict, StoreError> {
        let until = Instant::now() + wait;
        let waiting = self.waiters.join(event);
        loop {
            let told = waiting.listen();
            let (item, left) = self.current_verdict(event).await?;
            match left {
                Some(left) if Instant::now() < until => {
                    drop(timeout_at(until.min(Instant::now() + left), told).await);
                }
                _ => return Ok(item),
            }
        }
    }

    /// Waits for a review on demand to end, for `wait` at most, and returns it as it is then; `None` if there is none.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn await_review(
        &self,
        event: EventId,
        id: ReviewId,
        wait: Duration,
    ) -> Result<Option<Review>, StoreError> {
        let until = Instant::now() + wait;
        let waiting = self.waiters.join(event);
        loop {
            let told = waiting.listen();
            let review = self.store.reviews().get(id).await?;
            let open = review.as_ref().is_some_and(|review| !review.has_ended());
            if !open || Instant::now() >= until {
                return Ok(review);
            }
            drop(timeout_at(until, told).await);
        }
    }

    /// Returns the state of an event's verdict, and the time for which it may stay undecided.
    async fn current_verdict(&self, event: EventId) -> Result<(EventVerdict, Option<Duration>), StoreError> {
        let (reviews, now) = match self.store.verdicts().case(event).await? {
            StoredVerdict::Filed(item) => return Ok((item, None)),
            StoredVerdict::Open(reviews, now) => (reviews, now),
        };
        let mut stored: Option<StoredEvent> = None;
        if reviews.iter().any(|review| !matches!(review.progress, ReviewProgress::Done(..))) {
            let row = self.store.events().get(event).await?;
            stored = row.and_then(|row| serde_json::from_slice(&row.payload).ok());
        }
        let mut opinions = Vec::with_capacity(reviews.len());
        for review in reviews {
            let shadow = self.shadow_of(review.version).await?;
            let sure =
                shadow.as_deref().zip(stored.as_ref()).and_then(|(shadow, stored)| certain(shadow, event, stored));
            opinions.push(opinion(event, review, shadow.map(|shadow| shadow.verdict).unwrap_or_default(), sure));
        }
        let Some(by) = opinions.iter().map(|opinion| opinion.by).max() else {
            let row = self.store.events().get(event).await?;
            let dispositions = row.map(|row| row.dispositions).unwrap_or_default();
            return Ok((EventVerdict::not_reviewed(event, &dispositions), None));
        };
        let Some(ruling) = verdict::decide_verdict(&opinions, now) else {
            // A moment more than is left, since a result exactly at the end still counts.
            let left = Duration::try_from(by.duration_since(now)).unwrap_or_default() + Duration::from_millis(5);
            return Ok((EventVerdict::pending(event, by), Some(left)));
        };
        let filed = self.store.verdicts().file(event, by, &ruling).await?;
        self.waiters.tell_all(event);
        let missing =
            || StoreError::Inconsistent { table: "verdict", problem: format!("no verdict is stored for {event}") };
        Ok((filed.ok_or_else(missing)?, None))
    }

    /// Returns a version of a shadow, in force or not.
    pub(in crate::flows) async fn shadow_of(&self, version: i32) -> Result<Option<Arc<Shadow>>, StoreError> {
        match self.rules.load().pinned(version) {
            Some(shadow) => Ok(Some(shadow)),
            None => Ok(self.store.shadows().version(version).await?.map(Arc::new)),
        }
    }

    /// Returns the latest time of the verdict on an event that was just accepted, if an active shadow reviews it.
    pub fn verdict_by(&self, accepted: &EventReceipt) -> Option<Timestamp> {
        if let Durability::Local { verdict_within } = accepted.durability {
            return accepted.received_at.checked_add(verdict_within?).ok();
        }
        let rules = self.rules.load();
        let active = accepted.dispositions.iter().filter(|disposition| disposition.gives_verdict());
        let within = active.map(|disposition| {
            let armed = rules.position(&disposition.shadow).and_then(|position| rules.shadows.get(position));
            armed.map_or_else(VerdictRules::default, |armed| armed.shadow.verdict).within
        });
        accepted.received_at.checked_add(within.max()?).ok()
    }

    /// Files the verdict after a review has ended, if the review was active, and wakes the requests that wait.
    pub(in crate::flows) async fn ended(&self, event: EventId, is_active: bool) {
        if is_active && let Err(error) = self.verdict(event).await {
            // Requests that wait ask again when their time is over.
            tracing::warn!(%event, %error, "a verdict could not be stored yet");
        }
        self.waiters.tell_all(event);
    }
}

/// Returns the built-in checks' judgement if they flag the event: neither a model nor the lack of one can change it.
fn certain(shadow: &Shadow, id: EventId, stored: &StoredEvent) -> Option<Judgement> {
    let hits = umbra_checks::by_shadow(stored, shadow);
    let event = &stored.event;
    let trigger = stored.triggers.first().map_or(Trigger::All, |mark| mark.name);
    let subject = EventInput { event_id: id, event, trigger, hits: &hits, baseline: None, memory: &[] };
    let [judgement] = <[Judgement; 1]>::try_from(ReviewSubject::Event(subject).of_checks(shadow)).ok()?;
    (judgement.assessment == Assessment::Flag).then_some(judgement)
}

fn opinion(event: EventId, review: ActiveReview, rules: VerdictRules, sure: Option<Judgement>) -> VerdictInput {
    let ActiveReview { review, shadow, version: _, created_at, progress, decided_by, reasons, recommendation } = review;
    // An event that waited in the spool was received before its review was reserved.
    let received = created_at.min(received_at(event));
    let by = received.saturating_add(rules.within).unwrap_or(received);
    let (certain, advice) = sure.map_or_else(Default::default, |judgement| {
        let worst = judgement.findings.into_iter();
        let worst =
            worst.filter(|finding| finding.about == FindingSubject::Agent && finding.severity >= Severity::Warning);
        (worst.map(|finding| finding.description).collect(), Some(judgement.recommendation))
    });
    let recommendation = recommendation.or(advice);
    VerdictInput { shadow, review, by, rules, progress, decided_by, certain, reasons, recommendation }
}
