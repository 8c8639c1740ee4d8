//! Events of all hosts, and what they mean.

/// Meaning of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A session begins or is resumed.
    SessionStart,
    /// A person, or a program that drives the agent, gives a prompt.
    Prompt,
    /// A tool is about to run; the answer decides if it does.
    Call,
    /// A tool has run.
    Result,
    /// A tool has failed.
    Failure,
    /// The agent has ended its turn.
    Stop,
    /// A subagent has ended.
    SubagentStop,
    /// The session ends.
    SessionEnd,
    /// A known event without use for us.
    Ignored,
}

/// Events with a use, by name. Copilot's camelCase names are the ones of its other dialect, which has no event names in
/// payloads.
#[rustfmt::skip]
const EVENTS: &[(&str, EventKind)] = &[
    // Claude Code, Codex, Qwen Code, Copilot, Droid, Cline, and our plugins.
    ("SessionStart", EventKind::SessionStart),
    ("UserPromptSubmit", EventKind::Prompt),
    ("PreToolUse", EventKind::Call),
    ("PostToolUse", EventKind::Result),
    ("PostToolUseFailure", EventKind::Failure),
    ("Stop", EventKind::Stop),
    ("SubagentStop", EventKind::SubagentStop),
    ("SessionEnd", EventKind::SessionEnd),
    // Cline.
    ("TaskStart", EventKind::SessionStart),
    ("TaskResume", EventKind::SessionStart),
    ("TaskComplete", EventKind::Stop),
    ("TaskCancel", EventKind::SessionEnd),
    ("SessionShutdown", EventKind::SessionEnd),
    ("agent_start", EventKind::SessionStart),
    ("agent_resume", EventKind::SessionStart),
    ("tool_call", EventKind::Call),
    ("tool_result", EventKind::Result),
    ("agent_end", EventKind::Stop),
    ("session_shutdown", EventKind::SessionEnd),
    // Gemini CLI.
    ("BeforeAgent", EventKind::Prompt),
    ("BeforeTool", EventKind::Call),
    ("AfterTool", EventKind::Result),
    ("AfterAgent", EventKind::Stop),
    // Cursor.
    ("sessionStart", EventKind::SessionStart),
    ("beforeSubmitPrompt", EventKind::Prompt),
    ("preToolUse", EventKind::Call),
    ("beforeShellExecution", EventKind::Call),
    ("beforeMCPExecution", EventKind::Call),
    ("beforeReadFile", EventKind::Call),
    ("beforeTabFileRead", EventKind::Call),
    ("postToolUse", EventKind::Result),
    ("postToolUseFailure", EventKind::Failure),
    ("stop", EventKind::Stop),
    ("subagentStop", EventKind::SubagentStop),
    ("sessionEnd", EventKind::SessionEnd),
];

/// Names of the events without use for us: of Claude Code and those that share its names, of Gemini CLI, of Cursor.
const IGNORED: [&str; 3] = [
    "ErrorOccurred Interrupt InstructionsLoaded MessageDisplay Notification PermissionDenied PermissionRequest \
     PostCompact PostModelRequest PostToolBatch PreCompact PreMcpToolCall PreModelRequest StopFailure SubagentStart",
    "AfterModel BeforeModel BeforeToolSelection PreCompress",
    "afterAgentResponse afterAgentThought afterFileEdit afterMCPExecution afterShellExecution preCompact subagentStart",
];

/// Returns the name of a known event as it stands here, and the meaning.
fn known(name: &str) -> Option<(&'static str, EventKind)> {
    let ignored = IGNORED.iter().flat_map(|names| names.split(' ')).map(|name| (name, EventKind::Ignored));
    EVENTS.iter().copied().chain(ignored).find(|(known, _)| *known == name)
}

/// Returns the meaning of an event; none for one that this version does not know.
pub fn kind_of(name: &str) -> Option<EventKind> {
    known(name).map(|(_, kind)| kind)
}

/// Returns the name of a known event for labels of metrics, else `other`.
pub fn label_of(name: &str) -> &'static str {
    known(name).map_or("other", |(known, _)| known)
}
