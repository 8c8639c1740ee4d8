//! Tests of every gate and cap. Submodules compare decisions with a model that recounts history each time, and test the
//! memory of refusals.

use std::time::Duration;

use jiff::civil::date;

use super::*;

mod companies;
mod floors;
mod history;
mod memories;

fn unlimited() -> CostControl {
    CostControl::unlimited()
}

fn shadow(cost_control: CostControl) -> Shadow {
    Shadow { cost_control, ..Shadow::plain() }
}

fn candidate(agent: &str, matched: &[Trigger]) -> ReviewCandidate {
    ReviewCandidate { agent: agent.into(), matched: matched.to_vec(), ..ReviewCandidate::default() }
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("a timestamp")
}

fn noon() -> Timestamp {
    at("2026-03-01T12:00:00Z")
}

fn millis(ms: i64) -> SignedDuration {
    SignedDuration::from_millis(ms)
}

/// Returns the meters of shadow 0 and agent `a` on the day of [`noon`], with these counts.
fn meters(day_used: i64, target_used: i64, spent: WorstCaseCost) -> Meters {
    let day = DayMeter { day: date(2026, 3, 1), used: day_used, spent_usd: spent.usd, spent_tokens: spent.tokens };
    let target = DayMeter { used: target_used, spent_usd: NanoUsd::ZERO, spent_tokens: 0, ..day };
    Meters { days: [(0, day)].into(), targets: [((0, "a".into()), target)].into(), ..Meters::default() }
}

fn cool(meters: &mut Meters, trigger: Trigger, until: Timestamp) {
    meters.cooldowns.insert((0, "a".into(), trigger), until);
}

fn decide_alone(
    control: &CostControl,
    candidate: &ReviewCandidate,
    meters: &mut Meters,
    now: Timestamp,
) -> BudgetDecision {
    decide(&[control], std::slice::from_ref(candidate), meters, now, false)[0].decision
}

const RESERVED: BudgetDecision = BudgetDecision::Reserve(date(2026, 3, 1));

#[test]
fn first_applicable_skip_reason_is_given() {
    use SkipReason as S;
    const ORDER: [S; 10] = [
        S::ShadowDisabled,
        S::LoopGuard,
        S::NotSampled,
        S::CostBelowFloor,
        S::Cooldown,
        S::TargetCap,
        S::DailyCap,
        S::TokenCap,
        S::UsdCap,
        S::Overload,
    ];
    for subset in 0..1_u32 << ORDER.len() {
        let applying: Vec<S> =
            (0..).zip(ORDER).filter(|(i, _)| subset >> i & 1 == 1).map(|(_, reason)| reason).collect();
        let [off, own, unsampled, cheap, cooling, target, daily, tokens, usd, overloaded] =
            ORDER.map(|reason| applying.contains(&reason));
        let control = CostControl {
            max_reviews_per_day: Some(5),
            max_reviews_per_target_per_day: Some(2),
            max_usd_per_day: Some(NanoUsd(100)),
            max_tokens_per_day: Some(50),
            skip_if_task_cost_below: Some(NanoUsd(10)),
            cooldown: Duration::from_hours(1),
            sample_ppm: 500_000,
            ..unlimited()
        };
        let shadow = Shadow { enabled: !off, ..shadow(control) };
        let facts = Facts {
            own_traffic: own,
            sample: if unsampled { 500_000 } else { 499_999 },
            cost: TaskCost::Known(Some(NanoUsd(if cheap { 9 } else { 10 }))),
            critical: false,
        };
        let candidate = ReviewCandidate {
            worst: WorstCaseCost { usd: NanoUsd(10), tokens: 10 },
            ..candidate("a", &[Trigger::Error])
        };
        let spent = WorstCaseCost { usd: NanoUsd(if usd { 91 } else { 90 }), tokens: if tokens { 41 } else { 40 } };
        let mut meters = meters(if daily { 5 } else { 4 }, if target { 2 } else { 1 }, spent);
        cool(&mut meters, Trigger::Error, if cooling { noon() + millis(1) } else { noon() });
        let found = gate(&shadow, facts).map_or_else(
            || decide(&[&shadow.cost_control], &[candidate], &mut meters, noon(), overloaded)[0].decision,
            BudgetDecision::Skip,
        );
        assert_eq!(found, applying.first().map_or(RESERVED, |first| BudgetDecision::Skip(*first)), "{applying:?}");
    }
}

#[test]
fn gate_skips_by_sample_and_cost_floor() {
    let facts = |sample, cost: Option<i64>| {
        let cost = TaskCost::Known(cost.map(NanoUsd));
        Facts { own_traffic: false, sample, cost, critical: false }
    };
    let (sampled_out, cheap) = (Some(SkipReason::NotSampled), Some(SkipReason::CostBelowFloor));
    for (ppm, floor, facts, expected) in [
        (0, None, facts(0, None), sampled_out),
        (0, None, facts(SAMPLE_SCALE - 1, None), sampled_out),
        (1, None, facts(0, None), None),
        (1, None, facts(1, None), sampled_out),
        (SAMPLE_SCALE, None, facts(0, None), None),
        (SAMPLE_SCALE, None, facts(SAMPLE_SCALE - 1, None), None),
        (SAMPLE_SCALE, Some(100), facts(0, Some(99)), cheap),
        (SAMPLE_SCALE, Some(100), facts(0, Some(100)), None),
        (SAMPLE_SCALE, Some(100), facts(0, Some(101)), None),
        (SAMPLE_SCALE, Some(100), facts(0, None), None),
        (SAMPLE_SCALE, Some(0), facts(0, Some(0)), None),
        (SAMPLE_SCALE, None, facts(0, Some(0)), None),
    ] {
        let control = CostControl { sample_ppm: ppm, skip_if_task_cost_below: floor.map(NanoUsd), ..unlimited() };
        assert_eq!(gate(&shadow(control), facts), expected, "{ppm} ppm, floor {floor:?}, {facts:?}");
    }
}

#[test]
fn a_pair_cools_only_while_all_its_triggers_cool() {
    use Trigger::{CodeWritten, Error};
    let hour = CostControl { cooldown: Duration::from_hours(1), ..unlimited() };
    let refused = BudgetDecision::Skip(SkipReason::Cooldown);
    for (control, matched, ends, on_demand, expected) in [
        (&hour, &[Error][..], &[(Error, 1)][..], false, refused),
        (&hour, &[Error], &[(Error, 0)], false, RESERVED),
        (&hour, &[Error], &[], false, RESERVED),
        (&hour, &[Error], &[(CodeWritten, 1)], false, RESERVED),
        (&hour, &[Error, CodeWritten], &[(Error, 1)], false, RESERVED),
        (&hour, &[Error, CodeWritten], &[(Error, 1), (CodeWritten, 0)], false, RESERVED),
        (&hour, &[Error, CodeWritten], &[(Error, 1), (CodeWritten, 2)], false, refused),
        // Asked for by a person; or the cooldown was switched off since.
        (&hour, &[Error], &[(Error, 1)], true, RESERVED),
        (&unlimited(), &[Error], &[(Error, 1)], false, RESERVED),
    ] {
        let mut meters = meters(0, 0, WorstCaseCost::default());
        for (trigger, seconds) in ends {
            cool(&mut meters, *trigger, noon() + SignedDuration::from_secs(*seconds));
        }
        let candidate = ReviewCandidate { on_demand, ..candidate("a", matched) };
        let found = decide_alone(control, &candidate, &mut meters, noon());
        assert_eq!(found, expected, "{matched:?} under {ends:?}, on demand: {on_demand}");
    }
}

#[test]
fn a_reservation_starts_the_cooldown_of_every_matched_trigger() {
    use Trigger::{CodeWritten, Error, SecurityRisk, TaskComplete};
    let control = CostControl { cooldown: Duration::from_mins(1), ..unlimited() };
    for on_demand in [false, true] {
        let mut meters = meters(0, 0, WorstCaseCost::default());
        let (short, long) = (noon() + millis(5), noon() + SignedDuration::from_hours(9));
        for (trigger, until) in [(SecurityRisk, short), (CodeWritten, long), (TaskComplete, short)] {
            cool(&mut meters, trigger, until);
        }
        let candidate = ReviewCandidate { on_demand, ..candidate("a", &[Error, SecurityRisk, CodeWritten]) };
        assert_eq!(decide_alone(&control, &candidate, &mut meters, noon()), RESERVED);
        let end = |trigger| meters.cooldowns[&(0, "a".to_owned(), trigger)];
        let minute = noon() + SignedDuration::from_mins(1);
        // Begun, prolonged, never shortened, and left alone for a trigger that did not match.
        assert_eq!([Error, SecurityRisk, CodeWritten, TaskComplete].map(end), [minute, minute, long, short]);
    }
}

#[test]
fn money_and_token_caps_count_spending_and_the_worst_case() {
    let none = NanoUsd::ZERO;
    let (no_tokens, no_money) = (BudgetDecision::Skip(SkipReason::TokenCap), BudgetDecision::Skip(SkipReason::UsdCap));
    for (caps, spent, worst, expected) in [
        ((None, None), (NanoUsd(i64::MAX), u64::MAX), (NanoUsd(i64::MAX), u64::MAX), RESERVED),
        ((Some(100), None), (none, 60), (none, 40), RESERVED),
        ((Some(100), None), (none, 60), (none, 41), no_tokens),
        ((Some(100), None), (none, 100), (none, 0), RESERVED),
        ((Some(100), None), (none, 1), (none, u64::MAX), no_tokens),
        ((Some(0), None), (none, 0), (none, 1), no_tokens),
        ((None, Some(100)), (NanoUsd(60), 0), (NanoUsd(40), 0), RESERVED),
        ((None, Some(100)), (NanoUsd(60), 0), (NanoUsd(41), 0), no_money),
        ((None, Some(100)), (NanoUsd(1), 0), (NanoUsd(i64::MAX), 0), no_money),
        ((None, Some(0)), (none, 0), (NanoUsd(1), 0), no_money),
        ((None, Some(0)), (none, 0), (none, 9), RESERVED),
    ] {
        let control = CostControl { max_tokens_per_day: caps.0, max_usd_per_day: caps.1.map(NanoUsd), ..unlimited() };
        let mut meters = meters(0, 0, WorstCaseCost { usd: spent.0, tokens: spent.1 });
        for on_demand in [false, true] {
            let worst = WorstCaseCost { usd: worst.0, tokens: worst.1 };
            let candidate = ReviewCandidate { worst, on_demand, ..candidate("a", &[Trigger::Error]) };
            let found = decide_alone(&control, &candidate, &mut meters, noon());
            assert_eq!(found, expected, "caps {caps:?}, spent {spent:?}, worst {worst:?}");
        }
    }
}

#[test]
fn on_demand_review_is_held_to_the_caps() {
    let control = CostControl {
        max_reviews_per_day: Some(3),
        max_reviews_per_target_per_day: Some(2),
        cooldown: Duration::from_hours(1),
        ..unlimited()
    };
    for (day_used, target_used, expected) in [
        (2, 1, RESERVED),
        (2, 2, BudgetDecision::Skip(SkipReason::TargetCap)),
        (3, 1, BudgetDecision::Skip(SkipReason::DailyCap)),
    ] {
        let mut meters = meters(day_used, target_used, WorstCaseCost::default());
        cool(&mut meters, Trigger::Error, Timestamp::MAX);
        let candidate = ReviewCandidate { on_demand: true, ..candidate("a", &[Trigger::Error]) };
        assert_eq!(decide_alone(&control, &candidate, &mut meters, noon()), expected);
    }
}

#[test]
fn no_review_is_reserved_without_its_meter() {
    let overload = BudgetDecision::Skip(SkipReason::Overload);
    let ask = |shadow, mut meters: Meters| {
        let candidate = ReviewCandidate { shadow, ..candidate("a", &[Trigger::Error]) };
        decide_alone(&unlimited(), &candidate, &mut meters, noon())
    };
    let locked = meters(0, 0, WorstCaseCost::default());
    assert_eq!(ask(0, locked.clone()), RESERVED);
    assert_eq!(ask(0, Meters { days: HashMap::new(), ..locked.clone() }), overload);
    assert_eq!(ask(0, Meters { targets: HashMap::new(), ..locked.clone() }), overload);
    assert_eq!(ask(1, locked), BudgetDecision::Skip(SkipReason::ShadowDisabled), "no such shadow");
}
