//! Consequences of reviews, stored in the transaction that holds their page: scores, breakers, reflexions, and messages
//! about them. Changes are logged once the page is done.

use crate::{
    breaker,
    flows::followers::{Followers, breaker_item::BreakerItem, breakers, notify::of_change, reflexions},
};
use umbra_domain::{
    Assessment, EventId, FindingSubject, ReviewScope, Reviewer, Severity, StoredEvent, verdict::DecidedBy,
};
use umbra_store::{
    StoreError,
    baselines::{Score, ScoreKey},
    findings::FindingItem,
    follow::FollowerPage,
    reviews::Review,
};

/// Stored source of a finding by the built-in checks.
const CHECK: &str = "check";
/// Prefix of the rules for injection, that is, orders to a model.
const INJECTION: &str = "injection.";

/// Judgement of a review about one event.
pub(in crate::flows) struct JudgedEvent {
    pub review: Review,
    pub event: EventId,
    /// The event's number in feed `intake`.
    pub order: i64,
    pub stored: StoredEvent,
    pub assessment: Assessment,
    pub decided_by: DecidedBy,
    pub score: Option<i16>,
    pub notes: Vec<String>,
    pub findings: Vec<FindingItem>,
}

impl JudgedEvent {
    /// Returns the worst severity of the verified findings against the agent. If the checks found an order to a model
    /// in what the agent was given, findings by a model do not count, since the order may have told it to reject.
    pub fn verified(&self) -> Option<Severity> {
        let order = |finding: &FindingItem| {
            finding.about == FindingSubject::Given && finding.source == CHECK && finding.rule.starts_with(INJECTION)
        };
        let told = self.findings.iter().any(order);
        let speaks = |finding: &&FindingItem| {
            finding.verified && finding.about == FindingSubject::Agent && (finding.source == CHECK || !told)
        };
        self.findings.iter().filter(speaks).map(|finding| finding.severity).max()
    }

    /// Returns true for a rejection, false for an approval, as a breaker counts; `None` for neither. A lowered FLAG is
    /// no approval. `has_model`: the shadow does not run on the built-in checks.
    pub fn rejects(&self, has_model: bool) -> Option<bool> {
        breaker::rejects(self.assessment, has_model, self.verified()).filter(|_| !self.decided_by.is_doubtful())
    }
}

/// A change that messages report; logged and counted once it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::flows) enum ReportedChange {
    Breaker(breakers::BreakerChange),
    BreakerStays(BreakerItem),
    Reflexion(reflexions::ReflexionChange),
}

impl Followers {
    /// Stores the consequences of a page and of time alone; returns true if there is more.
    pub(in crate::flows) async fn consequences(&self, mut page: FollowerPage) -> Result<bool, StoreError> {
        let judged = judged(&mut page).await?;
        page.add_scores(&scores(&judged), self.settings.baseline.window).await?;
        let mut changes = self.follow_reflexions(&mut page, &judged).await?;
        changes.extend(self.follow_breakers(&mut page, &judged).await?);
        self.tell_of(&mut page).await?;
        if !changes.is_empty() {
            let now = page.now().await?;
            for change in &changes {
                self.tell(&mut page, &of_change(change, now)).await?;
            }
        }
        let (more, is_empty) = (page.ended.more, page.is_empty() && changes.is_empty());
        page.commit().await?;
        if !is_empty {
            self.outbox.notify_one();
        }
        if changes.iter().any(|change| matches!(change, ReportedChange::Breaker(_))) {
            self.know_breakers().await;
        }
        changes.iter().for_each(announce);
        Ok(more)
    }
}

/// Collects the judgements of a page's reviews, event by event.
async fn judged(page: &mut FollowerPage) -> Result<Vec<JudgedEvent>, StoreError> {
    if page.ended.reviews.is_empty() {
        return Ok(Vec::new());
    }
    let events = page.events().await?;
    let mut all = Vec::new();
    for review in &page.ended.reviews {
        for event in &review.events {
            let stored = events.get(event);
            let stored = stored.and_then(|(order, payload)| Some((*order, serde_json::from_slice(payload).ok()?)));
            // A batch has an assessment of each event; a task's review assesses all its steps.
            let own = review.assessments.iter().find(|own| own.event_id == *event);
            let whole = (review.assessment, review.decided_by, review.score, &review.notes);
            let (assessment, decided_by, score, notes) =
                own.map_or(whole, |own| (Some(own.assessment), own.decided_by, own.score, &own.notes));
            let (Some((order, stored)), Some(assessment)) = (stored, assessment) else { continue };
            let of_task = review.scope == Some(ReviewScope::Trajectory);
            let all_found = review.findings.iter().flatten();
            let findings = all_found.filter(|finding| of_task || finding.event_id == *event);
            all.push(JudgedEvent {
                event: *event,
                order,
                stored,
                assessment,
                decided_by: decided_by.unwrap_or(DecidedBy::Assessment),
                score,
                notes: notes.clone(),
                findings: findings.cloned().collect(),
                review: Review { findings: None, ..review.clone() },
            });
        }
    }
    Ok(all)
}

fn scores(judged: &[JudgedEvent]) -> Vec<Score> {
    let scored = judged.iter().filter_map(|one| {
        let reviewer = one.review.reviewer?;
        let score = match reviewer {
            _ if one.assessment == Assessment::Inconclusive => return None,
            _ if !umbra_review::score_stands(reviewer, one.decided_by, &one.notes) => return None,
            Reviewer::Model => one.score.and_then(|score| u8::try_from(score).ok())?,
            Reviewer::Checks => umbra_review::score_of_checks(one.assessment)?,
        };
        let key = ScoreKey {
            agent: one.review.agent.clone(),
            task_type: one.stored.event.task_type.clone(),
            shadow: one.review.shadow.clone(),
            reviewer,
        };
        let at = one.review.finished_at?;
        Some(Score { key, event: one.event, review: one.review.id, score, at })
    });
    scored.collect()
}

fn announce(change: &ReportedChange) {
    match change {
        ReportedChange::Breaker(change) => breakers::announce(change),
        ReportedChange::BreakerStays(_) => breakers::announce_long(),
        ReportedChange::Reflexion(change) => reflexions::announce(change),
    }
}
