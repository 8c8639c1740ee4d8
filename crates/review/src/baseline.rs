//! Compares a score with the agent's usual scores: arithmetic, which no text can talk out of it.
//! In: a judgement, a baseline. Out: the judgement, with one more finding if the score is a fall. Never: a milder one.

use super::{
    Baseline, Judgement,
    assess::{grade, score_stands},
};
use umbra_domain::{
    Assessment, EventId, Finding, FindingCategory, FindingSource, FindingSubject, Reviewer, Severity, Shadow,
};

/// Least spread that is used, in points: else a trifle would be a fall where scores hardly ever differ.
const LEAST_SPREAD: f64 = 5.0;
/// Rule of the finding for a fall.
const RULE: &str = "baseline.fall";

/// Settings that define a fall.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FallRules {
    /// Fewest earlier scores for a fall to be reported.
    pub min_scores: u32,
    /// Number of spreads below the mean at which a score is a fall; 0 reports none.
    pub spreads: f64,
}

/// Returns the score for a review by the checks alone, which gives none: 100 for CHECKED, 60 for SUGGEST, 20 for FLAG.
pub fn score_of_checks(assessment: Assessment) -> Option<u8> {
    match assessment {
        Assessment::Approve | Assessment::Checked => Some(100),
        Assessment::Suggest => Some(60),
        Assessment::Flag => Some(20),
        Assessment::Inconclusive => None,
    }
}

/// Adds a finding if the score falls below the usual ones: for information, or a warning at twice the distance.
pub fn compare(
    shadow: &Shadow,
    event_id: EventId,
    usual: Option<Baseline>,
    rules: &FallRules,
    judgement: &mut Judgement,
) {
    let score = match (judgement.reviewer, judgement.assessment) {
        (_, Assessment::Inconclusive) => None,
        _ if !score_stands(judgement.reviewer, judgement.decided_by, &judgement.notes) => None,
        (Reviewer::Model, _) => judgement.score,
        (Reviewer::Checks, assessment) => score_of_checks(assessment),
    };
    let (Some(usual), Some(score)) = (usual.filter(|usual| usual.count >= rules.min_scores), score) else { return };
    let distance = (usual.mean - f64::from(score)) / usual.spread.max(LEAST_SPREAD);
    if rules.spreads <= 0.0 || distance < rules.spreads {
        return;
    }
    let severity = if distance >= 2.0 * rules.spreads { Severity::Warning } else { Severity::Info };
    judgement.findings.push(Finding {
        event_id,
        severity,
        category: FindingCategory::Quality,
        description: format!(
            "The score of {score} is below this agent's usual scores for this type of task: a mean of {:.0} with a \
             spread of {:.0} over {} reviews.",
            usual.mean, usual.spread, usual.count
        ),
        evidence: None,
        verified: false,
        about: FindingSubject::Agent,
        source: FindingSource::Check,
        rule: RULE.to_owned(),
    });
    let raised = grade(severity, shadow);
    if raised > judgement.assessment {
        judgement.assessment = raised;
        "Compare the result with this agent's earlier ones: its score is lower."
            .clone_into(&mut judgement.recommendation);
    }
}
