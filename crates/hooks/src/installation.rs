//! Installation of hooks: the file of each host, the events, and the entries that are written there. Pure: the command
//! line reads and writes the files.

use serde_json::{Value, json};

use super::{
    event::{EventKind, kind_of},
    host::{HookMode, Host},
};

/// Time that a host waits for a hook before a call, in seconds: longer than the hook's own deadline and the closing
/// line's.
const CALL_SECONDS: u64 = 10;
/// Time that a host waits for another hook, in seconds. Codex allows no more at the end of a session.
const OTHER_SECONDS: u64 = 3;

/// Form of a host's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsForm {
    /// `hooks.EVENT[].hooks[]`, with a time in seconds.
    Groups,
    /// `hooks.EVENT[].hooks[]`, with a time in milliseconds.
    GroupsOfMilliseconds,
    /// `EVENT[].hooks[]`, with a time in seconds.
    GroupsAtTop,
    /// `hooks.EVENT[]`, with `version: 1`: Cursor.
    Flat,
    /// A file of our own, in the form of Copilot.
    OwnFile,
    /// An executable file for each event.
    Scripts,
    /// A plugin of ours, in the language of the host.
    Plugin,
}

/// Value of a member of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberValue {
    /// A text.
    Text(&'static str),
    /// True.
    True,
}

/// Installation of a host's hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Installation {
    /// Environment variable that names the folder of the user's settings, and that folder below the home directory.
    pub folder: (Option<&'static str>, &'static str),
    /// File in the user's folder; for scripts a folder.
    pub user: &'static str,
    /// File in a project.
    pub project: Option<&'static str>,
    /// Form of the file.
    pub form: SettingsForm,
    /// Events, as the host names them.
    pub events: &'static [&'static str],
    /// Member of an entry by which the host itself stops a call whose hook fails, beside the end of the line.
    pub closed_by: Option<(&'static str, MemberValue)>,
    /// Pattern for all tools, if the host wants one.
    pub matcher: Option<&'static str>,
    /// True if the host ignores a file whole that is not plain JSON: with comments, or a name twice.
    pub is_strict: bool,
    /// File beside the user's that replaces its events if it exists, and has them at its top.
    pub replaced_by: Option<&'static str>,
}

const CLAUDE_EVENTS: &[&str] = &[
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "SubagentStop",
    "Stop",
    "SessionEnd",
];

const CURSOR_EVENTS: &[&str] = &[
    "sessionStart",
    "beforeSubmitPrompt",
    "preToolUse",
    "postToolUse",
    "postToolUseFailure",
    "subagentStop",
    "stop",
    "sessionEnd",
];

/// Events of hosts that report a failed call like any other.
const EVENTS_WITHOUT_FAILURE: &[&str] =
    &["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "SubagentStop", "Stop", "SessionEnd"];

/// Fields of Claude Code's installation that most hosts share.
const COMMON: Installation = Installation {
    folder: (Some("CLAUDE_CONFIG_DIR"), ".claude"),
    user: "settings.json",
    project: Some(".claude/settings.json"),
    form: SettingsForm::Groups,
    events: CLAUDE_EVENTS,
    closed_by: None,
    matcher: None,
    is_strict: true,
    replaced_by: None,
};

impl Installation {
    /// Returns how the hooks of a host are installed.
    pub fn of(host: &Host) -> Self {
        match host.name {
            "codex" => Self {
                folder: (Some("CODEX_HOME"), ".codex"),
                user: "hooks.json",
                project: Some(".codex/hooks.json"),
                events: EVENTS_WITHOUT_FAILURE,
                ..COMMON
            },
            "gemini-cli" => Self {
                is_strict: false,
                folder: (None, ".gemini"),
                project: Some(".gemini/settings.json"),
                form: SettingsForm::GroupsOfMilliseconds,
                events: &["SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent", "SessionEnd"],
                ..COMMON
            },
            "qwen-code" => Self {
                is_strict: false,
                folder: (None, ".qwen"),
                project: Some(".qwen/settings.json"),
                matcher: Some("*"),
                ..COMMON
            },
            "copilot" => Self {
                folder: (None, ".copilot"),
                user: "hooks/umbra.json",
                project: Some(".github/hooks/umbra.json"),
                form: SettingsForm::OwnFile,
                ..COMMON
            },
            "droid" => Self {
                folder: (None, ".factory"),
                replaced_by: Some("hooks.json"),
                project: Some(".factory/settings.json"),
                events: EVENTS_WITHOUT_FAILURE,
                matcher: Some("*"),
                ..COMMON
            },
            "cursor" => Self {
                folder: (None, ".cursor"),
                user: "hooks.json",
                project: Some(".cursor/hooks.json"),
                form: SettingsForm::Flat,
                events: CURSOR_EVENTS,
                closed_by: Some(("failClosed", MemberValue::True)),
                ..COMMON
            },
            "cline" => Self {
                folder: (None, ".cline"),
                user: "hooks",
                project: Some(".cline/hooks"),
                form: SettingsForm::Scripts,
                events: &["TaskStart", "PreToolUse", "PostToolUse", "TaskComplete", "SessionShutdown"],
                ..COMMON
            },
            "opencode" => Self {
                folder: (None, ".config/opencode"),
                user: "plugin/umbra.js",
                project: Some(".opencode/plugin/umbra.js"),
                form: SettingsForm::Plugin,
                events: &[],
                ..COMMON
            },
            "pi" => Self {
                folder: (None, ".pi/agent"),
                user: "extensions/umbra.js",
                project: Some(".pi/extensions/umbra.js"),
                form: SettingsForm::Plugin,
                events: &[],
                ..COMMON
            },
            _ => Self { closed_by: Some(("onFailure", MemberValue::Text("block"))), matcher: Some("*"), ..COMMON },
        }
    }

    /// Returns the entry of an event: the element of the list `hooks.EVENT`.
    pub fn entry(&self, event: &str, command: &str, mode: HookMode) -> Value {
        let is_call = kind_of(event) == Some(EventKind::Call);
        let seconds = if is_call { CALL_SECONDS } else { OTHER_SECONDS };
        let mut handler = match self.form {
            SettingsForm::Groups | SettingsForm::GroupsAtTop => {
                json!({"type": "command", "command": command, "timeout": seconds})
            }
            SettingsForm::GroupsOfMilliseconds => {
                json!({"type": "command", "name": "umbra", "command": command, "timeout": seconds * 1_000})
            }
            SettingsForm::OwnFile => json!({"type": "command", "bash": command, "timeoutSec": seconds}),
            _ => json!({"command": command, "timeout": seconds}),
        };
        if let Some((name, word)) = self.closed_by
            && is_call
            && mode == HookMode::Enforce
        {
            handler[name] = match word {
                MemberValue::Text(text) => json!(text),
                MemberValue::True => json!(true),
            };
        }
        if matches!(self.form, SettingsForm::Flat | SettingsForm::OwnFile) {
            return handler;
        }
        match self.matcher.filter(|_| is_call || kind_of(event) == Some(EventKind::Result)) {
            Some(matcher) => json!({"matcher": matcher, "hooks": [handler]}),
            None => json!({"hooks": [handler]}),
        }
    }

    /// Returns the shell line that runs the hook, in plain POSIX. `timeout` is the program that ends a frozen hook, if
    /// there is one. In observe a failure is none; in enforce a call does not run if the line fails.
    pub fn line(&self, event: &str, hook: &str, mode: HookMode, timeout: Option<&str>) -> String {
        let is_call = kind_of(event) == Some(EventKind::Call);
        if mode == HookMode::Observe || !is_call {
            // The hook gives up by itself before this: it is for one that cannot. With the start of the shell an observer
            // is delayed by 0.3 s at most.
            let seconds = if mode == HookMode::Observe { "0.27" } else { "3" };
            let bounded =
                timeout.map_or_else(|| hook.to_owned(), |timeout| format!("{timeout} -s KILL {seconds} {hook}"));
            return format!("{{ {bounded}; }} 2>/dev/null || true");
        }
        let bounded = timeout.map_or_else(|| hook.to_owned(), |timeout| format!("{timeout} -k 1 3 {hook}"));
        if self.form == SettingsForm::Scripts {
            let denied = format!(r#"{{"cancel": true, "errorMessage": "{UNANSWERED}"}}"#);
            return format!(
                "said=$({bounded} 2>/dev/null) && [ -n \"$said\" ] && printf '%s\\n' \"$said\" || printf 'HOOK_CONTROL\\t%s\\n' '{denied}'"
            );
        }
        // Hosts run a call after most failures of its hook, but not after the exit code 2 with a text on standard error.
        // What shell and timeout say is left out, since the model would read it. Only a word that our program alone
        // says lets a call pass: an empty program ends well and says nothing.
        format!(
            "said=$({bounded} --pass {PASS} 2>/dev/null) && case $said in {PASS}) ;; ?*) printf '%s\\n' \"$said\" ;; \
             *) false ;; esac || {{ echo '{UNANSWERED}' >&2; exit 2; }}"
        )
    }
}

/// Word by which our program lets a call pass, to the line that asked for it.
const PASS: &str = "umbra-pass";

/// Reason of a call that is denied by the shell.
const UNANSWERED: &str = "Umbra: the guard did not answer, so the call was not made.";

/// True if a command of a host's settings is one of ours.
pub fn is_ours(command: &str, host: &Host) -> bool {
    command.contains("umbra") && command.contains(&format!("hook {} --event ", host.name))
}
