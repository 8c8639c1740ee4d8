//! What the rules say of what an agent is about to do, or did.
//!
//! Rules, documents and checks answer from memory. A rule in words asks its shadow: the message or call is posted as an
//! event that this shadow reviews now, within its caps and by the one judge protocol, and waited for as long as the rule and
//! the caller allow. What no model said in time raises nothing, and is said.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use super::{
    Guarding, May, Sidecar,
    attach::StepError,
    cleaned,
    patience::Patience,
    redacted,
    step::{Read, Recorded, Situation},
};
use crate::{
    boundary::tools::Tools,
    checks,
    domain::{
        Assessment, Call, Effect, Event, Mark, Objective, Session, StepKind, ToolCall, ToolName, Trigger,
        session::Tally,
        sidecar::{CheckedBy, ModelRule, Ruling, SidecarVerdict},
    },
    ingest::{GuardRequest, Incoming, NamedCall, Subject as Asked},
    pipeline::{Origin, Pipeline, accept::OnDemand},
    sidecar::guard::{Moment, Standing, Subject},
    store::reviews::Review,
    telemetry::metric,
};

/// What the guardrail says of one call or message.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct Judged {
    /// The tool, where it is about a call or its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolName>,
    /// What a call of it does to the world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// What the rules say.
    #[serde(flatten)]
    pub ruling: Ruling,
}

/// The answer to who asks about one call or message.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct GuardAnswer {
    /// What the rules say.
    #[serde(flatten)]
    pub judged: Judged,
    /// Names what was asked, and how things stood.
    pub inputs: String,
    /// Names the text of all rules in force.
    pub policy_version: String,
    /// Whether something is missing.
    pub degraded: bool,
    /// What is missing, and what is worth saying.
    pub warnings: Vec<String>,
}

/// What the sidecar did and the shadows are yet to be told of.
pub struct Interventions(pub(super) mpsc::Receiver<Event>);

/// Who acts, and how things stand: what all parts of one step are held against.
pub(super) struct Judge<'a> {
    pub rules: &'a Guarding,
    pub tools: &'a Tools,
    pub agent: &'a str,
    pub route: Option<&'a str>,
    pub modes: &'a [String],
    pub session: Option<&'a str>,
    /// Not known where the session is not: rules about documents are not asked then.
    pub documents: Option<&'a [Read]>,
    /// What clings to the session by now: it grows with each call.
    pub taints: Vec<String>,
}

impl Judge<'_> {
    /// Does what is asked with a moment.
    fn with<T>(&self, subject: Subject<'_>, marks: &[Mark], then: impl FnOnce(&Moment<'_>) -> T) -> T {
        let read = self.documents.unwrap_or_default();
        let changed: Vec<_> =
            read.iter().map(|read| |section: Option<&str>, since| read.changed(section, since)).collect();
        let documents: Vec<Standing<'_>> =
            read.iter().zip(&changed).map(|(read, changed)| read.standing(changed)).collect();
        then(&Moment {
            agent: self.agent,
            route: self.route,
            modes: self.modes,
            taints: &self.taints,
            session: self.session,
            subject,
            marks,
            documents: self.documents.map(|_| documents.as_slice()),
        })
    }

    fn ruling(&self, subject: Subject<'_>, marks: &[Mark]) -> Ruling {
        self.with(subject, marks, |moment| self.rules.guardrail.judge(moment))
    }

    /// That a turn begins.
    pub fn turn(&self) -> Ruling {
        self.ruling(Subject::Turn, &[])
    }

    /// Something that is said, as it is kept.
    pub fn message(&self, role: &str, text: &str, marks: &[Mark]) -> Ruling {
        self.ruling(Subject::Message { role, text }, marks)
    }

    /// What a tool answered, as it is kept.
    pub fn result(&self, tool: &ToolName, text: &str, marks: &[Mark]) -> Judged {
        let ruling = self.ruling(Subject::Result { tool, text }, marks);
        Judged { tool: Some(tool.clone()), effect: None, ruling }
    }

    /// A call, as it is kept. What it would leave behind clings to the session from then on.
    pub fn call(&mut self, call: &NamedCall, marks: &[Mark]) -> Judged {
        let asked = self.asked(call);
        let effect = self.tools.effect(&asked).effect;
        let args = Value::Object(call.arguments.clone());
        let ruling = self.ruling(Subject::Call { tool: &call.tool, effect, args: &args }, marks);
        let by_contract = self.tools.taints(&asked);
        for taint in ruling.taints.iter().chain(&by_contract) {
            if !self.taints.contains(taint) {
                self.taints.push(taint.clone());
            }
        }
        Judged { tool: Some(call.tool.clone()), effect: Some(effect), ruling }
    }

    fn asked(&self, call: &NamedCall) -> Call {
        Call {
            call_id: String::new(),
            agent: self.agent.to_owned(),
            session: self.session.map(ToOwned::to_owned),
            run: None,
            parent_run: None,
            seed: None,
            faults: false,
            route: self.route.map(ToOwned::to_owned),
            modes: self.modes.to_vec(),
            tool: call.tool.clone(),
            by_proxy: false,
            annotations: crate::domain::ToolAnnotations::default(),
            description: None,
            input_schema: None,
            output_schema: None,
            arguments: call.arguments.clone(),
            stub_override: None,
            uninterceptable: Vec::new(),
            traceparent: None,
            deadline_ms: None,
        }
    }
}

/// Counts what was said.
pub(super) fn count(tally: &mut Tally, decision: SidecarVerdict) {
    let slot = match decision {
        SidecarVerdict::Allow => &mut tally.allow,
        SidecarVerdict::Warn => &mut tally.warn,
        SidecarVerdict::Block => &mut tally.block,
    };
    *slot = slot.saturating_add(1);
    metrics::counter!(metric::SIDECAR_RULINGS, "decision" => decision.as_str()).increment(1);
}

/// What stood in what was sent and is not kept.
pub(super) fn marks(subject: Subject<'_>) -> Vec<Mark> {
    checks::screen(subject.as_event()).marks
}

/// The same of a call.
pub(super) fn call_marks(call: &NamedCall) -> Vec<Mark> {
    let args = Value::Object(call.arguments.clone());
    marks(Subject::Call { tool: &call.tool, effect: Effect::Read, args: &args })
}

/// What a rule in words is asked about.
#[derive(Clone, Copy)]
pub(super) enum Shown<'a> {
    /// Something that is said.
    Message { role: &'a str, text: &'a str },
    /// A call.
    Call(&'a NamedCall),
}

impl Pipeline {
    /// What the rules say of one call or message, in a session or without one.
    ///
    /// # Errors
    /// There is no such session, or it is over.
    pub async fn guard(&self, asked: Instant, request: GuardRequest, may: May<'_>) -> Result<GuardAnswer, StepError> {
        let sidecar = &self.sidecar;
        let mut patience = sidecar.patience(asked, request.deadline_ms);
        let marks = match &request.subject {
            Asked::Message { role, content } => marks(Subject::Message { role, text: content }),
            Asked::Call(call) => call_marks(call),
        };
        let named = request.agent.as_deref().map(|agent| sidecar.boundary.name_of(agent)).unwrap_or_default();
        let request = redacted::guard(&request);
        let (step, mut held) = match request.session {
            None => (None, None),
            Some(id) => {
                let missed = "the session is not known: rules that ask for it, its labels or its documents saw none";
                sidecar.begin(id, missed, may, &mut patience).await?.unzip()
            }
        };
        let (rules, boundary) = (sidecar.rules.load_full(), sidecar.boundary.rules.load_full());
        let session = step.as_ref().map(|step| step.session.clone());
        let documents = step.as_ref().map(|step| Read::all(&step.documents));
        let id = request.session.map(|id| id.to_string());
        let of_session = session.as_ref();
        let mut judge = Judge {
            rules: &rules,
            tools: &boundary.tools,
            agent: of_session.map_or(&named, |session| &session.agent),
            route: request.route.as_deref().or(of_session.and_then(|session| session.route.as_deref())),
            modes: request.modes.as_deref().unwrap_or(of_session.map_or(&[], |session| &session.modes)),
            session: id.as_deref(),
            documents: documents.as_deref(),
            taints: of_session.map(|session| session.taints.clone()).unwrap_or_default(),
        };
        let before = step.as_ref().map(Situation::of);
        let mut judged = if of_session.is_some_and(|session| !session.has(Objective::Guardrail)) {
            patience.warn("the guardrail is not among the objectives of this session".to_owned());
            Judged::default()
        } else {
            match &request.subject {
                Asked::Message { role, content } => {
                    Judged { ruling: judge.message(role, content, &marks), ..Judged::default() }
                }
                Asked::Call(call) => judge.call(call, &marks),
            }
        };
        let shown = match &request.subject {
            Asked::Message { role, content } => Shown::Message { role, text: content },
            Asked::Call(call) => Shown::Call(call),
        };
        judged.ruling = self.in_words(&judge, shown, of_session, judged.ruling, &mut patience).await;
        let before = before.unwrap_or_else(|| Situation {
            taints: Vec::new(),
            route: judge.route.map(ToOwned::to_owned),
            modes: judge.modes.to_vec(),
            documents: Vec::new(),
        });
        let recorded = Recorded::new(&request, before, vec![marks], &judged, &rules);
        let (inputs, policy_version) = (recorded.inputs.clone(), recorded.policy_version.clone());
        if let Some(mut step) = step {
            count(&mut step.session.rulings, judged.ruling.decision);
            let (recorded, writes) = (recorded.to_json(), held.as_mut().and_then(|held| held.plan(&step.documents)));
            let writing = step.write(StepKind::Guard, &recorded);
            if patience.ask("this ruling is not kept", writing).await.is_some() {
                sidecar.write(writes, &mut patience).await;
            }
        } else {
            count(&mut Tally::default(), judged.ruling.decision);
        }
        let (degraded, warnings) = patience.end();
        Ok(GuardAnswer { judged, inputs, policy_version, degraded, warnings })
    }

    /// Asks the shadows of rules in words, as long as that can change the ruling.
    pub(super) async fn in_words(
        &self,
        judge: &Judge<'_>,
        shown: Shown<'_>,
        session: Option<&Session>,
        mut ruling: Ruling,
        patience: &mut Patience<'_>,
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
            let left = patience.for_words(rule.deadline);
            let began = Instant::now();
            let said = self.ask_shadow(&rule.shadow, shown, judge, session, left).await;
            patience.prolong(began.elapsed());
            ruling = match said {
                Ok((violated, why)) => ruling.with_model(rule, Some(violated), &why),
                Err(why) => {
                    patience.miss("model", format!("the rule {} was not judged: {why}", rule.name));
                    ruling.with_model(rule, None, &why)
                }
            };
        }
        ruling
    }

    /// Has a shadow review a message or call now; whether it rejects it, and why.
    async fn ask_shadow(
        &self,
        shadow: &str,
        shown: Shown<'_>,
        judge: &Judge<'_>,
        session: Option<&Session>,
        wait: Duration,
    ) -> Result<(bool, String), String> {
        let mut event = Event {
            agent: judge.agent.to_owned(),
            task: session.and_then(|session| session.task.clone()),
            task_id: session.and_then(|session| session.task_id.clone()),
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

    /// Tells the shadows of what the sidecar did: an event of the agent, with the rule in its metadata.
    pub(super) fn tell_intervention(&self, judge: &Judge<'_>, session: &Session, judged: &Judged) {
        let ruling = &judged.ruling;
        if ruling.decision == SidecarVerdict::Allow || ruling.checked_by == Some(CheckedBy::Model) {
            return;
        }
        let (rule, reason) = (ruling.rule.as_deref().unwrap_or_default(), ruling.reason.as_deref().unwrap_or_default());
        let mut event = Event {
            agent: judge.agent.to_owned(),
            task_id: session.task_id.clone(),
            session_id: Some(session.id.to_string()),
            output: Some(format!("The guardrail said {}: {}", ruling.decision.as_str(), cleaned(reason))),
            ..Event::default()
        };
        event.metadata.insert("sidecar.rule".to_owned(), rule.into());
        event.metadata.insert("sidecar.decision".to_owned(), ruling.decision.as_str().into());
        if let Some(tool) = &judged.tool {
            event.metadata.insert("sidecar.tool".to_owned(), tool.to_string().into());
        }
        // Nobody waits for it: where it cannot be taken, the metric has counted it.
        if self.sidecar.told.try_send(event).is_err() {
            tracing::debug!("an intervention of the sidecar is not told to the shadows: too many wait");
        }
    }

    /// Gives the shadows what the sidecar did, until all is told that was said before `stop`.
    pub async fn tell_interventions_until(self, mut told: Interventions, stop: CancellationToken) {
        loop {
            let event = tokio::select! {
                event = told.0.recv() => event,
                () = stop.cancelled() => told.0.try_recv().ok(),
            };
            let Some(event) = event else { return };
            let incoming = Incoming { event, key: None, digest_input: Vec::new() };
            if let Err(error) = self.accept(incoming, &Origin::default()).await {
                tracing::debug!(%error, "an intervention of the sidecar is not told to the shadows");
            }
        }
    }
}

impl Sidecar {
    /// Names the rules in force.
    pub fn policy_version(&self) -> String {
        self.rules.load().guardrail.version().to_owned()
    }
}
