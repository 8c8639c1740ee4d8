//! What the rules say of what an agent is about to do, or did.
//!
//! Rules, documents and checks answer from memory. Where a rule in words is about it, its shadow is asked (`words`), and the
//! session is looked at anew with what it said.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use super::{
    Guarding, May, Sidecar,
    attach::{StepError, taken},
    cleaned,
    patience::Patience,
    redacted,
    step::{Read, Recorded, Situation},
    words::{Shown, Words},
};
use crate::{
    boundary::tools::Tools,
    checks,
    domain::{
        Call, Effect, Event, Mark, Objective, Session, StepKind, ToolName,
        session::Tally,
        sidecar::{CheckedBy, Ruling, SidecarVerdict},
    },
    ingest::{GuardRequest, Incoming, NamedCall, Subject as Asked},
    pipeline::{Origin, Pipeline},
    sidecar::guard::{Moment, Standing, Subject},
    store::sessions::Stepping,
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
    pub fn with<T>(&self, subject: Subject<'_>, marks: &[Mark], then: impl FnOnce(&Moment<'_>) -> T) -> T {
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

    /// The call as the tools file has it.
    pub fn asked(&self, call: &NamedCall) -> Call {
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

/// Lets go of a session, so that others may take a step.
pub(super) async fn release(step: Option<Stepping>, patience: &mut Patience<'_>) {
    if let Some(step) = step {
        patience.ask("the session is not let go", step.release()).await;
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
        let question = Question { request: redacted::guard(&request), named, marks };
        let mut words = Words::default();
        loop {
            let step = match question.request.session {
                None => None,
                Some(id) => {
                    let missed =
                        "the session is not known: rules that ask for it, its labels or its documents saw none";
                    taken(patience.ask(missed, sidecar.store.step(id)).await, may)?
                }
            };
            if let Some((judged, recorded)) = sidecar.judge_one(step, &question, &mut words, &mut patience).await {
                let (degraded, warnings) = patience.end();
                let Recorded { inputs, policy_version, .. } = recorded;
                return Ok(GuardAnswer { judged, inputs, policy_version, degraded, warnings });
            }
            self.ask_in_words(&mut words, &mut patience).await;
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

/// A question to the guardrail, as it is kept.
struct Question {
    request: GuardRequest,
    /// Who asks, where no session says so.
    named: String,
    marks: Vec<Mark>,
}

impl Sidecar {
    /// What is said of one call or message, kept with its session; nothing while shadows are to be asked first.
    async fn judge_one(
        &self,
        step: Option<Stepping>,
        question: &Question,
        words: &mut Words,
        patience: &mut Patience<'_>,
    ) -> Option<(Judged, Recorded)> {
        let Question { request, named, marks } = question;
        let (rules, boundary) = (self.rules.load_full(), self.boundary.rules.load_full());
        let session = step.as_ref().map(|step| step.session.clone());
        let documents = step.as_ref().map(|step| Read::all(&step.documents));
        let id = request.session.map(|id| id.to_string());
        let of_session = session.as_ref();
        let mut judge = Judge {
            rules: &rules,
            tools: &boundary.tools,
            agent: of_session.map_or(named, |session| &session.agent),
            route: request.route.as_deref().or(of_session.and_then(|session| session.route.as_deref())),
            modes: request.modes.as_deref().unwrap_or(of_session.map_or(&[], |session| &session.modes)),
            session: id.as_deref(),
            documents: documents.as_deref(),
            taints: of_session.map(|session| session.taints.clone()).unwrap_or_default(),
        };
        let before = step.as_ref().map_or_else(
            || Situation {
                taints: Vec::new(),
                route: judge.route.map(ToOwned::to_owned),
                modes: judge.modes.to_vec(),
                documents: Vec::new(),
            },
            Situation::of,
        );
        let mut judged = Judged::default();
        if of_session.is_some_and(|session| !session.has(Objective::Guardrail)) {
            patience.warn("the guardrail is not among the objectives of this session".to_owned());
        } else {
            let shown = match &request.subject {
                Asked::Message { role, content } => {
                    judged.ruling = judge.message(role, content, marks);
                    Shown::Message { role, text: content }
                }
                Asked::Call(call) => {
                    judged = judge.call(call, marks);
                    Shown::Call(call)
                }
            };
            judged.ruling = words.on(0, shown, &judge, of_session, judged.ruling);
            if words.are_due() {
                release(step, patience).await;
                return None;
            }
        }
        let recorded = Recorded::new(request, before, vec![marks.clone()], &judged, &rules);
        if let Some(mut step) = step {
            count(&mut step.session.rulings, judged.ruling.decision);
            patience.ask("this ruling is not kept", step.write(StepKind::Guard, &recorded.to_json())).await;
        } else {
            count(&mut Tally::default(), judged.ruling.decision);
        }
        Some((judged, recorded))
    }

    /// Names the rules in force.
    pub fn policy_version(&self) -> String {
        self.rules.load().guardrail.version().to_owned()
    }
}
