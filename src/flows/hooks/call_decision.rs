//! Decision about a hooked call, and its answer in the host's terms.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{HookError, HookRequest, Hooks, events::CallEnd};
use umbra_boundary::{answer::Answer, decide::Decision};
use umbra_config::settings::Flagged;
use umbra_domain::{Call, CheckName, Event, FlaggedCall, GuardVerdict, Severity, ToolCall, ToolName};
use umbra_hooks::{HookAnswer, HookedCall, Host, answer::printing};

/// Most bytes of a stub that a shell line prints.
const PRINTED_BYTES: usize = 64 * 1024;
/// Longest wait for a decision, in milliseconds: shorter than that of the hook, which then gets an answer.
const DECIDE_MS: u64 = 1_500;
/// Most bytes of the name of a tool or server.
const NAME_BYTES: usize = 200;

/// Rule about calls that change how the agent is guarded. Only a person may make them.
const GUARD_CHANGE: &str = "guard_change";

/// Fate of calls in which the built-in checks see a critical risk.
#[derive(Debug, Clone, Copy)]
pub struct Flagging(pub Flagged);

impl Flagging {
    /// Returns what the checks say of a call, gravest first.
    pub(in crate::flows) fn of(self, name: &ToolName, arguments: &Map<String, Value>) -> Option<FlaggedCall> {
        let arguments = Value::Object(arguments.clone());
        let tool = ToolCall { name: name.to_string(), args: arguments, ..ToolCall::default() };
        let event = Event { tool: Some(tool), ..Event::default() };
        let checks = BTreeSet::from([CheckName::Commands, CheckName::Hidden]);
        let hits = tokio::task::block_in_place(|| {
            let screened = umbra_checks::screen(event);
            umbra_checks::review(&screened.event, &screened.marks, &checks)
        });
        if let Some(change) = hits.iter().find(|hit| hit.rule == GUARD_CHANGE) {
            let reason = format!("{} Only a person may do that", change.description);
            return Some(FlaggedCall { verdict: GuardVerdict::Block, reason });
        }
        let verdict = match self.0 {
            Flagged::Block => GuardVerdict::Block,
            Flagged::Ask => GuardVerdict::Ask,
            Flagged::Allow => return None,
        };
        let worst = hits.into_iter().find(|hit| hit.severity == Severity::Critical)?;
        Some(FlaggedCall { verdict, reason: worst.description.trim_end_matches('.').to_owned() })
    }
}

impl Hooks {
    /// Decides a call before it runs.
    pub(super) async fn decide(&self, asked: Instant, request: &HookRequest) -> HookAnswer {
        let Some(call) = &request.message.call else {
            return HookAnswer::Deny("Umbra: the hook names no tool, so the call was not made.".to_owned());
        };
        let call_id = self.call_id(request, call);
        // At the same time, since most calls run.
        let announced = async {
            let turn = self.note(request).await?;
            self.announce(request, &turn, call, &call_id, &CallEnd::to_run()).await?;
            Ok::<_, HookError>(turn)
        };
        let ((answer, end), announced) = tokio::join!(self.ruling(asked, request, call, &call_id), announced);
        let stored = async {
            let turn = announced?;
            if end.said.is_some() { self.file_unmade(request, &turn, call, &call_id, &end).await } else { Ok(()) }
        };
        if let Err(error) = stored.await {
            // The decision stands: it is in the audit.
            tracing::warn!(%error, "a hooked call is decided, but no event tells of it");
        }
        answer
    }

    async fn ruling(
        &self,
        asked: Instant,
        request: &HookRequest,
        call: &HookedCall,
        call_id: &str,
    ) -> (HookAnswer, CallEnd) {
        let denied = |decision, text: String| {
            let end = CallEnd { decision: Some(decision), said: Some(text.clone()), ..CallEnd::default() };
            (HookAnswer::Deny(text), end)
        };
        if !call.is_readable {
            let text = "Umbra cannot find the arguments of this call in the hook's input, so it was not made.";
            return denied("block", text.to_owned());
        }
        let name = ToolName { server: call.server.clone(), name: call.tool.clone() };
        for part in name.server.iter().chain([&name.name]) {
            let plain = umbra_domain::tool::plain_tool_name(part);
            let long = (part.len() > NAME_BYTES).then_some("is too long");
            if let Some(fault) = plain.err().or(long) {
                return denied(
                    "block",
                    format!("Umbra: the call was not made. The name of its tool or server {fault}"),
                );
            }
        }
        let asks = self.call_of(request, call, call_id, name);
        let digest = json!([asks.tool.to_string(), asks.arguments]).to_string();
        let answer = match self.boundary.decide_since(asked, asks, digest.as_bytes()).await {
            Ok(answer) => answer,
            Err(error) => return denied("block", format!("Umbra: the call was not made: {error}")),
        };
        let (answered, mut end) = match answer.decision {
            Decision::Execute => (HookAnswer::Pass, CallEnd::to_run()),
            Decision::Ask => denied("ask", waiting(&answer)),
            Decision::Block => denied("block", refusal(&answer)),
            Decision::Stub => stubbed(request.host, call, &answer),
        };
        end.decision_id = Some(answer.decision_id);
        (answered, end)
    }

    /// Denies the call of a hook that proves itself: the decision is in the audit, and no event is filed.
    pub(super) async fn answer_canary(&self, asked: Instant, request: &HookRequest) -> HookAnswer {
        let Some(call) = &request.message.call else { return HookAnswer::Pass };
        let name = ToolName { server: None, name: super::CANARY.to_owned() };
        let reason = "a canary is denied, so that the hook proves itself".to_owned();
        let mut asks = self.call_of(request, call, &self.call_id(request, call), name);
        asks.flagged = Some(FlaggedCall { verdict: GuardVerdict::Block, reason });
        match self.boundary.decide_since(asked, asks, b"canary").await {
            Ok(answer) => HookAnswer::Deny(format!("Umbra: canary denied ({})", answer.decision_id)),
            Err(error) => HookAnswer::Deny(format!("Umbra: {error}")),
        }
    }

    fn call_of(&self, request: &HookRequest, call: &HookedCall, call_id: &str, tool: ToolName) -> Call {
        // What holds for an agent holds for its subagents: their calls are its own, in a mode of the subagent's kind.
        let subagent = request.message.subagent.as_ref();
        let line = request.host.shell_argument_of(&call.full_name);
        Call {
            call_id: call_id.to_owned(),
            session: request.message.session.clone(),
            modes: subagent.and_then(|subagent| subagent.kind.clone()).into_iter().collect(),
            flagged: self.flagging.of(&tool, &call.arguments),
            server_name: tool.server.is_none().then(|| request.host.name.to_owned()),
            input_schema: line.map(|line| json!({"properties": {line: {}}})),
            deadline_ms: Some(DECIDE_MS),
            ..Call::new(request.agent.clone(), tool, call.arguments.clone())
        }
    }
}

/// Answers in the tool's place: by a shell line that prints the stub, where the call is one and the host takes it, else
/// by a denial with the stub.
fn stubbed(host: &Host, call: &HookedCall, answer: &Answer) -> (HookAnswer, CallEnd) {
    let text = answer.stub.as_ref().map(|stub| text_of(&stub.result)).unwrap_or_default();
    let mut end = CallEnd { decision: Some("stub"), said: Some(text.clone()), ..CallEnd::default() };
    let line = host.shell_argument_of(&call.full_name).filter(|line| call.arguments.contains_key(*line));
    if let Some(name) = line
        && host.rewrites
        && text.len() <= PRINTED_BYTES
        && !text.contains('\0')
    {
        let mut arguments = call.arguments.clone();
        let was_list = arguments.get(name).is_some_and(Value::is_array);
        let line = Value::String(printing(&text));
        arguments.insert(name.to_owned(), if was_list { json!([line]) } else { line });
        end.rewritten = Some(arguments.clone());
        return (HookAnswer::Rewrite(arguments), end);
    }
    let reason =
        format!("This is a rehearsal: the call was not made. Go on as if it had returned the following.\n{text}");
    (HookAnswer::Deny(reason), end)
}

/// Renders the result of a stub as a program would print it.
fn text_of(result: &Value) -> String {
    match result {
        Value::String(text) => text.clone(),
        Value::Object(members) => match members.get("stdout") {
            Some(Value::String(text)) => text.clone(),
            _ => result.to_string(),
        },
        other => other.to_string(),
    }
}

/// Tells the model why its call was not made.
fn refusal(answer: &Answer) -> String {
    let detail = answer.detail.as_deref().unwrap_or("no reason was given");
    if answer.reason.as_deref() == Some("no_contract") {
        return format!(
            "Umbra: this is a rehearsal, and no stub is set up for this call, so it was not made. Go on without it \
             (decision {})",
            answer.decision_id
        );
    }
    format!("Umbra did not allow this call: {detail} (decision {})", answer.decision_id)
}

/// Tells the model whom its call waits for.
fn waiting(answer: &Answer) -> String {
    let detail = answer.detail.as_deref().unwrap_or("a rule asks for it");
    let id = answer.approval.as_ref().map(|approval| approval.id.to_string()).unwrap_or_default();
    format!(
        "A person must approve this call first: {detail}. Ask the user to run `umbra approvals approve {id}`, then \
         make the same call again."
    )
}
