//! Observations: finished reviews, and looks that found something, in the shape of the observations log and of
//! `/v1/observations`.

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use umbra_domain::{Assessment, EventId, FindingId, FindingSubject, Mode, ReviewId, Reviewer, Severity, Trigger};
use umbra_store::{
    findings::{FindingEvidence, FindingItem},
    reviews::Review,
};

/// A finding within an observation.
#[derive(Debug, Serialize, ToSchema)]
pub struct ObservedFinding {
    /// Id of the finding.
    #[schema(value_type = String)]
    pub id: FindingId,
    /// Severity of the finding.
    pub severity: Severity,
    /// Category of the finding.
    pub category: String,
    /// Description in one or two sentences.
    pub description: String,
    /// Place of the evidence; null where no quote was found in the text.
    pub evidence: Option<FindingEvidence>,
    /// True if the evidence was found in the text, or a second call of the model agreed on a fault that cannot be
    /// quoted.
    pub verified: bool,
    /// `given`: the finding is about the agent's input, not about the agent.
    pub about: FindingSubject,
}

/// Finished review, or a look of the built-in checks that found something, in the shape of the observations log.
#[derive(Debug, Serialize, ToSchema)]
pub struct Observation {
    /// Name of the shadow.
    pub shadow: String,
    /// Name of the watched agent.
    pub watched_agent: String,
    /// Trigger by which the event matched.
    pub trigger: Option<Trigger>,
    /// Mode of the shadow.
    pub mode: Option<Mode>,
    /// Findings of the review or look.
    pub findings: Vec<ObservedFinding>,
    /// Recommended action.
    pub recommendation: String,
    /// Time of the conclusion.
    pub timestamp: Option<Timestamp>,
    /// Id of the review; null for a look.
    #[schema(value_type = Option<String>)]
    pub review_id: Option<ReviewId>,
    /// Events under review, or the event that was looked at.
    #[schema(value_type = Vec<String>)]
    pub event_ids: Vec<EventId>,
    /// Task of the events.
    pub task_id: Option<String>,
    /// Assessment; null for a look.
    pub assessment: Option<Assessment>,
    /// Score by the model, 0-100.
    pub score: Option<i16>,
    /// Reviewer: a model, or the built-in checks.
    pub reviewer: Option<Reviewer>,
    /// Alias of the model.
    pub model: Option<String>,
    /// Cost of all its calls, in US dollars.
    pub cost_usd: f64,
    /// Hash of the shadow's configuration.
    pub shadow_version: String,
}

impl From<Review> for Observation {
    fn from(review: Review) -> Self {
        Self {
            shadow: review.shadow,
            watched_agent: review.agent,
            trigger: review.trigger,
            mode: review.mode,
            findings: review.findings.into_iter().flatten().map(Into::into).collect(),
            recommendation: review.recommendation.unwrap_or_default(),
            timestamp: review.finished_at,
            review_id: Some(review.id),
            event_ids: review.events,
            task_id: review.task_id,
            assessment: review.assessment,
            score: review.score,
            reviewer: review.reviewer,
            model: review.model,
            cost_usd: review.cost_usd,
            shadow_version: review.shadow_version,
        }
    }
}

impl Observation {
    /// Groups findings of looks into observations, one for each shadow and event, in order; each finding comes with the
    /// hash of its shadow's configuration.
    pub fn of_looks(looks: impl IntoIterator<Item = (FindingItem, String)>) -> Vec<Self> {
        let mut observations: Vec<Self> = Vec::new();
        for (item, shadow_version) in looks {
            let same = |one: &&mut Self| one.shadow == item.shadow && one.event_ids == [item.event_id];
            if let Some(observation) = observations.iter_mut().rev().find(same) {
                observation.findings.push(item.into());
                continue;
            }
            observations.push(Self {
                shadow: item.shadow.clone(),
                watched_agent: item.watched_agent.clone(),
                trigger: item.trigger,
                mode: item.mode,
                recommendation: item.recommendation.clone(),
                timestamp: Some(item.timestamp),
                review_id: None,
                event_ids: vec![item.event_id],
                task_id: item.task_id.clone(),
                assessment: None,
                score: None,
                reviewer: Some(Reviewer::Checks),
                model: None,
                cost_usd: 0.0,
                shadow_version,
                findings: vec![item.into()],
            });
        }
        observations
    }

    /// Returns the id by which a line of the log is recognized: the review's, or that of a look's first finding.
    pub(super) fn id(&self) -> Uuid {
        let finding = || self.findings.first().map(|finding| finding.id.0);
        self.review_id.map(|review| review.0).or_else(finding).unwrap_or_default()
    }
}

impl From<FindingItem> for ObservedFinding {
    fn from(item: FindingItem) -> Self {
        let FindingItem { id, severity, category, description, evidence, verified, about, .. } = item;
        Self { id, severity, category, description, evidence, verified, about }
    }
}
