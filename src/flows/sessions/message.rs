//! Messages of a session: judged by the rules, labels kept, and calls remembered for patterns.

use serde::Serialize;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::{
    AgentFilter, Sidecar,
    attach::StepError,
    judge::{EvaluationContext, GuardRuling, StepPart, at_length},
    redaction,
    session_cache::AcquiredSession,
    step::{StateSnapshot, StepRecord},
};
use crate::ingest::{MessageRequest, NamedCall, SaidResult, TurnRequest};
use umbra_domain::{
    Objective, Session, SessionId, StepKind, ToolName,
    session::MadeCall,
    sidecar::{DocumentDue, SidecarVerdict},
};

/// Most bytes of a text that are judged and kept.
const MOST_TEXT: usize = 256 * 1024;

/// Answer to a message.
#[derive(Debug, Clone, PartialEq, Default, Serialize, ToSchema)]
pub struct MessageAnswer {
    /// Number of the message, from 1; 0 if the session was not available.
    pub message: u32,
    /// Gravest decision of the rulings below.
    pub decision: SidecarVerdict,
    /// Ruling on the text of the message.
    pub said: GuardRuling,
    /// Rulings on the calls that were made, in order. Behind the reported calls stand those of which only a result was
    /// reported, with the arguments that the last turn planned for them.
    pub calls: Vec<GuardRuling>,
    /// Rulings on the results, in order.
    pub results: Vec<GuardRuling>,
    /// Documents that are not in order.
    pub documents_due: Vec<DocumentDue>,
    /// Labels of the session by now.
    pub taints: Vec<String>,
    /// Digest of the message and of the state that it was judged on.
    pub inputs: String,
    /// Version of all rules in force, by their text.
    pub policy_version: String,
    /// True if part of the answer is missing.
    pub degraded: bool,
    /// Missing parts, and other remarks.
    pub warnings: Vec<String>,
}

impl Sidecar {
    /// Judges and keeps a message of a session.
    ///
    /// # Errors
    /// There is no such session, or it is closed.
    pub async fn message(
        &self,
        asked: Instant,
        id: SessionId,
        mut request: MessageRequest,
        may: AgentFilter<'_>,
    ) -> Result<MessageAnswer, StepError> {
        let mut patience = self.patience(asked, request.deadline_ms);
        if let Some(warning) = cut(&mut request) {
            patience.warn(warning);
        }
        let mut marks = StepPart::marks(&StepPart::of_message(&request));
        let mut request = at_length(&StepPart::of_message(&request), || redaction::message(request.clone()));
        let (route, modes) = (request.route.clone(), request.modes.clone());
        let whereabouts = (route.as_ref(), modes.as_ref());
        let (rules, boundary) = (self.rules.load_full(), self.boundary.rules.load_full());
        let law = (&*rules, &boundary.tools);
        let mut words = self
            .ask_before(law, id, (&StepPart::of_message(&request), &marks), whereabouts, (may, &mut patience))
            .await;
        let missed =
            "the session could not be read: the message is not stored, and rules were judged without documents";
        let taken = self.acquire_session(id, missed, (may, &mut patience)).await?;
        let catalogue = self.catalogue(taken.session.as_ref(), &mut patience).await;
        let mut scene = EvaluationContext::of_taken(law, id, &taken).at(whereabouts).showing(catalogue);
        let before = StateSnapshot::of(&scene, taken.step.as_ref());
        let AcquiredSession { mut step, mut session, held } = taken;
        let calls = session.as_ref().map(|session| session.calls.as_slice()).unwrap_or_default();
        let unheard = unheard(&request, calls);
        if !unheard.is_empty() {
            let planned = match &mut step {
                Some(step) => patience.ask("calls are judged without arguments", step.last_turn()).await.flatten(),
                None => None,
            };
            let at = request.tool_calls.len();
            request.tool_calls.extend(as_planned(&unheard, planned.as_deref()));
            marks.splice(at..at, unheard.iter().map(|_| Vec::new()));
        }
        let parts = StepPart::of_message(&request);
        let has = |objective| session.as_ref().is_none_or(|session| session.has_objective(objective));
        let mut answer = MessageAnswer { policy_version: self.policy_version(), ..MessageAnswer::default() };
        // Labels of calls are kept whatever the session's objectives are.
        let judged = scene.judge(&parts, &marks, &mut words);
        if has(Objective::Guardrail) {
            answer.take(&request, judged);
            words.tell(&mut patience);
        }
        if has(Objective::TodoEnforcement) {
            answer.documents_due = scene.turn().due;
        }
        answer.taints.clone_from(&scene.taints);
        answer.judged(&request).for_each(|judged| self.note(judged, &scene.agent, session.as_mut()));
        if let Some(session) = &mut session {
            (session.route, session.modes) = (scene.route, scene.modes);
            session.add_taints(answer.taints.iter().cloned());
        }
        if let (Some(mut step), Some(session)) = (step, &mut session) {
            session.messages = session.messages.saturating_add(1);
            answer.message = session.messages;
            remember(session, &request, &answer.calls);
            // Notes are stored with the answer too, for readers of the stream.
            answer.warnings.extend(session.take_messages());
            step.session.clone_from(session);
            answer.warnings.iter().for_each(|notice| patience.warn(notice.clone()));
            let recorded = StepRecord::new(&request, before, marks, &answer, &rules)?;
            answer.inputs.clone_from(&recorded.inputs);
            let missed = "this message is not stored";
            self.write((step, held), StepKind::Message, &recorded, (missed, &mut patience)).await?;
        } else {
            answer.inputs = StepRecord::new(&request, before, marks, &(), &rules)?.inputs;
            if let Some(session) = &session {
                self.seen.keep(session, false);
            }
        }
        (answer.degraded, answer.warnings) = patience.end();
        Ok(answer)
    }
}

impl MessageAnswer {
    /// Takes the rulings on the parts of a message, in the order of [`StepPart::of_message`].
    fn take(&mut self, request: &MessageRequest, judged: Vec<GuardRuling>) {
        self.decision = judged.iter().map(|judged| judged.ruling.decision).max().unwrap_or_default();
        let mut judged = judged.into_iter();
        self.calls = judged.by_ref().take(request.tool_calls.len()).collect();
        self.results = judged.by_ref().take(request.results.len()).collect();
        self.said = judged.next().unwrap_or_default();
    }

    /// Returns all rulings.
    fn judged(&self, request: &MessageRequest) -> impl Iterator<Item = &GuardRuling> {
        let said = request.content.as_ref().map(|_| &self.said);
        self.calls.iter().chain(&self.results).chain(said)
    }
}

/// Cuts texts that are longer than a step reads, and returns a warning.
fn cut(request: &mut MessageRequest) -> Option<String> {
    let texts = request.content.iter_mut().chain(request.results.iter_mut().map(|result| &mut result.content));
    let long: Vec<&mut String> = texts.filter(|text| text.len() > MOST_TEXT).collect();
    let warning = format!("{} texts are longer than {MOST_TEXT} bytes: the rest of each was not examined", long.len());
    let any = !long.is_empty();
    for text in long {
        text.truncate(text.floor_char_boundary(MOST_TEXT));
    }
    any.then_some(warning)
}

/// Returns the tools of results whose calls were not reported.
fn unheard(request: &MessageRequest, calls: &[MadeCall]) -> Vec<ToolName> {
    let waiting = calls.iter().filter(|made| made.ok.is_none()).map(|made| &made.tool);
    let told = request.tool_calls.iter().map(|call| &call.tool);
    let mut waiting: Vec<String> = waiting.chain(told).map(ToolName::joined).collect();
    let mut unheard = Vec::new();
    for SaidResult { tool, .. } in &request.results {
        let name = tool.joined();
        match waiting.iter().position(|other| *other == name) {
            Some(at) => drop(waiting.swap_remove(at)),
            None => unheard.push(tool.clone()),
        }
    }
    unheard
}

/// Returns these calls with the arguments that the last turn planned for them, or without any.
fn as_planned(unheard: &[ToolName], turn: Option<&str>) -> Vec<NamedCall> {
    let turn = turn.and_then(|body| serde_json::from_str::<StepRecord>(body).ok());
    let turn = turn.and_then(|turn| serde_json::from_value::<TurnRequest>(turn.asked).ok());
    let mut planned = turn.map(|turn| turn.planned_calls).unwrap_or_default();
    let call = |tool: &ToolName| {
        let name = tool.joined();
        let at = planned.iter().position(|call| call.tool.joined() == name);
        let arguments = at.map(|at| planned.remove(at).arguments).unwrap_or_default();
        NamedCall { tool: tool.clone(), arguments }
    };
    unheard.iter().map(call).collect()
}

/// Remembers calls and their results in the session: a result belongs to the first call of its tool that has none.
fn remember(session: &mut Session, request: &MessageRequest, judged: &[GuardRuling]) {
    for (at, call) in request.tool_calls.iter().enumerate() {
        let rejected = judged.get(at).is_some_and(|judged| judged.ruling.decision == SidecarVerdict::Block);
        session.add_call(MadeCall { tool: call.tool.clone(), ok: None, rejected });
    }
    for result in &request.results {
        let name = result.tool.joined();
        let is_it = |made: &&mut MadeCall| made.ok.is_none() && made.tool.joined() == name;
        if let Some(made) = session.calls.iter_mut().find(is_it) {
            made.ok = Some(result.ok);
        }
    }
}
