//! Events for the shadows: calls with their results, and the last text of a turn.

use serde_json::{Map, Value, json};

use super::{HookError, HookRequest, Hooks};
use crate::flows::{decisions::ReportError, events::Origin};
use umbra_domain::{
    CallOutcome, DecisionId, Event, MOST_DURATION_MS, OutcomeStatus, ToolCall, ToolName, Trigger, json::encoded_len,
};
use umbra_hooks::{EventKind, HookMode, HookedCall};
use umbra_store::hooks::{AnnouncedCall, HookTurn};

/// Most bytes of the arguments of a call in its event.
const ARGUMENT_BYTES: usize = 128 * 1024;
/// Most bytes of a result, an error or an answer in an event.
const TEXT_BYTES: usize = 64 * 1024;

/// Decision about a call, for its event.
#[derive(Debug, Clone, Default)]
pub(super) struct CallEnd {
    /// Word of the decision; `None` in observe.
    pub decision: Option<&'static str>,
    /// Id of the decision.
    pub decision_id: Option<DecisionId>,
    /// Text in the place of a result, if the call does not run.
    pub said: Option<String>,
    /// Arguments that the call runs with, if they are not its own.
    pub rewritten: Option<Map<String, Value>>,
}

impl CallEnd {
    /// End of a call that is to run, as far as is known.
    pub fn to_run() -> Self {
        Self { decision: Some("execute"), ..Self::default() }
    }
}

impl Hooks {
    /// Stores a call until its result comes.
    pub(super) async fn announce(
        &self,
        request: &HookRequest,
        turn: &HookTurn,
        call: &HookedCall,
        call_id: &str,
        end: &CallEnd,
    ) -> Result<(), HookError> {
        let (agent, session) = self.call_names(request);
        let screened = umbra_checks::screen(event_of(request, turn, call, call_id, end));
        let announced = AnnouncedCall {
            agent: &agent,
            session: &session,
            call_id,
            digest: &self.digest(request, call, &call.arguments),
            task_id: &turn.task_id,
            decided: end.decision.is_some(),
            event: serde_json::to_vec(&screened.event).unwrap_or_default(),
        };
        Ok(self.store.hooks().announce(&announced).await?)
    }

    /// Files an announced call that does not run, or not as it was. What the host reports of it adds nothing.
    pub(super) async fn file_unmade(
        &self,
        request: &HookRequest,
        turn: &HookTurn,
        call: &HookedCall,
        call_id: &str,
        end: &CallEnd,
    ) -> Result<(), HookError> {
        let (agent, session) = self.call_names(request);
        let digest = self.digest(request, call, end.rewritten.as_ref().unwrap_or(&call.arguments));
        self.store.hooks().settle(&agent, &session, call_id, &digest).await?;
        self.file(&origin(request), event_of(request, turn, call, call_id, end), call_id).await
    }

    /// Files a call with its result, and reports the outcome of a decided call.
    pub(super) async fn file_result(&self, request: &HookRequest, turn: &HookTurn) -> Result<(), HookError> {
        let message = &request.message;
        let Some(call) = &message.call else { return Ok(()) };
        let (agent, session) = self.call_names(request);
        let digest = self.digest(request, call, &call.arguments);
        let given = call.id.as_ref().map(|_| self.call_id(request, call));
        let open = match self.store.hooks().take(&agent, &session, given.as_deref(), &digest).await {
            Err(error) if error.is_transient() => None,
            taken => taken?,
        };
        if open.as_ref().is_some_and(|open| open.event.is_none()) {
            // What ran is our own stub, or nothing did.
            return Ok(());
        }
        let mut is_decided = open.as_ref().is_some_and(|open| open.decided);
        let call_id = given.or(open.map(|open| open.call_id)).unwrap_or_else(|| self.call_id(request, call));
        if request.mode == HookMode::Enforce {
            is_decided |= self.report(request, &call_id).await;
            if !is_decided {
                let (agent, session) = self.named(request);
                self.store.hooks().count_undecided(&agent, &session).await?;
            }
        }
        let end = CallEnd { decision: is_decided.then_some("execute"), ..CallEnd::default() };
        let mut event = event_of(request, turn, call, &call_id, &end);
        event.duration_ms = message.duration_ms.filter(|duration| *duration <= MOST_DURATION_MS);
        if let Some(tool) = &mut event.tool {
            tool.result = message.result.as_deref().map(shown);
            tool.error = message.error.as_deref().map(shown);
            if message.kind == Some(EventKind::Failure) && tool.error.is_none() {
                tool.error = Some(tool.result.take().unwrap_or_else(|| "the tool failed".to_owned()));
            }
            tool.exit_code = message.exit_code;
        }
        self.file(&origin(request), event, &call_id).await
    }

    /// Files the calls of a turn that has ended, whose results did not come.
    pub(super) async fn file_open_calls(&self, request: &HookRequest) -> Result<(), HookError> {
        let (agent, session) = self.call_names(request);
        for open in self.store.hooks().take_all(&agent, &session).await? {
            let Some(event) = open.event.and_then(|event| serde_json::from_slice::<Event>(&event).ok()) else {
                continue;
            };
            self.file(&origin(request), event, &open.call_id).await?;
        }
        Ok(())
    }

    /// Files the last text of a turn; the end of the main agent's turn completes its task.
    pub(super) async fn file_answer(&self, request: &HookRequest, turn: &HookTurn) -> Result<(), HookError> {
        let message = &request.message;
        let is_stop = message.kind == Some(EventKind::Stop);
        let text = message.answer.as_deref().filter(|_| message.kind != Some(EventKind::SessionEnd));
        if text.is_none() && !is_stop {
            return Ok(());
        }
        let mut event = event(request, turn);
        event.output = text.map(shown);
        if is_stop {
            event.triggers.push(Trigger::TaskComplete);
        }
        // Some hosts tell of one end twice; a turn with several ends has several texts.
        let said = self.installation.hash("hook-end", &[text.unwrap_or_default().as_bytes()]);
        let end = hex::encode(said.get(..8).unwrap_or_default());
        let which = format!("{}/{}/{end}", turn.task_id, request.call_session());
        self.file(&origin(request), event, &which).await
    }

    /// Stores an event under the id of its call: a second hook of the same call adds nothing.
    pub(super) async fn file(&self, origin: &Origin, event: Event, call_id: &str) -> Result<(), HookError> {
        self.otel.file_hooked(event, format!("hook/{call_id}"), origin).await
    }

    /// Returns agent and session by which a call is noted until its result comes.
    fn call_names(&self, request: &HookRequest) -> (String, String) {
        (self.boundary.name_of(&request.speaker()), self.boundary.name_of(&request.call_session()))
    }

    /// Reports the outcome of a call to the audit; returns false if the call was never decided. The event is filed even
    /// if this fails.
    async fn report(&self, request: &HookRequest, call_id: &str) -> bool {
        let message = &request.message;
        let failed = message.kind == Some(EventKind::Failure) || message.error.is_some();
        let text = |text: &Option<String>| text.as_deref().map(shown);
        let outcome = CallOutcome {
            agent: request.agent.clone(),
            status: if failed { OutcomeStatus::Error } else { OutcomeStatus::Ok },
            result: text(&message.result).filter(|_| !failed).map(Value::String),
            error: text(&message.error).or(text(&message.result).filter(|_| failed)),
            duration_ms: message.duration_ms,
        };
        match self.boundary.report(call_id, &outcome).await {
            Ok(_) | Err(ReportError::Mismatch) => true,
            Err(ReportError::Unknown) => false,
            Err(error @ ReportError::Unavailable) => {
                tracing::warn!(%error, "the outcome of a hooked call is not in the audit");
                true
            }
        }
    }

    /// Id of a call: the host's, within its session, or one made from what the call is and when the host says that it was asked.
    pub(super) fn call_id(&self, request: &HookRequest, call: &HookedCall) -> String {
        // Models number their calls anew in each session, and so do subagents.
        if let Some(id) = &call.id {
            let subagent = request.message.subagent.as_ref().map(|subagent| format!("{}/", subagent.id));
            let whole = format!("{}/{}{id}", request.session(), subagent.unwrap_or_default());
            return self.boundary.name_of(&whole);
        }
        let made = self.clock.new_id().to_string();
        let time = call.time.as_deref().unwrap_or(&made);
        let digest = self.digest(request, call, &call.arguments);
        let hash = self.installation.hash("hook-call", &[request.session().as_bytes(), &digest, time.as_bytes()]);
        format!("hook_{}", hex::encode(hash.get(..16).unwrap_or_default()))
    }

    /// Keyed hash of a tool and arguments: of a shell call its line, since hosts report the others in another form.
    fn digest(&self, request: &HookRequest, call: &HookedCall, arguments: &Map<String, Value>) -> [u8; 32] {
        let line = request.host.shell_argument_of(&call.full_name).and_then(|line| arguments.get(line));
        let arguments = line.map_or_else(|| serde_json::to_vec(arguments), serde_json::to_vec).unwrap_or_default();
        self.installation.hash("hook-digest", &[call.full_name.as_bytes(), &arguments])
    }
}

/// Cuts a text at a character, so that it has at most so many bytes.
pub(super) fn cut(text: &str, most: usize) -> String {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text).to_owned()
}

/// Returns a text within its bound. A longer one is redacted before it is cut: half a credential has no known form.
pub(in crate::flows) fn shown(text: &str) -> String {
    if text.len() <= TEXT_BYTES { text.to_owned() } else { cut(umbra_checks::redact(text).as_str(), TEXT_BYTES) }
}

/// Returns arguments within their bound; long texts in larger ones are cut.
pub(in crate::flows) fn bounded(arguments: &Map<String, Value>) -> Value {
    let whole = Value::Object(arguments.clone());
    if encoded_len(&whole) <= ARGUMENT_BYTES {
        return whole;
    }
    let most = ARGUMENT_BYTES / arguments.len().max(1);
    let shortened = arguments.iter().map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
        (name.clone(), Value::String(cut(umbra_checks::redact(&text).as_str(), most)))
    });
    Value::Object(shortened.collect())
}

/// Returns the event of a call, without its result.
fn event_of(request: &HookRequest, turn: &HookTurn, call: &HookedCall, call_id: &str, end: &CallEnd) -> Event {
    let mut event = event(request, turn);
    event.metadata.insert("call_id".to_owned(), json!(call_id));
    if let (Some(id), Some(Value::Object(hook))) = (&call.id, event.metadata.get_mut("hook")) {
        hook.insert("call".to_owned(), json!(id));
    }
    if let Some(decision) = end.decision {
        event.metadata.insert("decision".to_owned(), json!(decision));
    }
    if let Some(id) = end.decision_id {
        event.metadata.insert("decision_id".to_owned(), json!(id));
    }
    event.status = end.decision.filter(|_| end.said.is_some()).map(ToOwned::to_owned);
    let name = ToolName { server: call.server.clone(), name: call.tool.clone() };
    event.tool = Some(ToolCall {
        name: name.to_string(),
        args: bounded(&call.arguments),
        result: end.said.as_deref().map(shown),
        ..ToolCall::default()
    });
    event
}

/// Returns the event of a turn, without its texts.
fn event(request: &HookRequest, turn: &HookTurn) -> Event {
    let mut hook = Map::from_iter([
        ("host".to_owned(), json!(request.host.name)),
        ("mode".to_owned(), json!(request.mode.as_str())),
    ]);
    if let Some(subagent) = &request.message.subagent {
        hook.insert("subagent".to_owned(), json!(subagent.id));
        // Calls of a subagent are decided as calls of its main agent.
        hook.insert("agent".to_owned(), json!(request.agent));
    }
    Event {
        agent: request.speaker(),
        task_id: Some(turn.task_id.clone()),
        session_id: request.message.session.clone(),
        task: turn.task.clone(),
        metadata: Map::from_iter([("hook".to_owned(), Value::Object(hook))]),
        ..Event::default()
    }
}

fn origin(request: &HookRequest) -> Origin {
    Origin { by: request.by, ..Origin::default() }
}
