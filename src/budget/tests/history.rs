//! Property tests of decisions and memory over random histories: flushes with faults, and days that end.

use jiff::tz::TimeZone;
use proptest::{prelude::*, sample::subsequence};

use super::{super::refusal_memory::RefusalMemory, *};

const AGENTS: [&str; 2] = ["a", "b"];

/// Reservation in the history.
#[derive(Debug, Clone)]
struct Reserved {
    by: ReviewCandidate,
    at: Timestamp,
    day: Date,
}

/// Model of the store: committed reservations, and the meters that follow from them. All is spent at its worst cost.
#[derive(Debug, Clone, Default)]
struct Ledger(Vec<Reserved>);

impl Ledger {
    fn of(&self, shadow: usize, day: Date) -> impl Iterator<Item = &ReviewCandidate> {
        let reserved = self.0.iter().filter(move |reserved| reserved.by.shadow == shadow && reserved.day == day);
        reserved.map(|reserved| &reserved.by)
    }

    fn day(&self, shadow: usize, day: Date) -> DayMeter {
        let empty = DayMeter { day, used: 0, spent_usd: NanoUsd::ZERO, spent_tokens: 0 };
        self.of(shadow, day).fold(empty, |meter, by| DayMeter {
            day,
            used: meter.used + 1,
            spent_usd: meter.spent_usd + by.worst.usd,
            spent_tokens: meter.spent_tokens + by.worst.tokens,
        })
    }

    fn used_by(&self, shadow: usize, day: Date, agent: &str) -> i64 {
        self.of(shadow, day).filter(|by| by.agent == agent).map(|_| 1).sum()
    }

    /// Returns the end of a cooldown, or the epoch if it never began.
    fn end(&self, controls: &[CostControl], shadow: usize, agent: &str, trigger: Trigger) -> Timestamp {
        let same = |by: &ReviewCandidate| by.shadow == shadow && by.agent == agent && by.matched.contains(&trigger);
        let last = self.0.iter().filter(|reserved| same(&reserved.by)).map(|reserved| reserved.at).max();
        let cooldown = controls[shadow].cooldown;
        last.filter(|_| !cooldown.is_zero()).map_or(Timestamp::UNIX_EPOCH, |last| last + cooldown)
    }

    fn meters(&self, controls: &[CostControl], now: Timestamp) -> Meters {
        let mut meters = Meters::default();
        for (shadow, control) in controls.iter().enumerate() {
            let day = self.day(shadow, local_date(control, now));
            meters.days.insert(shadow, day);
            for agent in AGENTS {
                let used = self.used_by(shadow, day.day, agent);
                meters.targets.insert((shadow, agent.into()), DayMeter { used, ..day });
                for trigger in Trigger::NAMED {
                    let end = self.end(controls, shadow, agent, trigger);
                    meters.cooldowns.insert((shadow, agent.into(), trigger), end);
                }
            }
        }
        meters
    }

    /// Returns the expected refusal of a candidate, computed from the history, in which `settled` reviews are paid.
    fn refusal(
        &self,
        controls: &[CostControl],
        c: &ReviewCandidate,
        now: Timestamp,
        settled: usize,
    ) -> Option<SkipReason> {
        let control = &controls[c.shadow];
        let day = local_date(control, now);
        let full = |used: i64, cap: Option<u32>| cap.is_some_and(|cap| used + 1 > i64::from(cap));
        let paid = Self(self.0[..settled].to_vec()).day(c.shadow, day);
        let cools = c.matched.iter().all(|trigger| now < self.end(controls, c.shadow, &c.agent, *trigger));
        let reasons = [
            (SkipReason::Cooldown, cools && !c.on_demand),
            (
                SkipReason::TargetCap,
                full(self.used_by(c.shadow, day, &c.agent), control.max_reviews_per_target_per_day),
            ),
            (SkipReason::DailyCap, full(self.day(c.shadow, day).used, control.max_reviews_per_day)),
            (
                SkipReason::TokenCap,
                control.max_tokens_per_day.is_some_and(|cap| paid.spent_tokens + c.worst.tokens > cap),
            ),
            (SkipReason::UsdCap, control.max_usd_per_day.is_some_and(|cap| paid.spent_usd.0 + c.worst.usd.0 > cap.0)),
        ];
        reasons.into_iter().find(|(_, applies)| *applies).map(|(reason, _)| reason)
    }
}

fn local_date(control: &CostControl, now: Timestamp) -> Date {
    TimeZone::get(&control.time_zone).expect("a zone").to_datetime(now).date()
}

prop_compose! {
    fn any_control(zone: &'static str)(
        daily in prop::option::of(0..6_u32),
        target in prop::option::of(0..4_u32),
        usd in prop::option::weighted(0.3, 0..60_i64),
        tokens in prop::option::weighted(0.3, 0..60_u64),
        cooldown_ms in prop::sample::select(vec![0, 0, 300, 2_000, 3_600_000]),
    ) -> CostControl {
        CostControl {
            max_reviews_per_day: daily,
            max_reviews_per_target_per_day: target,
            max_usd_per_day: usd.map(NanoUsd),
            max_tokens_per_day: tokens,
            cooldown: Duration::from_millis(cooldown_ms),
            time_zone: zone.into(),
            ..unlimited()
        }
    }
}

prop_compose! {
    fn any_candidate()(
        shadow in 0..2_usize,
        agent in prop::sample::select(&AGENTS),
        matched in subsequence(&Trigger::NAMED[..3], 1..=2),
        usd in 0..20_i64,
        tokens in 0..20_u64,
        on_demand in prop::bool::weighted(0.15),
    ) -> ReviewCandidate {
        ReviewCandidate { shadow, worst: WorstCaseCost { usd: NanoUsd(usd), tokens }, on_demand, ..candidate(agent, &matched) }
    }
}

prop_compose! {
    /// Draws the candidates of one flush, the time since the last one, and its faults.
    fn any_flush()(
        wait_ms in 0..1_500_i64,
        candidates in prop::collection::vec(any_candidate(), 0..6),
        overloaded in prop::bool::weighted(0.1),
        rolled_back in prop::bool::weighted(0.15),
        released in prop::bool::weighted(0.15),
    ) -> Flush {
        Flush { wait: millis(wait_ms), candidates, overloaded, rolled_back, released }
    }
}

#[derive(Debug, Clone)]
struct Flush {
    wait: SignedDuration,
    candidates: Vec<ReviewCandidate>,
    overloaded: bool,
    rolled_back: bool,
    released: bool,
}

/// Draws seconds before a day's end: an ordinary one, and two nights without a midnight (00:00 is 01:00 there).
fn evenings() -> impl Strategy<Value = (&'static str, Timestamp)> {
    prop::sample::select(vec![
        ("UTC", at("2026-03-01T23:59:55Z")),
        ("Africa/Cairo", at("2026-04-23T21:59:55Z")),
        ("America/Santiago", at("2026-09-06T03:59:55Z")),
    ])
}

fn any_history() -> impl Strategy<Value = (Vec<CostControl>, Timestamp, Vec<Flush>)> {
    evenings().prop_flat_map(|(zone, start)| {
        let controls = prop::collection::vec(any_control(zone), 2);
        (controls, Just(start), prop::collection::vec(any_flush(), 1..16))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn decisions_match_recounted_history_and_no_cap_is_exceeded((controls, start, flushes) in any_history()) {
        let shared: Vec<&CostControl> = controls.iter().collect();
        let mut ledger = Ledger::default();
        let mut now = start;
        for flush in flushes {
            now += flush.wait;
            let settled = ledger.0.len();
            let mut meters = ledger.meters(&controls, now);
            let decisions = decide(&shared, &flush.candidates, &mut meters, now, flush.overloaded);
            prop_assert_eq!(decisions.len(), flush.candidates.len());
            for (candidate, TriggeredDecision { decision, .. }) in flush.candidates.iter().zip(decisions) {
                let overload = flush.overloaded.then_some(SkipReason::Overload);
                let refusal = ledger.refusal(&controls, candidate, now, settled).or(overload);
                let day = local_date(&controls[candidate.shadow], now);
                prop_assert_eq!(decision, refusal.map_or(BudgetDecision::Reserve(day), BudgetDecision::Skip), "{:?}", candidate);
                if refusal.is_none() {
                    ledger.0.push(Reserved { by: candidate.clone(), at: now, day });
                }
            }
            // The meters changed like the history, and no further.
            let moved = ledger.meters(&controls, now);
            prop_assert_eq!(&meters.cooldowns, &moved.cooldowns);
            for (shadow, control) in controls.iter().enumerate() {
                let used = meters.days[&shadow].used;
                prop_assert_eq!(used, moved.days[&shadow].used);
                prop_assert!(control.max_reviews_per_day.is_none_or(|cap| used <= i64::from(cap)));
                for agent in AGENTS {
                    let used = meters.targets[&(shadow, agent.to_owned())].used;
                    prop_assert_eq!(used, moved.targets[&(shadow, agent.to_owned())].used);
                    prop_assert!(control.max_reviews_per_target_per_day.is_none_or(|cap| used <= i64::from(cap)));
                }
            }
        }
    }

    #[test]
    fn reservations_fill_the_caps_exactly(
        daily in 0..12_u32,
        target in 0..8_u32,
        agents in prop::collection::vec(prop::sample::select(&AGENTS), 0..30),
    ) {
        let control = CostControl {
            max_reviews_per_day: Some(daily),
            max_reviews_per_target_per_day: Some(target),
            ..unlimited()
        };
        let candidates: Vec<_> = agents.iter().map(|agent| candidate(agent, &[Trigger::Error])).collect();
        let mut meters = Ledger::default().meters(std::slice::from_ref(&control), noon());
        decide(&[&control], &candidates, &mut meters, noon(), false);
        let eligible = |agent| agents.iter().filter(|a| **a == agent).count().min(target as usize);
        let expected = AGENTS.into_iter().map(eligible).sum::<usize>().min(daily as usize);
        prop_assert_eq!(meters.days[&0].used, i64::try_from(expected).expect("a few"));
    }

    #[test]
    fn remembered_refusals_agree_with_the_meters((controls, start, flushes) in any_history()) {
        let shared: Vec<&CostControl> = controls.iter().collect();
        let (memory, mut ledger) = (RefusalMemory::default(), Ledger::default());
        let mut now = start;
        let mut releases = 0;
        for flush in flushes {
            now += flush.wait;
            if flush.released && let Some(released) = ledger.0.pop() {
                // The unit returns, the cooldown does not: it stays with a review that counts for no day.
                ledger.0.insert(0, Reserved { day: Date::MIN, ..released });
                releases += 1;
            }
            memory.confirm(releases, now);
            let era = memory.era();
            let mut meters = ledger.meters(&controls, now);
            let mut asking = Vec::new();
            for candidate in flush.candidates {
                let Some(recalled) = memory.recall(&candidate, now) else {
                    asking.push(candidate);
                    continue;
                };
                prop_assert!(!candidate.on_demand);
                let decided = ledger.refusal(&controls, &candidate, now, ledger.0.len());
                match recalled {
                    SkipReason::Cooldown | SkipReason::TargetCap | SkipReason::DailyCap => {
                        prop_assert_eq!(decided, Some(recalled));
                    }
                    // A cheaper candidate may have been let through since then.
                    _ => prop_assert!(decided.is_some_and(|decided| decided <= recalled), "{recalled:?} {decided:?}"),
                }
            }
            let decisions = decide(&shared, &asking, &mut meters, now, flush.overloaded);
            if flush.rolled_back {
                continue;
            }
            for (candidate, TriggeredDecision { decision, .. }) in asking.into_iter().zip(decisions) {
                match decision {
                    BudgetDecision::Skip(reason) => {
                        memory.note(era, &controls[candidate.shadow], &candidate, &meters, reason, now);
                    }
                    BudgetDecision::Reserve(day) => ledger.0.push(Reserved { by: candidate, at: now, day }),
                    shared => panic!("nothing here may share a review: {shared:?}"),
                }
            }
        }
    }
}
