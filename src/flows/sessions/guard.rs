//! Rulings on a single call or message, in a session or without one, and the events that report interventions to the
//! shadows.

use serde::Serialize;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use super::{
    AgentFilter, Sidecar,
    attach::StepError,
    cleaned,
    judge::{EvaluationContext, GuardRuling, StepPart, at_length},
    redaction,
    session_cache::AcquiredSession,
    step::{StateSnapshot, StepRecord},
};
use crate::{
    flows::events::Origin,
    ingest::{GuardRequest, Incoming},
    telemetry::metric,
};
use umbra_domain::{
    Event, PolicyMode, Session, StepKind,
    session::Tally,
    sidecar::{CheckedBy, Ruling, SidecarVerdict},
};

/// Answer to a question about one call or message.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct GuardAnswer {
    /// Ruling on the call or message.
    #[serde(flatten)]
    pub judged: GuardRuling,
    /// Digest of the request and of the state that it was judged on.
    pub inputs: String,
    /// Version of all rules in force, by their text.
    pub policy_version: String,
    /// True if part of the answer is missing.
    pub degraded: bool,
    /// Missing parts, and other remarks.
    pub warnings: Vec<String>,
}

/// Interventions of the sidecar that are to be reported to the shadows, as events.
pub struct Interventions(pub(super) mpsc::Receiver<Event>);

/// Counts a ruling, by decision and rule.
fn count(tally: &mut Tally, ruling: &Ruling) {
    let Ruling { decision, would, rule, would_rule, .. } = ruling;
    for (rule, decision, mode) in [(rule, decision, PolicyMode::Enforce), (would_rule, would, PolicyMode::Audit)] {
        if let Some(rule) = rule.clone().filter(|_| *decision > SidecarVerdict::Allow) {
            let labels =
                [("rule", rule), ("decision", decision.as_str().to_owned()), ("mode", mode.as_str().to_owned())];
            metrics::counter!(metric::SIDECAR_RULES, &labels).increment(1);
        }
    }
    let slot = match decision {
        SidecarVerdict::Allow => &mut tally.allow,
        SidecarVerdict::Warn => &mut tally.warn,
        SidecarVerdict::Block => &mut tally.block,
    };
    *slot = slot.saturating_add(1);
    metrics::counter!(metric::SIDECAR_RULINGS, "decision" => decision.as_str()).increment(1);
}

impl Sidecar {
    /// Rules on one call or message, in a session or without one.
    ///
    /// # Errors
    /// There is no such session, or it is closed.
    pub async fn guard(
        &self,
        asked: Instant,
        request: GuardRequest,
        may: AgentFilter<'_>,
    ) -> Result<GuardAnswer, StepError> {
        let mut patience = self.patience(asked, request.deadline_ms);
        if request.session.is_some() && request.agent.is_some() {
            patience.warn("`agent` is ignored: the session names its agent".to_owned());
        }
        let marks = StepPart::marks(&StepPart::of_guard(&request));
        let agent = request.agent.as_deref().map(|agent| self.boundary.name_of(agent)).unwrap_or_default();
        let request = at_length(&StepPart::of_guard(&request), || redaction::guard(request.clone()));
        let (parts, whereabouts) = (StepPart::of_guard(&request), (request.route.as_ref(), request.modes.as_ref()));
        let (rules, boundary) = (self.rules.load_full(), self.boundary.rules.load_full());
        let law = (&*rules, &boundary.tools);
        let (mut words, AcquiredSession { step, session, held }, mut scene);
        if let Some(id) = request.session {
            let waits = (may, &mut patience);
            words = self.ask_before(law, id, (&parts, &marks), whereabouts, waits).await;
            let missed = "the session could not be read: rules about its documents were judged without documents";
            let taken = self.acquire_session(id, missed, (may, &mut patience)).await?;
            let shown = self.catalogue(taken.session.as_ref(), &mut patience).await;
            scene = EvaluationContext::of_taken(law, id, &taken).at(whereabouts).showing(shown);
            AcquiredSession { step, session, held } = taken;
        } else {
            let alone = || EvaluationContext::new(law, &agent).at(whereabouts);
            words = self.in_words(&parts, &marks, alone, None, &mut patience).await;
            scene = alone();
            AcquiredSession { step, session, held } = AcquiredSession::default();
        }
        let before = StateSnapshot::of(&scene, step.as_ref());
        // The question is answered even if the guardrail is no objective of the session.
        let judged = scene.judge(&parts, &marks, &mut words).pop().unwrap_or_default();
        words.tell(&mut patience);
        let recorded = StepRecord::new(&request, before, marks, &judged, &rules)?;
        let (inputs, policy_version) = (recorded.inputs.clone(), recorded.policy_version.clone());
        if let Some(mut step) = step {
            self.note(&judged, &scene.agent, Some(&mut step.session));
            self.write((step, held), StepKind::Guard, &recorded, ("this ruling is not stored", &mut patience)).await?;
        } else {
            self.note(&judged, &scene.agent, session.clone().as_mut());
        }
        let (degraded, warnings) = patience.end();
        Ok(GuardAnswer { judged, inputs, policy_version, degraded, warnings })
    }

    /// Counts a ruling, in the session too if there is one, and reports it to the shadows.
    pub(super) fn note(&self, judged: &GuardRuling, agent: &str, session: Option<&mut Session>) {
        let mut alone = Tally::default();
        self.tell_intervention(agent, session.as_deref(), judged);
        count(session.map_or(&mut alone, |session| &mut session.rulings), &judged.ruling);
    }

    /// Queues an event of the agent that reports an intervention, with the rule in its metadata.
    fn tell_intervention(&self, agent: &str, session: Option<&Session>, judged: &GuardRuling) {
        let ruling = &judged.ruling;
        if ruling.decision == SidecarVerdict::Allow || ruling.checked_by == Some(CheckedBy::Model) {
            return;
        }
        let (rule, reason) = (ruling.rule.as_deref().unwrap_or_default(), ruling.reason.as_deref().unwrap_or_default());
        let mut event = Event {
            agent: agent.to_owned(),
            task_id: session.and_then(|session| session.task_id.clone()),
            session_id: session.map(|session| session.id.to_string()),
            output: Some(format!("The guardrail said {}: {}", ruling.decision.as_str(), cleaned(reason))),
            ..Event::default()
        };
        event.metadata.insert("sidecar.rule".to_owned(), rule.into());
        event.metadata.insert("sidecar.decision".to_owned(), ruling.decision.as_str().into());
        if let Some(tool) = &judged.tool {
            event.metadata.insert("sidecar.tool".to_owned(), tool.to_string().into());
        }
        // No request waits for the event; if it cannot be queued, the metric has counted the ruling.
        if self.told.try_send(event).is_err() {
            tracing::debug!("an intervention of the sidecar is not sent to the shadows: too many wait");
        }
    }

    /// Posts the events of interventions; after `stop` until the queue is empty.
    pub async fn tell_interventions_until(self, mut told: Interventions, stop: CancellationToken) {
        loop {
            let event = tokio::select! {
                event = told.0.recv() => event,
                () = stop.cancelled() => told.0.try_recv().ok(),
            };
            let Some(event) = event else { return };
            let incoming = Incoming { event, key: None, digest_input: Vec::new() };
            if let Err(error) = self.events.accept(incoming, &Origin::default()).await {
                tracing::debug!(%error, "an intervention of the sidecar could not be sent to the shadows");
            }
        }
    }

    /// Returns the version of the rules in force.
    pub fn policy_version(&self) -> String {
        self.rules.load().guardrail.version().to_owned()
    }
}
