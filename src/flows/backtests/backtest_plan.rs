//! Planning of a backtest: reads the stored events of a span, and forecasts reviews and their cost.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;

use super::simulate::Simulation;
use crate::{
    budget::{Facts, ReviewCandidate, TaskCost, WorstCaseCost},
    flows::{
        backtests::Backtests,
        events::accept::{critical_marks, is_own_traffic, sample, worst_case},
    },
    watch::{Match, Watcher},
};
use umbra_domain::{
    BacktestId, Event, EventId, Forecast, ItemOutcome, NanoUsd, ReviewScope, Shadow, SkipReason, StoredEvent, Trigger,
    backtest::Basis,
};
use umbra_llm::{Gateway, Usage};
use umbra_review::EventInput;
use umbra_store::{
    StoreError,
    backtests::{MAX_OPEN, NewBacktest, NewItem, StoredRow},
    calls::MAX_CALLS,
    events::received_at,
    installation::Installation,
};

/// Events per page: some 25 MiB if all have the largest size that is accepted.
const PAGE: u32 = 100;
/// Approximate bytes of English text or code per token.
const BYTES_A_TOKEN: usize = 4;
/// Tokens of an ordinary reply: an assessment, a recommendation, a finding or two.
const REPLY_TOKENS: u32 = 300;
/// Nonce of prompts that are only measured.
const MEASURE: &str = "00000000000000000000000000000000";

/// A version to try, and the events to try it on.
#[derive(Debug, Clone)]
pub struct PlannedBacktest {
    /// The version.
    pub shadow: Shadow,
    /// True if a server is to run the backtest.
    pub by_server: bool,
    /// Earliest time of receipt, inclusive.
    pub since: Timestamp,
    /// Latest time of receipt, exclusive.
    pub until: Timestamp,
    /// Agent whose events are tried; all agents if `None`.
    pub agent: Option<String>,
    /// Most events; the newest are tried.
    pub max_events: u32,
    /// Most money that the backtest may spend.
    pub max_usd: Option<NanoUsd>,
    /// Most tokens that the backtest may spend.
    pub max_tokens: Option<u64>,
}

/// Reason why nothing is planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// An agent pattern is malformed.
    #[error(transparent)]
    Pattern(#[from] globset::Error),
    /// The shadow reviews whole tasks, which backtests do not support.
    #[error("a backtest reviews each event by itself: a shadow with scope: trajectory cannot be backtested")]
    OfTasks,
    /// Too many backtests are unfinished.
    #[error(
        "{MAX_OPEN} backtests are not finished, the most there may be: wait until they end, or delete some (DELETE \
         /v1/backtests/ID)"
    )]
    TooMany,
    /// The backtest was deleted while it was planned.
    #[error("the backtest was deleted during its planning")]
    Deleted,
    /// The database does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl PlannedBacktest {
    /// True if a model would be called without a binding limit: of money if the model has a price, or of tokens.
    pub fn lacks_budget(&self, gateway: &Gateway) -> bool {
        lacks_budget(gateway, &self.shadow, (self.max_usd.is_some(), self.max_tokens.is_some()))
    }
}

/// True if a model would be called without a binding limit: of money if the model has a price, or of tokens.
pub(super) fn lacks_budget(gateway: &Gateway, shadow: &Shadow, (usd, tokens): (bool, bool)) -> bool {
    let calls = gateway.reviewer(&shadow.model).is_ok();
    let priced = gateway.spec(&shadow.model).is_some_and(|spec| spec.prices.is_some());
    calls && !tokens && !(usd && priced)
}

/// Running totals of a forecast.
struct ForecastTotals<'a> {
    installation: &'a Installation,
    gateway: &'a Gateway,
    shadow: &'a Shadow,
    watcher: Watcher,
    simulation: Simulation<'a>,
    is_model: bool,
    /// Average cost of past reviews by this shadow, and their average tokens.
    past: Option<(NanoUsd, u64)>,
    watched: u64,
    reviews: u64,
    skips: BTreeMap<String, u64>,
    /// Cost of each task, summed over the events so far.
    costs: HashMap<String, NanoUsd>,
    expected: WorstCaseCost,
    worst: WorstCaseCost,
}

impl Backtests {
    /// Plans a backtest and files it with its forecast. `progress` gets the number of events read so far, and of all.
    ///
    /// # Errors
    /// See [`PlanError`]. The rows of an unfinished plan are deleted within a day.
    pub async fn plan_backtest(
        &self,
        tried: &PlannedBacktest,
        progress: &(dyn Fn(u64, u64) + Send + Sync),
    ) -> Result<BacktestId, PlanError> {
        let shadow = &tried.shadow;
        if shadow.scope == ReviewScope::Trajectory {
            return Err(PlanError::OfTasks);
        }
        let rules = self.rules.load_full();
        let watcher = Watcher::compile([shadow])?;
        let id = BacktestId(self.clock.new_id());
        let agent = tried.agent.as_deref();
        let new = NewBacktest {
            id,
            by_server: tried.by_server,
            shadow,
            since: tried.since,
            until: tried.until,
            agent,
            max_events: tried.max_events,
            max_usd: tried.max_usd,
            max_tokens: tried.max_tokens,
        };
        if !self.store.backtests().file(&new).await? {
            return Err(PlanError::TooMany);
        }
        let readiness = rules.gateway.reviewer(&shadow.model);
        let is_model = readiness.is_ok();
        let past = if is_model { self.store.backtests().past_cost(shadow).await? } else { None };
        let mut reckoning = ForecastTotals {
            installation: &self.installation,
            gateway: &rules.gateway,
            shadow,
            watcher,
            simulation: Simulation::new(shadow),
            is_model,
            past,
            watched: 0,
            reviews: 0,
            skips: BTreeMap::new(),
            costs: HashMap::new(),
            expected: WorstCaseCost::default(),
            worst: WorstCaseCost::default(),
        };
        let span = (tried.since, tried.until);
        let stretch = self.store.backtests().newest_range(span, agent, tried.max_events).await?;
        let (mut after, mut looked) = (stretch.after, 0);
        while after < stretch.last {
            let rows =
                self.store.backtests().stored_rows(&shadow.name, span, agent, (after, stretch.last), PAGE).await?;
            let Some(last) = rows.last() else { break };
            after = last.seq;
            looked += rows.len() as u64;
            let mut items = Vec::with_capacity(rows.len());
            for row in rows {
                items.extend(reckoning.item(row));
                // A long page must not keep other tasks waiting.
                tokio::task::yield_now().await;
            }
            if !self.store.backtests().file_items(id, &items).await? {
                return Err(PlanError::Deleted);
            }
            progress(looked, stretch.events);
        }
        let forecast = reckoning.forecast(looked, stretch.is_cut, tried, &readiness);
        if !self.store.backtests().file_forecast(id, &forecast).await? {
            return Err(PlanError::Deleted);
        }
        Ok(id)
    }
}

impl ForecastTotals<'_> {
    /// Returns the event as an item, if the version watches it or the shadow has reviewed it.
    fn item(&mut self, row: StoredRow) -> Option<NewItem> {
        let StoredRow { seq, id, payload, is_own_traffic: is_marked, before } = row;
        let stored: StoredEvent = serde_json::from_slice(&payload).ok()?;
        let agent = stored.event.agent.clone();
        if let (Some(_), Event { task_id: Some(task), cost_usd: Some(cost), .. }) =
            (self.shadow.cost_control.skip_if_task_cost_below, &stored.event)
        {
            *self.costs.entry(task.clone()).or_default() += *cost;
        }
        let cost = self.task_cost(&stored.event);
        let found = self.watcher.matches(&stored.event, &stored.triggers).into_iter().next();
        let item = |trigger, outcome, reason| {
            Some(NewItem { seq, event: id, agent: agent.clone(), trigger, outcome, reason, before: before.clone() })
        };
        let Some(found) = found else {
            return before.assessment.and_then(|_| item(None, ItemOutcome::NotWatched, None));
        };
        self.watched += 1;
        let trigger = Some(found.trigger);
        let own_traffic = is_marked || is_own_traffic(self.installation, &stored.event, &payload);
        match self.decide(id, &stored, (&found, cost), own_traffic) {
            Ok(()) => {
                self.reviews += 1;
                item(trigger, ItemOutcome::Waiting, None)
            }
            Err(reason) => {
                *self.skips.entry(reason.as_str().to_owned()).or_default() += 1;
                item(trigger, ItemOutcome::Skipped, Some(reason))
            }
        }
    }

    /// Returns the cost of the event's task, as far as the events so far show it.
    fn task_cost(&self, event: &Event) -> TaskCost {
        let cost = TaskCost::of(event);
        let (TaskCost::Summed(_), Some(task)) = (cost, &event.task_id) else { return cost };
        TaskCost::Known(self.costs.get(task).copied())
    }

    fn decide(
        &mut self,
        id: EventId,
        stored: &StoredEvent,
        (found, cost): (&Match, TaskCost),
        own_traffic: bool,
    ) -> Result<(), SkipReason> {
        let event = &stored.event;
        let worst =
            if self.is_model { worst_case(self.gateway, self.shadow, &[event], 1) } else { WorstCaseCost::default() };
        let expected = self.expected_of(id, event, found.trigger, worst);
        let critical = critical_marks(self.installation, self.shadow, stored);
        let sample = sample(self.installation, id);
        let facts = Facts { own_traffic, sample, cost, critical: !critical.is_empty() };
        let candidate = ReviewCandidate {
            agent: event.agent.clone(),
            matched: found.matched(&stored.triggers),
            worst,
            critical,
            ..ReviewCandidate::default()
        }
        .held_to_floor(self.shadow, cost);
        self.simulation.decide(received_at(id), facts, &candidate, expected)?;
        let add = |sum: &mut WorstCaseCost, more: WorstCaseCost, times: u64| {
            sum.usd += NanoUsd(more.usd.0.saturating_mul(i64::try_from(times).unwrap_or(i64::MAX)));
            sum.tokens = sum.tokens.saturating_add(more.tokens.saturating_mul(times));
        };
        add(&mut self.expected, expected, 1);
        add(&mut self.worst, worst, MAX_CALLS.unsigned_abs());
        Ok(())
    }

    /// Returns the estimated cost of the review: the average of past reviews, else by the length of its prompt.
    fn expected_of(&self, id: EventId, event: &Event, trigger: Trigger, worst: WorstCaseCost) -> WorstCaseCost {
        if !self.is_model {
            return WorstCaseCost::default();
        }
        let reckoned = if let Some((usd, tokens)) = self.past {
            WorstCaseCost { usd, tokens }
        } else {
            let subject = EventInput { event_id: id, event, trigger, hits: &[], baseline: None, memory: &[] };
            let prompt = umbra_review::prompt(self.shadow, &subject, MEASURE);
            let bytes = prompt
                .map_or_else(|_| umbra_review::worst_prompt_bytes(self.shadow, &[event]), |prompt| prompt.bytes());
            let spec = self.gateway.spec(&self.shadow.model);
            let output = spec.map_or(REPLY_TOKENS, |spec| spec.max_output_tokens.min(REPLY_TOKENS));
            let usage = Usage {
                input_tokens: u64::try_from(bytes.div_ceil(BYTES_A_TOKEN)).unwrap_or(u64::MAX),
                output_tokens: u64::from(output),
            };
            let usd = spec.and_then(|spec| umbra_llm::cost(spec, usage)).unwrap_or_default();
            WorstCaseCost { usd, tokens: usage.input_tokens.saturating_add(usage.output_tokens) }
        };
        WorstCaseCost { usd: reckoned.usd.min(worst.usd), tokens: reckoned.tokens.min(worst.tokens) }
    }

    fn forecast(self, events: u64, is_cut: bool, tried: &PlannedBacktest, readiness: &Result<(), String>) -> Forecast {
        let Self { shadow, is_model, past, watched, reviews, skips, expected, worst, .. } = self;
        let calls = if is_model { reviews } else { 0 };
        let priced = self.gateway.spec(&shadow.model).is_none_or(|spec| spec.prices.is_some());
        let mut notes = Vec::new();
        if let Err(why) = readiness {
            notes.push(format!("Only the built-in checks review: {why}."));
        }
        if is_cut {
            notes.push(format!("The time range has more than {} events: the oldest are left out.", tried.max_events));
        }
        let short = tried.max_usd.is_some_and(|cap| cap < expected.usd)
            || tried.max_tokens.is_some_and(|cap| cap < expected.tokens);
        if short {
            notes.push(
                "The budget will not cover all reviews: the backtest will stop, and can be resumed with a larger \
                 budget."
                    .into(),
            );
        }
        Forecast {
            events,
            is_cut,
            watched,
            skips,
            reviews,
            reviewer: if is_model { "model".into() } else { "checks".into() },
            calls,
            max_calls: calls.saturating_mul(MAX_CALLS.unsigned_abs()),
            expected_usd: priced.then(|| expected.usd.usd()),
            worst_usd: priced.then(|| worst.usd.usd()),
            expected_tokens: expected.tokens,
            worst_tokens: worst.tokens,
            basis: match (is_model, past) {
                (false, _) => Basis::Checks,
                (true, Some(_)) => Basis::PastReviews,
                (true, None) => Basis::PromptSizes,
            },
            notes,
        }
    }
}
