//! A finished review in the shape of the observations log, which is also that of `/v1/observations`.

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use umbra_domain::{About, Assessment, EventId, Mode, ReviewId, Reviewer, Severity, Trigger};
use umbra_store::{
    findings::{FindingEvidence, FindingItem},
    reviews::Review,
};

/// A finding within an observation.
#[derive(Debug, Serialize, ToSchema)]
pub struct ObservedFinding {
    /// How bad.
    pub severity: Severity,
    /// About what.
    pub category: String,
    /// One or two sentences.
    pub description: String,
    /// Where; null where no quote was found in the text.
    pub evidence: Option<FindingEvidence>,
    /// True if the evidence stands in the text, or a second call of the model agreed on what cannot be quoted.
    pub verified: bool,
    /// `given`: it speaks against what the agent was given, not against the agent.
    pub about: About,
}

/// A finished review in the shape of the observations log.
#[derive(Debug, Serialize, ToSchema)]
pub struct Observation {
    /// The shadow.
    pub shadow: String,
    /// The watched agent.
    pub watched_agent: String,
    /// The trigger by which the event matched.
    pub trigger: Option<Trigger>,
    /// The shadow's mode.
    pub mode: Option<Mode>,
    /// What it found.
    pub findings: Vec<ObservedFinding>,
    /// What to do.
    pub recommendation: String,
    /// When it was concluded.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub timestamp: Option<Timestamp>,
    /// The review.
    #[schema(value_type = String)]
    pub review_id: ReviewId,
    /// The events under review.
    #[schema(value_type = Vec<String>)]
    pub event_ids: Vec<EventId>,
    /// The event's task.
    pub task_id: Option<String>,
    /// What it concludes.
    pub assessment: Option<Assessment>,
    /// The model's score, 0-100.
    pub score: Option<i16>,
    /// Who reviewed.
    pub reviewer: Option<Reviewer>,
    /// The model's alias.
    pub model: Option<String>,
    /// What all its calls cost, in US dollars.
    pub cost_usd: f64,
    /// The hash of the shadow's configuration.
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
            review_id: review.id,
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

impl From<FindingItem> for ObservedFinding {
    fn from(item: FindingItem) -> Self {
        let FindingItem { severity, category, description, evidence, verified, about, .. } = item;
        Self { severity, category, description, evidence, verified, about }
    }
}
