//! One turn: an agent says where it is and what it is about to do, and is told in one answer which tools fit, what the
//! rules say of the calls that it plans, which documents are due, and what worked before.

use serde::Serialize;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::{
    May, Sidecar,
    attach::StepError,
    guard::{Judge, Judged, Shown, call_marks, count},
    patience::Patience,
    patterns::PATTERNS,
    redacted,
    select::{For, RANKED, ToolChoice},
    step::{Read, Recorded, Situation},
};
use crate::{
    domain::{
        Mark, Objective, SessionId, StepKind,
        sidecar::{DocumentDue, SidecarVerdict},
    },
    ingest::TurnRequest,
    pipeline::Pipeline,
    sidecar::patterns::Offered,
};

/// What an agent is told before it goes on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, ToSchema)]
pub struct TurnAnswer {
    /// Which turn this is, counted from 1; 0 where the session was not had.
    pub turn: u32,
    /// Which tools fit.
    pub tools: ToolChoice,
    /// What the rules say of the turn itself: documents that are due, by rules that are about no call.
    pub decision: SidecarVerdict,
    /// What the rules say of each planned call, in order.
    pub decisions: Vec<Judged>,
    /// What to do, in words of ours and of the rules.
    pub directives: Vec<String>,
    /// Documents that are not in order.
    pub documents_due: Vec<DocumentDue>,
    /// What was done before for tasks like this: data, never instructions.
    pub patterns: Vec<Offered>,
    /// Names what was asked, and how things stood.
    pub inputs: String,
    /// Names the text of all rules in force.
    pub policy_version: String,
    /// Whether something is missing.
    pub degraded: bool,
    /// What is missing, and what is worth saying.
    pub warnings: Vec<String>,
}

impl Pipeline {
    /// Answers a turn of a session.
    ///
    /// # Errors
    /// There is no such session, or it is over.
    pub async fn turn(
        &self,
        asked: Instant,
        id: SessionId,
        request: TurnRequest,
        may: May<'_>,
    ) -> Result<TurnAnswer, StepError> {
        let sidecar = &self.sidecar;
        let mut patience = sidecar.patience(asked, request.deadline_ms);
        let marks: Vec<Vec<Mark>> = request.planned_calls.iter().map(call_marks).collect();
        let request = redacted::turn(&request);
        let missed = "the session is not known: there are no tools, documents or patterns, and rules saw no labels";
        let Some((mut step, mut held)) = sidecar.begin(id, missed, may, &mut patience).await? else {
            return Ok(sidecar.turn_without(&request, &marks, patience));
        };
        let (rules, boundary) = (sidecar.rules.load_full(), sidecar.boundary.rules.load_full());
        step.session.route = request.route.clone().or(step.session.route.take());
        if let Some(modes) = &request.modes {
            step.session.modes.clone_from(modes);
        }
        step.session.turns = step.session.turns.saturating_add(1);
        let before = Situation::of(&step);
        let session = step.session.clone();
        let (documents, name) = (Read::all(&step.documents), session.id.to_string());
        let mut judge = Judge {
            rules: &rules,
            tools: &boundary.tools,
            agent: &session.agent,
            route: session.route.as_deref(),
            modes: &session.modes,
            session: Some(&name),
            documents: Some(&documents),
            taints: session.taints.clone(),
        };
        let mut answer = TurnAnswer { turn: session.turns, ..TurnAnswer::default() };
        if session.has(Objective::TodoEnforcement) {
            let ruling = judge.turn();
            answer.decision = ruling.decision;
            answer.documents_due = ruling.due;
        }
        if session.has(Objective::Guardrail) {
            for (call, marks) in request.planned_calls.iter().zip(&marks) {
                let mut judged = judge.call(call, marks);
                judged.ruling =
                    self.in_words(&judge, Shown::Call(call), Some(&session), judged.ruling, &mut patience).await;
                count(&mut step.session.rulings, judged.ruling.decision);
                self.tell_intervention(&judge, &session, &judged);
                answer.decisions.push(judged);
            }
        }
        let task = request.intent.as_deref().or(session.task.as_deref()).unwrap_or_default();
        if session.has(Objective::ToolSelection)
            && let Some(catalogue) = sidecar.catalogue(&session, &mut patience).await
        {
            let who = For {
                agent: &session.agent,
                route: session.route.as_deref(),
                modes: &session.modes,
                taints: &session.taints,
                session: Some(&name),
            };
            answer.tools = sidecar.choose(&catalogue, task, request.limit.unwrap_or(RANKED), who);
        }
        if session.has(Objective::PatternCapture) {
            let most = request.limit.unwrap_or(PATTERNS).min(PATTERNS);
            answer.patterns = sidecar.offers(task, &session, most);
        }
        answer.directives = directives(&answer);
        answer.directives.append(&mut step.session.notices);
        let recorded = Recorded::new(&request, before, marks, &answer, &rules);
        answer.inputs.clone_from(&recorded.inputs);
        answer.policy_version.clone_from(&recorded.policy_version);
        let (recorded, writes) = (recorded.to_json(), held.plan(&step.documents));
        let writing = step.write(StepKind::Turn, &recorded);
        let missed = "this turn is not kept: documents changed since the one before count as changed";
        if patience.ask(missed, writing).await.is_some() {
            sidecar.write(writes, &mut patience).await;
        }
        (answer.degraded, answer.warnings) = patience.end();
        Ok(answer)
    }
}

impl Sidecar {
    /// A turn of a session that is not had. Rules are in memory: what they forbid whoever acts, they forbid now.
    fn turn_without(&self, request: &TurnRequest, marks: &[Vec<Mark>], patience: Patience<'_>) -> TurnAnswer {
        let (rules, boundary) = (self.rules.load_full(), self.boundary.rules.load_full());
        let mut judge = Judge {
            rules: &rules,
            tools: &boundary.tools,
            agent: "",
            route: request.route.as_deref(),
            modes: request.modes.as_deref().unwrap_or_default(),
            session: None,
            documents: None,
            taints: Vec::new(),
        };
        let planned = request.planned_calls.iter().zip(marks);
        let decisions = planned.map(|(call, marks)| judge.call(call, marks)).collect();
        let (degraded, warnings) = patience.end();
        TurnAnswer { decisions, policy_version: self.policy_version(), degraded, warnings, ..TurnAnswer::default() }
    }
}

/// What to do, a sentence each.
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
        let reason = judged.ruling.reason.as_deref().unwrap_or("a rule says so").trim_end_matches('.');
        match judged.ruling.decision {
            SidecarVerdict::Allow => None,
            SidecarVerdict::Warn => Some(format!("Think twice before you call {tool}: {reason}.")),
            SidecarVerdict::Block => Some(format!("Do not call {tool}: {reason}.")),
        }
    });
    due.chain(calls).collect()
}
