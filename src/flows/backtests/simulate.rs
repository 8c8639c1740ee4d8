//! Simulation of what accept would have decided under a version: the same gates and the same decision, on meters that
//! begin empty and follow the time of the events. Takes events in order of receipt; answers reserved, or the reason of
//! the skip. Pure.

use std::collections::HashMap;

use jiff::{Timestamp, civil::Date, tz::TimeZone};

use crate::budget::{self, BudgetDecision, DayMeter, Facts, Meters, ReviewCandidate, TriggeredDecision, WorstCaseCost};
use umbra_domain::{NanoUsd, Shadow, SkipReason};

/// Position of the shadow in the list of shadows, which has one entry.
const SHADOW: usize = 0;

/// Meters of a shadow on a simulated day.
pub(super) struct Simulation<'a> {
    shadow: &'a Shadow,
    zone: TimeZone,
    meters: Meters,
    day: Date,
}

impl<'a> Simulation<'a> {
    /// Returns a simulation with nothing spent and no cooldown.
    pub fn new(shadow: &'a Shadow) -> Self {
        // Configuration has checked the zone.
        let zone = TimeZone::get(&shadow.cost_control.time_zone).unwrap_or(TimeZone::UTC);
        Self { shadow, zone, meters: Meters::default(), day: Date::MIN }
    }

    /// Decides the next event. The estimated cost of its review, `expected`, is spent at once.
    ///
    /// # Errors
    /// The reason of the skip.
    pub fn decide(
        &mut self,
        at: Timestamp,
        facts: Facts,
        candidate: &ReviewCandidate,
        expected: WorstCaseCost,
    ) -> Result<(), SkipReason> {
        if let Some(reason) = budget::gate(self.shadow, facts) {
            return Err(reason);
        }
        self.turn_day(at);
        let empty = self.empty();
        let target = (SHADOW, candidate.agent.clone());
        self.meters.days.entry(SHADOW).or_insert(empty);
        self.meters.targets.entry(target).or_insert(empty);
        let candidates = std::slice::from_ref(candidate);
        let decided = budget::decide(&[&self.shadow.cost_control], candidates, &mut self.meters, at, false);
        match decided.first() {
            Some(TriggeredDecision { decision: BudgetDecision::Reserve(_), .. }) => {
                if let Some(day) = self.meters.days.get_mut(&SHADOW) {
                    day.spent_usd += expected.usd;
                    day.spent_tokens = day.spent_tokens.saturating_add(expected.tokens);
                }
                Ok(())
            }
            Some(TriggeredDecision { decision: BudgetDecision::Skip(reason), .. }) => Err(*reason),
            // Each event is reviewed alone, so none joins another's review.
            Some(_) | None => Err(SkipReason::Overload),
        }
    }

    /// Begins a new local day with empty meters. Events of several processes may overlap at midnight: the day never
    /// goes back.
    fn turn_day(&mut self, at: Timestamp) {
        let day = at.to_zoned(self.zone.clone()).date();
        if day > self.day {
            self.day = day;
            self.meters.days.clear();
            self.meters.targets = HashMap::new();
            self.meters.cooldowns.retain(|_, until| *until > at);
            self.meters.marks.retain(|_, until| *until > at);
        }
    }

    fn empty(&self) -> DayMeter {
        DayMeter { day: self.day, used: 0, spent_usd: NanoUsd::ZERO, spent_tokens: 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::budget::TaskCost;
    use umbra_domain::{CostControl, Trigger};

    const PASSES: Facts = Facts { own_traffic: false, sample: 0, cost: TaskCost::Known(None), critical: false };
    const CHEAP: TaskCost = TaskCost::Known(Some(NanoUsd(1)));

    fn shadow(change: impl FnOnce(&mut CostControl)) -> Shadow {
        let mut shadow = Shadow::plain();
        change(&mut shadow.cost_control);
        shadow
    }

    fn candidate(agent: &str) -> ReviewCandidate {
        let worst = WorstCaseCost { usd: NanoUsd(10), tokens: 10 };
        let matched = vec![Trigger::Error];
        ReviewCandidate { shadow: SHADOW, agent: agent.into(), matched, worst, ..ReviewCandidate::default() }
    }

    fn decide(simulation: &mut Simulation, at: &str, agent: &str) -> Result<(), SkipReason> {
        let expected = WorstCaseCost { usd: NanoUsd(4), tokens: 4 };
        simulation.decide(at.parse().unwrap(), PASSES, &candidate(agent), expected)
    }

    #[test]
    fn cooldown_follows_event_time_and_spans_midnight() {
        let shadow = shadow(|control| control.cooldown = Duration::from_hours(2));
        let mut simulation = Simulation::new(&shadow);
        let mut at = |time: &str, agent| decide(&mut simulation, time, agent);
        assert_eq!(at("2026-02-28T22:30:00Z", "a"), Ok(()));
        assert_eq!(at("2026-02-28T23:30:00Z", "b"), Ok(()), "another agent");
        assert_eq!(at("2026-03-01T00:15:00Z", "a"), Err(SkipReason::Cooldown));
        assert_eq!(at("2026-03-01T00:31:00Z", "a"), Ok(()));
    }

    #[test]
    fn daily_caps_follow_the_local_day() {
        let shadow = shadow(|control| {
            control.max_reviews_per_day = Some(2);
            control.max_reviews_per_target_per_day = Some(1);
            control.time_zone = "America/New_York".into();
        });
        let mut simulation = Simulation::new(&shadow);
        let mut at = |time: &str, agent| decide(&mut simulation, time, agent);
        assert_eq!(at("2026-02-28T03:00:00Z", "a"), Ok(()), "still the 27th there");
        assert_eq!(at("2026-02-28T04:59:00Z", "a"), Err(SkipReason::TargetCap));
        assert_eq!(at("2026-02-28T04:59:30Z", "b"), Ok(()));
        assert_eq!(at("2026-02-28T04:59:40Z", "c"), Err(SkipReason::DailyCap));
        assert_eq!(at("2026-02-28T05:00:00Z", "c"), Ok(()), "the 28th begins");
        assert_eq!(at("2026-02-28T04:59:59Z", "c"), Err(SkipReason::TargetCap), "no day comes twice");
    }

    #[test]
    fn spending_adds_expected_cost_and_is_refused_at_worst_case() {
        let shadow = shadow(|control| control.max_usd_per_day = Some(NanoUsd(17)));
        let mut simulation = Simulation::new(&shadow);
        let mut at = |time: &str| decide(&mut simulation, time, "a");
        assert_eq!(at("2026-02-28T10:00:00Z"), Ok(()));
        assert_eq!(at("2026-02-28T10:00:01Z"), Ok(()), "4 + 10 of 17");
        assert_eq!(at("2026-02-28T10:00:02Z"), Err(SkipReason::UsdCap), "8 + 10 of 17");
        assert_eq!(at("2026-03-01T10:00:00Z"), Ok(()));
    }

    #[test]
    fn gates_are_applied_in_order_before_the_caps() {
        let shadow = shadow(|control| {
            control.sample_ppm = 500_000;
            control.skip_if_task_cost_below = Some(NanoUsd(5));
            control.max_reviews_per_day = Some(0);
        });
        let mut simulation = Simulation::new(&shadow);
        let mut gate = |facts| {
            let at = "2026-02-28T10:00:00Z".parse().unwrap();
            simulation.decide(at, facts, &candidate("a"), WorstCaseCost::default())
        };
        assert_eq!(gate(Facts { own_traffic: true, sample: 600_000, ..PASSES }), Err(SkipReason::LoopGuard));
        assert_eq!(gate(Facts { sample: 600_000, cost: CHEAP, ..PASSES }), Err(SkipReason::NotSampled));
        assert_eq!(gate(Facts { cost: CHEAP, ..PASSES }), Err(SkipReason::CostBelowFloor));
        assert_eq!(gate(PASSES), Err(SkipReason::DailyCap));
    }
}
