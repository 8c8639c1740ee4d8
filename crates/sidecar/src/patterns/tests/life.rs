//! Tests of statuses by counts of uses, and of the memory for the selection of tools.

use proptest::prelude::*;

use super::*;
use crate::tools::{Catalogue, Memory, OfferRules, SelectionRequest, Task, Tool};
use umbra_domain::{Effect, PatternUse, ToolAnnotations};
use umbra_policy::AgentContext;

fn used(outcome: PatternOutcome, source: PatternSource) -> PatternUse {
    PatternUse { outcome, source, cost_usd: None, ms: None }
}

/// Returns the status after each use: `+` and `-` are recorded, `m` is a mined success.
fn statuses(uses: &str) -> Vec<PatternStatus> {
    let mut now = pattern(1, "convert invoices", &["convert"], [0, 0]);
    let step = |c| {
        let (outcome, source) = match c {
            '+' => (PatternOutcome::Succeeded, PatternSource::Recorded),
            'm' => (PatternOutcome::Succeeded, PatternSource::Mined),
            _ => (PatternOutcome::Failed, PatternSource::Recorded),
        };
        now = record_use(&now, &used(outcome, source));
        assert_eq!(now.reason.is_none(), now.status == PatternStatus::Active);
        now.status
    };
    uses.chars().map(step).collect()
}

#[test]
fn failing_pattern_retires_until_recorded_successes_outweigh() {
    for (uses, active) in [
        ("+", "a"),
        ("---", "aaa"),
        ("----", "aaar"),
        ("+------", "aaaaaaa"),
        ("+-------", "aaaaaaar"),
        ("++++----", "aaaaaaaa"),
        // Four successes are as many as the failures; three are not.
        ("----++++", "aaarrrra"),
        ("----+++-+", "aaarrrrrr"),
        ("----+++-++", "aaarrrrrra"),
        ("----mmmm", "aaarrrrr"),
        ("----mmmm-", "aaarrrrrr"),
        ("----mmmm+", "aaarrrrra"),
        ("mmmm----", "aaaaaaaa"),
    ] {
        let told: String =
            statuses(uses).iter().map(|status| if *status == PatternStatus::Active { 'a' } else { 'r' }).collect();
        assert_eq!(told, active, "{uses}");
    }
    let failed = (0..4).fold(pattern(1, "convert invoices", &["convert"], [0, 0]), |now, _| {
        record_use(&now, &used(PatternOutcome::Failed, PatternSource::Recorded))
    });
    assert_eq!(
        failed.reason.as_deref(),
        Some("4 of 4 uses failed: at best 49 % succeed, and below 50 % a pattern is not offered")
    );
}

#[test]
fn retracted_success_becomes_a_failure_and_may_retire_a_pattern() {
    let of = |counts| pattern(1, "convert invoices", &["convert"], counts);
    for (counts, taken, left, active) in [
        ([1, 0], 1, [0, 1], false),
        ([2, 0], 1, [1, 1], true),
        // By its interval, as if the failures had been recorded.
        ([2, 6], 1, [1, 7], false),
        ([1, 0], 9, [0, 1], false),
        ([0, 1], 1, [0, 1], true),
    ] {
        let now = retract(&of(counts), taken);
        assert_eq!([now.successes, now.failures], left, "{counts:?}");
        assert_eq!((now.status == PatternStatus::Active, now.reason.is_none()), (active, active), "{counts:?}");
    }
    let quarantined = Pattern { status: PatternStatus::Quarantined, ..of([1, 0]) };
    assert_eq!(retract(&quarantined, 1).status, PatternStatus::Quarantined);
    let back = record_use(&retract(&of([1, 0]), 1), &used(PatternOutcome::Succeeded, PatternSource::Recorded));
    assert_eq!(back.status, PatternStatus::Active);
}

#[test]
fn known_costs_and_times_are_summed_with_saturation() {
    let use_of = |cost: Option<i64>, ms| PatternUse {
        cost_usd: cost.map(NanoUsd),
        ms,
        ..used(PatternOutcome::Succeeded, PatternSource::Recorded)
    };
    let mut now = pattern(1, "convert invoices", &["convert"], [0, 0]);
    (now.cost_usd, now.ms) = (None, None);
    for (cost, ms, sums) in [
        (None, None, (None, None)),
        (Some(7), None, (Some(7), None)),
        (Some(5), Some(20), (Some(12), Some(20))),
        (None, Some(u64::MAX), (Some(12), Some(u64::MAX))),
        (Some(i64::MAX), Some(1), (Some(i64::MAX), Some(u64::MAX))),
    ] {
        now = record_use(&now, &use_of(cost, ms));
        assert_eq!((now.cost_usd.map(|cost| cost.0), now.ms), sums);
    }
    assert_eq!(now.uses(), 5);
}

#[test]
fn tool_memory_counts_outcomes_of_unquarantined_patterns() {
    let task = Task::of("convert invoices to pdf");
    let catalogue = Catalogue::of(
        ["convert", "list_files", "print"]
            .map(|name| Tool {
                name: ToolName::bare(name),
                description: String::new(),
                parameters: Vec::new(),
                effect: Effect::Read,
                annotations: ToolAnnotations::default(),
            })
            .into(),
    );
    let limits = OfferRules::of(&[]).unwrap();
    let reasons = |memory: &Memory| {
        let context = AgentContext::default();
        let selection =
            catalogue.select(&SelectionRequest { context, ..SelectionRequest::new(&task, memory, &limits) });
        let mut told: Vec<String> =
            selection.ranked.iter().map(|one| format!("{}: {}", one.tool, one.reason)).collect();
        told.sort();
        told
    };
    let patterns = [
        pattern(1, "convert invoices to pdf", &["list_files", "convert", "list_files"], [5, 1]),
        Pattern { status: PatternStatus::Retired, ..pattern(2, "convert every invoice to pdf", &["convert"], [0, 4]) },
        Pattern { status: PatternStatus::Quarantined, ..pattern(3, "convert invoices to pdf", &["print"], [9, 0]) },
        pattern(4, "water the plants", &["print"], [1, 1]),
    ];
    let told = reasons(&memory(&patterns));
    assert_eq!(
        told,
        [
            "convert: `convert` in its name, close in meaning, 1 like task succeeded, 1 like task failed",
            "list_files: close in meaning, 1 like task succeeded",
            "print: no word in common"
        ]
    );
    let backwards: Vec<Pattern> = patterns.iter().rev().cloned().collect();
    assert_eq!(reasons(&memory(&backwards)), told);
    assert_eq!(
        reasons(&memory(&[])),
        [
            "convert: `convert` in its name, close in meaning",
            "list_files: no word in common",
            "print: no word in common"
        ]
    );
    // If a tool has too many patterns, the most used remain.
    let many: Vec<Pattern> = (10..40)
        .map(|number| {
            pattern(
                number,
                if number < 30 { "convert invoices to pdf" } else { "water plants" },
                &["print"],
                [u32::try_from(number).unwrap(), 0],
            )
        })
        .collect();
    assert!(reasons(&memory(&many)).contains(&"print: close in meaning, 10 like tasks succeeded".to_owned()));
}

proptest! {
    #[test]
    fn every_use_is_counted_and_status_changes_follow_the_rule(
        pattern in any_pattern(),
        uses in proptest::collection::vec(
            (proptest::sample::select(PatternOutcome::ALL.to_vec()), proptest::sample::select(PatternSource::ALL.to_vec())), 0..30,
        ),
    ) {
        let mut now = pattern;
        for (outcome, source) in uses {
            let next = record_use(&now, &used(outcome, source));
            prop_assert_eq!(next.uses(), now.uses() + 1);
            match (now.status, next.status) {
                (before, status) if before == status => prop_assert_eq!(&next.reason, &now.reason),
                (PatternStatus::Active, PatternStatus::Retired) => {
                    prop_assert!(next.failures > next.successes && next.uses() >= 3 && next.reason.is_some());
                }
                (PatternStatus::Retired, PatternStatus::Active) => {
                    prop_assert_eq!((outcome, source), (PatternOutcome::Succeeded, PatternSource::Recorded));
                    prop_assert!(next.successes >= next.failures && next.reason.is_none());
                }
                moved => prop_assert!(false, "{moved:?}"),
            }
            let (status, reason) = (next.status, next.reason.clone());
            let counted = Pattern { successes: next.successes, failures: next.failures, ..now };
            prop_assert_eq!(&next, &Pattern { status, reason, ..counted });
            now = next;
        }
    }
}
