//! Tests of the cost floor by task, and of critical marks, which override floor and cooldown once.

use super::*;
use umbra_domain::{BatchRules, Event};

fn costing(task: Option<&str>, own: Option<i64>, whole: Option<i64>) -> TaskCost {
    TaskCost::of(&Event {
        task_id: task.map(Into::into),
        cost_usd: own.map(NanoUsd),
        task_cost_usd: whole.map(NanoUsd),
        ..Event::default()
    })
}

#[test]
fn floor_check_uses_the_known_task_cost() {
    use FloorCheck::{Below, Passed, Undecided};
    let floor = shadow(CostControl { skip_if_task_cost_below: Some(NanoUsd(10)), ..unlimited() });
    for (cost, expected) in [
        (costing(None, None, None), Passed),
        (costing(None, Some(9), None), Below),
        (costing(None, Some(10), None), Passed),
        (costing(Some("t"), None, None), Undecided),
        (costing(Some("t"), Some(9), None), Undecided),
        (costing(Some("t"), Some(10), None), Passed),
        (costing(Some("t"), Some(9), Some(10)), Passed),
        (costing(Some("t"), Some(11), Some(9)), Below),
    ] {
        assert_eq!(cost.check(&floor), expected, "{cost:?}");
        assert_eq!(cost.check(&shadow(unlimited())), Passed, "without a floor: {cost:?}");
        let facts = Facts { own_traffic: false, sample: 0, cost, critical: false };
        let gated = gate(&floor, facts);
        assert_eq!(gated, (expected == Below).then_some(SkipReason::CostBelowFloor), "{cost:?}");
        assert_eq!(gate(&floor, Facts { critical: true, ..facts }), None, "{cost:?}");
        let held = candidate("a", &[Trigger::Error]).held_to_floor(&floor, cost);
        assert_eq!(held.floor.is_some(), expected != Passed, "{cost:?}");
        assert_eq!(held.is_below_floor(), expected == Below, "{cost:?}");
        let summed = |sum| ReviewCandidate { task_cost: Some(NanoUsd(sum)), ..held.clone() }.is_below_floor();
        assert_eq!((summed(9), summed(10)), (expected != Passed, false), "{cost:?}");
    }
}

#[test]
fn tasks_that_have_passed_the_highest_floor_are_remembered() {
    let floor = |least, enabled| Shadow {
        enabled,
        ..shadow(CostControl { skip_if_task_cost_below: Some(NanoUsd(least)), ..unlimited() })
    };
    let passed = PassedTasks::under(&[floor(5, true), floor(10, true), floor(99, false)]);
    passed.note("t", NanoUsd(9));
    assert!(!passed.contains("t"));
    passed.note("t", NanoUsd(10));
    assert!(passed.contains("t") && !passed.contains("u"));
    assert!(PassedTasks::under(&[floor(5, false)]).contains("t"), "there is no floor");
}

fn marked(marks: &[&str]) -> ReviewCandidate {
    ReviewCandidate {
        critical: marks.iter().map(|mark| (*mark).to_owned()).collect(),
        ..candidate("a", &[Trigger::Error])
    }
}

#[test]
fn each_critical_mark_overrides_the_cooldown_once() {
    let control = CostControl { cooldown: Duration::from_hours(2), max_reviews_per_day: Some(3), ..unlimited() };
    let refused = |reason| BudgetDecision::Skip(reason);
    let mut meters = meters(0, 0, WorstCaseCost::default());
    let mut ask = |marks: &[&str], after: i64| {
        decide_alone(&control, &marked(marks), &mut meters, noon() + SignedDuration::from_mins(after))
    };
    assert_eq!(ask(&["x"], 0), RESERVED, "nothing cools yet");
    assert_eq!(ask(&[], 1), refused(SkipReason::Cooldown));
    assert_eq!(ask(&["x"], 1), refused(SkipReason::Cooldown), "it was queued already");
    assert_eq!(ask(&["x", "y"], 2), RESERVED);
    assert_eq!(ask(&["y"], 90), refused(SkipReason::Cooldown));
    assert_eq!(ask(&["x"], 121), refused(SkipReason::Cooldown), "it was queued again with the other");
    assert_eq!(ask(&["z"], 121), RESERVED);
    assert_eq!(ask(&["w"], 121), refused(SkipReason::DailyCap), "caps hold");
}

#[test]
fn critical_mark_overrides_the_floor_once_an_hour() {
    let control = CostControl { skip_if_task_cost_below: Some(NanoUsd(10)), ..unlimited() };
    let held =
        |marks: &[&str]| ReviewCandidate { floor: Some(NanoUsd(10)), task_cost: Some(NanoUsd(1)), ..marked(marks) };
    let below = BudgetDecision::Skip(SkipReason::CostBelowFloor);
    let mut meters = meters(0, 0, WorstCaseCost::default());
    let mut ask = |marks: &[&str], after: i64| {
        decide_alone(&control, &held(marks), &mut meters, noon() + SignedDuration::from_mins(after))
    };
    assert_eq!([ask(&[], 0), ask(&["x"], 1), ask(&["x"], 59), ask(&["x"], 60)], [below, RESERVED, below, RESERVED]);
    let step = ReviewCandidate { company: Grouping::Task { id: "t".into(), completes: false }, ..held(&[]) };
    assert_eq!(decide_alone(&control, &step, &mut meters, noon()), BudgetDecision::Pass, "a step matches nothing");
}

#[test]
fn event_that_overrides_a_cooldown_does_not_wait_in_a_batch() {
    let rules = BatchRules { max_events: 3, max_chars: 100, max_wait: Duration::from_secs(9) };
    let control = CostControl { batch: Some(rules), cooldown: Duration::from_hours(2), ..unlimited() };
    let small = |marks: &[&str]| ReviewCandidate { company: Grouping::Batch(10), ..marked(marks) };
    let mut meters = meters(0, 0, WorstCaseCost::default());
    cool(&mut meters, Trigger::Error, noon() + SignedDuration::from_hours(1));
    let mut ask = |marks: &[&str]| decide_alone(&control, &small(marks), &mut meters, noon());
    assert_eq!(ask(&["x"]), RESERVED);
    assert_eq!([ask(&["x"]), ask(&[])], [BudgetDecision::Open(date(2026, 3, 1), 0), BudgetDecision::Join(0)]);
}

#[test]
fn a_decision_names_the_first_trigger_that_does_not_cool() {
    use Trigger::{CodeWritten, Error, SecurityRisk};
    let control = CostControl { cooldown: Duration::from_hours(1), ..unlimited() };
    for (cooling, on_demand, expected) in [
        (&[][..], false, CodeWritten),
        (&[CodeWritten], false, SecurityRisk),
        (&[CodeWritten, SecurityRisk], false, Error),
        (&[CodeWritten, SecurityRisk, Error], false, CodeWritten),
        (&[CodeWritten], true, CodeWritten),
    ] {
        let mut meters = meters(0, 0, WorstCaseCost::default());
        for trigger in cooling {
            cool(&mut meters, *trigger, noon() + millis(1));
        }
        let asked = ReviewCandidate { on_demand, ..candidate("a", &[CodeWritten, SecurityRisk, Error]) };
        let decided = decide(&[&control], &[asked], &mut meters, noon(), false)[0];
        assert_eq!(decided.trigger, Some(expected), "{cooling:?}");
    }
}
