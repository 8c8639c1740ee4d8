//! Rules in words: answers of models about the parts of a step.
//!
//! A rule in words asks its shadow: the message or call is posted as an event that this shadow reviews now, within its
//! caps and by the same judge protocol, and the review is awaited as long as the rule and the caller allow. A rule
//! without an answer in time raises nothing, and a warning names it. No session is locked while a model is awaited:
//! models are asked first, on the session's present state, and the step is judged by their answers when it is taken.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    AgentFilter, Sidecar,
    judge::{ActiveRules, EvaluationContext, RouteAndModes, StepPart},
    request_deadline::RequestDeadline,
};
use crate::{
    flows::events::{Origin, accept::OnDemand},
    ingest::Incoming,
};
use umbra_domain::{
    Assessment, Event, FindingCategory, FindingSource, Mark, Session, SessionId, ToolCall, Trigger,
    sidecar::{ModelRule, Ruling},
};
use umbra_review::CRITERIA;
use umbra_sidecar::guard::with_model;
use umbra_store::{findings::FindingItem, reviews::Review};

/// Most questions that are asked at once.
const AT_ONCE: usize = 8;

/// True if a rule is violated, with the reason; or the reason why there is no answer.
type Answer = Result<(bool, String), String>;

/// Answers of models about the parts of a step, and the open questions.
#[derive(Debug, Default)]
pub(super) struct ModelAnswers {
    said: Vec<(RuleQuestion, Answer)>,
    open: Vec<RuleQuestion>,
}

/// A rule that is asked about a part.
#[derive(Debug, Clone, PartialEq)]
struct RuleQuestion {
    /// Position among the parts about which models may be asked.
    part: usize,
    rule: ModelRule,
}

impl ModelAnswers {
    /// Applies the model's answer to a ruling. Without an answer nothing is changed, and the question is open.
    pub fn take(&mut self, ruling: Ruling, part: usize, rule: &ModelRule) -> Ruling {
        let question = RuleQuestion { part, rule: rule.clone() };
        match self.said.iter().find(|(asked, _)| *asked == question) {
            Some((_, Ok((violated, why)))) => with_model(ruling, rule, Some(*violated), why),
            Some((_, Err(why))) => with_model(ruling, rule, None, why),
            None => {
                self.open.push(question);
                with_model(ruling, rule, None, "the model was not asked")
            }
        }
    }

    /// Returns the next question about each part.
    fn next(&mut self) -> Vec<RuleQuestion> {
        let mut next: Vec<RuleQuestion> = Vec::new();
        for question in std::mem::take(&mut self.open) {
            if next.len() < AT_ONCE && next.iter().all(|other| other.part != question.part) {
                next.push(question);
            }
        }
        next
    }

    /// Adds a warning for each question without an answer, once the step is judged.
    pub fn tell(self, patience: &mut RequestDeadline<'_>) {
        let unanswered = self.said.iter().filter_map(|(asked, answer)| Some((asked, answer.as_ref().err()?.as_str())));
        let unasked =
            self.open.iter().map(|asked| (asked, "the session changed meanwhile, and the model was not asked again"));
        for (RuleQuestion { rule, .. }, why) in unanswered.chain(unasked) {
            patience.miss("model", format!("the rule {} was not judged: {why}", rule.name));
        }
    }
}

impl Sidecar {
    /// Asks models about the parts of a step that a session is about to take.
    pub(super) async fn ask_before(
        &self,
        law: ActiveRules<'_>,
        id: SessionId,
        (parts, marks): (&[StepPart<'_>], &[Vec<Mark>]),
        whereabouts: RouteAndModes<'_>,
        (may, patience): (AgentFilter<'_>, &mut RequestDeadline<'_>),
    ) -> ModelAnswers {
        if !parts.iter().any(StepPart::may_be_asked) || !law.0.guardrail.asks_models() {
            return ModelAnswers::default();
        }
        let (session, documents) = self.read_session(id, patience).await;
        let Some(session) = session.filter(|session| may(&session.agent)) else {
            return ModelAnswers::default();
        };
        let shown = self.catalogue(Some(&session), patience).await;
        let scene =
            || EvaluationContext::of(law, &session, documents.as_deref()).at(whereabouts).showing(shown.clone());
        self.in_words(parts, marks, scene, Some(&session), patience).await
    }

    /// Asks models about the parts of a step, as long as an answer can change a ruling: several parts at once, each
    /// part rule by rule. All rounds together take no longer than the longest deadline of the rules. `scene` builds the
    /// present context, anew for each round, since judging changes it.
    pub(super) async fn in_words<'a>(
        &self,
        parts: &[StepPart<'_>],
        marks: &[Vec<Mark>],
        scene: impl Fn() -> EvaluationContext<'a>,
        session: Option<&Session>,
        patience: &mut RequestDeadline<'_>,
    ) -> ModelAnswers {
        let (mut words, began, mut longest) = (ModelAnswers::default(), Instant::now(), Duration::ZERO);
        loop {
            let mut now = scene();
            now.judge(parts, marks, &mut words);
            let questions = words.next();
            if questions.is_empty() {
                break;
            }
            longest = questions.iter().map(|question| question.rule.deadline).fold(longest, Duration::max);
            let until = patience.for_words(longest.saturating_sub(began.elapsed()));
            let askable: Vec<&StepPart<'_>> = parts.iter().filter(|part| part.may_be_asked()).collect();
            let asking = questions.into_iter().map(|question| {
                let (part, now) = (askable.get(question.part).copied(), &now);
                async move {
                    let until = until.min(Instant::now() + question.rule.deadline);
                    let answer = self.ask_shadow(&question.rule.shadow, part, now, session, until).await;
                    (question, answer)
                }
            });
            words.said.extend(join_all(asking).await);
        }
        if longest > Duration::ZERO {
            patience.deadline += began.elapsed();
        }
        words
    }

    /// Has a shadow review a message or call now. Returns true if it is rejected on the shadow's criteria, with the
    /// reason.
    async fn ask_shadow(
        &self,
        shadow: &str,
        part: Option<&StepPart<'_>>,
        scene: &EvaluationContext<'_>,
        session: Option<&Session>,
        until: Instant,
    ) -> Answer {
        let mut event = Event {
            agent: scene.agent.clone(),
            // The event has no task: a planned call was not made, and must neither end the task nor count against it.
            task: session.and_then(|session| session.task.clone()),
            session_id: scene.session.clone(),
            triggers: vec![Trigger::TaskComplete],
            ..Event::default()
        };
        match part {
            Some(StepPart::Message { text, .. }) => event.output = Some((*text).to_owned()),
            Some(StepPart::Planned(call)) => {
                let args = Value::Object(call.arguments.clone());
                event.tool = Some(ToolCall { name: call.tool.to_string(), args, ..ToolCall::default() });
            }
            _ => return Err("only messages and planned calls are judged in words".to_owned()),
        }
        let on_demand = Some(OnDemand { shadow: shadow.to_owned(), trigger: Trigger::TaskComplete });
        let origin = Origin { on_demand, ..Origin::default() };
        let incoming = Incoming { event, key: None, digest_input: Vec::new() };
        let asking = async {
            let accepted = self.events.accept(incoming, &origin).await.map_err(|error| error.to_string())?;
            let review = accepted.dispositions.first().and_then(|disposition| disposition.review_id);
            let review =
                review.ok_or_else(|| format!("the shadow {shadow} cannot review now: its caps are reached"))?;
            let left = until.saturating_duration_since(Instant::now());
            let review = self.verdicts.await_review(accepted.id, review, left).await;
            let review = review.map_err(|error| error.to_string())?;
            let review = review.filter(Review::has_ended).ok_or("no answer in time")?;
            let findings = self.store.findings().findings_of(&[review.id]).await;
            Ok((review, findings.map_err(|error| error.to_string())?))
        };
        let asked = tokio::time::timeout_at(until, asking).await;
        let (review, findings) = asked.unwrap_or_else(|_| Err("no answer in time".to_owned()))?;
        match review.assessment {
            Some(assessment @ (Assessment::Flag | Assessment::Suggest)) => {
                let violated = findings.iter().any(is_on_criteria);
                let on = if violated { "on its criteria" } else { "on none of its criteria" };
                Ok((violated, format!("{} by {}, {on}", assessment.as_str(), review.id)))
            }
            Some(Assessment::Approve) => Ok((false, format!("{} approves", review.id))),
            Some(Assessment::Checked) => Err(format!("no model judged {}", review.id)),
            _ => Err(format!("{} has no verdict", review.id)),
        }
    }
}

/// True if a model made the finding under the operator's criteria: by the checklist's item, or by the category for
/// them.
fn is_on_criteria(finding: &FindingItem) -> bool {
    finding.source == FindingSource::Model.as_str()
        && (finding.rule == CRITERIA || finding.category == FindingCategory::Custom.as_str())
}
