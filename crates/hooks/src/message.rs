//! Payload of a hook, read for any host.

use serde_json::{Map, Value};

use super::{
    event::{EventKind, kind_of},
    host::{Host, host},
};

/// Payload of a hook, in one form for all hosts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HookMessage {
    /// Name of the event as the host gives it; empty if the payload has none.
    pub event: String,
    /// Meaning of the event; none for an unknown one.
    pub kind: Option<EventKind>,
    /// The host's id of the session.
    pub session: Option<String>,
    /// The host's id of the turn.
    pub turn: Option<String>,
    /// Subagent that the event is about.
    pub subagent: Option<Subagent>,
    /// Call of a tool.
    pub call: Option<HookedCall>,
    /// Result of the call, as text.
    pub result: Option<String>,
    /// Error of the call.
    pub error: Option<String>,
    /// Exit code of the program that the call ran.
    pub exit_code: Option<i64>,
    /// Duration of the call, in milliseconds.
    pub duration_ms: Option<u64>,
    /// Prompt of a person; none for a message of the host itself in a prompt's place.
    pub prompt: Option<String>,
    /// Last text of the agent.
    pub answer: Option<String>,
    /// Host that the payload shows, where it shows one.
    pub shown_host: Option<&'static Host>,
}

/// Subagent of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subagent {
    /// The host's id of the subagent.
    pub id: String,
    /// Kind of the subagent: the name it was configured by.
    pub kind: Option<String>,
}

/// Call of a tool.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HookedCall {
    /// The host's id of the call.
    pub id: Option<String>,
    /// MCP server of the tool.
    pub server: Option<String>,
    /// Name of the tool, without its server.
    pub tool: String,
    /// Name of the tool as the host gives it.
    pub full_name: String,
    /// Arguments of the call.
    pub arguments: Map<String, Value>,
    /// True if the payload has arguments that can be read.
    pub is_readable: bool,
    /// The host's time of the event: a second hook of the same event has the same one.
    pub time: Option<String>,
}

/// Fields, each by the places where hosts put it.
mod field {
    pub const EVENT: &[&str] = &["/hook_event_name", "/hookEventName", "/hookName", "/event"];
    pub const SESSION: &[&str] =
        &["/session_id", "/sessionId", "/sessionID", "/conversation_id", "/sessionContext/rootSessionId"];
    pub const TURN: &[&str] = &["/prompt_id", "/turn_id", "/generation_id"];
    pub const TOOL: &[&str] = &["/tool_name", "/toolName", "/preToolUse/toolName", "/postToolUse/toolName"];
    pub const INPUT: &[&str] = &["/tool_input", "/toolArgs", "/tool_call/input", "/tool_result/input"];
    pub const CALL: &[&str] = &["/tool_call_id", "/tool_use_id", "/toolCallId", "/tool_call/id", "/tool_result/id"];
    pub const RESULT: &[&str] =
        &["/tool_response", "/tool_result/output", "/tool_result", "/tool_output", "/toolResult"];
    pub const ERROR: &[&str] =
        &["/error", "/tool_response/error", "/tool_result/error", "/error_message", "/failure_message"];
    pub const DURATION: &[&str] = &["/duration_ms", "/duration", "/tool_result/durationMs"];
    pub const PROMPT: &[&str] = &["/prompt", "/userPromptSubmit/prompt"];
    pub const ANSWER: &[&str] = &["/last_assistant_message", "/prompt_response", "/turn/outputText"];
    pub const SERVER: &[&str] = &["/mcp_server/name", "/mcp_context/server_name"];
    pub const MCP_TOOL: &[&str] = &["/mcp_context/tool_name"];
    pub const SUBAGENT: &[&str] = &["/agent_id", "/subagent_id"];
    pub const SUBAGENT_KIND: &[&str] = &["/agent_type", "/subagent_type"];
    pub const TIME: &[&str] = &["/timestamp"];
}

/// Beginnings of prompts that the host writes itself: the end of a background subagent, reminders, output of commands.
const NO_PROMPTS: [&str; 4] = ["<task-notification>", "<system-reminder>", "<local-command-stdout>", "<command-name>"];

impl HookMessage {
    /// Reads a payload. Fields of an unknown name or of another type are left out: a newer host is no fault. `event` is
    /// the event that the hook was installed for, for payloads that do not name theirs.
    pub fn read(host: &Host, event: Option<&str>, payload: &Value) -> Self {
        let text = |places: &[&str]| text_of(at(payload, places)?);
        let installed = event;
        let event = text(field::EVENT).or(installed.map(ToOwned::to_owned)).unwrap_or_default();
        // A hook that was installed for calls takes everything for one; else the payload knows best what it is.
        let expected = installed.and_then(kind_of);
        let kind = if expected == Some(EventKind::Call) { expected } else { kind_of(&event).or(expected) };
        let subagent = subagent(payload);
        // What a subagent is told comes from the main agent.
        let is_turn = kind == Some(EventKind::Prompt) && subagent.is_none();
        let prompt = text(field::PROMPT).filter(|prompt| is_turn && is_prompt(prompt));
        let call = call_of(host, &event, payload);
        let result = at(payload, field::RESULT).and_then(result_text);
        let error = text(field::ERROR).filter(|error| !error.is_empty());
        let exit_code = exit_code(payload, error.as_deref(), result.as_deref());
        Self {
            kind,
            session: text(field::SESSION).filter(|id| !id.is_empty()),
            turn: text(field::TURN).filter(|id| !id.is_empty()),
            subagent,
            call,
            result,
            error,
            exit_code,
            duration_ms: at(payload, field::DURATION).and_then(Value::as_f64).filter(|ms| *ms >= 0.0).map(whole),
            prompt,
            answer: text(field::ANSWER).filter(|text| !text.trim().is_empty()),
            shown_host: shown_host(payload, &event),
            event,
        }
    }
}

impl HookMessage {
    /// Calls `change` with each id and name that becomes a key.
    pub fn for_each_name(&mut self, mut change: impl FnMut(&mut String)) {
        let Self { session, turn, subagent, call, .. } = self;
        session.iter_mut().chain(turn).for_each(&mut change);
        if let Some(Subagent { id, kind }) = subagent {
            change(id);
            kind.iter_mut().for_each(&mut change);
        }
        if let Some(HookedCall { id, .. }) = call {
            id.iter_mut().for_each(&mut change);
        }
    }

    /// Returns the host that reads the answer: the one that the payload shows, whatever the hook was installed for.
    pub fn reader(&self, host: &'static Host) -> &'static Host {
        self.shown_host.unwrap_or(host)
    }
}

/// Returns the first of these places that has a value.
fn at<'p>(payload: &'p Value, places: &[&str]) -> Option<&'p Value> {
    places.iter().find_map(|place| payload.pointer(place).filter(|value| !value.is_null()))
}

fn subagent(payload: &Value) -> Option<Subagent> {
    let text = |places: &[&str]| text_of(at(payload, places)?).filter(|text| !text.is_empty());
    // Cline gives its main agent an id, too.
    if payload.get("parent_agent_id") == Some(&Value::Null) {
        return None;
    }
    Some(Subagent { id: text(field::SUBAGENT)?, kind: text(field::SUBAGENT_KIND) })
}

fn text_of(value: &Value) -> Option<String> {
    value.as_str().map(ToOwned::to_owned)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a duration is not negative; casts saturate"
)]
fn whole(ms: f64) -> u64 {
    ms.round() as u64
}

fn is_prompt(text: &str) -> bool {
    let text = text.trim_start();
    !text.is_empty() && !NO_PROMPTS.iter().any(|start| text.starts_with(start))
}

fn call_of(host: &Host, event: &str, payload: &Value) -> Option<HookedCall> {
    let text = |places: &[&str]| text_of(at(payload, places)?);
    // Cursor's events of one kind of tool name none.
    let implied = match event {
        "beforeShellExecution" => Some("Shell"),
        "beforeReadFile" | "beforeTabFileRead" => Some("Read"),
        _ => None,
    };
    let full_name = text(field::TOOL)
        .map(|name| name.strip_prefix("MCP:").map_or(name.clone(), ToOwned::to_owned))
        .or(implied.map(ToOwned::to_owned))
        .filter(|name| !name.is_empty())?;
    let given = text(field::SERVER).filter(|server| !server.is_empty());
    let (server, tool) = match (given, text(field::MCP_TOOL)) {
        (Some(server), Some(tool)) => (Some(server), tool),
        (given, _) => split(host, given, &full_name),
    };
    let given = at(payload, field::INPUT);
    let read = match given {
        Some(Value::Object(arguments)) => Some(arguments.clone()),
        // Cursor gives the arguments of MCP tools as the text of their JSON.
        Some(Value::String(text)) => serde_json::from_str(text).ok(),
        None if implied.is_some() => Some(
            ["command", "cwd", "file_path"]
                .into_iter()
                .filter_map(|name| Some((name.to_owned(), payload.get(name)?.clone())))
                .collect(),
        ),
        Some(_) | None => None,
    };
    let is_readable = read.is_some();
    let arguments =
        read.unwrap_or_else(|| given.map(|other| ("input".to_owned(), other.clone())).into_iter().collect());
    let mut arguments = arguments;
    // Codex gives a patch as a command, which it is not.
    if tool == "apply_patch"
        && let Some(patch) = arguments.remove("command")
    {
        arguments.insert("patch".to_owned(), patch);
    }
    let id = text(field::CALL).filter(|id| !id.is_empty());
    Some(HookedCall { id, server, tool, full_name, arguments, is_readable, time: text(field::TIME) })
}

/// Splits the name of a tool into server and tool.
fn split(host: &Host, given: Option<String>, name: &str) -> (Option<String>, String) {
    if let Some(server) = given {
        // `mcp__SERVER__TOOL` and `mcp_SERVER_TOOL`.
        let own = name.strip_prefix("mcp").map(|rest| rest.trim_start_matches('_'));
        let own = own.and_then(|rest| rest.strip_prefix(&*server)).map(|rest| rest.trim_start_matches('_'));
        return (Some(server), own.filter(|own| !own.is_empty()).unwrap_or(name).to_owned());
    }
    let parts = match (name.strip_prefix("mcp__"), host.mcp_separator) {
        (Some(rest), _) => rest.split_once("__"),
        (None, Some(separator)) => name.split_once(separator),
        (None, None) => None,
    };
    match parts {
        Some((server, tool)) if !server.is_empty() && !tool.is_empty() => (Some(server.to_owned()), tool.to_owned()),
        _ => (None, name.to_owned()),
    }
}

/// Renders a result: text as it is, the texts of content blocks, output and errors of a program, else JSON.
fn result_text(value: &Value) -> Option<String> {
    let blocks = |items: &[Value]| {
        // Blocks of MCP, and the commands of Cline's shell tool.
        let text =
            |item: &'_ Value| ["text", "result"].iter().find_map(|name| item.get(*name)?.as_str().map(str::to_owned));
        let texts: Option<Vec<String>> = items.iter().map(text).collect();
        texts.filter(|texts| !texts.is_empty()).map(|texts| texts.join("\n"))
    };
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => blocks(items).or_else(|| Some(value.to_string())),
        Value::Object(members) => {
            let streams: Vec<&str> =
                ["stdout", "stderr"].iter().filter_map(|name| members.get(*name)?.as_str()).collect();
            if !streams.is_empty() {
                let said = streams.into_iter().filter(|text| !text.is_empty());
                return Some(said.collect::<Vec<_>>().join("\n"));
            }
            let text = ["llmContent", "output", "text", "text_result_for_llm", "textResultForLlm"]
                .iter()
                .find_map(|name| members.get(*name)?.as_str());
            let content = || blocks(members.get("content")?.as_array()?);
            text.map(ToOwned::to_owned).or_else(content).or_else(|| Some(value.to_string()))
        }
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
    }
}

/// Returns the exit code that the payload gives, as a number or in the first or last lines that the host writes.
fn exit_code(payload: &Value, error: Option<&str>, result: Option<&str>) -> Option<i64> {
    let number = at(payload, &["/tool_response/exitCode", "/tool_response/exit_code", "/exit_code", "/exitCode"]);
    if let Some(code) = number.and_then(Value::as_i64) {
        return Some(code);
    }
    let of_line = |line: &str| {
        let rest = line.strip_prefix("Exit code").or_else(|| line.strip_prefix("Exit Code"))?;
        rest.trim_start_matches([':', ' ']).parse().ok()
    };
    let first = |text: &str| text.lines().next().and_then(of_line);
    // Gemini CLI writes it behind the output, within its own frame; Copilot in a last line of its own.
    let framed = |text: &str| {
        let framed = text.strip_prefix("<untrusted_context>");
        let gemini = || framed?.lines().rev().take(4).find_map(of_line);
        let copilot = || {
            let last = text.lines().next_back()?.strip_prefix("<shellId: ")?.strip_suffix('>')?;
            last.rsplit_once("completed with exit code ")?.1.parse().ok()
        };
        gemini().or_else(copilot)
    };
    error.and_then(first).or_else(|| result.and_then(|text| first(text).or_else(|| framed(text))))
}

/// Returns the host that a payload shows: Cursor runs the hooks of Claude Code's settings too.
fn shown_host(payload: &Value, event: &str) -> Option<&'static Host> {
    if payload.get("cursor_version").is_some() {
        return host("cursor");
    }
    match event {
        "BeforeTool" | "AfterTool" | "BeforeAgent" | "AfterAgent" => host("gemini-cli"),
        "beforeSubmitPrompt" | "beforeShellExecution" | "beforeMCPExecution" => host("cursor"),
        _ => None,
    }
}
