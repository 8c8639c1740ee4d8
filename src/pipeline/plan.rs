//! What one flush stores: the pairs of its events, decided by `budget` under the locked meters.

use std::collections::{BTreeSet, HashMap};

use jiff::{Timestamp, civil::Date};

use super::{Pipeline, Rules, pending::Pending};
use crate::{
    budget::{self, Candidate, DayMeter, Decision, Meters, memory::Era},
    domain::{Disposition, NanoUsd, Outcome, ReviewId, SkipReason, Trigger, disposition::QUEUED_CODE},
    queue::Handed,
    store::{
        intake::{MeterChange, MeterKey, MeterRow, NewEvent, NewPair, NewReview, SkipTally, Writing},
        jobs::{Job, Lease},
    },
    telemetry::metric,
};

/// The plan of a flush.
pub(super) struct Plan<'a> {
    pipeline: &'a Pipeline,
    events: &'a [&'a Pending],
    /// The pairs that need a decision, in order of receipt.
    pub candidates: Vec<Candidate>,
    decisions: Vec<Decision>,
    /// The locked meters as this flush leaves them, and the database's time when it locked them.
    decided: Option<(Meters, Timestamp)>,
    changes: Vec<MeterChange>,
    era: Era,
    /// Whether this process takes reviews at once, as far as it has places.
    leases: bool,
}

/// What a plan comes to.
pub(super) struct Planned<'a> {
    /// What is to be stored.
    pub writing: Writing<'a>,
    /// Of each event, in their order.
    pub dispositions: Vec<Vec<Disposition>>,
    /// The jobs that this process takes at once.
    pub handed: Vec<Handed>,
    /// What to remember once the flush is committed.
    pub refusals: Refusals,
}

/// Refusals that may stand for a while.
#[derive(Default)]
pub(super) struct Refusals {
    decided: Option<(Meters, Timestamp)>,
    era: Era,
    of: Vec<(Candidate, SkipReason)>,
}

impl Refusals {
    /// Remembers them. Not before the commit: a flush that is rolled back has spent nothing.
    pub fn remember(self, rules: &Rules) {
        let Some((meters, now)) = self.decided else { return };
        for (candidate, reason) in &self.of {
            if let Some(armed) = rules.shadows.get(candidate.shadow) {
                rules.memory.note(self.era, &armed.shadow.cost_control, candidate, &meters, *reason, now);
            }
        }
    }
}

impl<'a> Plan<'a> {
    /// Collects the candidates of events, which all come under the same rules.
    pub fn new(pipeline: &'a Pipeline, events: &'a [&'a Pending]) -> Self {
        let pairs = events.iter().flat_map(|pending| &pending.pairs);
        let candidates = pairs.filter_map(|pair| pair.fate.as_ref().ok().cloned()).collect();
        let era = events.first().map(|pending| pending.rules.memory.era()).unwrap_or_default();
        let (decisions, changes) = (Vec::new(), Vec::new());
        Self { pipeline, events, candidates, decisions, decided: None, changes, era, leases: true }
    }

    /// The same, but every review waits in the queue for whoever claims it.
    pub fn unleased(pipeline: &'a Pipeline, events: &'a [&'a Pending]) -> Self {
        Self { leases: false, ..Self::new(pipeline, events) }
    }

    fn rules(&self) -> Option<&'a Rules> {
        self.events.first().map(|pending| &*pending.rules)
    }

    /// The meters that the decision needs: each shadow's day, each target's day, each cooldown; once each.
    pub fn meter_keys(&self) -> Vec<(MeterKey, Option<String>)> {
        let Some(rules) = self.rules() else { return Vec::new() };
        let mut keys = BTreeSet::new();
        for Candidate { shadow, agent, matched, .. } in &self.candidates {
            let Some(armed) = rules.shadows.get(*shadow) else { continue };
            let control = &armed.shadow.cost_control;
            let key =
                |agent: &str, trigger| MeterKey { shadow: armed.shadow.name.clone(), agent: agent.into(), trigger };
            keys.insert((key("", ""), Some(control.time_zone.clone())));
            keys.insert((key(agent, ""), Some(control.time_zone.clone())));
            if !control.cooldown.is_zero() {
                keys.extend(matched.iter().map(|trigger| (key(agent, trigger.as_str()), None)));
            }
        }
        keys.into_iter().collect()
    }

    /// Decides under the locked meters, and notes what changes.
    pub fn decide(&mut self, now: Timestamp, rows: HashMap<MeterKey, MeterRow>) {
        let Some(rules) = self.rules() else { return };
        let mut after = meters_of(rules, &rows);
        let overloaded = self.pipeline.pulse.depth().0 >= self.pipeline.patience.max_queued;
        let controls = rules.controls();
        self.decisions = budget::decide(&controls, &self.candidates, &mut after, now, overloaded);
        self.changes = rows
            .into_iter()
            .filter_map(|(key, row)| {
                let shadow = rules.position(&key.shadow)?;
                let (used, next_at) = match (key.agent.is_empty(), Trigger::parse_stored(key.trigger)) {
                    (true, Some(_)) => return None,
                    (true, None) => (after.days.get(&shadow)?.used - row.used, row.next_at),
                    (false, None) => (after.targets.get(&(shadow, key.agent.clone()))?.used - row.used, row.next_at),
                    (false, Some(trigger)) => (0, *after.cooldowns.get(&(shadow, key.agent.clone(), trigger))?),
                };
                (used != 0 || next_at != row.next_at).then_some(MeterChange { key, day: row.day, used, next_at })
            })
            .collect();
        self.decided = Some((after, now));
    }

    /// Puts together what is to be stored and what is to be answered.
    pub fn finish(self) -> Planned<'a> {
        let Self { pipeline, events, candidates, decisions, decided, changes, era, leases } = self;
        let refused = candidates.into_iter().zip(&decisions).filter_map(|(candidate, decision)| match decision {
            Decision::Skip(reason) => Some((candidate, *reason)),
            Decision::Reserve(_) => None,
        });
        let refusals = Refusals { decided, era, of: refused.collect() };
        let mut decisions = decisions.into_iter();
        let mut writing = Writing { meters: changes, ..Writing::default() };
        let mut skips: HashMap<(usize, SkipReason), i64> = HashMap::new();
        let mut all_dispositions = Vec::with_capacity(events.len());
        let mut payloads = HashMap::new();
        for pending in events {
            let mut dispositions = Vec::with_capacity(pending.pairs.len());
            let mut pairs = Vec::with_capacity(pending.pairs.len());
            for pair in &pending.pairs {
                let Some(armed) = pending.rules.shadows.get(pair.shadow) else { continue };
                let decision = match &pair.fate {
                    Err(reason) => Decision::Skip(*reason),
                    Ok(_) => decisions.next().unwrap_or(Decision::Skip(SkipReason::Overload)),
                };
                let (outcome, reason, review_id) = match decision {
                    Decision::Skip(reason) => {
                        if !pending.on_demand {
                            *skips.entry((pair.shadow, reason)).or_default() += 1;
                        }
                        (Outcome::Skipped, Some(reason), None)
                    }
                    Decision::Reserve(day) => {
                        let review = new_review(pipeline, pending, pair.shadow, pair.trigger, day);
                        let id = review.as_ref().map(|review| review.id);
                        writing.reviews.extend(review);
                        payloads.insert(pending.id, &pending.payload);
                        (Outcome::Queued, None, id)
                    }
                };
                pairs.push(NewPair {
                    version: armed.version_id,
                    outcome: reason.map_or(QUEUED_CODE, SkipReason::code),
                    trigger: pair.trigger.code(),
                });
                let (shadow, mode) = (armed.shadow.name.clone(), armed.shadow.mode);
                dispositions.push(Disposition { shadow, trigger: pair.trigger, mode, outcome, reason, review_id });
            }
            let refused = pending.is_refused(&dispositions);
            all_dispositions.push(dispositions);
            if refused {
                continue;
            }
            writing.events.push(NewEvent {
                id: pending.id,
                agent: &pending.agent,
                task_id: pending.task_id.as_deref(),
                pairs,
                payload: &pending.payload,
            });
        }
        if let Some(first) = events.first() {
            count(&first.rules, &skips, &writing.reviews);
            writing.skips = skips.into_iter().filter_map(|(key, n)| tally(&first.rules, key, n)).collect();
        }
        let payload = |review: &NewReview| payloads.get(&review.event).map(|p| (*p).clone());
        let handed = if leases { lease(pipeline, &mut writing.reviews, payload) } else { Vec::new() };
        Planned { writing, dispositions: all_dispositions, handed, refusals }
    }
}

fn meters_of(rules: &Rules, rows: &HashMap<MeterKey, MeterRow>) -> Meters {
    let mut meters = Meters::default();
    for (key, row) in rows {
        let Some(shadow) = rules.position(&key.shadow) else { continue };
        let day = DayMeter {
            day: row.day,
            used: row.used,
            spent_usd: NanoUsd(row.spent_usd),
            spent_tokens: u64::try_from(row.spent_tokens).unwrap_or(0),
        };
        match (key.agent.is_empty(), Trigger::parse_stored(key.trigger)) {
            // No agent is nameless.
            (true, Some(_)) => {}
            (true, None) => drop(meters.days.insert(shadow, day)),
            (false, None) => drop(meters.targets.insert((shadow, key.agent.clone()), day)),
            (false, Some(trigger)) => drop(meters.cooldowns.insert((shadow, key.agent.clone(), trigger), row.next_at)),
        }
    }
    meters
}

fn new_review(pipeline: &Pipeline, pending: &Pending, shadow: usize, trigger: Trigger, day: Date) -> Option<NewReview> {
    let armed = pending.rules.shadows.get(shadow)?;
    Some(NewReview {
        id: ReviewId(pipeline.clock.new_id()),
        shadow: armed.shadow.name.clone(),
        version: armed.version_id,
        agent: pending.agent.clone(),
        task_id: pending.task_id.clone(),
        trigger,
        priority: armed.shadow.mode.priority(),
        day,
        event: pending.id,
        worker: None,
    })
}

/// Leases reviews to this process as far as it has places, the most urgent first.
fn lease(
    pipeline: &Pipeline,
    reviews: &mut [NewReview],
    payload: impl Fn(&NewReview) -> Option<Vec<u8>>,
) -> Vec<Handed> {
    let mut order: Vec<&mut NewReview> = reviews.iter_mut().collect();
    order.sort_by_key(|review| review.priority);
    let mut handed: Vec<Handed> = Vec::new();
    for review in order {
        let Some((worker, permit)) = pipeline.intake.place(review.priority) else { continue };
        review.worker = Some(worker);
        handed.push(Handed { job: job(review, worker), payload: payload(review), permit });
    }
    handed
}

fn job(review: &NewReview, worker: crate::domain::WorkerId) -> Job {
    Job {
        review: review.id,
        lease: Lease { worker, attempt: 1 },
        version: review.version,
        shadow: review.shadow.clone(),
        agent: review.agent.clone(),
        trigger: review.trigger,
        priority: review.priority,
        event: review.event,
    }
}

fn tally(rules: &Rules, (shadow, reason): (usize, SkipReason), n: i64) -> Option<SkipTally> {
    let shadow = &rules.shadows.get(shadow)?.shadow;
    Some(SkipTally { shadow: shadow.name.clone(), reason, zone: shadow.cost_control.time_zone.clone(), n })
}

/// Counts once a flush what became of its pairs: a counter with labels costs more than the rest of a pair.
fn count(rules: &Rules, skips: &HashMap<(usize, SkipReason), i64>, reviews: &[NewReview]) {
    for ((shadow, reason), n) in skips {
        let Some(armed) = rules.shadows.get(*shadow) else { continue };
        metrics::counter!(metric::DISPOSITIONS,
            "shadow" => armed.shadow.name.clone(), "outcome" => "skipped", "reason" => reason.as_str())
        .increment(n.unsigned_abs());
    }
    for review in reviews {
        metrics::counter!(metric::DISPOSITIONS,
            "shadow" => review.shadow.clone(), "outcome" => "queued", "reason" => "")
        .increment(1);
    }
}
