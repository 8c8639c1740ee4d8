//! Model conversation of a review: each call is held, made and settled; at most three calls over all attempts.
//!
//! This is the only place that decides to call again. A wait never occupies a worker: the job goes back to the queue.

use std::time::Duration;

use rand::Rng;

use crate::{
    flows::{
        cleaned,
        events::{accept::worst_case, nonce},
        reviews::call_budget::CallBudget,
    },
    queue::backoff,
    telemetry::metric,
};
use umbra_domain::{NanoUsd, Shadow, SkipReason};
use umbra_llm::{Charge, Failure, FailureKind, Finish, Gateway, Reply, Request, SuspensionReason};
use umbra_review::{FollowUp, Judgement, ModelReply, Prompt, PromptError, ReviewSubject};
use umbra_store::{
    StoreError,
    calls::{HoldOutcome, MAX_CALLS},
    installation::Installation,
};

/// Pause of a job while other calls hold the rest of the budget.
const WAIT_FOR_MONEY: Duration = Duration::from_secs(1);

/// Note in a review whose provider reported more tokens than possible.
const EXCESSIVE_USAGE: &str = "The provider reported more tokens than the prompt and the output limit allow: the call \
                               is charged the most that it could use.";

/// Outcome of asking a model: one judgement for each item, and the tokens of the calls (input, output).
pub(in crate::flows) enum ModelOutcome<T = (Vec<Judgement>, (u64, u64))> {
    /// The model, or the checks in its place, have judged.
    Judged(T),
    /// No judgement yet: run the job again after `delay`. `counted`: the attempt counts.
    Retry { delay: Duration, why: String, counted: bool },
    /// No judgement, and none to come.
    GiveUp { reason: SkipReason, why: String },
    /// The lease is lost.
    LeaseLost,
}

/// One review's conversation with its model.
pub(in crate::flows) struct Conversation<'a> {
    pub gateway: &'a Gateway,
    pub shadow: &'a Shadow,
    pub budget: CallBudget<'a>,
    /// Installation whose loop guard is to recognise the prompts; `None` in a trial.
    pub installation: Option<&'a Installation>,
}

/// Outcome of one call.
enum ModelCallOutcome {
    /// A reply. `excessive`: the provider reported more usage than the call could take, and the hold counts instead.
    Reply {
        reply: Reply,
        excessive: bool,
    },
    Failed {
        failure: Failure,
        n: i16,
    },
    NotHeld(HoldOutcome),
}

/// Kinds of a further call, in the order in which they are made.
const FOLLOW_UPS: [fn(&FollowUp) -> bool; 3] = [
    |follow_up| matches!(follow_up, FollowUp::Repair(_)),
    |follow_up| matches!(follow_up, FollowUp::Quotes { .. }),
    |follow_up| matches!(follow_up, FollowUp::Confirmation(_)),
];

/// Judgements and usage of the replies so far.
struct ReplySummary {
    judgements: Vec<Judgement>,
    /// Input and output tokens.
    tokens: (u64, u64),
    /// True if a provider reported more usage than a call could take.
    excessive: bool,
}

impl ReplySummary {
    fn count(&mut self, reply: &Reply, excessive: bool) {
        let usage = reply.usage.unwrap_or_default();
        self.tokens = (self.tokens.0 + usage.input_tokens, self.tokens.1 + usage.output_tokens);
        self.excessive |= excessive;
    }
}

impl Conversation<'_> {
    /// Asks the model, and asks again where a reply does not suffice: for a readable reply, for the quotes of a
    /// rejection, and for a second opinion on a rejection without quotes; each once, and within the calls that a review
    /// may make.
    ///
    /// # Errors
    /// The database does not answer; the lease decides which worker goes on.
    pub async fn ask(&self, matter: &ReviewSubject<'_>) -> Result<ModelOutcome, StoreError> {
        let prompt = match self.prompt(matter) {
            Ok(prompt) => prompt,
            Err(error) => {
                return Ok(ModelOutcome::GiveUp { reason: SkipReason::ProviderUnavailable, why: error.to_string() });
            }
        };
        match self.gateway.suspension(&self.shadow.model) {
            None => {}
            Some(SuspensionReason::Failing { wait, why }) => {
                return Ok(ModelOutcome::Retry { delay: wait, why, counted: false });
            }
            Some(SuspensionReason::Refused { why }) => {
                return Ok(ModelOutcome::GiveUp { reason: SkipReason::ProviderUnavailable, why });
            }
        }
        let (reply, excessive) = match self.turn(matter, &prompt).await? {
            ModelCallOutcome::Reply { reply, excessive } => (reply, excessive),
            ModelCallOutcome::NotHeld(held) => return Ok(not_held(held)),
            ModelCallOutcome::Failed { failure, n } => return Ok(self.failed(&failure, n)),
        };
        let mut said =
            ReplySummary { judgements: self.judge(matter, &prompt, &reply), tokens: (0, 0), excessive: false };
        said.count(&reply, excessive);
        for is_wanted in FOLLOW_UPS {
            self.follow_up(matter, &prompt, is_wanted, &mut said).await?;
        }
        let mut judgements: Vec<Judgement> =
            said.judgements.into_iter().map(|judgement| judgement.concluded(self.shadow)).collect();
        if said.excessive {
            for judgement in &mut judgements {
                judgement.notes.push(EXCESSIVE_USAGE.to_owned());
            }
        }
        Ok(ModelOutcome::Judged((judgements, said.tokens)))
    }

    /// Makes one further call about the items whose judgement needs it. Without a reply, their judgements stand.
    async fn follow_up(
        &self,
        matter: &ReviewSubject<'_>,
        first: &Prompt,
        is_wanted: fn(&FollowUp) -> bool,
        said: &mut ReplySummary,
    ) -> Result<(), StoreError> {
        let open = |at: &usize| {
            let follow_up = said.judgements.get(*at)?.follow_up.as_ref();
            follow_up.filter(|follow_up| is_wanted(follow_up))
        };
        let places: Vec<usize> = (0..said.judgements.len()).filter(|at| open(at).is_some()).collect();
        let Some(asked) = places.first().and_then(open) else { return Ok(()) };
        let part = matter.part(&places);
        // An unreadable reply judges no item, so a repair repeats the prompt. Other calls get a prompt and a nonce of
        // their own.
        let prompt = if matches!(asked, FollowUp::Repair(_)) { Ok(first.clone()) } else { self.prompt(&part) };
        let Ok(prompt) = prompt else { return Ok(()) };
        let prompt = asked.message().map_or(prompt.clone(), |message| umbra_review::repair_prompt(&prompt, message));
        if let ModelCallOutcome::Reply { reply, excessive } = self.turn(&part, &prompt).await? {
            for (at, second) in places.into_iter().zip(self.judge(&part, &prompt, &reply)) {
                if let Some(judgement) = said.judgements.get_mut(at) {
                    *judgement = judgement.clone().settled_by(second);
                }
            }
            said.count(&reply, excessive);
        }
        Ok(())
    }

    fn judge(&self, matter: &ReviewSubject<'_>, prompt: &Prompt, reply: &Reply) -> Vec<Judgement> {
        let reply = ModelReply {
            text: &reply.text,
            cut_off: reply.finish == Finish::Length,
            refused: reply.finish == Finish::Refused,
        };
        matter.of_reply(self.shadow, prompt, reply)
    }

    fn prompt(&self, matter: &ReviewSubject<'_>) -> Result<Prompt, PromptError> {
        loop {
            match matter.prompt(self.shadow, &mut || nonce::draw(self.installation)) {
                // The text contains the nonce by chance: draw another.
                Err(PromptError::NonceInText) => {}
                other => return other,
            }
        }
    }

    /// Makes one call: its worst case is held before a byte leaves, and settled whatever happens.
    async fn turn(&self, matter: &ReviewSubject<'_>, prompt: &Prompt) -> Result<ModelCallOutcome, StoreError> {
        let worst = worst_case(self.gateway, self.shadow, &matter.events(), matter.items());
        let n = match self.budget.hold(self.shadow, (worst.usd, worst.tokens)).await? {
            HoldOutcome::Granted(n) => n,
            other => return Ok(ModelCallOutcome::NotHeld(other)),
        };
        let Some(spec) = self.gateway.spec(&self.shadow.model) else {
            self.budget.settle(n, Some((NanoUsd::ZERO, 0))).await?;
            return Ok(ModelCallOutcome::NotHeld(HoldOutcome::NoCallsLeft));
        };
        let request = Request {
            system: prompt.system.clone(),
            user: prompt.user.clone(),
            schema_name: "review",
            schema: prompt.schema.clone(),
            max_output_tokens: spec.output_limit(matter.items()),
            items: matter.items(),
        };
        let mut answer = self.gateway.call(&self.shadow.model, &request).await;
        let mut excessive = false;
        let actual = match &mut answer {
            Ok(Reply { usage: Some(usage), .. }) => {
                let cost = |usage| umbra_llm::cost(spec, usage).unwrap_or_default();
                excessive = usage.tokens() > worst.tokens || cost(*usage) > worst.usd;
                if excessive {
                    *usage = usage.at_most(worst.tokens, spec.output_limit(matter.items()));
                    metrics::counter!(metric::PROVIDER_EXCESSIVE, "model" => self.shadow.model.clone()).increment(1);
                    tracing::warn!(review = %self.budget, model = %self.shadow.model,
                        "the provider reported more tokens than the call allowed; the call is charged the reserved \
                         amount");
                }
                Some((cost(*usage), usage.tokens()))
            }
            Ok(Reply { usage: None, .. }) => None,
            Err(failure) => (failure.charge == Charge::None).then_some((NanoUsd::ZERO, 0)),
        };
        record(&self.shadow.model, &answer, actual);
        self.budget.settle(n, actual).await?;
        Ok(match answer {
            Ok(reply) => ModelCallOutcome::Reply { reply, excessive },
            Err(failure) => ModelCallOutcome::Failed { failure, n },
        })
    }

    fn failed(&self, failure: &Failure, n: i16) -> ModelOutcome {
        // A provider's message may contain anything, including what it was sent.
        let why = cleaned(&failure.message);
        if failure.kind == FailureKind::BreakerOpen {
            return ModelOutcome::Retry { delay: failure.retry_after.unwrap_or(WAIT_FOR_MONEY), why, counted: false };
        }
        if failure.kind.is_retryable() && i64::from(n) < MAX_CALLS {
            let jitter = rand::rng().random::<f64>();
            let delay = backoff(u32::from(n.unsigned_abs()), failure.retry_after, jitter);
            return ModelOutcome::Retry { delay, why, counted: true };
        }
        tracing::warn!(review = %self.budget, model = %self.shadow.model, kind = failure.kind.as_str(), "{why}");
        ModelOutcome::GiveUp { reason: SkipReason::ProviderUnavailable, why }
    }
}

fn not_held(held: HoldOutcome) -> ModelOutcome {
    let never = |reason: SkipReason, why: &str| ModelOutcome::GiveUp { reason, why: why.into() };
    match held {
        HoldOutcome::Wait | HoldOutcome::Granted(_) => ModelOutcome::Retry {
            delay: WAIT_FOR_MONEY,
            why: "other running calls have reserved the rest of the day's budget".into(),
            counted: false,
        },
        HoldOutcome::UsdCap => never(SkipReason::UsdCap, "the rest of the day's money does not cover another call"),
        HoldOutcome::TokenCap => {
            never(SkipReason::TokenCap, "the rest of the day's tokens does not cover another call")
        }
        HoldOutcome::NoCallsLeft => {
            never(SkipReason::ProviderUnavailable, "the model gave no usable answer in three calls")
        }
        HoldOutcome::Fenced => ModelOutcome::LeaseLost,
    }
}

fn record(model: &str, answer: &Result<Reply, Failure>, actual: Option<(NanoUsd, u64)>) {
    let result = match answer {
        Ok(reply) => {
            metrics::histogram!(metric::PROVIDER_SECONDS, "model" => model.to_owned())
                .record(reply.latency.as_secs_f64());
            if let Some(usage) = reply.usage {
                let tokens = |direction: &'static str| metrics::counter!(metric::PROVIDER_TOKENS, "model" => model.to_owned(), "direction" => direction);
                tokens("input").increment(usage.input_tokens);
                tokens("output").increment(usage.output_tokens);
            }
            "ok"
        }
        Err(failure) => failure.kind.as_str(),
    };
    metrics::counter!(metric::PROVIDER_CALLS, "model" => model.to_owned(), "result" => result).increment(1);
    if let Some((cost, _)) = actual {
        metrics::counter!(metric::PROVIDER_NANO_USD, "model" => model.to_owned())
            .increment(u64::try_from(cost.0).unwrap_or(0));
    }
}
