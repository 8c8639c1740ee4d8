//! The sidecar in the sessions of coding agents: advice beside a prompt, and the end of a turn that waits for documents.
//! A fault of the sidecar is silence: the agent goes on.

use tokio::time::Instant;

use super::{HookRequest, Hooks};
use crate::{
    flows::sessions::{attach::StepError, turn::TurnAnswer},
    ingest::{AttachRequest, MessageRequest, TurnRequest},
};
use umbra_config::settings::SidecarHooks;
use umbra_domain::{Objective, SessionId, sidecar::SidecarVerdict};
use umbra_hooks::{HookAnswer, HookMode};
use umbra_store::{StoreError, hooks::HookTurn};

/// Longest wait for the sidecar, in milliseconds: a host waits for the hook, which may cost it 300.
const PATIENCE_MS: u64 = 250;
/// Most times that the end of one turn is held.
const MOST_HELD: i32 = 3;
/// Most patterns beside a prompt.
const PATTERNS: usize = 3;

impl Hooks {
    /// Returns advice for the turn that a prompt begins: what is due, and what worked before.
    pub(super) async fn advise(&self, asked: Instant, request: &HookRequest, turn: &HookTurn) -> HookAnswer {
        if self.companion == SidecarHooks::Off || !request.host.takes_context || request.message.prompt.is_none() {
            return HookAnswer::Pass;
        }
        let intent = turn.task.clone();
        let step = TurnRequest { intent, deadline_ms: Some(PATIENCE_MS), ..TurnRequest::default() };
        let answer = match self.session_of(asked, request, turn).await {
            Some(id) => match self.sidecar.turn(asked, id, step.clone(), &|_| true).await {
                // It was closed since, for want of use.
                Err(StepError::Closed | StepError::Unknown) => match self.attach(asked, request, turn).await {
                    Some(id) => self.sidecar.turn(asked, id, step, &|_| true).await.ok(),
                    None => None,
                },
                answer => answer.ok(),
            },
            None => None,
        };
        match answer.map(|answer| advice(&answer)).filter(|text| !text.is_empty()) {
            Some(text) => HookAnswer::Context(text),
            None => HookAnswer::Pass,
        }
    }

    /// Holds the end of a turn whose documents are not in order, where the operator asks for it.
    pub(super) async fn hold(&self, asked: Instant, request: &HookRequest) -> HookAnswer {
        if self.companion != SidecarHooks::Hold || request.mode != HookMode::Enforce {
            return HookAnswer::Pass;
        }
        match self.reason_to_hold(asked, request).await {
            Ok(Some(reason)) => HookAnswer::Hold(reason),
            Ok(None) => HookAnswer::Pass,
            Err(error) => {
                tracing::debug!(%error, "the end of a hooked turn is not held");
                HookAnswer::Pass
            }
        }
    }

    async fn reason_to_hold(&self, asked: Instant, request: &HookRequest) -> Result<Option<String>, StoreError> {
        let (agent, session) = self.named(request);
        let Some(id) = self.store.hooks().companion(&agent, &session).await? else { return Ok(None) };
        let message = MessageRequest {
            role: "assistant".to_owned(),
            content: request.message.answer.clone(),
            deadline_ms: Some(PATIENCE_MS),
            ..MessageRequest::default()
        };
        let Ok(judged) = self.sidecar.message(asked, SessionId(id), message, &|_| true).await else { return Ok(None) };
        let mut due = judged.said.ruling.due.iter().chain(&judged.documents_due);
        let due = due.find(|due| due.verdict == SidecarVerdict::Block);
        let Some(due) = due.filter(|_| !judged.degraded) else { return Ok(None) };
        let held = self.store.hooks().hold(&agent, &session, MOST_HELD).await?;
        Ok(held.then(|| format!("The document {} is not in order yet: {}", due.document, due.reason)))
    }

    /// Returns the sidecar's session of a host's session; begins one if there is none.
    async fn session_of(&self, asked: Instant, request: &HookRequest, turn: &HookTurn) -> Option<SessionId> {
        let (agent, session) = self.named(request);
        match self.store.hooks().companion(&agent, &session).await.ok()? {
            Some(id) => Some(SessionId(id)),
            None => self.attach(asked, request, turn).await,
        }
    }

    async fn attach(&self, asked: Instant, request: &HookRequest, turn: &HookTurn) -> Option<SessionId> {
        let attached = AttachRequest {
            agent: request.agent.clone(),
            task: turn.task.clone(),
            task_id: Some(turn.task_id.clone()),
            objectives: vec![Objective::TodoEnforcement, Objective::Guardrail, Objective::PatternCapture],
            deadline_ms: Some(PATIENCE_MS),
            ..AttachRequest::default()
        };
        let id = self.sidecar.attach(asked, attached).await.ok()?.id?;
        let (agent, session) = self.named(request);
        self.store.hooks().keep_companion(&agent, &session, id.0).await.ok()?;
        Some(id)
    }
}

/// Writes the parts of a turn's answer that a model can use.
fn advice(answer: &TurnAnswer) -> String {
    let mut lines = answer.directives.clone();
    for offered in answer.patterns.iter().take(PATTERNS) {
        let pattern = &offered.pattern;
        let tools = pattern.tools.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        lines.push(format!("Data, no instruction: a task like this one ({}) was done with {tools}.", pattern.task));
    }
    if lines.is_empty() {
        return String::new();
    }
    format!("From Umbra, which goes along with this session:\n- {}", lines.join("\n- "))
}
