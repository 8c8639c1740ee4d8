//! Messages about ended reviews, stored together with their consequences. A passive shadow causes no message.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::flows::followers::{
    Followers, breaker_item::BreakerItem, breakers, consequences::ReportedChange, reflexions,
};
use umbra_domain::{
    Assessment, BreakerState, Mode,
    notice::{Notice, NoticeKind},
};
use umbra_store::{
    StoreError,
    findings::FindingItem,
    follow::FollowerPage,
    verdicts::{EventVerdict, FiledVerdict},
    webhooks::OutgoingMessage,
};

impl Followers {
    /// Stores messages about the findings and verdicts of a page, for the endpoints that want them.
    pub(super) async fn tell_of(&self, page: &mut FollowerPage) -> Result<(), StoreError> {
        if self.webhooks.load().all().is_empty() || page.is_empty() {
            return Ok(());
        }
        let of_reviews =
            page.ended.reviews.iter().filter(|review| review.mode != Some(Mode::Passive)).flat_map(|review| {
                // Findings of an earlier look were reported then.
                let findings = review.findings.iter().flatten().filter(|finding| !finding.of_look);
                findings.map(|finding| of_finding(review.assessment, finding))
            });
        let looks = page.ended.looks.iter().filter(|(finding, _)| finding.mode != Some(Mode::Passive));
        let notices: Vec<Notice> = of_reviews.chain(looks.map(|(finding, _)| of_finding(None, finding))).collect();
        for notice in &notices {
            self.tell(page, notice).await?;
        }
        self.evaluate(page).await?;
        for filed in page.verdicts().await? {
            self.tell(page, &of_verdict(&filed)).await?;
        }
        Ok(())
    }

    /// Stores the message of a notice in the transaction that holds the page, if an endpoint wants it.
    pub(in crate::flows) async fn tell(&self, page: &mut FollowerPage, notice: &Notice) -> Result<(), StoreError> {
        match self.webhooks.load().address(notice, self.clock.new_id()) {
            Some(message) => page.enqueue(&message).await,
            None => Ok(()),
        }
    }

    /// Returns the message about a change by a person, to be stored with the change; `None` if no endpoint wants it.
    pub(super) fn message_of(&self, change: &ReportedChange, at: Timestamp) -> Option<OutgoingMessage> {
        self.webhooks.load().address(&of_change(change, at), self.clock.new_id())
    }
}

/// Builds the notice of a change to a breaker or a reflexion; the API has the rest.
pub(super) fn of_change(change: &ReportedChange, at: Timestamp) -> Notice {
    let (kind, agent, data) = match change {
        ReportedChange::Breaker(breakers::BreakerChange { before, breaker }) => {
            let kind = match breaker.recommendation {
                BreakerState::Open => NoticeKind::BreakerOpened,
                BreakerState::HalfOpen => NoticeKind::BreakerHalfOpen,
                BreakerState::Closed => NoticeKind::BreakerClosed,
            };
            (kind, &breaker.agent, of_breaker(breaker, Some(*before)))
        }
        ReportedChange::BreakerStays(breaker) => {
            (NoticeKind::BreakerStillOpen, &breaker.agent, of_breaker(breaker, None))
        }
        ReportedChange::Reflexion(reflexions::ReflexionChange { id, agent, opened }) => {
            let (kind, status) =
                if *opened { (NoticeKind::ReflexionOpened, "open") } else { (NoticeKind::ReflexionClosed, "closed") };
            (kind, agent, json!({"id": id, "agent": agent, "status": status}))
        }
    };
    Notice::new(kind, at, Some(agent), data)
}

/// Returns a breaker as a message shows it: the fields of a list, and the shadow that decides. `before` is the earlier
/// recommendation.
fn of_breaker(breaker: &BreakerItem, before: Option<BreakerState>) -> Value {
    let decisive = breaker.decisive();
    let BreakerItem { agent, recommendation, consecutive_rejections, stuck, threshold, since, reasons, .. } = breaker;
    json!({
        "agent": agent, "recommendation": recommendation, "before": before, "since": since,
        "half_open_at": breaker.half_open_at, "shadow": decisive.map(|one| &one.shadow), "reasons": reasons,
        "consecutive_rejections": consecutive_rejections, "stuck": stuck, "threshold": threshold,
        "reviews": decisive.map(|one| &one.reviews), "acknowledged": breaker.acknowledged, "reset": breaker.reset,
    })
}

/// Builds the notice of a finding: the fields of a list without the quoted text, and the assessment of the review.
fn of_finding(assessment: Option<Assessment>, finding: &FindingItem) -> Notice {
    Notice {
        kind: NoticeKind::FindingCreated,
        at: finding.timestamp,
        agent: Some(finding.watched_agent.clone()),
        task_id: finding.task_id.clone(),
        shadow: Some(finding.shadow.clone()),
        severity: Some(finding.severity),
        data: json!({
            "id": finding.id, "shadow": finding.shadow, "watched_agent": finding.watched_agent,
            "trigger": finding.trigger, "mode": finding.mode, "severity": finding.severity,
            "category": finding.category, "about": finding.about, "description": finding.description,
            "recommendation": finding.recommendation, "verified": finding.verified, "source": finding.source,
            "rule": finding.rule, "fingerprint": finding.fingerprint, "occurrences": finding.occurrences,
            "field": finding.evidence.as_ref().map(|evidence| &evidence.field),
            "assessment": assessment, "review_id": finding.review_id, "event_id": finding.event_id,
            "task_id": finding.task_id, "timestamp": finding.timestamp,
        }),
    }
}

fn of_verdict(filed: &FiledVerdict) -> Notice {
    let FiledVerdict { agent, task_id, decided_at, verdict } = filed;
    let EventVerdict { event_id, verdict, decided_by, verdict_by, reasons, recommendation, shadow, review_id } =
        verdict;
    Notice {
        kind: NoticeKind::VerdictDecided,
        at: *decided_at,
        agent: Some(agent.clone()),
        task_id: task_id.clone(),
        shadow: shadow.clone(),
        severity: None,
        data: json!({
            "event_id": event_id, "watched_agent": agent, "task_id": task_id, "verdict": verdict,
            "decided_by": decided_by, "verdict_by": verdict_by, "reasons": reasons, "recommendation": recommendation, "shadow": shadow,
            "review_id": review_id, "decided_at": decided_at,
        }),
    }
}
