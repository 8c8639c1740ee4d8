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

/// Events by name. Copilot's camelCase names are the ones of its other dialect, which has no event names in payloads.
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
    ("ErrorOccurred", EventKind::Ignored),
    ("Interrupt", EventKind::Ignored),
    ("InstructionsLoaded", EventKind::Ignored),
    ("MessageDisplay", EventKind::Ignored),
    ("Notification", EventKind::Ignored),
    ("PermissionDenied", EventKind::Ignored),
    ("PermissionRequest", EventKind::Ignored),
    ("PostCompact", EventKind::Ignored),
    ("PostModelRequest", EventKind::Ignored),
    ("PostToolBatch", EventKind::Ignored),
    ("PreCompact", EventKind::Ignored),
    ("PreMcpToolCall", EventKind::Ignored),
    ("PreModelRequest", EventKind::Ignored),
    ("StopFailure", EventKind::Ignored),
    ("SubagentStart", EventKind::Ignored),
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
    ("AfterModel", EventKind::Ignored),
    ("BeforeModel", EventKind::Ignored),
    ("BeforeToolSelection", EventKind::Ignored),
    ("PreCompress", EventKind::Ignored),
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
    ("afterAgentResponse", EventKind::Ignored),
    ("afterAgentThought", EventKind::Ignored),
    ("afterFileEdit", EventKind::Ignored),
    ("afterMCPExecution", EventKind::Ignored),
    ("afterShellExecution", EventKind::Ignored),
    ("preCompact", EventKind::Ignored),
    ("subagentStart", EventKind::Ignored),
];

/// Returns the meaning of an event; none for one that this version does not know.
pub fn kind_of(name: &str) -> Option<EventKind> {
    EVENTS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
}

/// Returns the name of a known event for labels of metrics, else `other`.
pub fn label_of(name: &str) -> &'static str {
    EVENTS.iter().find(|(known, _)| *known == name).map_or("other", |(known, _)| known)
}
