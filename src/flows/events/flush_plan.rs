//! Plan of one flush: the rows to store, after `budget` has decided the pairs of its events under the locked meters.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap, HashSet},
};

use jiff::{Timestamp, civil::Date};

use crate::{
    budget::{
        self, BudgetDecision, DayMeter, Grouping, Meters, ReviewCandidate, TriggeredDecision, WaitingReview,
        refusal_memory::ReleasePeriod,
    },
    flows::{
        active_configuration::{ActiveConfiguration, ActiveShadow},
        events::{
            Reservations,
            pending::{Pair, Pending},
            task_costs::TaskCosts,
        },
    },
    queue::LeasedJob,
    telemetry::metric,
};
use umbra_domain::{
    Disposition, NanoUsd, Outcome, ReviewId, ReviewScope, SkipReason, Trigger,
    disposition::{BATCHED_CODE, QUEUED_CODE},
};
use umbra_store::{
    Store, StoreError,
    intake::{
        FlushRows, JoinedReview, MeterChange, MeterKey, MeterRow, NewEvent, NewLink, NewPair, NewReview, SkipTally,
    },
    jobs::{Job, Lease},
    waiting::{OpenBatch, ReviewedTask},
};

/// The plan of a flush.
pub(in crate::flows) struct Plan<'a> {
    reservations: &'a Reservations,
    events: &'a [&'a Pending],
    /// Pairs of each event that need an answer.
    pairs: Vec<Vec<&'a Pair>>,
    /// Pairs that need a decision, in order of receipt.
    pub candidates: Vec<ReviewCandidate>,
    decisions: Vec<TriggeredDecision>,
    /// The locked meters as this flush leaves them, and the database's time when it locked them.
    decided: Option<(Meters, Timestamp)>,
    changes: Vec<MeterChange>,
    era: ReleasePeriod,
    /// True if this process takes reviews at once, as far as it has free slots.
    leases: bool,
}

/// Result of a plan.
pub(in crate::flows) struct Planned<'a> {
    /// Rows to store.
    pub writing: FlushRows<'a>,
    /// Dispositions of each event, in the order of events.
    pub dispositions: Vec<Vec<Disposition>>,
    /// Jobs that this process takes at once.
    pub handed: Vec<LeasedJob>,
    /// Refusals to remember once the flush is committed.
    pub refusals: Refusals,
    /// Time of the decision, by the database's clock.
    pub now: Option<Timestamp>,
}

/// Refusals that may hold for a while.
#[derive(Default)]
pub(in crate::flows) struct Refusals {
    decided: Option<(Meters, Timestamp)>,
    era: ReleasePeriod,
    of: Vec<(ReviewCandidate, SkipReason)>,
}

impl Refusals {
    /// Remembers the refusals. Call it after the commit: a flush that is rolled back has spent nothing.
    pub fn remember(self, rules: &ActiveConfiguration) {
        let Some((meters, now)) = self.decided else { return };
        for (candidate, reason) in &self.of {
            if let Some(armed) = rules.shadows.get(candidate.shadow) {
                rules.memory.note(self.era, &armed.shadow.cost_control, candidate, &meters, *reason, now);
            }
        }
    }
}

impl<'a> Plan<'a> {
    /// Collects the candidates of events, which all come under the same rules. Steps of tasks count only if they come
    /// late.
    pub fn new(reservations: &'a Reservations, events: &'a [&'a Pending], late: &LateTasks, costs: &TaskCosts) -> Self {
        let pairs: Vec<Vec<&Pair>> = events
            .iter()
            .map(|pending| pending.pairs.iter().filter(|pair| late.concern(&pending.rules, pair)).collect())
            .collect();
        let undecided = pairs.iter().enumerate().flat_map(|(event, pairs)| pairs.iter().map(move |pair| (event, pair)));
        let candidate = |(event, pair): (usize, &&Pair)| {
            let candidate = pair.fate.as_ref().ok()?.clone();
            Some(ReviewCandidate { task_cost: candidate.task_cost.or(costs.of(event)), ..candidate })
        };
        let candidates = undecided.filter_map(candidate).collect();
        let era = events.first().map(|pending| pending.rules.memory.era()).unwrap_or_default();
        let (decisions, changes) = (Vec::new(), Vec::new());
        Self { reservations, events, pairs, candidates, decisions, decided: None, changes, era, leases: true }
    }

    /// Returns a plan whose reviews all wait in the queue, each of one event alone.
    pub fn unleased(reservations: &'a Reservations, events: &'a [&'a Pending]) -> Self {
        Self { leases: false, ..Self::new(reservations, events, &LateTasks::default(), &TaskCosts::default()) }
    }

    /// Returns the keys of the open batches that the decision needs: (shadow version, agent), once each.
    pub fn batch_keys(&self) -> Vec<(i32, &str)> {
        let Some(rules) = self.rules() else { return Vec::new() };
        let batched = self.candidates.iter().filter(|candidate| matches!(candidate.company, Grouping::Batch(_)));
        let keys = batched
            .filter_map(|candidate| Some((rules.shadows.get(candidate.shadow)?.version_id, candidate.agent.as_str())));
        keys.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns the keys of the task reviews that the decision needs: (shadow, task), once each.
    pub fn task_keys(&self) -> Vec<(&str, &str)> {
        let Some(rules) = self.rules() else { return Vec::new() };
        self.candidates
            .iter()
            .filter_map(|candidate| task_of(rules, candidate))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    fn rules(&self) -> Option<&'a ActiveConfiguration> {
        self.events.first().map(|pending| &*pending.rules)
    }

    /// Returns the meters that the decision needs: each shadow's day, each target's day, each cooldown; once each.
    pub fn meter_keys(&self) -> Vec<(MeterKey, Option<String>)> {
        let Some(rules) = self.rules() else { return Vec::new() };
        let mut keys = BTreeSet::new();
        let needs_meters = |candidate: &&ReviewCandidate| !candidate.is_below_floor() || !candidate.critical.is_empty();
        for ReviewCandidate { shadow, agent, matched, critical, .. } in self.candidates.iter().filter(needs_meters) {
            let Some(armed) = rules.shadows.get(*shadow) else { continue };
            let control = &armed.shadow.cost_control;
            let key = |agent: &str, trigger: Cow<'static, str>| MeterKey {
                shadow: armed.shadow.name.clone(),
                agent: agent.into(),
                trigger,
            };
            keys.insert((key("", "".into()), Some(control.time_zone.clone())));
            keys.insert((key(agent, "".into()), Some(control.time_zone.clone())));
            if !control.cooldown.is_zero() {
                keys.extend(matched.iter().map(|trigger| (key(agent, trigger.as_str().into()), None)));
            }
            keys.extend(critical.iter().map(|mark| (key(agent, mark.clone().into()), None)));
        }
        keys.into_iter().collect()
    }

    /// Decides under the locked meters, and records their changes.
    pub fn decide(
        &mut self,
        now: Timestamp,
        rows: HashMap<MeterKey, MeterRow>,
        batches: Vec<OpenBatch>,
        tasks: Vec<ReviewedTask>,
    ) {
        let Some(rules) = self.rules() else { return };
        let mut after = meters_of(rules, &rows);
        note_waiting(rules, &mut after, now, batches, tasks);
        let overloaded = self.reservations.pulse.depth().0 >= self.reservations.max_queued;
        let controls = rules.controls();
        self.decisions = budget::decide(&controls, &self.candidates, &mut after, now, overloaded);
        self.changes = rows
            .into_iter()
            .filter_map(|(key, row)| {
                let shadow = rules.position(&key.shadow)?;
                let agent = || key.agent.clone();
                let (used, next_at) = match Metered::of(&key) {
                    Metered::Day => (after.days.get(&shadow)?.used - row.used, row.next_at),
                    Metered::Target => (after.targets.get(&(shadow, agent()))?.used - row.used, row.next_at),
                    Metered::Cooldown(trigger) => (0, *after.cooldowns.get(&(shadow, agent(), trigger))?),
                    Metered::Mark(mark) => (0, *after.marks.get(&(shadow, agent(), mark.to_owned()))?),
                };
                let changed = used != 0 || next_at != row.next_at;
                changed.then_some(MeterChange { key, day: row.day, used, next_at, review: None })
            })
            .collect();
        self.decided = Some((after, now));
    }

    /// Builds the rows to store and the answers.
    pub fn finish(self) -> Planned<'a> {
        let Self { reservations, events, pairs: wanted, candidates, decisions, decided, changes, era, leases } = self;
        let shared: Vec<_> = decided.iter().flat_map(|(meters, _)| meters.waitings.all()).cloned().collect();
        let mut names: Vec<Option<ReviewId>> = shared.iter().map(|waiting| waiting.review).collect();
        let refused = candidates.into_iter().zip(&decisions).filter_map(|(candidate, one)| match one.decision {
            BudgetDecision::Skip(reason) => Some((candidate, reason)),
            _ => None,
        });
        let refusals = Refusals { decided: None, era, of: refused.collect() };
        let mut decisions = decisions.into_iter();
        let mut writing = FlushRows { meters: changes, ..FlushRows::default() };
        let mut skips: HashMap<(usize, SkipReason), i64> = HashMap::new();
        let mut all_dispositions = Vec::with_capacity(events.len());
        let mut payloads = HashMap::new();
        for (pending, wanted) in events.iter().zip(wanted) {
            let mut dispositions = Vec::with_capacity(wanted.len());
            let mut pairs = Vec::with_capacity(wanted.len());
            for pair in wanted {
                let Some(armed) = pending.rules.shadows.get(pair.shadow) else { continue };
                let skip = |reason| TriggeredDecision { decision: BudgetDecision::Skip(reason), trigger: None };
                let one = match &pair.fate {
                    Err(reason) => skip(*reason),
                    Ok(_) => decisions.next().unwrap_or_else(|| skip(SkipReason::Overload)),
                };
                let trigger = one.trigger.unwrap_or(pair.trigger);
                let (outcome, reason, review_id) = match one.decision {
                    BudgetDecision::Pass => continue,
                    BudgetDecision::Skip(reason) => {
                        if !pending.on_demand {
                            *skips.entry((pair.shadow, reason)).or_default() += 1;
                        }
                        (Outcome::Skipped, Some(reason), None)
                    }
                    BudgetDecision::Reserve(day) => {
                        let review = new_review(reservations, pending, (armed, trigger), day);
                        let id = review.id;
                        writing.reviews.push(review);
                        payloads.insert(pending.id, &pending.payload);
                        (Outcome::Queued, None, Some(id))
                    }
                    BudgetDecision::Open(day, place) => {
                        let review = new_review(reservations, pending, (armed, trigger), day);
                        let id = Some(review.id);
                        if let (Some(slot), Some(waiting), Some((_, now))) =
                            (names.get_mut(place), shared.get(place), &decided)
                        {
                            *slot = id;
                            writing.reviews.push(as_waiting(review, pair, waiting, *now));
                        }
                        (Outcome::Queued, None, id)
                    }
                    BudgetDecision::Join(place) => (Outcome::Batched, None, names.get(place).copied().flatten()),
                };
                let code = if outcome == Outcome::Batched { BATCHED_CODE } else { QUEUED_CODE };
                pairs.push(NewPair {
                    version: armed.version_id,
                    outcome: reason.map_or(code, SkipReason::code),
                    trigger: trigger.code(),
                });
                if let Some(review) = review_id {
                    writing.links.push(NewLink { review, event: pending.id, version: armed.version_id });
                    note_beginner(&mut writing.meters, &armed.shadow.name, pair, review);
                }
                let (shadow, mode) = (armed.shadow.name.clone(), armed.shadow.mode);
                dispositions.push(Disposition { shadow, trigger, mode, outcome, reason, review_id });
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
        writing.joined = shared.iter().filter_map(joined).collect();
        let now = decided.as_ref().map(|(_, now)| *now);
        let refusals = Refusals { decided, ..refusals };
        let payload = |review: &NewReview| {
            (review.scope == ReviewScope::Event).then(|| payloads.get(&review.event).map(|one| (*one).clone()))?
        };
        let handed = if leases { lease(reservations, &mut writing.reviews, payload) } else { Vec::new() };
        Planned { writing, dispositions: all_dispositions, handed, refusals, now }
    }
}

/// Records the review in the cooldowns that it begins; giving up the review ends them.
fn note_beginner(meters: &mut [MeterChange], shadow: &str, pair: &Pair, review: ReviewId) {
    let Ok(candidate) = &pair.fate else { return };
    let begins = |MeterKey { shadow: of, agent, trigger }: &MeterKey| {
        of == shadow && *agent == candidate.agent && candidate.matched.iter().any(|one| one.as_str() == trigger)
    };
    for meter in meters.iter_mut().filter(|meter| begins(&meter.key)) {
        meter.review = Some(review);
    }
}

/// Returns the new state of an open batch, if this flush has changed it.
fn joined(waiting: &WaitingReview) -> Option<JoinedReview> {
    let WaitingReview { review, events, chars, run_at, changed, .. } = waiting;
    let id = review.filter(|_| *changed)?;
    Some(JoinedReview { id, events: *events, chars: *chars, run_at: *run_at })
}

fn meters_of(rules: &ActiveConfiguration, rows: &HashMap<MeterKey, MeterRow>) -> Meters {
    let mut meters = Meters::default();
    for (key, row) in rows {
        let Some(shadow) = rules.position(&key.shadow) else { continue };
        let day = DayMeter {
            day: row.day,
            used: row.used,
            spent_usd: NanoUsd(row.spent_usd),
            spent_tokens: u64::try_from(row.spent_tokens).unwrap_or(0),
        };
        let agent = || key.agent.clone();
        match Metered::of(key) {
            Metered::Day => drop(meters.days.insert(shadow, day)),
            Metered::Target => drop(meters.targets.insert((shadow, agent()), day)),
            Metered::Cooldown(trigger) => drop(meters.cooldowns.insert((shadow, agent(), trigger), row.next_at)),
            Metered::Mark(mark) => drop(meters.marks.insert((shadow, agent(), mark.to_owned()), row.next_at)),
        }
    }
    meters
}

/// Kind of a meter.
enum Metered<'a> {
    Day,
    Target,
    Cooldown(Trigger),
    Mark(&'a str),
}

impl<'a> Metered<'a> {
    fn of(key: &'a MeterKey) -> Self {
        match (&*key.agent, &*key.trigger) {
            ("", _) => Self::Day,
            (_, "") => Self::Target,
            (_, word) => Trigger::parse(word).map_or(Self::Mark(word), Self::Cooldown),
        }
    }
}

/// Adds open batches and reviewed tasks to the meters.
fn note_waiting(
    rules: &ActiveConfiguration,
    meters: &mut Meters,
    now: Timestamp,
    batches: Vec<OpenBatch>,
    tasks: Vec<ReviewedTask>,
) {
    for batch in batches {
        let OpenBatch { review, version, agent, events, chars, not_before, run_at } = batch;
        let Some(shadow) = rules.shadows.iter().position(|armed| armed.version_id == version) else { continue };
        let waiting = WaitingReview { review: Some(review), events, chars, not_before, run_at, changed: false };
        meters.waitings.found(shadow, &agent, waiting);
    }
    for ReviewedTask { shadow, task, rounds, waiting } in tasks {
        let Some(shadow) = rules.position(&shadow) else { continue };
        meters.waitings.reviewed(shadow, &task, rounds);
        if let Some((review, events, run_at)) = waiting {
            let waiting =
                WaitingReview { review: Some(review), events, chars: 0, not_before: now, run_at, changed: false };
            meters.waitings.found(shadow, &task, waiting);
        }
    }
}

/// Returns the shadow's name and the task of a candidate.
fn task_of<'a>(rules: &'a ActiveConfiguration, candidate: &'a ReviewCandidate) -> Option<(&'a str, &'a str)> {
    let Grouping::Task { id, .. } = &candidate.company else { return None };
    Some((rules.shadows.get(candidate.shadow)?.shadow.name.as_str(), id))
}

/// Tasks whose only review has begun, so that a further step comes late.
#[derive(Debug, Default)]
pub(in crate::flows) struct LateTasks(HashSet<(String, String)>);

impl LateTasks {
    /// Looks up the tasks of all steps among these events.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn among(store: &Store, events: &[&Pending]) -> Result<Self, StoreError> {
        let steps = events.iter().flat_map(|pending| {
            let steps = pending.pairs.iter().filter(|pair| is_step(pair));
            steps.filter_map(|pair| task_of(&pending.rules, pair.fate.as_ref().ok()?))
        });
        let keys: Vec<(&str, &str)> = steps.collect::<BTreeSet<_>>().into_iter().collect();
        if keys.is_empty() { Ok(Self::default()) } else { Ok(Self(store.events().begun_once(&keys).await?)) }
    }

    /// True if a pair needs an answer; a step needs one only if it comes late.
    pub fn concern(&self, rules: &ActiveConfiguration, pair: &Pair) -> bool {
        let task = pair.fate.as_ref().ok().and_then(|candidate| task_of(rules, candidate));
        !is_step(pair) || task.is_some_and(|(shadow, task)| self.0.contains(&(shadow.to_owned(), task.to_owned())))
    }
}

fn is_step(pair: &Pair) -> bool {
    matches!(&pair.fate, Ok(ReviewCandidate { company: Grouping::Task { completes: false, .. }, .. }))
}

/// Returns the review, made to wait as `budget` has decided.
fn as_waiting(review: NewReview, pair: &Pair, waiting: &WaitingReview, now: Timestamp) -> NewReview {
    let of_task = matches!(&pair.fate, Ok(ReviewCandidate { company: Grouping::Task { .. }, .. }));
    NewReview {
        scope: if of_task { ReviewScope::Trajectory } else { ReviewScope::Batch },
        events: waiting.events,
        chars: waiting.chars,
        waits: (waiting.run_at > now).then_some((waiting.not_before, waiting.run_at)),
        ..review
    }
}

fn new_review(
    reservations: &Reservations,
    pending: &Pending,
    (armed, trigger): (&ActiveShadow, Trigger),
    day: Date,
) -> NewReview {
    NewReview {
        id: ReviewId(reservations.clock.new_id()),
        shadow: armed.shadow.name.clone(),
        version: armed.version_id,
        agent: pending.agent.clone(),
        task_id: pending.task_id.clone(),
        trigger,
        priority: armed.shadow.mode.priority(),
        day,
        event: pending.id,
        scope: ReviewScope::Event,
        events: 1,
        chars: 0,
        waits: None,
        worker: None,
    }
}

/// Leases reviews to this process as far as it has free slots, the most urgent first.
fn lease(
    reservations: &Reservations,
    reviews: &mut [NewReview],
    payload: impl Fn(&NewReview) -> Option<Vec<u8>>,
) -> Vec<LeasedJob> {
    let mut order: Vec<&mut NewReview> = reviews.iter_mut().filter(|review| review.waits.is_none()).collect();
    order.sort_by_key(|review| review.priority);
    let mut handed: Vec<LeasedJob> = Vec::new();
    for review in order {
        let Some((worker, permit)) = reservations.intake.reserve_slot(review.priority) else { continue };
        review.worker = Some(worker);
        handed.push(LeasedJob { job: job(review, worker, reservations.clock.now()), payload: payload(review), permit });
    }
    handed
}

fn job(review: &NewReview, worker: umbra_domain::WorkerId, now: Timestamp) -> Job {
    Job {
        review: review.id,
        lease: Lease { worker, attempt: 1 },
        version: review.version,
        shadow: review.shadow.clone(),
        agent: review.agent.clone(),
        trigger: review.trigger,
        priority: review.priority,
        event: review.event,
        scope: review.scope,
        started_at: now,
    }
}

fn tally(rules: &ActiveConfiguration, (shadow, reason): (usize, SkipReason), n: i64) -> Option<SkipTally> {
    let shadow = &rules.shadows.get(shadow)?.shadow;
    Some(SkipTally { shadow: shadow.name.clone(), reason, zone: shadow.cost_control.time_zone.clone(), n })
}

/// Counts the pairs of a flush by outcome, once per flush: a counter with labels costs more than the rest of a pair.
fn count(rules: &ActiveConfiguration, skips: &HashMap<(usize, SkipReason), i64>, reviews: &[NewReview]) {
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
