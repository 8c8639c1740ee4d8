//! Tests of batches, which close by count, characters and time, and of tasks, which are reviewed twice at most.

use proptest::prelude::*;

use super::*;
use umbra_domain::BatchRules;

fn rules(max_events: u32, max_chars: u32, wait_ms: u64) -> BatchRules {
    BatchRules { max_events, max_chars, max_wait: Duration::from_millis(wait_ms) }
}

fn small(chars: u64) -> ReviewCandidate {
    ReviewCandidate { company: Grouping::Batch(chars), ..candidate("a", &[Trigger::Error]) }
}

fn of_task(completes: bool) -> ReviewCandidate {
    ReviewCandidate {
        company: Grouping::Task { id: "t".into(), completes },
        ..candidate("a", &[Trigger::TaskComplete])
    }
}

/// Keeps the reviews that the store would still find waiting at this moment: due ones have begun.
fn later(meters: &mut Meters, now: Timestamp) {
    let before = std::mem::take(&mut meters.waitings);
    for waiting in before.all().iter().filter(|waiting| waiting.run_at > now) {
        meters.waitings.found(0, "a", waiting.clone());
    }
}

#[test]
fn joining_a_batch_uses_no_further_unit() {
    let control = CostControl { batch: Some(rules(3, 100, 1_000)), max_reviews_per_day: Some(1), ..unlimited() };
    let mut meters = meters(0, 0, WorstCaseCost::default());
    let ask = |meters: &mut Meters, chars| decide_alone(&control, &small(chars), meters, noon());
    assert_eq!(ask(&mut meters, 10), BudgetDecision::Open(date(2026, 3, 1), 0));
    assert_eq!((ask(&mut meters, 10), ask(&mut meters, 10)), (BudgetDecision::Join(0), BudgetDecision::Join(0)));
    assert_eq!(meters.days[&0].used, 1);
    let full = &meters.waitings.all()[0];
    assert_eq!((full.events, full.chars, full.run_at), (3, 30, noon()), "full, it runs at once");
    assert_eq!(ask(&mut meters, 10), BudgetDecision::Skip(SkipReason::DailyCap), "another would be another unit");
}

#[test]
fn oversized_event_gets_its_own_review_beside_the_batch() {
    let control = CostControl { batch: Some(rules(9, 100, 1_000)), ..unlimited() };
    let mut meters = meters(0, 0, WorstCaseCost::default());
    let mut ask = |chars| decide_alone(&control, &small(chars), &mut meters, noon());
    let asked = [ask(10), ask(101), ask(90), ask(1)];
    let open = |place| BudgetDecision::Open(date(2026, 3, 1), place);
    assert_eq!(asked, [open(0), RESERVED, BudgetDecision::Join(0), open(1)]);
    assert_eq!(meters.waitings.all()[0].run_at, noon());
}

#[test]
fn task_is_reviewed_on_completion_and_once_more() {
    let control = CostControl { cooldown: Duration::from_hours(2), ..unlimited() };
    let mut meters = meters(0, 0, WorstCaseCost::default());
    let ask = |meters: &mut Meters, completes| decide_alone(&control, &of_task(completes), meters, noon());
    let open = |place| BudgetDecision::Open(date(2026, 3, 1), place);
    assert_eq!(ask(&mut meters, false), BudgetDecision::Pass);
    assert_eq!((ask(&mut meters, true), ask(&mut meters, true)), (open(0), BudgetDecision::Join(0)));
    assert_eq!((ask(&mut meters, false), meters.waitings.all()[0].run_at), (BudgetDecision::Pass, noon()));
    // The review has begun.
    let begun = |rounds| {
        let mut waitings = WaitingReviews::default();
        waitings.reviewed(0, "t", rounds);
        waitings
    };
    meters.waitings = begun(1);
    assert_eq!((ask(&mut meters, false), ask(&mut meters, false)), (open(0), BudgetDecision::Pass));
    assert_eq!(meters.waitings.all()[0].run_at, noon() + SignedDuration::from_secs(10));
    meters.waitings = begun(2);
    assert_eq!(ask(&mut meters, false), BudgetDecision::Pass);
    assert_eq!(ask(&mut meters, true), BudgetDecision::Skip(SkipReason::Cooldown));
    assert_eq!(meters.days[&0].used, 2);
}

proptest! {
    #[test]
    fn batches_keep_their_bounds_and_their_longest_wait(
        max_events in 2..6_u32,
        wait_ms in 1..3_000_u64,
        cooldown_ms in prop::sample::select(vec![0_u64, 0, 500, 10_000]),
        asked in prop::collection::vec((0..900_i64, 0..130_u64), 1..60),
    ) {
        let rules = rules(max_events, 100, wait_ms);
        let control = CostControl { batch: Some(rules), cooldown: Duration::from_millis(cooldown_ms), ..unlimited() };
        let mut meters = meters(0, 0, WorstCaseCost::default());
        let (mut now, mut units, mut last_run) = (noon(), 0, None::<Timestamp>);
        for (after, chars) in asked {
            now += millis(after);
            later(&mut meters, now);
            let was_ahead = meters.waitings.is_ahead(0, "a");
            let decision = decide_alone(&control, &small(chars), &mut meters, now);
            let (BudgetDecision::Open(_, place) | BudgetDecision::Join(place)) = decision else {
                let alone = chars > 100;
                prop_assert!(alone || cooldown_ms > 0 && was_ahead, "{decision:?}: skipped though there was room");
                units += i64::from(decision == RESERVED);
                continue;
            };
            let batch = &meters.waitings.all()[place];
            prop_assert!(batch.events <= max_events && batch.chars <= 100);
            let patience = millis(i64::try_from(wait_ms).unwrap()) + millis(i64::try_from(cooldown_ms).unwrap());
            prop_assert!(batch.run_at <= now + patience, "it waits for company and a cooldown, and no longer");
            prop_assert!(batch.run_at >= batch.not_before);
            if batch.events == max_events || batch.chars == 100 {
                prop_assert_eq!(batch.run_at, batch.not_before.max(now), "full");
            }
            if matches!(decision, BudgetDecision::Open(..)) {
                units += 1;
                prop_assert!(!was_ahead || cooldown_ms == 0 || batch.not_before >= now);
                if let Some(last) = last_run {
                    prop_assert!(batch.not_before >= last, "one after the other");
                }
                last_run = Some(batch.not_before);
            }
        }
        prop_assert_eq!(meters.days[&0].used, units);
    }
}
