//! Tests of scores below the baseline: a fall is reported, and never makes a judgement milder.

use super::{event, shadow, subject};
use crate::{Baseline, FallRules, Judgement, compare, of_checks};
use umbra_domain::{Assessment, EventId, FindingCategory, FindingSource, Reviewer, Severity, verdict::DecidedBy};

const EVENT: EventId = EventId(uuid::Uuid::nil());
const RULES: FallRules = FallRules { min_scores: 10, spreads: 2.0 };

fn judged(assessment: Assessment, score: Option<u8>) -> Judgement {
    let reviewer = if score.is_some() { Reviewer::Model } else { Reviewer::Checks };
    Judgement { assessment, score, reviewer, ..of_checks(&shadow(), &subject(&event(), &[])) }
}

#[test]
fn a_score_far_below_the_mean_is_a_finding() {
    use Assessment::{Approve, Checked, Flag, Inconclusive, Suggest};
    let usual = |mean: f64, spread: f64, count: u32| Some(Baseline { mean, spread, count });
    for (baseline, assessment, score, severity, becomes) in [
        (None, Approve, Some(10), None, Approve),
        (usual(90.0, 8.0, 9), Approve, Some(60), None, Approve),
        (usual(90.0, 8.0, 10), Approve, Some(75), None, Approve),
        (usual(90.0, 8.0, 10), Approve, Some(74), Some(Severity::Info), Approve),
        (usual(90.0, 8.0, 10), Approve, Some(58), Some(Severity::Warning), Suggest),
        (usual(90.0, 0.0, 10), Approve, Some(81), None, Approve),
        (usual(90.0, 0.0, 10), Approve, Some(80), Some(Severity::Info), Approve),
        (usual(90.0, 8.0, 10), Flag, Some(5), Some(Severity::Warning), Flag),
        (usual(90.0, 8.0, 10), Inconclusive, Some(5), None, Inconclusive),
        (usual(100.0, 0.0, 50), Checked, None, None, Checked),
        (usual(100.0, 0.0, 50), Suggest, None, Some(Severity::Warning), Suggest),
        (usual(60.0, 30.0, 50), Suggest, None, None, Suggest),
    ] {
        let mut judgement = judged(assessment, score);
        let before = judgement.findings.len();
        compare(&shadow(), EVENT, baseline, &RULES, &mut judgement);
        let found = judgement.findings.get(before);
        let case = format!("{baseline:?} {assessment:?} {score:?}");
        assert_eq!((found.map(|finding| finding.severity), judgement.assessment), (severity, becomes), "{case}");
        assert!(found.is_none_or(|finding| finding.category == FindingCategory::Quality
            && finding.source == FindingSource::Check
            && finding.rule == "baseline.fall"
            && !finding.verified));
    }
}

#[test]
fn score_of_an_overruled_verdict_is_no_fall() {
    let usual = Some(Baseline { mean: 90.0, spread: 8.0, count: 50 });
    let before = Judgement { decided_by: DecidedBy::OnUnfounded, ..judged(Assessment::Suggest, Some(0)) };
    let mut judgement = before.clone();
    compare(&shadow(), EVENT, usual, &RULES, &mut judgement);
    assert_eq!(judgement, before);
}

#[test]
fn zero_spreads_switch_the_comparison_off() {
    let mut judgement = judged(Assessment::Approve, Some(0));
    let usual = Some(Baseline { mean: 100.0, spread: 0.0, count: 99 });
    compare(&shadow(), EVENT, usual, &FallRules { spreads: 0.0, ..RULES }, &mut judgement);
    assert_eq!(judgement, judged(Assessment::Approve, Some(0)));
}
