//! Decides whether a review may be spent. Pure: facts and meters in, decisions and changed meters out.
//!
//! There are two steps, since the first needs only the event and the second needs locked meters: [`gate`] decides from
//! the event alone; [`decide`] takes the candidates that passed, with the meters that the store has locked, and
//! reserves reviews. Between them, [`refusal_memory`] saves database work for answers that are known to hold for a
//! while.

pub mod floor;
pub mod grouping;
pub mod refusal_memory;

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp, civil::Date};

use self::{floor::FloorCheck, grouping::JoinOutcome};
pub use self::{
    floor::{PassedTasks, TaskCost},
    grouping::{Grouping, WaitingReview, WaitingReviews},
};
use umbra_domain::{BatchRules, CostControl, NanoUsd, Shadow, SkipReason, Trigger};

#[cfg(test)]
mod tests;

/// Most reviews of one task: one when it is complete, and one after late events.
const TASK_ROUNDS: u32 = 2;
/// Time that a review caused by a late event waits for more of them.
const LATE_WAIT: SignedDuration = SignedDuration::from_secs(10);

/// Unit of a sample: millionths.
pub const SAMPLE_SCALE: u32 = 1_000_000;

/// Facts that [`gate`] decides from.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// True if the event may be Umbra's own traffic.
    pub own_traffic: bool,
    /// Position of the event in the sample, below [`SAMPLE_SCALE`].
    pub sample: u32,
    /// Cost of the event's task.
    pub cost: TaskCost,
    /// True if the event has a critical mark, which the floor does not hold back.
    pub critical: bool,
}

/// Pair of event and shadow that passed the gate.
#[derive(Debug, Clone, Default)]
pub struct ReviewCandidate {
    /// Position of the shadow in the caller's list.
    pub shadow: usize,
    /// Name of the watched agent.
    pub agent: String,
    /// All triggers that matched, the pair's own first.
    pub matched: Vec<Trigger>,
    /// Highest possible cost of its review: money (if the model has a price) and tokens.
    pub worst: WorstCaseCost,
    /// True if a person asked for the review: caps hold it back, the cooldown does not.
    pub on_demand: bool,
    /// Way in which it may share a review.
    pub company: Grouping,
    /// Cost floor of the shadow, where the event alone does not pass it.
    pub floor: Option<NanoUsd>,
    /// Cost of the event's task, once it is known; an unknown cost passes the floor.
    pub task_cost: Option<NanoUsd>,
    /// Names of its critical marks: one that was not queued lately overrides cooldown and floor.
    pub critical: Vec<String>,
}

impl ReviewCandidate {
    /// Applies a shadow's cost floor, with the known cost of the task.
    #[must_use]
    pub fn held_to_floor(self, shadow: &Shadow, cost: TaskCost) -> Self {
        let floor = shadow.cost_control.skip_if_task_cost_below;
        let floor = floor.filter(|_| cost.check(shadow) != FloorCheck::Passed);
        Self { floor, task_cost: if let TaskCost::Known(cost) = cost { cost } else { None }, ..self }
    }

    /// True if the task has cost less than the floor.
    pub fn is_below_floor(&self) -> bool {
        self.floor.zip(self.task_cost).is_some_and(|(floor, cost)| cost < floor)
    }
}

/// Highest possible cost of a review's calls, one at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorstCaseCost {
    /// Cost in money.
    pub usd: NanoUsd,
    /// Cost in tokens.
    pub tokens: u64,
}

/// Meter of a day as it was locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayMeter {
    /// Local day.
    pub day: Date,
    /// Number of reserved reviews.
    pub used: i64,
    /// Money spent.
    pub spent_usd: NanoUsd,
    /// Tokens spent.
    pub spent_tokens: u64,
}

/// Meters of a flush, by shadow position, agent and trigger.
#[derive(Debug, Clone, Default)]
pub struct Meters {
    /// Day meters of shadows.
    pub days: HashMap<usize, DayMeter>,
    /// Day meters of targets.
    pub targets: HashMap<(usize, String), DayMeter>,
    /// Ends of cooldowns.
    pub cooldowns: HashMap<(usize, String, Trigger), Timestamp>,
    /// Times from which a critical mark, by its name, overrides a cooldown again.
    pub marks: HashMap<(usize, String, String), Timestamp>,
    /// Waiting reviews that take further events.
    pub waitings: WaitingReviews,
}

/// Decision about a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetDecision {
    /// A review is reserved, on this day.
    Reserve(Date),
    /// A waiting review is reserved on this day: the one at this index of [`WaitingReviews::all`].
    Open(Date, usize),
    /// The event joins the waiting review at this index.
    Join(usize),
    /// The event is ignored: a step of a task that needs no new review.
    Pass,
    /// The event is skipped.
    Skip(SkipReason),
}

/// Decision with the trigger that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TriggeredDecision {
    /// Decision about the candidate.
    pub decision: BudgetDecision,
    /// Trigger of the pair; where that cools down and another matched one does not, the other.
    pub trigger: Option<Trigger>,
}

/// Applies the gates that need no database, in order of precedence; `None` if the pair passes them.
pub fn gate(shadow: &Shadow, facts: Facts) -> Option<SkipReason> {
    if !shadow.enabled {
        Some(SkipReason::ShadowDisabled)
    } else if facts.own_traffic {
        Some(SkipReason::LoopGuard)
    } else if facts.sample >= shadow.cost_control.sample_ppm {
        Some(SkipReason::NotSampled)
    } else if !facts.critical && facts.cost.check(shadow) == FloorCheck::Below {
        Some(SkipReason::CostBelowFloor)
    } else {
        None
    }
}

/// Decides about candidates in order of receipt against locked meters, and updates these: a unit that one reserves is
/// used for the next. `overloaded`: too many reviews wait already.
pub fn decide(
    shadows: &[&CostControl],
    candidates: &[ReviewCandidate],
    meters: &mut Meters,
    now: Timestamp,
    overloaded: bool,
) -> Vec<TriggeredDecision> {
    candidates
        .iter()
        .map(|candidate| {
            let trigger = named_trigger(candidate, meters, now);
            let decision = match shadows.get(candidate.shadow) {
                Some(control) => decide_one(control, candidate, meters, now, overloaded),
                None => BudgetDecision::Skip(SkipReason::ShadowDisabled),
            };
            TriggeredDecision { decision, trigger }
        })
        .collect()
}

/// Returns the first matched trigger that does not cool down, else the first.
fn named_trigger(candidate: &ReviewCandidate, meters: &Meters, now: Timestamp) -> Option<Trigger> {
    let cools = |trigger: &Trigger| {
        let key = (candidate.shadow, candidate.agent.clone(), *trigger);
        meters.cooldowns.get(&key).is_some_and(|until| *until > now)
    };
    let matched = &candidate.matched;
    matched.iter().find(|trigger| candidate.on_demand || !cools(trigger)).or(matched.first()).copied()
}

fn decide_one(
    control: &CostControl,
    candidate: &ReviewCandidate,
    meters: &mut Meters,
    now: Timestamp,
    overloaded: bool,
) -> BudgetDecision {
    let ReviewCandidate { shadow, agent, matched, worst, on_demand, company, .. } = candidate;
    let urgent = is_urgent(candidate, meters, now);
    if candidate.is_below_floor() && !urgent {
        return match company {
            Grouping::Task { completes: false, .. } => BudgetDecision::Pass,
            _ => BudgetDecision::Skip(SkipReason::CostBelowFloor),
        };
    }
    // End of the cooldown of the first trigger to cool down; `None` is now.
    let cooled = matched.iter().map(|trigger| meters.cooldowns.get(&(*shadow, agent.clone(), *trigger)).copied());
    let cools_until = cooled.min().flatten().filter(|until| *until > now && !control.cooldown.is_zero() && !on_demand);
    // A review that overrides a cooldown does not wait for its end in a batch.
    let alone = urgent && cools_until.is_some();
    let cools_until = cools_until.filter(|_| !urgent);
    let mut not_before = now;
    let mut cools = !control.cooldown.is_zero();
    match company {
        Grouping::Batch(chars) if !alone && let Some(rules) = batch_of(control, *chars) => {
            match meters.waitings.join(*shadow, agent, *chars, rules, now) {
                JoinOutcome::Joined(place) => {
                    note_marks(control, candidate, meters, now);
                    return BudgetDecision::Join(place);
                }
                JoinOutcome::Full => return BudgetDecision::Skip(SkipReason::Cooldown),
                JoinOutcome::None => not_before = cools_until.unwrap_or(now),
            }
        }
        Grouping::Task { id, completes } => match (meters.waitings.rounds(*shadow, id), completes) {
            (0 | TASK_ROUNDS.., false) => return BudgetDecision::Pass,
            (1.., false) if meters.waitings.is_ahead(*shadow, id) => return BudgetDecision::Pass,
            (1.., true) if let Some(place) = meters.waitings.join_task(*shadow, id) => {
                return BudgetDecision::Join(place);
            }
            (TASK_ROUNDS.., true) => return BudgetDecision::Skip(SkipReason::Cooldown),
            (0, true) if cools_until.is_some() => return BudgetDecision::Skip(SkipReason::Cooldown),
            // Late events follow soon: no cooldown holds back their review, nor does it begin one.
            (rounds, _) => cools &= rounds == 0,
        },
        _ if cools_until.is_some() => return BudgetDecision::Skip(SkipReason::Cooldown),
        _ => {}
    }
    let target = meters.targets.get_mut(&(*shadow, agent.clone()));
    // Nothing is reserved that cannot be counted.
    let Some((day, target)) = meters.days.get_mut(shadow).zip(target) else {
        return BudgetDecision::Skip(SkipReason::Overload);
    };
    let full = |used: i64, cap: Option<u32>| cap.is_some_and(|cap| used >= i64::from(cap));
    if full(target.used, control.max_reviews_per_target_per_day) {
        return BudgetDecision::Skip(SkipReason::TargetCap);
    }
    if full(day.used, control.max_reviews_per_day) {
        return BudgetDecision::Skip(SkipReason::DailyCap);
    }
    if control.max_tokens_per_day.is_some_and(|cap| day.spent_tokens.saturating_add(worst.tokens) > cap) {
        return BudgetDecision::Skip(SkipReason::TokenCap);
    }
    if control.max_usd_per_day.is_some_and(|cap| day.spent_usd + worst.usd > cap) {
        return BudgetDecision::Skip(SkipReason::UsdCap);
    }
    if overloaded {
        return BudgetDecision::Skip(SkipReason::Overload);
    }
    day.used += 1;
    target.used += 1;
    let day = day.day;
    if cools {
        let until = not_before.saturating_add(signed(control.cooldown)).unwrap_or(not_before);
        for trigger in matched {
            let end = meters.cooldowns.entry((*shadow, agent.clone(), *trigger)).or_insert(until);
            *end = until.max(*end);
        }
    }
    note_marks(control, candidate, meters, now);
    match company {
        Grouping::Batch(chars) if !alone && let Some(rules) = batch_of(control, *chars) => {
            BudgetDecision::Open(day, meters.waitings.open((*shadow, agent), *chars, rules, now, not_before))
        }
        Grouping::Task { id, .. } => {
            let late = meters.waitings.rounds(*shadow, id) > 0;
            let wait = if late { LATE_WAIT } else { SignedDuration::ZERO };
            let run_at = now.saturating_add(wait).unwrap_or(now);
            BudgetDecision::Open(day, meters.waitings.open_task(*shadow, id, now, run_at))
        }
        _ => BudgetDecision::Reserve(day),
    }
}

/// True if one of its critical marks was not queued lately.
fn is_urgent(candidate: &ReviewCandidate, meters: &Meters, now: Timestamp) -> bool {
    let rests = |mark: &String| {
        let key = (candidate.shadow, candidate.agent.clone(), mark.clone());
        meters.marks.get(&key).is_some_and(|until| *until > now)
    };
    candidate.critical.iter().any(|mark| !rests(mark))
}

/// Records that its critical marks are queued: none of them overrides a cooldown for as long as one lasts, nor before
/// the end of the hour in which its findings collapse.
fn note_marks(control: &CostControl, candidate: &ReviewCandidate, meters: &mut Meters, now: Timestamp) {
    const HOUR: i64 = 3_600;
    let hour_ends = Timestamp::from_second((now.as_second().div_euclid(HOUR) + 1).saturating_mul(HOUR)).unwrap_or(now);
    let until = now.saturating_add(signed(control.cooldown)).unwrap_or(now).max(hour_ends);
    for mark in &candidate.critical {
        meters.marks.insert((candidate.shadow, candidate.agent.clone(), mark.clone()), until);
    }
}

/// Returns the rules by which an event of so many characters may join a batch, if it is not too large alone.
fn batch_of(control: &CostControl, chars: u64) -> Option<BatchRules> {
    control.batch.filter(|rules| chars <= u64::from(rules.max_chars))
}

/// Returns the end of the local day of `now`, until which a spent cap refuses. `None` where there is no such zone.
pub fn day_end(now: Timestamp, zone: &str) -> Option<Timestamp> {
    refusal_memory::end_of(now.in_tz(zone).ok()?.date(), zone)
}

fn signed(duration: std::time::Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}
