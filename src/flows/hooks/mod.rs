//! A hook of a coding agent, from its payload to the answer: in `enforce` a call is decided before it runs, and every
//! event of use becomes an event for the shadows.
//!
//! One event is filed for each call: with its result, or, where the host reports none (a denied call, a failed one),
//! when the call is denied or its turn ends. Calls in between wait in `hook_call`.

mod call_decision;
mod companion;
mod events;

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::events::{CallEnd, cut};
pub(super) use self::events::{bounded, shown};
use crate::flows::{
    decisions::Boundary,
    events::{AcceptError, Origin},
    otel::Otel,
    rounds::pause,
    sessions::Sidecar,
};
use umbra_config::settings::SidecarHooks;
use umbra_domain::{KeyId, clock::Clock};
use umbra_hooks::{EventKind, HookAnswer, HookMessage, HookMode, Host};
use umbra_store::{
    Store, StoreError,
    hooks::{HookNote, HookTurn},
    installation::Installation,
};

pub use self::call_decision::Flagging;

/// Name of the tool whose call proves that a hook is installed: it is denied in `enforce`, and never runs anywhere.
pub const CANARY: &str = "umbra_canary";
/// Pause between looks for calls of sessions that have died.
const BETWEEN_SWEEPS: Duration = Duration::from_mins(5);
/// Age at which a call without a result is filed.
const STALE_AFTER: Duration = Duration::from_hours(2);
/// Most such calls in one look.
const SWEPT: i64 = 500;
/// Most bytes of a prompt that is kept as the task of its turn.
const TASK_BYTES: usize = 16 * 1024;

/// Use case: hooks of coding agents. Cheap to clone.
#[derive(Clone)]
pub struct Hooks {
    store: Store,
    clock: Clock,
    installation: Installation,
    boundary: Boundary,
    otel: Otel,
    sidecar: Sidecar,
    flagging: Flagging,
    companion: SidecarHooks,
}

/// Request of a hook.
#[derive(Debug, Clone)]
pub struct HookRequest {
    /// Host of the hook.
    pub host: &'static Host,
    /// Force of the hook.
    pub mode: HookMode,
    /// Name of the agent.
    pub agent: String,
    /// Key of the request.
    pub by: Option<KeyId>,
    /// The payload, read.
    pub message: HookMessage,
}

/// Reason why an event of a hook is not stored.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// The event was refused.
    #[error(transparent)]
    Refused(#[from] AcceptError),
    /// The database does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl HookRequest {
    /// The host's id of the session; a payload without one has a session of its own agent.
    fn session(&self) -> &str {
        self.message.session.as_deref().unwrap_or("none")
    }

    /// The session of the calls: a subagent's are apart from those of its siblings.
    fn call_session(&self) -> String {
        match &self.message.subagent {
            Some(subagent) => format!("{}/{}", self.session(), subagent.id),
            None => self.session().to_owned(),
        }
    }

    /// True for the call that proves a hook.
    fn is_canary(&self) -> bool {
        self.message.call.as_ref().is_some_and(|call| call.full_name == CANARY)
    }

    /// The agent of the event: a subagent is an agent of its own, named after the main agent and its kind.
    fn speaker(&self) -> String {
        match &self.message.subagent {
            Some(subagent) => format!("{}/{}", self.agent, subagent.kind.as_deref().unwrap_or("subagent")),
            None => self.agent.clone(),
        }
    }
}

impl Hooks {
    /// Returns the use case on one database, with the use cases that it joins.
    pub fn new(
        (store, clock, installation): (Store, Clock, Installation),
        (boundary, otel, sidecar): (Boundary, Otel, Sidecar),
        (flagging, companion): (Flagging, SidecarHooks),
    ) -> Self {
        Self { store, clock, installation, boundary, otel, sidecar, flagging, companion }
    }

    /// Answers a hook. A call in `enforce` always has an answer; its decision is in the audit when this returns.
    ///
    /// # Errors
    /// The event cannot be stored. The agent goes on: nothing but a call waits for an answer.
    pub async fn answer(&self, asked: Instant, request: &HookRequest) -> Result<HookAnswer, HookError> {
        let message = &request.message;
        let Some(kind) = message.kind.filter(|kind| *kind != EventKind::Ignored) else { return Ok(HookAnswer::Pass) };
        match (kind, request.mode) {
            (EventKind::Call, HookMode::Enforce) if request.is_canary() => {
                return Ok(self.answer_canary(asked, request).await);
            }
            (EventKind::Call, HookMode::Enforce) => return Ok(self.decide(asked, request).await),
            // A turn that was interrupted had no end.
            (EventKind::Prompt, _) if message.prompt.is_some() => self.file_open_calls(request).await?,
            _ => {}
        }
        let turn = self.note(request).await?;
        match kind {
            EventKind::Call if request.is_canary() => return Ok(HookAnswer::Deny("Umbra: canary stored".to_owned())),
            EventKind::Call => {
                if let Some(call) = &message.call {
                    let call_id = self.call_id(request, call);
                    self.announce(request, &turn, call, &call_id, &CallEnd::default()).await?;
                }
            }
            EventKind::Result | EventKind::Failure => self.file_result(request, &turn).await?,
            EventKind::Stop => {
                if let held @ HookAnswer::Hold(_) = self.hold(asked, request).await {
                    return Ok(held);
                }
                self.file_open_calls(request).await?;
                self.file_answer(request, &turn).await?;
            }
            EventKind::SubagentStop | EventKind::SessionEnd => {
                // Droid does not say which subagent has ended; the main agent's calls go on.
                if message.subagent.is_some() || kind == EventKind::SessionEnd {
                    self.file_open_calls(request).await?;
                }
                self.file_answer(request, &turn).await?;
            }
            EventKind::Prompt => return Ok(self.advise(asked, request, &turn).await),
            EventKind::SessionStart | EventKind::Ignored => {}
        }
        Ok(HookAnswer::Pass)
    }

    /// Returns the names of agent and session as they are stored.
    fn named(&self, request: &HookRequest) -> (String, String) {
        (self.boundary.name_of(&request.agent), self.boundary.name_of(request.session()))
    }

    /// Notes the event in its session, and returns the turn.
    async fn note(&self, request: &HookRequest) -> Result<HookTurn, StoreError> {
        let HookRequest { host, mode, message, .. } = request;
        let (agent, session) = self.named(request);
        let prompt = message.prompt.as_deref().map(|prompt| cut(umbra_checks::redact(prompt).as_str(), TASK_BYTES));
        let turn =
            message.turn.as_deref().filter(|_| message.subagent.is_none()).map(|turn| self.boundary.name_of(turn));
        let shown_host = message.shown_host.filter(|shown| shown != host);
        let note = HookNote {
            agent: &agent,
            session: &session,
            host: host.name,
            shown_host: shown_host.map(|shown| shown.name),
            mode: mode.as_str(),
            event: umbra_hooks::event::label_of(&message.event),
            // A subagent works for the turn of its main agent.
            turn: turn.as_deref(),
            prompt: prompt.as_deref(),
            is_call: message.kind == Some(EventKind::Call) && !request.is_canary(),
        };
        match self.store.hooks().note(&note).await {
            // The event goes into the spool, with what the payload tells of its turn.
            Err(error) if error.is_transient() => {
                let task_id = format!("{session}/{}", turn.as_deref().unwrap_or("0"));
                Ok(HookTurn { task_id, task: prompt })
            }
            noted => noted,
        }
    }

    /// Files calls of sessions that have died, until `stop`: their results do not come.
    pub async fn file_stale_calls_until(self, stop: CancellationToken) {
        while pause(&stop, BETWEEN_SWEEPS).await {
            let stale = self.store.hooks().take_stale(STALE_AFTER, SWEPT).await.unwrap_or_default();
            for (_, open) in stale {
                if let Some(event) = open.event.and_then(|event| serde_json::from_slice(&event).ok())
                    && let Err(error) = self.file(&Origin::default(), event, &open.call_id).await
                {
                    tracing::warn!(%error, "a hooked call whose result did not come is lost");
                }
            }
        }
    }
}
