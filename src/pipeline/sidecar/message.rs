//! What was said and done in a session: it is held against the rules, leaves its labels, and is what a pattern is made of.

use serde::Serialize;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::{
    May,
    attach::StepError,
    guard::count,
    judge::{Judged, Part, Scene},
    redacted,
    seen::Taken,
    step::{Recorded, Situation},
};
use crate::{
    domain::{
        Objective, SessionId, StepKind,
        session::MadeCall,
        sidecar::{DocumentDue, SidecarVerdict},
    },
    ingest::MessageRequest,
    pipeline::Pipeline,
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
        let marks = Part::marks(&Part::of_message(&request));
        let request = redacted::message(&request);
        let (parts, whereabouts) = (Part::of_message(&request), (request.route.as_ref(), request.modes.as_ref()));
        let (rules, boundary) = (sidecar.rules.load_full(), sidecar.boundary.rules.load_full());
        let law = (&*rules, &boundary.tools);
        let mut words = self.ask_before(law, id, (&parts, &marks), whereabouts, (may, &mut patience)).await;
        let missed = "the session is not known: the message is not kept, and rules saw no documents";
        let taken = sidecar.take(id, missed, (may, &mut patience)).await?;
        let mut scene = Scene::of_taken(law, id, &taken).at(whereabouts);
        let before = Situation::of(&scene, taken.step.as_ref());
        let Taken { step, session } = taken;
        let has = |objective| session.as_ref().is_none_or(|session| session.has(objective));
        let mut answer = MessageAnswer { policy_version: sidecar.policy_version(), ..MessageAnswer::default() };
        if has(Objective::Guardrail) {
            answer.take(&request, scene.judge(&parts, &marks, &mut words));
            words.tell(&mut patience);
        }
        if has(Objective::TodoEnforcement) {
            answer.documents_due = scene.turn().due;
        }
        answer.taints.clone_from(&scene.taints);
        for judged in answer.judged(&request) {
            if judged.ruling.decision > SidecarVerdict::Allow {
                self.tell_intervention(&scene.agent, session.as_ref(), judged);
            }
        }
        if let Some(mut step) = step {
            step.session.route = scene.route;
            step.session.modes = scene.modes;
            step.session.messages = step.session.messages.saturating_add(1);
            answer.message = step.session.messages;
            for judged in answer.judged(&request) {
                count(&mut step.session.rulings, judged.ruling.decision);
            }
            step.session.taint(answer.taints.iter().cloned());
            remember(&mut step.session, &request, &answer.calls);
            let recorded = Recorded::new(&request, before, marks, &answer, &rules);
            answer.inputs.clone_from(&recorded.inputs);
            sidecar.write(step, StepKind::Message, &recorded, ("this message is not kept", &mut patience)).await;
        } else if let Some(mut session) = session {
            session.taint(answer.taints.iter().cloned());
            sidecar.seen.keep(&session);
        }
        (answer.degraded, answer.warnings) = patience.end();
        Ok(answer)
    }
}

impl MessageAnswer {
    /// Takes what was ruled of each part of a message, in the order of [`Part::of_message`].
    fn take(&mut self, request: &MessageRequest, judged: Vec<Judged>) {
        self.decision = judged.iter().map(|judged| judged.ruling.decision).max().unwrap_or_default();
        let mut judged = judged.into_iter();
        self.calls = judged.by_ref().take(request.tool_calls.len()).collect();
        self.results = judged.by_ref().take(request.results.len()).collect();
        self.said = judged.next().unwrap_or_default();
    }

    /// All that was ruled on.
    fn judged(&self, request: &MessageRequest) -> impl Iterator<Item = &Judged> {
        let said = request.content.as_ref().map(|_| &self.said);
        self.calls.iter().chain(&self.results).chain(said)
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
