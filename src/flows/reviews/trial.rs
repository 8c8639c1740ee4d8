//! A text on trial: reviewed like any event, by the same checks, prompt and rules, with a budget of its own and no
//! database. In: a shadow, a gateway, a tab, an event. Out: its judgement, and what it took. Nothing is stored or counted.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use uuid::Uuid;

use crate::flows::{
    events::accept::worst_case,
    reviews::{
        call::{Asked, Conversation},
        call_budget::CallBudget,
    },
};
use umbra_domain::{Assessment, Event, EventId, NanoUsd, Provider, Shadow, SkipReason, Trigger};
use umbra_llm::{Gateway, Readiness};
use umbra_review::{Judgement, Matter, Subject};
use umbra_store::{
    StoreError,
    calls::{Held, MAX_CALLS},
};

/// Longest that one text waits for its model, its waits between calls together: more than a minute's rate limit.
const PATIENCE: Duration = Duration::from_mins(2);

/// What all trials of a run may cost, and have.
#[derive(Debug)]
pub struct Tab {
    most: Option<NanoUsd>,
    sums: Mutex<Sums>,
}

#[derive(Debug, Default)]
struct Sums {
    held: NanoUsd,
    spent: NanoUsd,
}

impl Tab {
    /// A tab that never goes beyond `most`: the worst case of each call is held before it is made.
    pub fn new(most: Option<NanoUsd>) -> Self {
        Self { most, sums: Mutex::default() }
    }

    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one text took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Took {
    /// Calls of the model.
    pub calls: i16,
    /// What they cost; at their worst case where the provider did not tell.
    pub cost: NanoUsd,
    /// Tokens read and written, likewise.
    pub tokens: u64,
    /// Time in calls, waits between them left out.
    pub time: Duration,
}

/// The part of a tab that is one text's.
pub(in crate::flows) struct Bill<'a> {
    tab: &'a Tab,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    took: Took,
    /// The call that is being made: since when, and what is held for it.
    call: Option<(Instant, NanoUsd, u64)>,
}

impl Bill<'_> {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::flows) fn hold(&self, (usd, tokens): (NanoUsd, u64)) -> Held {
        let mut open = self.open();
        if i64::from(open.took.calls) >= MAX_CALLS {
            return Held::NoCallsLeft;
        }
        let mut sums = self.tab.sums();
        if let Some(most) = self.tab.most {
            if sums.spent + usd > most {
                return Held::UsdCap;
            }
            if sums.spent + sums.held + usd > most {
                return Held::Wait;
            }
        }
        sums.held += usd;
        open.took.calls += 1;
        open.call = Some((Instant::now(), usd, tokens));
        Held::Granted(open.took.calls)
    }

    pub(super) fn settle(&self, actual: Option<(NanoUsd, u64)>) {
        let mut open = self.open();
        let Some((since, held, tokens)) = open.call.take() else { return };
        let (cost, tokens) = actual.unwrap_or((held, tokens));
        open.took.cost += cost;
        open.took.tokens = open.took.tokens.saturating_add(tokens);
        open.took.time += since.elapsed();
        let mut sums = self.tab.sums();
        sums.held = sums.held - held;
        sums.spent += cost;
    }
}

/// The most that one call for each of these events costs; `None` where the model's prices are unknown.
pub fn worst_cost(gateway: &Gateway, shadow: &Shadow, events: &[Event]) -> Option<NanoUsd> {
    gateway.spec(&shadow.model).filter(|spec| spec.prices.is_some() || spec.provider == Provider::Checks)?;
    let mut sum = NanoUsd::ZERO;
    for event in events {
        sum += worst_case(gateway, shadow, &[event], 1).usd;
    }
    Some(sum)
}

/// What became of a text.
#[derive(Debug)]
pub enum Tried {
    /// It was judged.
    Judged(Box<Judgement>, Took),
    /// The model gave no opinion, for this reason: what the checks found stands, and of the rest nothing is concluded.
    NoOpinion(Box<Judgement>, Took, String),
    /// The tab does not suffice for another call.
    NoMoney,
}

/// Reviews an event as if it had just come, for the trigger `task_complete`.
///
/// # Errors
/// None of the database, which is not asked; the type is that of the walk it shares.
pub async fn review(gateway: &Gateway, shadow: &Shadow, tab: &Tab, event: Event) -> Result<Tried, StoreError> {
    let screened = umbra_checks::screen(event);
    let hits = umbra_checks::review(&screened.event, &screened.marks, &shadow.checks);
    let subject = Subject {
        event_id: EventId(Uuid::nil()),
        event: &screened.event,
        trigger: Trigger::TaskComplete,
        hits: &hits,
        baseline: None,
        memory: &[],
    };
    let of_checks = || Box::new(redacted(umbra_review::of_checks(shadow, &subject)));
    if let Readiness::ChecksOnly { .. } = gateway.reviewer(&shadow.model) {
        return Ok(Tried::Judged(of_checks(), Took::default()));
    }
    let bill = Bill { tab, open: Mutex::default() };
    let conversation = Conversation { gateway, shadow, budget: CallBudget::Trial(&bill), installation: None };
    let until = Instant::now() + PATIENCE;
    let why = loop {
        match conversation.ask(&Matter::Event(subject)).await? {
            Asked::Judged(mut judgements, _) => {
                let judgement = judgements.pop().map_or_else(of_checks, |judgement| Box::new(redacted(judgement)));
                return Ok(Tried::Judged(judgement, bill.open().took));
            }
            Asked::Later { delay, .. } if Instant::now() + delay < until => tokio::time::sleep(delay).await,
            Asked::Never { reason: SkipReason::UsdCap | SkipReason::TokenCap, .. } | Asked::Fenced => {
                return Ok(Tried::NoMoney);
            }
            Asked::Later { why, .. } | Asked::Never { why, .. } => break why,
        }
    };
    let mut judgement = of_checks();
    judgement.assessment = judgement.assessment.max(Assessment::Inconclusive);
    Ok(Tried::NoOpinion(judgement, bill.open().took, why))
}

/// What a model says may repeat what it saw; what it saw was redacted, and so is what it says.
fn redacted(mut judgement: Judgement) -> Judgement {
    let clean = |text: &mut String| umbra_checks::redact(text).as_str().clone_into(text);
    clean(&mut judgement.recommendation);
    judgement.findings.iter_mut().for_each(|finding| clean(&mut finding.description));
    judgement.notes.iter_mut().for_each(clean);
    judgement
}
