//! Recommendation for a whole task: opinions of its reviews and the coverage of its steps in, one recommendation out.

use serde::Serialize;

use super::{Assessment, Coverage};

/// Most reasons in a recommendation.
const MAX_REASONS: usize = 10;

/// Opinion of one review on one event of a task, or on the whole task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewOpinion {
    /// Shadow of the review.
    pub shadow: String,
    /// Assessment of the review.
    pub assessment: Assessment,
    /// Recommendation of the review.
    pub recommendation: String,
}

/// Recommendation for a whole task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct TaskRecommendation {
    /// The strictest assessment of any review; APPROVE only if each watched step was judged by a model, or left to the
    /// built-in checks by a sample. Null without any review, and while reviews of unjudged steps are open.
    pub assessment: Option<Assessment>,
    /// Recommended action.
    pub recommendation: String,
    /// Reasons: the opinions against the task, the strictest first, or the steps that were not judged.
    pub reasons: Vec<String>,
}

/// Returns the assessment of a task whose strictest review says `strictest`.
pub fn conclude(strictest: Option<Assessment>, coverage: &Coverage) -> Option<Assessment> {
    let clean = strictest.unwrap_or(Assessment::Checked);
    if !clean.is_clean() {
        return strictest;
    }
    if coverage.open > 0 || strictest.is_none() && coverage.checked == 0 {
        return None;
    }
    Some(if coverage.is_unseen() {
        Assessment::Inconclusive
    } else if coverage.is_judged() {
        clean
    } else {
        Assessment::Checked
    })
}

/// Returns the recommendation for a task: the strictest opinion decides, of several the first received; if no opinion
/// is against the task, the coverage of its steps decides. `open` counts reviews that have not ended.
pub fn recommend(opinions: &[ReviewOpinion], open: u64, coverage: &Coverage) -> TaskRecommendation {
    let strictest = opinions.iter().map(|opinion| opinion.assessment).max();
    let assessment = conclude(strictest, coverage);
    let decisive = opinions.iter().find(|opinion| Some(opinion.assessment) == assessment);
    let summary = &coverage.summary;
    let clean = assessment == Some(Assessment::Approve);
    let recommendation = match (assessment, decisive) {
        (None, _) if open + coverage.open == 0 => format!("Nothing of this task was reviewed: {summary}."),
        (None, _) => format!("Wait for the task's reviews: {summary}."),
        (Some(Assessment::Approve), _) => {
            let wait = if open > 0 { " Some reviews have not ended yet." } else { "" };
            format!("No concerns found: {summary}.{wait}")
        }
        (Some(Assessment::Checked), _) => format!("No approval, though no concerns were found: {summary}."),
        (_, Some(opinion)) => opinion.recommendation.clone(),
        (_, None) => {
            format!("No approval: {summary}. Have a person look at the rest, or review it, before relying on it.")
        }
    };
    let mut against: Vec<&ReviewOpinion> = opinions.iter().filter(|opinion| !opinion.assessment.is_clean()).collect();
    against.sort_by_key(|opinion| std::cmp::Reverse(opinion.assessment));
    let mut reasons: Vec<String> = Vec::new();
    for ReviewOpinion { shadow, assessment, recommendation } in against {
        let reason = format!("{shadow}: {}. {recommendation}", assessment.as_str());
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    if reasons.is_empty() && !clean {
        reasons.push(summary.clone());
    }
    reasons.truncate(MAX_REASONS);
    TaskRecommendation { assessment, recommendation, reasons }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SkipReason, StepCoverage};
    use Assessment::{Approve, Checked, Flag, Inconclusive, Suggest};

    fn opinions(of: &[(&str, Assessment, &str)]) -> Vec<ReviewOpinion> {
        let opinion = |(shadow, assessment, recommendation): &(&str, Assessment, &str)| ReviewOpinion {
            shadow: (*shadow).to_owned(),
            assessment: *assessment,
            recommendation: (*recommendation).to_owned(),
        };
        of.iter().map(opinion).collect()
    }

    fn judged() -> StepCoverage {
        StepCoverage { watched: true, judged: true, ..StepCoverage::default() }
    }

    fn checked() -> StepCoverage {
        StepCoverage { watched: true, checked: true, ..StepCoverage::default() }
    }

    fn skipped(reason: SkipReason, checked: bool) -> StepCoverage {
        StepCoverage { watched: true, checked, skipped: vec![reason], ..StepCoverage::default() }
    }

    fn open() -> StepCoverage {
        StepCoverage { watched: true, open: true, ..StepCoverage::default() }
    }

    #[test]
    fn strictest_opinion_decides_with_reasons_by_severity() {
        let of = [
            ("a", Approve, "Fine."),
            ("b", Suggest, "Shorten it."),
            ("c", Flag, "Rotate the key."),
            ("d", Flag, "Stop."),
            ("b", Suggest, "Shorten it."),
            ("e", Inconclusive, "Look."),
            ("f", Checked, "Nothing."),
        ];
        let one = recommend(&opinions(&of), 3, &Coverage::of([(judged(), 1), (open(), 1)]));
        assert_eq!((one.assessment, one.recommendation.as_str()), (Some(Flag), "Rotate the key."));
        let reasons =
            ["c: FLAG. Rotate the key.", "d: FLAG. Stop.", "b: SUGGEST. Shorten it.", "e: INCONCLUSIVE. Look."];
        assert_eq!(one.reasons, reasons);
        let many: Vec<String> = (0..50).map(|n| format!("s{n}")).collect();
        let many: Vec<_> = many.iter().map(|shadow| (shadow.as_str(), Flag, "No.")).collect();
        assert_eq!(recommend(&opinions(&many), 0, &Coverage::default()).reasons.len(), 10);
    }

    #[test]
    fn task_approval_needs_every_watched_step_judged_or_sampled() {
        use SkipReason::{CostBelowFloor, NotSampled};
        let unwatched = StepCoverage::default();
        let mixed = StepCoverage { skipped: vec![NotSampled, CostBelowFloor], ..checked() };
        for (strictest, steps, expected) in [
            (Some(Approve), vec![judged()], Some(Approve)),
            (Some(Approve), vec![judged(), unwatched.clone()], Some(Approve)),
            (Some(Approve), vec![judged(), skipped(NotSampled, true)], Some(Approve)),
            (Some(Approve), vec![judged(), skipped(NotSampled, false)], Some(Inconclusive)),
            (Some(Approve), vec![judged(), mixed], Some(Checked)),
            (Some(Approve), vec![judged(), skipped(CostBelowFloor, true)], Some(Checked)),
            (Some(Approve), vec![judged(), skipped(CostBelowFloor, false)], Some(Inconclusive)),
            (Some(Approve), vec![judged(), checked()], Some(Checked)),
            (Some(Approve), vec![judged(), open()], None),
            (Some(Checked), vec![checked()], Some(Checked)),
            (None, vec![skipped(NotSampled, true)], Some(Checked)),
            (None, vec![skipped(CostBelowFloor, false)], None),
            (None, vec![unwatched.clone()], None),
            (None, vec![open()], None),
            (Some(Inconclusive), vec![judged(), checked()], Some(Inconclusive)),
            (Some(Suggest), vec![judged(), skipped(CostBelowFloor, false)], Some(Suggest)),
            (Some(Flag), vec![open()], Some(Flag)),
        ] {
            let coverage = Coverage::of(steps.iter().cloned().map(|step| (step, 1)));
            assert_eq!(conclude(strictest, &coverage), expected, "{strictest:?} {steps:?}");
        }
    }

    #[test]
    fn recommendation_names_steps_that_were_not_judged() {
        let approved = opinions(&[("a", Approve, "Ship it.")]);
        let said = |opinions: &[ReviewOpinion], open, steps: &[(StepCoverage, u64)]| {
            let one = recommend(opinions, open, &Coverage::of(steps.iter().cloned()));
            (one.recommendation, one.reasons)
        };
        let floor = skipped(SkipReason::CostBelowFloor, false);
        let (recommendation, reasons) = said(&approved, 0, &[(judged(), 1), (floor, 3)]);
        assert!(
            recommendation.starts_with("No approval: 1 of 4 steps judged, 3 below the cost floor."),
            "{recommendation}"
        );
        assert_eq!(reasons, ["1 of 4 steps judged, 3 below the cost floor"]);
        let sampled = [(judged(), 2), (skipped(SkipReason::NotSampled, true), 1)];
        let (recommendation, reasons) = said(&approved, 0, &sampled);
        let expected =
            "No concerns found: 2 of 3 steps judged, 1 left out by the sample; only the built-in checks examined 1.";
        assert_eq!((recommendation.as_str(), reasons.len()), (expected, 0));
        assert!(said(&approved, 1, &[(judged(), 1)]).0.ends_with("not ended yet."));
        assert_eq!(said(&[], 1, &[(open(), 2)]).0, "Wait for the task's reviews: 0 of 2 steps judged, 2 under review.");
        let unwatched = StepCoverage::default();
        let nothing = "Nothing of this task was reviewed: 0 of 1 step judged, 1 not watched by a shadow.";
        assert_eq!(said(&[], 0, &[(unwatched, 1)]).0, nothing);
    }
}
