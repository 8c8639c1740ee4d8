//! Observations: finished reviews, and looks that found something, in the shape of the observations log and of
//! `/v1/observations`.

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use umbra_domain::{About, Assessment, EventId, FindingId, Mode, ReviewId, Reviewer, Severity, Trigger};
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

/// A finished review, or a look of the built-in checks that found something, in the shape of the observations log.
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
    /// The review; null for a look.
    #[schema(value_type = Option<String>)]
    pub review_id: Option<ReviewId>,
    /// The events under review, or the event that was looked at.
    #[schema(value_type = Vec<String>)]
    pub event_ids: Vec<EventId>,
    /// The event's task.
    pub task_id: Option<String>,
    /// Assessment; null for a look.
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
    /// The observations that findings of looks make, one for each shadow and event, in order; each finding comes with the
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

    /// Id by which a line of the log is known: the review's, or that of a look's first finding.
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
