//! Rules in words: shadows are asked about calls and messages, before a step is taken. No step holds its session meanwhile: its
//! rules say which questions are due, it lets go, the shadows are asked, and it is taken anew with what they said, on
//! the session as it is by then.
//!
//! A question is an event that its shadow reviews now, within its caps and by the one judge protocol, and it is waited for as
//! long as the rule and the caller allow. What no model said in time raises nothing, and is said. It is no step of the agent's
//! task: what is planned was not done.

use std::{collections::HashMap, time::Duration};

use serde_json::Value;
use tokio::time::Instant;

use super::{guard::Judge, patience::Patience};
use crate::{
    domain::{Assessment, Event, Session, ToolCall, Trigger, sidecar::ModelRule, sidecar::Ruling},
    ingest::{Incoming, NamedCall},
    pipeline::{Origin, Pipeline, accept::OnDemand},
    sidecar::guard::Subject,
    store::reviews::Review,
};

/// What a rule in words is asked about.
#[derive(Clone, Copy)]
pub(super) enum Shown<'a> {
    /// Something that is said.
    Message { role: &'a str, text: &'a str },
    /// A call.
    Call(&'a NamedCall),
}

/// What shadows said of the parts of a step; before they are asked, what they are to be asked.
#[derive(Default)]
pub(super) struct Words {
    questions: Vec<Question>,
    /// By part and rule; nothing before they are asked.
    said: Option<HashMap<(usize, String), Answer>>,
}

struct Question {
    part: usize,
    rule: String,
    shadow: String,
    deadline: Duration,
    event: Event,
}

/// Whether the shadow rejects it, and why; or why nobody knows.
type Answer = Result<(bool, String), String>;

impl Words {
    /// A ruling with what was said of this part, by the rules in words that can change it; where they are yet to be asked,
    /// their questions are noted.
    pub fn on(
        &mut self,
        part: usize,
        shown: Shown<'_>,
        judge: &Judge<'_>,
        session: Option<&Session>,
        mut ruling: Ruling,
    ) -> Ruling {
        let args;
        let subject = match shown {
            Shown::Message { role, text } => Subject::Message { role, text },
            Shown::Call(call) => {
                args = Value::Object(call.arguments.clone());
                let effect = judge.tools.effect(&judge.asked(call)).effect;
                Subject::Call { tool: &call.tool, effect, args: &args }
            }
        };
        let rules: Vec<&ModelRule> =
            judge.with(subject, &[], |moment| judge.rules.guardrail.model_rules(moment, &ruling));
        for rule in rules {
            let Some(said) = &self.said else {
                self.questions.push(Question {
                    part,
                    rule: rule.name.clone(),
                    shadow: rule.shadow.clone(),
                    deadline: rule.deadline,
                    event: event(shown, judge, session),
                });
                continue;
            };
            ruling = match said.get(&(part, rule.name.clone())) {
                Some(Ok((violated, why))) => ruling.with_model(rule, Some(*violated), why),
                Some(Err(why)) => ruling.with_model(rule, None, why),
                None => ruling.with_model(rule, None, "the session changed meanwhile"),
            };
        }
        ruling
    }

    /// Whether shadows are yet to be asked.
    pub fn are_due(&self) -> bool {
        !self.questions.is_empty()
    }
}

/// What a shadow is shown.
fn event(shown: Shown<'_>, judge: &Judge<'_>, session: Option<&Session>) -> Event {
    let mut event = Event {
        agent: judge.agent.to_owned(),
        task: session.and_then(|session| session.task.clone()),
        session_id: judge.session.map(ToOwned::to_owned),
        triggers: vec![Trigger::TaskComplete],
        ..Event::default()
    };
    match shown {
        Shown::Message { text, .. } => event.output = Some(text.to_owned()),
        Shown::Call(call) => {
            event.tool = Some(ToolCall {
                name: call.tool.to_string(),
                args: Value::Object(call.arguments.clone()),
                result: None,
                error: None,
            });
        }
    }
    event
}

impl Pipeline {
    /// Asks what is due, each for as long as its rule and the caller allow.
    pub(super) async fn ask_in_words(&self, words: &mut Words, patience: &mut Patience<'_>) {
        let mut said = HashMap::new();
        for Question { part, rule, shadow, deadline, event } in std::mem::take(&mut words.questions) {
            let began = Instant::now();
            let answer = self.ask_shadow(&shadow, event, patience.for_words(deadline)).await;
            patience.prolong(began.elapsed());
            if let Err(why) = &answer {
                patience.miss("model", format!("the rule {rule} was not judged: {why}"));
            }
            said.insert((part, rule), answer);
        }
        words.said = Some(said);
    }

    /// Has a shadow review an event now; whether it rejects it, and why.
    async fn ask_shadow(&self, shadow: &str, event: Event, wait: Duration) -> Answer {
        let until = Instant::now() + wait;
        let origin = Origin {
            own_traffic: false,
            on_demand: Some(OnDemand { shadow: shadow.to_owned(), trigger: Trigger::TaskComplete }),
        };
        let incoming = Incoming { event, key: None, digest_input: Vec::new() };
        let asking = async {
            let accepted = self.accept(incoming, &origin).await.map_err(|error| error.to_string())?;
            let review = accepted.dispositions.first().and_then(|disposition| disposition.review_id);
            let review =
                review.ok_or_else(|| format!("the shadow {shadow} does not review this now: its caps are reached"))?;
            let left = until.saturating_duration_since(Instant::now());
            self.await_review(accepted.id, review, left).await.map_err(|error| error.to_string())
        };
        let review = tokio::time::timeout_at(until, asking).await.map_err(|_| "no answer in time".to_owned())??;
        let review = review.filter(Review::has_ended).ok_or("no answer in time")?;
        match review.assessment {
            Some(Assessment::Flag | Assessment::Suggest) => {
                Ok((true, format!("{} by {}", review.assessment.map_or("", Assessment::as_str), review.id)))
            }
            Some(Assessment::Approve) => Ok((false, format!("{} approves", review.id))),
            _ => Err(format!("{} came to no verdict", review.id)),
        }
    }
}
