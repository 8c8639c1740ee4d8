//! What was said and done in a session: it is held against the rules, leaves its labels, and is what a pattern is made of.

use serde::Serialize;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::{
    May,
    attach::StepError,
    guard::{Judge, Judged, Shown, call_marks, count, marks},
    redacted,
    step::{Read, Recorded, Situation},
};
use crate::{
    domain::{
        Mark, Objective, SessionId, StepKind,
        session::MadeCall,
        sidecar::{DocumentDue, SidecarVerdict},
    },
    ingest::MessageRequest,
    pipeline::Pipeline,
    sidecar::guard::Subject,
};

/// What an agent is told of what was said and done.
#[derive(Debug, Clone, PartialEq, Default, Serialize, ToSchema)]
pub struct MessageAnswer {
    /// Which message this is, counted from 1; 0 where the session was not had.
    pub message: u32,
    /// The gravest of all that is said below.
    pub decision: SidecarVerdict,
    /// What the rules say of the message.
    pub said: Judged,
    /// What they say of each call that was made, in order: whether it should have been.
    pub calls: Vec<Judged>,
    /// What they say of each result, in order.
    pub results: Vec<Judged>,
    /// Documents that are not in order.
    pub documents_due: Vec<DocumentDue>,
    /// What clings to the session by now.
    pub taints: Vec<String>,
    /// Names what was told, and how things stood.
    pub inputs: String,
    /// Names the text of all rules in force.
    pub policy_version: String,
    /// Whether something is missing.
    pub degraded: bool,
    /// What is missing, and what is worth saying.
    pub warnings: Vec<String>,
}

impl Pipeline {
    /// Takes a message of a session.
    ///
    /// # Errors
    /// There is no such session, or it is over.
    pub async fn message(
        &self,
        asked: Instant,
        id: SessionId,
        request: MessageRequest,
        may: May<'_>,
    ) -> Result<MessageAnswer, StepError> {
        let sidecar = &self.sidecar;
        let mut patience = sidecar.patience(asked, request.deadline_ms);
        let calls = request.tool_calls.iter().map(call_marks);
        let results = request.results.iter().map(|one| marks(Subject::Result { tool: &one.tool, text: &one.content }));
        let said = request.content.iter().map(|text| marks(Subject::Message { role: &request.role, text }));
        let gone: Vec<Vec<Mark>> = calls.chain(results).chain(said).collect();
        let request = redacted::message(&request);
        let missed = "the session is not known: the message is not kept, and rules saw no labels or documents";
        let (mut step, mut held) = sidecar.begin(id, missed, may, &mut patience).await?.unzip();
        let (rules, boundary) = (sidecar.rules.load_full(), sidecar.boundary.rules.load_full());
        if let Some(step) = &mut step {
            step.session.route = request.route.clone().or(step.session.route.take());
            if let Some(modes) = &request.modes {
                step.session.modes.clone_from(modes);
            }
            step.session.messages = step.session.messages.saturating_add(1);
        }
        let session = step.as_ref().map(|step| step.session.clone());
        let known = session.as_ref();
        let before = step.as_ref().map(Situation::of);
        let documents = step.as_ref().map(|step| Read::all(&step.documents));
        let name = id.to_string();
        let mut judge = Judge {
            rules: &rules,
            tools: &boundary.tools,
            agent: known.map_or("", |session| &session.agent),
            route: request.route.as_deref().or(known.and_then(|session| session.route.as_deref())),
            modes: known.map_or(request.modes.as_deref().unwrap_or_default(), |session| &session.modes),
            session: Some(&name),
            documents: documents.as_deref(),
            taints: known.map(|session| session.taints.clone()).unwrap_or_default(),
        };
        let mut answer = MessageAnswer { message: known.map_or(0, |session| session.messages), ..Default::default() };
        if known.is_none_or(|session| session.has(Objective::Guardrail)) {
            let mut gone = gone.iter();
            let mut marks = || gone.next().map_or(&[][..], Vec::as_slice);
            for call in &request.tool_calls {
                answer.calls.push(judge.call(call, marks()));
            }
            for result in &request.results {
                answer.results.push(judge.result(&result.tool, &result.content, marks()));
            }
            if let Some(content) = &request.content {
                let ruling = judge.message(&request.role, content, marks());
                let shown = Shown::Message { role: &request.role, text: content };
                answer.said.ruling = if request.role == "assistant" {
                    self.in_words(&judge, shown, known, ruling, &mut patience).await
                } else {
                    ruling
                };
            }
        }
        if known.is_some_and(|session| session.has(Objective::TodoEnforcement)) {
            answer.documents_due = judge.turn().due;
        }
        let parts = [&answer.said].into_iter().chain(&answer.calls).chain(&answer.results);
        answer.decision = parts.map(|judged| judged.ruling.decision).max().unwrap_or_default();
        answer.taints.clone_from(&judge.taints);
        answer.policy_version = sidecar.policy_version();
        if let (Some(mut step), Some(session), Some(before)) = (step, known, before) {
            for judged in [&answer.said].into_iter().chain(&answer.calls).chain(&answer.results) {
                if judged.ruling.decision > SidecarVerdict::Allow {
                    count(&mut step.session.rulings, judged.ruling.decision);
                    self.tell_intervention(&judge, session, judged);
                }
            }
            step.session.taint(answer.taints.iter().cloned());
            remember(&mut step.session, &request, &answer.calls);
            // In what is kept as well: whoever reads the stream is told, too.
            answer.warnings.append(&mut step.session.notices);
            answer.warnings.iter().for_each(|notice| patience.warn(notice.clone()));
            let recorded = Recorded::new(&request, before, gone, &answer, &rules);
            answer.inputs.clone_from(&recorded.inputs);
            let (recorded, writes) = (recorded.to_json(), held.as_mut().and_then(|held| held.plan(&step.documents)));
            let writing = step.write(StepKind::Message, &recorded);
            if patience.ask("this message is not kept", writing).await.is_some() {
                sidecar.write(writes, &mut patience).await;
            }
        }
        (answer.degraded, answer.warnings) = patience.end();
        Ok(answer)
    }
}

/// Calls that were made, and what came of them: a result is that of the latest call of its tool that has none.
fn remember(session: &mut crate::domain::Session, request: &MessageRequest, judged: &[Judged]) {
    for (at, call) in request.tool_calls.iter().enumerate() {
        let rejected = judged.get(at).is_some_and(|judged| judged.ruling.decision == SidecarVerdict::Block);
        session.remember(MadeCall { tool: call.tool.clone(), ok: None, rejected });
    }
    for result in &request.results {
        let waiting = session.calls.iter_mut().rev().find(|made| made.tool == result.tool && made.ok.is_none());
        match waiting {
            Some(made) => made.ok = Some(result.ok),
            None => session.remember(MadeCall { tool: result.tool.clone(), ok: Some(result.ok), rejected: false }),
        }
    }
}
