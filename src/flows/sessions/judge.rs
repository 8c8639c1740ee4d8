//! How a step is judged: its parts, in order, as its session stands. Rules, documents and checks answer from memory; what
//! rules in words ask stands in [`Words`], which were asked before.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{Guarding, seen::Taken, step::Read, words::Words};
use crate::ingest::{GuardRequest, MessageRequest, NamedCall, SaidResult, Subject as Asked, TurnRequest};
use umbra_boundary::tools::Tools;
use umbra_domain::{
    Call, Effect, Mark, Session, SessionId, ToolName,
    sidecar::{ModelRule, Ruling},
};
use umbra_sidecar::{
    guard::{Moment, Standing, Subject},
    tools::Catalogue,
};
use umbra_store::documents::StoredDocument;

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

/// One thing of a step, as it is kept.
#[derive(Clone, Copy)]
pub(super) enum Part<'a> {
    /// A call that is yet to be made.
    Planned(&'a NamedCall),
    /// A call that was made.
    Made(&'a NamedCall),
    /// What a tool answered.
    Result(&'a SaidResult),
    /// Something that is said.
    Message {
        role: &'a str,
        text: &'a str,
        /// True if calls come with it.
        with_calls: bool,
    },
}

impl Part<'_> {
    /// The planned calls of a turn.
    pub fn of_turn(asked: &TurnRequest) -> Vec<Part<'_>> {
        asked.planned_calls.iter().map(Part::Planned).collect()
    }

    /// What a message tells: its calls, their results, its words.
    pub fn of_message(told: &MessageRequest) -> Vec<Part<'_>> {
        let with_calls = !told.tool_calls.is_empty();
        let said = told.content.iter().map(|text| Part::Message { role: &told.role, text, with_calls });
        told.tool_calls.iter().map(Part::Made).chain(told.results.iter().map(Part::Result)).chain(said).collect()
    }

    /// What the guardrail is asked about.
    pub fn of_guard(asked: &GuardRequest) -> Vec<Part<'_>> {
        vec![match &asked.subject {
            Asked::Message { role, content } => Part::Message { role, text: content, with_calls: false },
            Asked::Call(call) => Part::Planned(call),
        }]
    }

    /// What stands in each part as it was sent and is not kept.
    pub fn marks(parts: &[Part<'_>]) -> Vec<Vec<Mark>> {
        let marks = |part: &Part<'_>| match part {
            Part::Planned(call) | Part::Made(call) => {
                let args = Value::Object(call.arguments.clone());
                marks(Subject::Call { tool: &call.tool, effect: Effect::Read, args: &args })
            }
            Part::Result(result) => marks(Subject::Result { tool: &result.tool, text: &result.content }),
            Part::Message { role, text, with_calls } => marks(Subject::Message { role, text, with_calls: *with_calls }),
        };
        at_length(parts, || parts.iter().map(marks).collect())
    }

    fn weight(&self) -> usize {
        match self {
            Part::Planned(call) | Part::Made(call) => {
                call.arguments.iter().map(|(key, value)| key.len() + weight(value)).sum()
            }
            Part::Result(result) => result.content.len(),
            Part::Message { text, .. } => text.len(),
        }
    }

    /// Whether rules in words may be asked: what is done already no model can stop, and what others say is not the agent's.
    pub fn may_be_asked(&self) -> bool {
        match self {
            Part::Planned(_) => true,
            Part::Message { role, .. } => *role == "assistant",
            Part::Made(_) | Part::Result(_) => false,
        }
    }
}

/// Bytes of a step from which on the work at it makes room for others.
const LENGTHY: usize = 16 * 1024;

/// Does work at the parts of a step; where they are long, other requests go on meanwhile.
pub(super) fn at_length<T>(parts: &[Part<'_>], work: impl FnOnce() -> T) -> T {
    if parts.iter().map(Part::weight).sum::<usize>() < LENGTHY { work() } else { tokio::task::block_in_place(work) }
}

/// About how many bytes a value is.
fn weight(value: &Value) -> usize {
    8 + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(members) => members.iter().map(|(key, value)| key.len() + weight(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn marks(subject: Subject<'_>) -> Vec<Mark> {
    umbra_checks::screen(subject.as_event()).marks
}

/// What is in force: the rules, and what tools do.
pub(super) type Law<'a> = (&'a Guarding, &'a Tools);

/// The route and the modes that a step says it is in.
pub(super) type Whereabouts<'a> = (Option<&'a String>, Option<&'a Vec<String>>);

/// Who acts, and how things stand: what all parts of one step are held against.
pub(super) struct Scene<'a> {
    pub rules: &'a Guarding,
    pub tools: &'a Tools,
    pub agent: String,
    pub route: Option<String>,
    pub modes: Vec<String>,
    /// The session's id.
    pub session: Option<String>,
    /// Not known where the session is not: rules about documents are not asked then.
    pub documents: Option<Vec<Read>>,
    pub taints: Vec<String>,
    /// The tools that it was shown, where they are known.
    pub shown: Option<Arc<Catalogue>>,
}

impl<'a> Scene<'a> {
    /// An agent without a session.
    pub fn new((rules, tools): Law<'a>, agent: &str) -> Self {
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

    /// A session, with its documents where they are known.
    pub fn of(law: Law<'a>, session: &Session, documents: Option<&[StoredDocument]>) -> Self {
        Self {
            route: session.route.clone(),
            modes: session.modes.clone(),
            session: Some(session.id.to_string()),
            documents: documents.map(|documents| Read::those_of(law.0, documents)),
            taints: session.taints.clone(),
            ..Self::new(law, &session.agent)
        }
    }

    /// A session that was taken for a step, as far as it is known.
    pub fn of_taken(law: Law<'a>, id: SessionId, taken: &Taken) -> Self {
        let known = taken.step.as_ref().filter(|_| !taken.held.is_unknown);
        let documents = known.map(|step| step.documents.as_slice());
        match &taken.session {
            Some(session) => Self::of(law, session, documents),
            None => Self { session: Some(id.to_string()), ..Self::new(law, "") },
        }
    }

    /// The same on another route and in other modes, as far as they are said.
    #[must_use]
    pub fn at(mut self, (route, modes): Whereabouts<'_>) -> Self {
        self.route = route.cloned().or(self.route);
        self.modes = modes.cloned().unwrap_or(self.modes);
        self
    }

    /// The same with the tools that its session was shown.
    #[must_use]
    pub fn showing(self, shown: Option<Arc<Catalogue>>) -> Self {
        Self { shown, ..self }
    }

    /// What the rules say of the parts of a step, in order. Each call leaves its labels for those behind it, here too.
    pub fn judge(&mut self, parts: &[Part<'_>], marks: &[Vec<Mark>], words: &mut Words) -> Vec<Judged> {
        let mut asked = 0..;
        let judge = |(at, part): (usize, &Part<'_>)| {
            let asking = if part.may_be_asked() { asked.next().map(|at| (at, &mut *words)) } else { None };
            self.part(part, marks.get(at).map_or(&[], Vec::as_slice), asking)
        };
        at_length(parts, || parts.iter().enumerate().map(judge).collect())
    }

    /// That a turn begins.
    pub fn turn(&self) -> Ruling {
        self.with(Subject::Turn, &[], |moment| self.rules.guardrail.judge(moment))
    }

    fn part(&mut self, part: &Part<'_>, marks: &[Mark], asking: Option<(usize, &mut Words)>) -> Judged {
        match *part {
            Part::Planned(call) | Part::Made(call) => self.call(call, marks, asking),
            Part::Result(SaidResult { tool, content, .. }) => {
                let ruling = self.ruling(Subject::Result { tool, text: content }, marks, asking);
                Judged { tool: Some(tool.clone()), effect: None, ruling }
            }
            Part::Message { role, text, with_calls } => {
                let ruling = self.ruling(Subject::Message { role, text, with_calls }, marks, asking);
                Judged { ruling, ..Judged::default() }
            }
        }
    }

    /// A call. What it would leave behind clings to what comes after it. Where it names no server, it is held to the rules
    /// about each tool of that name that the session was shown, and the gravest ruling holds.
    fn call(&mut self, call: &NamedCall, marks: &[Mark], mut asking: Option<(usize, &mut Words)>) -> Judged {
        let meant = self.shown.as_ref().map(|shown| shown.meant(&call.tool)).unwrap_or_default();
        let meant: Vec<ToolName> =
            if meant.is_empty() { vec![call.tool.clone()] } else { meant.into_iter().cloned().collect() };
        let args = Value::Object(call.arguments.clone());
        let (mut judged, mut taints) = (None::<Judged>, Vec::new());
        for tool in &meant {
            let asked = self.asked(tool, call);
            let effect = self.tools.effect(&asked).effect;
            taints.extend(self.tools.taints(&asked));
            let asking = asking.as_mut().map(|(part, words)| (*part, &mut **words));
            let ruling = self.ruling(Subject::Call { tool, effect, args: &args }, marks, asking);
            taints.extend(ruling.taints.iter().cloned());
            let graver = judged.as_ref().is_none_or(|other| {
                (ruling.decision, ruling.would, effect)
                    > (other.ruling.decision, other.ruling.would, other.effect.unwrap_or(effect))
            });
            if graver {
                judged = Some(Judged { tool: Some(tool.clone()), effect: Some(effect), ruling });
            }
        }
        for taint in taints {
            if !self.taints.contains(&taint) {
                self.taints.push(taint);
            }
        }
        judged.unwrap_or_default()
    }

    fn ruling(&self, subject: Subject<'_>, marks: &[Mark], asking: Option<(usize, &mut Words)>) -> Ruling {
        let guardrail = &self.rules.guardrail;
        self.with(subject, marks, |moment| {
            let mut ruling = guardrail.judge(moment);
            let Some((part, words)) = asking else { return ruling };
            let mut asked: Vec<&ModelRule> = Vec::new();
            // Each answer may leave others with nothing to change.
            while let Some(rule) = guardrail.model_rules(moment, &ruling).into_iter().find(|rule| !asked.contains(rule))
            {
                asked.push(rule);
                ruling = words.take(ruling, part, rule);
            }
            ruling
        })
    }

    /// Does what is asked with a moment.
    fn with<T>(&self, subject: Subject<'_>, marks: &[Mark], then: impl FnOnce(&Moment<'_>) -> T) -> T {
        let read = self.documents.as_deref().unwrap_or_default();
        let changed: Vec<_> =
            read.iter().map(|read| |section: Option<&str>, since| read.changed(section, since)).collect();
        let documents: Vec<Standing<'_>> =
            read.iter().zip(&changed).map(|(read, changed)| read.standing(changed)).collect();
        then(&Moment {
            agent: &self.agent,
            route: self.route.as_deref(),
            modes: &self.modes,
            taints: &self.taints,
            session: self.session.as_deref(),
            subject,
            marks,
            documents: self.documents.as_ref().map(|_| documents.as_slice()),
        })
    }

    fn asked(&self, tool: &ToolName, call: &NamedCall) -> Call {
        Call {
            call_id: String::new(),
            agent: self.agent.clone(),
            session: self.session.clone(),
            run: None,
            default_run: false,
            parent_run: None,
            seed: None,
            faults: false,
            route: self.route.clone(),
            modes: self.modes.clone(),
            tool: tool.clone(),
            by_proxy: false,
            server_name: None,
            annotations: umbra_domain::ToolAnnotations::default(),
            declared_effect: None,
            description: None,
            input_schema: None,
            output_schema: None,
            arguments: call.arguments.clone(),
            stub_override: None,
            stub_fallback: None,
            uninterceptable: Vec::new(),
            traceparent: None,
            deadline_ms: None,
        }
    }
}
