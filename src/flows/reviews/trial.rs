//! Trial of a text: a review like any event's, by the same checks, prompt and rules, with a budget in memory and no
//! database. Takes a shadow, a gateway, a tab and an event; returns the judgement and its cost. Nothing is stored or
//! counted.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

use crate::flows::{
    events::accept::worst_case,
    reviews::{
        call_budget::CallBudget,
        conversation::{Conversation, ModelOutcome},
        redacted,
    },
};
use umbra_domain::{Assessment, Event, EventId, NanoUsd, Provider, Shadow, SkipReason, Trigger};
use umbra_llm::Gateway;
use umbra_review::{EventInput, Judgement, ReviewSubject};
use umbra_store::{
    StoreError,
    calls::{HoldOutcome, MAX_CALLS},
};

/// Longest time that one text waits for its model, pauses between calls included: more than a minute's rate limit.
const PATIENCE: Duration = Duration::from_mins(2);

/// Budget of all trials of a run, with the sums held and spent.
#[derive(Debug)]
pub struct TrialBudget {
    most: Option<NanoUsd>,
    sums: Mutex<Sums>,
}

#[derive(Debug, Default)]
struct Sums {
    held: NanoUsd,
    spent: NanoUsd,
}

impl TrialBudget {
    /// Returns a tab that never exceeds `most`: the worst case of each call is held before the call is made.
    pub fn new(most: Option<NanoUsd>) -> Self {
        Self { most, sums: Mutex::default() }
    }
}

/// Calls, cost and time of one text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrialUsage {
    /// Calls of the model.
    pub calls: i16,
    /// Cost of the calls; the worst case if the provider reported no usage.
    pub cost: NanoUsd,
    /// Tokens read and written; the worst case if the provider reported no usage.
    pub tokens: u64,
    /// Time in calls, without the pauses between them.
    pub time: Duration,
}

/// One text's account on a tab.
pub(in crate::flows) struct TrialAccount<'a> {
    tab: &'a TrialBudget,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    took: TrialUsage,
    /// Call under way: its start, and the money and tokens held for it.
    call: Option<(Instant, NanoUsd, u64)>,
}

impl TrialAccount<'_> {
    pub(in crate::flows) fn hold(&self, (usd, tokens): (NanoUsd, u64)) -> HoldOutcome {
        let mut open = self.open.lock();
        if i64::from(open.took.calls) >= MAX_CALLS {
            return HoldOutcome::NoCallsLeft;
        }
        let mut sums = self.tab.sums.lock();
        if let Some(most) = self.tab.most {
            if sums.spent + usd > most {
                return HoldOutcome::UsdCap;
            }
            if sums.spent + sums.held + usd > most {
                return HoldOutcome::Wait;
            }
        }
        sums.held += usd;
        open.took.calls += 1;
        open.call = Some((Instant::now(), usd, tokens));
        HoldOutcome::Granted(open.took.calls)
    }

    pub(super) fn settle(&self, actual: Option<(NanoUsd, u64)>) {
        let mut open = self.open.lock();
        let Some((since, held, tokens)) = open.call.take() else { return };
        let (cost, tokens) = actual.unwrap_or((held, tokens));
        open.took.cost += cost;
        open.took.tokens = open.took.tokens.saturating_add(tokens);
        open.took.time += since.elapsed();
        let mut sums = self.tab.sums.lock();
        sums.held = sums.held - held;
        sums.spent += cost;
    }
}

/// Returns the worst-case cost of one call for each of these events; `None` if the model's prices are unknown.
pub fn worst_cost(gateway: &Gateway, shadow: &Shadow, events: &[Event]) -> Option<NanoUsd> {
    gateway.spec(&shadow.model).filter(|spec| spec.prices.is_some() || spec.provider == Provider::Checks)?;
    let mut sum = NanoUsd::ZERO;
    for event in events {
        sum += worst_case(gateway, shadow, &[event], 1).usd;
    }
    Some(sum)
}

/// Outcome of a trial.
#[derive(Debug)]
pub struct TrialOutcome {
    /// Judgement of the text.
    pub judgement: Judgement,
    /// Calls, cost and time.
    pub usage: TrialUsage,
    /// Reason why the model gave no opinion: the checks' findings stand, and the rest is inconclusive.
    pub failure: Option<String>,
}

/// Reviews an event as if it had just come, for the trigger `task_complete`. Returns `None` where the tab does not
/// suffice for another call.
///
/// # Errors
/// None of the database, which is not asked; the type is that of the shared conversation.
pub async fn review(
    gateway: &Gateway,
    shadow: &Shadow,
    tab: &TrialBudget,
    event: Event,
) -> Result<Option<TrialOutcome>, StoreError> {
    let screened = umbra_checks::screen(event);
    let hits = umbra_checks::review(&screened.event, &screened.marks, &shadow.checks);
    let subject = EventInput {
        event_id: EventId(Uuid::nil()),
        event: &screened.event,
        trigger: Trigger::TaskComplete,
        hits: &hits,
        baseline: None,
        memory: &[],
    };
    let of_checks = || umbra_review::of_checks(shadow, &subject);
    let outcome = |judgement, usage, failure| Ok(Some(TrialOutcome { judgement: redacted(judgement), usage, failure }));
    if gateway.reviewer(&shadow.model).is_err() {
        return outcome(of_checks(), TrialUsage::default(), None);
    }
    let bill = TrialAccount { tab, open: Mutex::default() };
    let conversation = Conversation { gateway, shadow, budget: CallBudget::Trial(&bill), installation: None };
    let until = Instant::now() + PATIENCE;
    let why = loop {
        match conversation.ask(&ReviewSubject::Event(subject)).await? {
            ModelOutcome::Judged((mut judgements, _)) => {
                return outcome(judgements.pop().unwrap_or_else(of_checks), bill.open.lock().took, None);
            }
            ModelOutcome::Retry { delay, .. } if Instant::now() + delay < until => tokio::time::sleep(delay).await,
            ModelOutcome::GiveUp { reason: SkipReason::UsdCap | SkipReason::TokenCap, .. }
            | ModelOutcome::LeaseLost => return Ok(None),
            ModelOutcome::Retry { why, .. } | ModelOutcome::GiveUp { why, .. } => break why,
        }
    };
    let mut judgement = of_checks();
    judgement.assessment = judgement.assessment.max(Assessment::Inconclusive);
    outcome(judgement, bill.open.lock().took, Some(why))
}
