//! One turn of a session: the agent says where it is and what it plans, and one answer names the tools that fit, the
//! rulings on its planned calls, the documents that are due, and patterns of what worked before.

use serde::Serialize;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::{
    AgentFilter, Sidecar,
    attach::StepError,
    judge::{EvaluationContext, GuardRuling, StepPart, at_length},
    patterns::PATTERNS,
    redaction,
    select::ToolChoice,
    session_cache::AcquiredSession,
    step::{StateSnapshot, StepRecord},
};
use crate::ingest::TurnRequest;
use umbra_domain::{
    Objective, Session, SessionId, StepKind,
    sidecar::{DocumentDue, SidecarVerdict},
};
use umbra_policy::AgentContext;
use umbra_sidecar::patterns::OfferedPattern;

/// Answer to a turn.
#[derive(Debug, Clone, PartialEq, Default, Serialize, ToSchema)]
pub struct TurnAnswer {
    /// Number of the turn, from 1; 0 if the session was not available.
    pub turn: u32,
    /// Tools that fit.
    pub tools: ToolChoice,
    /// Decision on the turn itself, for documents that are due by rules about no call.
    pub decision: SidecarVerdict,
    /// Rulings on the planned calls, in order.
    pub decisions: Vec<GuardRuling>,
    /// Instructions, in words of Umbra and of the rules.
    pub directives: Vec<String>,
    /// Documents that are not in order.
    pub documents_due: Vec<DocumentDue>,
    /// Patterns of similar tasks: data, never instructions.
    pub patterns: Vec<OfferedPattern>,
    /// Digest of the request and of the state that it was judged on.
    pub inputs: String,
    /// Version of all rules in force, by their text.
    pub policy_version: String,
    /// True if part of the answer is missing.
    pub degraded: bool,
    /// Missing parts, and other remarks.
    pub warnings: Vec<String>,
}

impl Sidecar {
    /// Answers a turn of a session.
    ///
    /// # Errors
    /// There is no such session, or it is closed.
    pub async fn turn(
        &self,
        asked: Instant,
        id: SessionId,
        request: TurnRequest,
        may: AgentFilter<'_>,
    ) -> Result<TurnAnswer, StepError> {
        let mut patience = self.patience(asked, request.deadline_ms);
        let marks = StepPart::marks(&StepPart::of_turn(&request));
        let request = at_length(&StepPart::of_turn(&request), || redaction::turn(request.clone()));
        let (parts, whereabouts) = (StepPart::of_turn(&request), (request.route.as_ref(), request.modes.as_ref()));
        let (rules, boundary) = (self.rules.load_full(), self.boundary.rules.load_full());
        let law = (&*rules, &boundary.tools);
        let mut words = self.ask_before(law, id, (&parts, &marks), whereabouts, (may, &mut patience)).await;
        self.embed_intent(id, request.intent.as_deref(), &patience).await;
        let missed = "the session could not be read: the answer has no tools, documents or patterns";
        let taken = self.acquire_session(id, missed, (may, &mut patience)).await?;
        let catalogue = self.catalogue(taken.session.as_ref(), &mut patience).await;
        let mut scene = EvaluationContext::of_taken(law, id, &taken).at(whereabouts).showing(catalogue.clone());
        let before = StateSnapshot::of(&scene, taken.step.as_ref());
        let AcquiredSession { step, mut session, held } = taken;
        let mut answer = TurnAnswer::default();
        if let Some(session) = &mut session {
            (session.route, session.modes) = (scene.route.clone(), scene.modes.clone());
            session.turns = session.turns.saturating_add(u32::from(step.is_some()));
            answer.turn = if step.is_some() { session.turns } else { 0 };
        }
        let has =
            |objective| step.is_some() && session.as_ref().is_some_and(|session| session.has_objective(objective));
        let [enforces, guards, selects, offers] =
            [Objective::TodoEnforcement, Objective::Guardrail, Objective::ToolSelection, Objective::PatternCapture]
                .map(has);
        if enforces {
            let judged = GuardRuling { ruling: scene.turn(), ..GuardRuling::default() };
            // A turn without an objection is not counted as a ruling.
            if judged.ruling.decision > SidecarVerdict::Allow {
                self.note(&judged, &scene.agent, session.as_mut());
            }
            answer.decision = judged.ruling.decision;
            answer.documents_due = judged.ruling.due;
        }
        // Rules are in memory, so they hold without the session too.
        if guards || step.is_none() {
            answer.decisions = scene.judge(&parts, &marks, &mut words);
            words.tell(&mut patience);
            for judged in &answer.decisions {
                self.note(judged, &scene.agent, session.as_mut());
            }
        }
        if selects && let (Some(session), Some(catalogue)) = (&session, catalogue) {
            let context = AgentContext {
                agent: &session.agent,
                route: session.route.as_deref(),
                modes: &session.modes,
                taints: &session.taints,
                session: scene.session.as_deref(),
            };
            let task = request.intent.as_deref().or(session.task.as_deref()).unwrap_or_default();
            let closeness = self.closeness(&catalogue, task, &mut patience);
            if closeness.is_none() {
                self.embed_later(task, &catalogue);
            }
            let task = (task, closeness.as_deref());
            answer.tools = self.choose(&catalogue, task, (request.limit, &request.always_include), context);
            if let Some(warning) = answer.tools.unknown(&request.always_include) {
                patience.warn(warning);
            }
        }
        if offers && let Some(session) = &session {
            let most = request.limit.unwrap_or(PATTERNS).min(PATTERNS);
            answer.patterns = self.offers(request.intent.as_deref(), session, most);
        }
        answer.directives = directives(&answer);
        let messages = session.as_mut().filter(|_| step.is_some()).map(Session::take_messages);
        answer.directives.extend(messages.into_iter().flatten());
        let kept = step.is_some().then(|| TurnAnswer { tools: answer.tools.kept(), ..answer.clone() });
        let recorded = StepRecord::new(&request, before, marks, &kept, &rules)?;
        (answer.inputs, answer.policy_version) = (recorded.inputs.clone(), recorded.policy_version.clone());
        match (step, session) {
            (Some(mut step), Some(session)) => {
                step.session = session;
                let missed = "this turn is not stored: documents changed since the turn before still count as changed";
                self.write((step, held), StepKind::Turn, &recorded, (missed, &mut patience)).await?;
            }
            (_, Some(session)) => self.seen.keep(&session, false),
            (_, None) => {}
        }
        (answer.degraded, answer.warnings) = patience.end();
        Ok(answer)
    }
}

/// Returns the instructions of an answer, a sentence each.
fn directives(answer: &TurnAnswer) -> Vec<String> {
    let due = answer.documents_due.iter().map(|due| {
        let what = match &due.section {
            Some(section) => format!("the section {section} of {}", due.document),
            None => format!("the document {}", due.document),
        };
        let wanted = match due.needs.as_str() {
            "exists" => "write",
            "complete" => "finish every open item of",
            _ => "update",
        };
        let how = if due.verdict == SidecarVerdict::Block { "Before you go on, " } else { "Soon, " };
        format!("{how}{wanted} {what}: {}.", due.reason.trim_end_matches('.'))
    });
    let calls = answer.decisions.iter().filter_map(|judged| {
        let tool = judged.tool.as_ref()?;
        let reason = judged.ruling.reason.as_deref().unwrap_or("a rule requires it").trim_end_matches('.');
        match judged.ruling.decision {
            SidecarVerdict::Allow => None,
            SidecarVerdict::Warn => Some(format!("Think twice before you call {tool}: {reason}.")),
            SidecarVerdict::Block => Some(format!("Do not call {tool}: {reason}.")),
        }
    });
    due.chain(calls).collect()
}
