//! Evaluations for a receiver of OpenTelemetry: reviews and findings as judgements of the spans that they are about.

use std::collections::{BTreeMap, HashMap};

use super::Followers;
use crate::telemetry::traces::record_review;
use umbra_domain::{Assessment, EventId, Mode, ReviewState, Severity, StoredEvent};
use umbra_otel::{Evaluation, evaluation_logs};
use umbra_store::{
    StoreError,
    findings::FindingItem,
    follow::{FollowedItems, FollowerPage},
    reviews::Review,
    webhooks::OutgoingMessage,
};

/// Agent and task, by which messages are erased.
type Owner = (String, Option<String>);

impl Followers {
    /// Stores the evaluations of a page, for the receiver of the settings. Passive shadows cause none.
    pub(super) async fn evaluate(&self, page: &mut FollowerPage) -> Result<(), StoreError> {
        let endpoints = self.webhooks.load();
        let Some(receiver) = endpoints.evaluations() else { return Ok(()) };
        let events = page.events().await?;
        let calls: HashMap<EventId, JudgedCall> =
            events.iter().map(|(id, (_, payload))| (*id, JudgedCall::of(payload))).collect();
        for review in page.ended.reviews.iter().filter(|review| review.mode != Some(Mode::Passive)) {
            let judged = review.events.iter().filter_map(|event| calls.get(event)?.span.as_ref());
            record_review(review, judged);
        }
        for ((agent, task_id), evaluations) in evaluations(&page.ended, &calls) {
            let body = evaluation_logs(&evaluations, env!("CARGO_PKG_VERSION"));
            let message = OutgoingMessage {
                id: self.clock.new_id(),
                kind: "evaluation",
                agent: Some(agent),
                task_id,
                body: String::from_utf8(body).unwrap_or_default(),
                to: vec![receiver.addressee()],
            };
            page.enqueue(&message).await?;
        }
        Ok(())
    }
}

/// Place of a reviewed call in the telemetry of its agent.
#[derive(Default)]
struct JudgedCall {
    span: Option<(String, String)>,
    response_id: Option<String>,
}

impl JudgedCall {
    fn of(payload: &[u8]) -> Self {
        let Ok(stored) = serde_json::from_slice::<StoredEvent>(payload) else { return Self::default() };
        let Some(otel) = stored.event.metadata.get("otel") else { return Self::default() };
        let text = |name: &str| otel.get(name).and_then(|value| value.as_str()).map(ToOwned::to_owned);
        Self { span: text("trace_id").zip(text("span_id")), response_id: text("response_id") }
    }
}

/// Returns the evaluations of a page, by the agent and task that they are about.
fn evaluations(ended: &FollowedItems, calls: &HashMap<EventId, JudgedCall>) -> BTreeMap<Owner, Vec<Evaluation>> {
    let mut found: BTreeMap<Owner, Vec<Evaluation>> = BTreeMap::new();
    let placed = |event: EventId, evaluation: Evaluation| {
        let call = calls.get(&event);
        Evaluation {
            span: call.and_then(|call| call.span.clone()),
            response_id: call.and_then(|call| call.response_id.clone()),
            ..evaluation
        }
    };
    for review in ended.reviews.iter().filter(|review| review.mode != Some(Mode::Passive)) {
        let own = found.entry((review.agent.clone(), review.task_id.clone())).or_default();
        own.extend(of_review(review).into_iter().map(|(event, evaluation)| placed(event, evaluation)));
        let findings = review.findings.iter().flatten().filter(|finding| !finding.of_look);
        own.extend(findings.map(|finding| placed(finding.event_id, of_finding(finding))));
    }
    for (finding, _) in ended.looks.iter().filter(|(finding, _)| finding.mode != Some(Mode::Passive)) {
        let own = found.entry((finding.watched_agent.clone(), finding.task_id.clone())).or_default();
        own.push(placed(finding.event_id, of_finding(finding)));
    }
    found
}

/// Returns the evaluations of a review: of each of its events, or of its last one where it judges a task as a whole.
fn of_review(review: &Review) -> Vec<(EventId, Evaluation)> {
    let whole = Evaluation {
        name: review.shadow.clone(),
        at: review.finished_at.unwrap_or(review.created_at),
        facts: facts(&review.agent, review.task_id.as_ref(), Some(review.id.to_string())),
        ..Evaluation::default()
    };
    let judged = |assessment: Assessment, score: Option<i16>, explanation: &str| Evaluation {
        label: Some(assessment.as_str().to_owned()),
        score: score.map(f64::from),
        explanation: explanation.to_owned(),
        is_warning: assessment >= Assessment::Suggest,
        ..whole.clone()
    };
    if !review.assessments.is_empty() {
        let of_event = |one: &umbra_store::reviews::EventAssessment| {
            (one.event_id, judged(one.assessment, one.score, &one.recommendation))
        };
        return review.assessments.iter().map(of_event).collect();
    }
    let Some(event) = review.events.last() else { return Vec::new() };
    let recommendation = review.recommendation.as_deref().unwrap_or_default();
    let evaluation = if let Some(assessment) = review.assessment {
        judged(assessment, review.score, recommendation)
    } else {
        let state = review.state.unwrap_or(ReviewState::Failed).as_str().to_owned();
        Evaluation { error: Some(review.reason.map_or(state, |reason| reason.as_str().to_owned())), ..whole }
    };
    vec![(*event, evaluation)]
}

fn of_finding(finding: &FindingItem) -> Evaluation {
    let mut facts =
        facts(&finding.watched_agent, finding.task_id.as_ref(), finding.review_id.map(|review| review.to_string()));
    facts.push(("umbra.finding.id", finding.id.to_string()));
    facts.push(("umbra.finding.category", finding.category.clone()));
    Evaluation {
        name: finding.rule.clone(),
        label: Some(finding.severity.as_str().to_owned()),
        explanation: finding.description.clone(),
        is_warning: finding.severity > Severity::Info,
        at: finding.timestamp,
        facts,
        ..Evaluation::default()
    }
}

fn facts(agent: &str, task_id: Option<&String>, review: Option<String>) -> Vec<(&'static str, String)> {
    let names = [
        ("gen_ai.agent.name", Some(agent.to_owned())),
        ("umbra.task.id", task_id.cloned()),
        ("umbra.review.id", review),
    ];
    names.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}
