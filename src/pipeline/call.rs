//! The model's part of a review: a hold, a call, a settlement; at most three calls over all attempts.
//!
//! This is the one place that decides whether to call again. A wait never holds a worker: the job goes back.

use std::{sync::Arc, time::Duration};

use rand::Rng;

use super::{Pipeline, Rules, accept::worst_case};
use crate::{
    checks,
    domain::{NanoUsd, Shadow, SkipReason},
    llm::{self, Charge, Failure, FailureKind, Finish, Reply, Request, Rest},
    queue::backoff,
    review::{self, Judgement, Matter, ModelReply, Prompt, PromptError},
    store::{
        StoreError,
        calls::{Held, Hold, MAX_CALLS},
        jobs::Job,
    },
    telemetry::metric,
};

/// How long a job waits for money that other calls hold.
const WAIT_FOR_MONEY: Duration = Duration::from_secs(1);

/// What asking a model brought.
pub(super) enum Asked {
    /// A judgement of each item, and the tokens of the calls that brought them (input, output).
    Judged(Vec<Judgement>, (u64, u64)),
    /// Nothing yet: run the job again after a while. `counted`: the attempt counts.
    Later { delay: Duration, why: String, counted: bool },
    /// Nothing, and nothing will come.
    Never { reason: SkipReason, why: String },
    /// The lease is lost.
    Fenced,
}

/// One review's conversation with its model.
pub(super) struct Conversation<'a> {
    pub pipeline: &'a Pipeline,
    pub rules: &'a Arc<Rules>,
    pub shadow: &'a Shadow,
    pub job: &'a Job,
}

/// What one call brought.
enum Turn {
    Reply(Reply),
    Failed { failure: Failure, n: i16 },
    NotHeld(Held),
}

impl Conversation<'_> {
    /// Asks, and once more where the reply could not be read.
    ///
    /// # Errors
    /// The database does not answer: the lease decides who goes on.
    pub async fn ask(&self, matter: &Matter<'_>) -> Result<Asked, StoreError> {
        let mut prompt = match self.prompt(matter) {
            Ok(prompt) => prompt,
            Err(error) => return Ok(Asked::Never { reason: SkipReason::ProviderUnavailable, why: error.to_string() }),
        };
        match self.rules.gateway.rest(&self.shadow.model) {
            None => {}
            Some(Rest::Sick { wait, why }) => return Ok(Asked::Later { delay: wait, why, counted: false }),
            Some(Rest::Barred { why }) => {
                return Ok(Asked::Never { reason: SkipReason::ProviderUnavailable, why });
            }
        }
        let reply = match self.turn(matter, &prompt).await? {
            Turn::Reply(reply) => reply,
            Turn::NotHeld(held) => return Ok(not_held(held)),
            Turn::Failed { failure, n } => return Ok(self.failed(&failure, n)),
        };
        let mut tokens = reply.usage.map_or((0, 0), |usage| (usage.input_tokens, usage.output_tokens));
        let mut judgements = self.judge(matter, &prompt, &reply);
        if let Some(message) = judgements.iter_mut().find_map(|judgement| judgement.needs_repair.take()) {
            prompt = review::repair_prompt(&prompt, &message);
            // Once. A repair that brings no reply leaves what the first one allowed.
            if let Turn::Reply(reply) = self.turn(matter, &prompt).await? {
                let usage = reply.usage.unwrap_or_default();
                tokens = (tokens.0 + usage.input_tokens, tokens.1 + usage.output_tokens);
                judgements = self.judge(matter, &prompt, &reply);
            }
        }
        Ok(Asked::Judged(judgements, tokens))
    }

    fn judge(&self, matter: &Matter<'_>, prompt: &Prompt, reply: &Reply) -> Vec<Judgement> {
        let reply = ModelReply {
            text: &reply.text,
            cut_off: reply.finish == Finish::Length,
            refused: reply.finish == Finish::Refused,
        };
        matter.of_reply(self.shadow, prompt, reply)
    }

    fn prompt(&self, matter: &Matter<'_>) -> Result<Prompt, PromptError> {
        loop {
            match matter.prompt(self.shadow, &mut || hex::encode(rand::rng().random::<[u8; 16]>())) {
                // The text holds the nonce by chance: draw another.
                Err(PromptError::NonceInText) => {}
                other => return other,
            }
        }
    }

    /// One call: its worst case is held before a byte leaves, and settled whatever happens.
    async fn turn(&self, matter: &Matter<'_>, prompt: &Prompt) -> Result<Turn, StoreError> {
        let store = &self.pipeline.store;
        let control = &self.shadow.cost_control;
        let worst = worst_case(self.rules, self.shadow, &matter.events(), matter.items());
        let hold = Hold {
            review: self.job.review,
            lease: self.job.lease,
            shadow: &self.shadow.name,
            zone: &control.time_zone,
            model: &self.shadow.model,
            worst: (worst.usd, worst.tokens),
            caps: (control.max_usd_per_day, control.max_tokens_per_day),
        };
        let n = match store.hold(&hold).await? {
            Held::Granted(n) => n,
            other => return Ok(Turn::NotHeld(other)),
        };
        let Some(spec) = self.rules.gateway.spec(&self.shadow.model) else {
            store.settle(self.job.review, n, Some((NanoUsd::ZERO, 0))).await?;
            return Ok(Turn::NotHeld(Held::NoCallsLeft));
        };
        let request = Request {
            system: prompt.system.clone(),
            user: prompt.user.clone(),
            schema_name: "review",
            schema: prompt.schema.clone(),
            max_output_tokens: spec.output_limit(matter.items()),
            items: matter.items(),
        };
        let answer = self.rules.gateway.call(&self.shadow.model, &request).await;
        let actual = match &answer {
            Ok(Reply { usage: Some(usage), .. }) => {
                let cost = llm::cost(spec, *usage).unwrap_or_default();
                Some((cost, usage.input_tokens.saturating_add(usage.output_tokens)))
            }
            Ok(Reply { usage: None, .. }) => None,
            Err(failure) => (failure.charge == Charge::None).then_some((NanoUsd::ZERO, 0)),
        };
        record(&self.shadow.model, &answer, actual);
        store.settle(self.job.review, n, actual).await?;
        Ok(match answer {
            Ok(reply) => Turn::Reply(reply),
            Err(failure) => Turn::Failed { failure, n },
        })
    }

    fn failed(&self, failure: &Failure, n: i16) -> Asked {
        // A provider may repeat what it was sent, or anything else.
        let why = checks::redact(&failure.message).as_str().to_owned();
        if failure.kind == FailureKind::BreakerOpen {
            return Asked::Later { delay: failure.retry_after.unwrap_or(WAIT_FOR_MONEY), why, counted: false };
        }
        if failure.kind.is_retryable() && i64::from(n) < MAX_CALLS {
            let jitter = rand::rng().random::<f64>();
            let delay = backoff(u32::from(n.unsigned_abs()), failure.retry_after, jitter);
            return Asked::Later { delay, why, counted: true };
        }
        tracing::warn!(review = %self.job.review, model = %self.shadow.model, kind = failure.kind.as_str(), "{why}");
        Asked::Never { reason: SkipReason::ProviderUnavailable, why }
    }
}

fn not_held(held: Held) -> Asked {
    let never = |reason: SkipReason, why: &str| Asked::Never { reason, why: why.into() };
    match held {
        Held::Wait | Held::Granted(_) => Asked::Later {
            delay: WAIT_FOR_MONEY,
            why: "other calls hold what is left of the day's budget".into(),
            counted: false,
        },
        Held::UsdCap => never(SkipReason::UsdCap, "the shadow's money of the day does not suffice for another call"),
        Held::TokenCap => never(SkipReason::TokenCap, "the shadow's tokens of the day do not suffice for another call"),
        Held::NoCallsLeft => never(SkipReason::ProviderUnavailable, "the model gave no usable answer in three calls"),
        Held::Fenced => Asked::Fenced,
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
