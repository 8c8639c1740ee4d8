//! Judging of a step: its parts, in order, on the state of its session. Rules, documents and checks answer from memory;
//! the answers to rules in words stand in [`ModelAnswers`], which were asked before.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{SidecarRulesInForce, model_answers::ModelAnswers, session_cache::AcquiredSession, step::RuleDocument};
use crate::ingest::{GuardRequest, GuardSubject as Asked, MessageRequest, NamedCall, SaidResult, TurnRequest};
use umbra_boundary::tools::Tools;
use umbra_domain::{
    Call, Effect, Mark, Session, SessionId, ToolName,
    sidecar::{ModelRule, Ruling},
};
use umbra_policy::AgentContext;
use umbra_sidecar::{
    guard::{Moment, MomentDocument, MomentSubject},
    tools::Catalogue,
};
use umbra_store::documents::StoredDocument;

/// Ruling of the guardrail on one call, result or message.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct GuardRuling {
    /// Tool of the call or the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolName>,
    /// Effect of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// Ruling of the rules.
    #[serde(flatten)]
    pub ruling: Ruling,
}

/// One part of a step, redacted.
#[derive(Clone, Copy)]
pub(super) enum StepPart<'a> {
    /// A planned call.
    Planned(&'a NamedCall),
    /// A call that was made.
    Made(&'a NamedCall),
    /// The result of a tool.
    Result(&'a SaidResult),
    /// A message.
    Message {
        role: &'a str,
        text: &'a str,
        /// True if calls come with it.
        with_calls: bool,
    },
}

impl StepPart<'_> {
    /// Returns the planned calls of a turn.
    pub fn of_turn(asked: &TurnRequest) -> Vec<StepPart<'_>> {
        asked.planned_calls.iter().map(StepPart::Planned).collect()
    }

    /// Returns the parts of a message: its calls, their results, its text.
    pub fn of_message(told: &MessageRequest) -> Vec<StepPart<'_>> {
        let with_calls = !told.tool_calls.is_empty();
        let said = told.content.iter().map(|text| StepPart::Message { role: &told.role, text, with_calls });
        told.tool_calls
            .iter()
            .map(StepPart::Made)
            .chain(told.results.iter().map(StepPart::Result))
            .chain(said)
            .collect()
    }

    /// Returns the subject of a question to the guardrail.
    pub fn of_guard(asked: &GuardRequest) -> Vec<StepPart<'_>> {
        vec![match &asked.subject {
            Asked::Message { role, content } => StepPart::Message { role, text: content, with_calls: false },
            Asked::Call(call) => StepPart::Planned(call),
        }]
    }

    /// Returns the marks of each part as it was sent, before redaction.
    pub fn marks(parts: &[StepPart<'_>]) -> Vec<Vec<Mark>> {
        let marks = |part: &StepPart<'_>| match part {
            StepPart::Planned(call) | StepPart::Made(call) => {
                let args = Value::Object(call.arguments.clone());
                marks(MomentSubject::Call { tool: &call.tool, effect: Effect::Read, args: &args })
            }
            StepPart::Result(result) => marks(MomentSubject::Result { tool: &result.tool, text: &result.content }),
            StepPart::Message { role, text, with_calls } => {
                marks(MomentSubject::Message { role, text, with_calls: *with_calls })
            }
        };
        at_length(parts, || parts.iter().map(marks).collect())
    }

    fn weight(&self) -> usize {
        match self {
            StepPart::Planned(call) | StepPart::Made(call) => {
                call.arguments.iter().map(|(key, value)| key.len() + weight(value)).sum()
            }
            StepPart::Result(result) => result.content.len(),
            StepPart::Message { text, .. } => text.len(),
        }
    }

    /// True if rules in words may be asked about the part: no model can stop a call that was made, and other speakers'
    /// words are not the agent's.
    pub fn may_be_asked(&self) -> bool {
        match self {
            StepPart::Planned(_) => true,
            StepPart::Message { role, .. } => *role == "assistant",
            StepPart::Made(_) | StepPart::Result(_) => false,
        }
    }
}

/// Bytes of a step from which it is handled in `block_in_place`.
const LENGTHY: usize = 16 * 1024;

/// Does work on the parts of a step; if they are long, in `block_in_place`, so that other requests go on.
pub(super) fn at_length<T>(parts: &[StepPart<'_>], work: impl FnOnce() -> T) -> T {
    if parts.iter().map(StepPart::weight).sum::<usize>() < LENGTHY { work() } else { tokio::task::block_in_place(work) }
}

/// Returns the approximate size of a value in bytes.
fn weight(value: &Value) -> usize {
    8 + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(members) => members.iter().map(|(key, value)| key.len() + weight(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn marks(subject: MomentSubject<'_>) -> Vec<Mark> {
    umbra_checks::screen(subject.as_event()).marks
}

/// Rules and effects of tools in force.
pub(super) type ActiveRules<'a> = (&'a SidecarRulesInForce, &'a Tools);

/// Route and modes that a step names.
pub(super) type RouteAndModes<'a> = (Option<&'a String>, Option<&'a Vec<String>>);

/// Evaluation context that the parts of one step share.
pub(super) struct EvaluationContext<'a> {
    pub rules: &'a SidecarRulesInForce,
    pub tools: &'a Tools,
    pub agent: String,
    pub route: Option<String>,
    pub modes: Vec<String>,
    /// Id of the session.
    pub session: Option<String>,
    /// Documents of the session; `None` if they are unknown, and then rules about documents are not asked.
    pub documents: Option<Vec<RuleDocument>>,
    pub taints: Vec<String>,
    /// Tools that the session was shown, if they are known.
    pub shown: Option<Arc<Catalogue>>,
}

impl<'a> EvaluationContext<'a> {
    /// Returns the context of an agent without a session.
    pub fn new((rules, tools): ActiveRules<'a>, agent: &str) -> Self {
        Self {
            rules,
            tools,
            agent: agent.to_owned(),
            route: None,
            modes: Vec::new(),
            session: None,
            documents: None,
            taints: Vec::new(),
            shown: None,
        }
    }

    /// Returns the context of a session, with its documents if they are known.
    pub fn of(law: ActiveRules<'a>, session: &Session, documents: Option<&[StoredDocument]>) -> Self {
        Self {
            route: session.route.clone(),
            modes: session.modes.clone(),
            session: Some(session.id.to_string()),
            documents: documents.map(|documents| RuleDocument::those_of(law.0, documents)),
            taints: session.taints.clone(),
            ..Self::new(law, &session.agent)
        }
    }

    /// Returns the context of a session that was taken for a step, as far as the session is known.
    pub fn of_taken(law: ActiveRules<'a>, id: SessionId, taken: &AcquiredSession) -> Self {
        let known = taken.step.as_ref().filter(|_| !taken.held.is_unknown);
        let documents = known.map(|step| step.documents.as_slice());
        match &taken.session {
            Some(session) => Self::of(law, session, documents),
            None => Self { session: Some(id.to_string()), ..Self::new(law, "") },
        }
    }

    /// Sets route and modes, as far as the step names them.
    #[must_use]
    pub fn at(mut self, (route, modes): RouteAndModes<'_>) -> Self {
        self.route = route.cloned().or(self.route);
        self.modes = modes.cloned().unwrap_or(self.modes);
        self
    }

    /// Sets the tools that the session was shown.
    #[must_use]
    pub fn showing(self, shown: Option<Arc<Catalogue>>) -> Self {
        Self { shown, ..self }
    }

    /// Judges the parts of a step, in order. Each call adds its labels to the context of later parts.
    pub fn judge(&mut self, parts: &[StepPart<'_>], marks: &[Vec<Mark>], words: &mut ModelAnswers) -> Vec<GuardRuling> {
        let mut asked = 0..;
        let judge = |(at, part): (usize, &StepPart<'_>)| {
            let asking = if part.may_be_asked() { asked.next().map(|at| (at, &mut *words)) } else { None };
            self.part(part, marks.get(at).map_or(&[], Vec::as_slice), asking)
        };
        at_length(parts, || parts.iter().enumerate().map(judge).collect())
    }

    /// Judges the beginning of a turn.
    pub fn turn(&self) -> Ruling {
        self.with(MomentSubject::Turn, &[], |moment| self.rules.guardrail.judge(moment))
    }

    fn part(&mut self, part: &StepPart<'_>, marks: &[Mark], asking: Option<(usize, &mut ModelAnswers)>) -> GuardRuling {
        match *part {
            StepPart::Planned(call) | StepPart::Made(call) => self.call(call, marks, asking),
            StepPart::Result(SaidResult { tool, content, .. }) => {
                let ruling = self.ruling(MomentSubject::Result { tool, text: content }, marks, asking);
                GuardRuling { tool: Some(tool.clone()), effect: None, ruling }
            }
            StepPart::Message { role, text, with_calls } => {
                let ruling = self.ruling(MomentSubject::Message { role, text, with_calls }, marks, asking);
                GuardRuling { ruling, ..GuardRuling::default() }
            }
        }
    }

    /// Judges a call, and adds its labels to the context. A call without a server's name is judged as each tool of that
    /// name that the session was shown, and the gravest ruling holds.
    fn call(
        &mut self,
        call: &NamedCall,
        marks: &[Mark],
        mut asking: Option<(usize, &mut ModelAnswers)>,
    ) -> GuardRuling {
        let meant = self.shown.as_ref().map(|shown| shown.meant(&call.tool)).unwrap_or_default();
        let meant: Vec<ToolName> =
            if meant.is_empty() { vec![call.tool.clone()] } else { meant.into_iter().cloned().collect() };
        let args = Value::Object(call.arguments.clone());
        let (mut judged, mut taints) = (None::<GuardRuling>, Vec::new());
        for tool in &meant {
            let asked = self.asked(tool, call);
            let effect = self.tools.effect(&asked).effect;
            taints.extend(self.tools.taints(&asked));
            let asking = asking.as_mut().map(|(part, words)| (*part, &mut **words));
            let ruling = self.ruling(MomentSubject::Call { tool, effect, args: &args }, marks, asking);
            taints.extend(ruling.taints.iter().cloned());
            let graver = judged.as_ref().is_none_or(|other| {
                (ruling.decision, ruling.would, effect)
                    > (other.ruling.decision, other.ruling.would, other.effect.unwrap_or(effect))
            });
            if graver {
                judged = Some(GuardRuling { tool: Some(tool.clone()), effect: Some(effect), ruling });
            }
        }
        for taint in taints {
            if !self.taints.contains(&taint) {
                self.taints.push(taint);
            }
        }
        judged.unwrap_or_default()
    }

    fn ruling(&self, subject: MomentSubject<'_>, marks: &[Mark], asking: Option<(usize, &mut ModelAnswers)>) -> Ruling {
        let guardrail = &self.rules.guardrail;
        self.with(subject, marks, |moment| {
            let mut ruling = guardrail.judge(moment);
            let Some((part, words)) = asking else { return ruling };
            let mut asked: Vec<&ModelRule> = Vec::new();
            // Each answer may leave other rules with nothing to change.
            while let Some(rule) = guardrail.model_rules(moment, &ruling).into_iter().find(|rule| !asked.contains(rule))
            {
                asked.push(rule);
                ruling = words.take(ruling, part, rule);
            }
            ruling
        })
    }

    /// Builds the `Moment` of a subject in this context, and calls `then` with it.
    fn with<T>(&self, subject: MomentSubject<'_>, marks: &[Mark], then: impl FnOnce(&Moment<'_>) -> T) -> T {
        let read = self.documents.as_deref().unwrap_or_default();
        let changed: Vec<_> =
            read.iter().map(|read| |section: Option<&str>, since| read.changed(section, since)).collect();
        let documents: Vec<MomentDocument<'_>> =
            read.iter().zip(&changed).map(|(read, changed)| read.standing(changed)).collect();
        then(&Moment {
            context: AgentContext {
                agent: &self.agent,
                route: self.route.as_deref(),
                modes: &self.modes,
                taints: &self.taints,
                session: self.session.as_deref(),
            },
            subject,
            marks,
            documents: self.documents.as_ref().map(|_| documents.as_slice()),
        })
    }

    fn asked(&self, tool: &ToolName, call: &NamedCall) -> Call {
        Call {
            call_id: String::new(),
            session: self.session.clone(),
            route: self.route.clone(),
            modes: self.modes.clone(),
            ..Call::new(self.agent.clone(), tool.clone(), call.arguments.clone())
        }
    }
}
