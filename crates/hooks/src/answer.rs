//! Answers to hooks, in the form that each host reads.

use serde_json::{Map, Value, json};

use super::{
    host::{Dialect, Host},
    message::HookMessage,
};

/// Most bytes of a reason: longer ones have hung a host.
pub const REASON_BYTES: usize = 2_000;

/// Answer to a hook.
#[derive(Debug, Clone, PartialEq)]
pub enum HookAnswer {
    /// Nothing to say: a call runs, a turn goes its way.
    Pass,
    /// The call does not run; the model reads the reason.
    Deny(String),
    /// The call runs with these arguments in place of its own.
    Rewrite(Map<String, Value>),
    /// The model reads this text beside the prompt.
    Context(String),
    /// The agent does not end its turn yet; the model reads the reason.
    Hold(String),
}

impl HookAnswer {
    /// Renders the answer to a payload. It is an object, and empty if there is nothing to say and the host takes that for
    /// an allowance.
    pub fn render(&self, host: &Host, message: &HookMessage) -> Value {
        let event = &*message.event;
        match host.dialect {
            Dialect::Claude => self.claude(event),
            Dialect::Gemini => self.gemini(),
            Dialect::Cursor => self.cursor(event),
            Dialect::Cline => match self {
                // These tools refuse to run without arguments, and the run goes on with the reason.
                Self::Deny(reason) if message.call.as_ref().is_some_and(|call| goes_on(&call.full_name)) => {
                    json!({"cancel": false, "overrideInput": {}, "contextModification": bounded(reason)})
                }
                Self::Deny(reason) => json!({"cancel": true, "errorMessage": bounded(reason)}),
                Self::Rewrite(input) => json!({"cancel": false, "overrideInput": input}),
                _ => json!({"cancel": false}),
            },
            Dialect::Plugin => match self {
                Self::Pass => json!({"decision": "allow"}),
                Self::Deny(reason) => json!({"decision": "deny", "reason": bounded(reason)}),
                Self::Rewrite(input) => json!({"decision": "allow", "input": input}),
                Self::Context(text) => json!({"decision": "allow", "context": text}),
                Self::Hold(reason) => json!({"decision": "hold", "reason": bounded(reason)}),
            },
        }
    }

    fn claude(&self, event: &str) -> Value {
        match self {
            Self::Pass => json!({}),
            // Codex takes a denial with any further member for a fault, and runs the call.
            Self::Deny(reason) => json!({"hookSpecificOutput": {
                "hookEventName": event, "permissionDecision": "deny", "permissionDecisionReason": bounded(reason)}}),
            Self::Rewrite(input) => json!({"hookSpecificOutput": {
                "hookEventName": event, "permissionDecision": "allow", "updatedInput": input}}),
            Self::Context(text) => {
                json!({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}})
            }
            Self::Hold(reason) => json!({"decision": "block", "reason": bounded(reason)}),
        }
    }

    fn gemini(&self) -> Value {
        match self {
            Self::Pass => json!({}),
            Self::Deny(reason) | Self::Hold(reason) => json!({"decision": "deny", "reason": bounded(reason)}),
            Self::Rewrite(input) => json!({"hookSpecificOutput": {"tool_input": input}}),
            Self::Context(text) => json!({"hookSpecificOutput": {"additionalContext": text}}),
        }
    }

    fn cursor(&self, event: &str) -> Value {
        match self {
            Self::Deny(reason) => {
                let reason = bounded(reason);
                let mut denied = json!({"permission": "deny", "user_message": reason, "agent_message": reason});
                // Cursor runs hooks of Claude Code's settings, under its events' names.
                if let (true, Some(members)) = (event == "PreToolUse", denied.as_object_mut())
                    && let Value::Object(theirs) = self.claude(event)
                {
                    members.extend(theirs);
                }
                denied
            }
            Self::Rewrite(input) => json!({"permission": "allow", "updated_input": input}),
            Self::Context(text) => json!({"continue": true, "additional_context": text}),
            Self::Hold(reason) => json!({"followup_message": bounded(reason)}),
            Self::Pass if matches!(event, "beforeSubmitPrompt") => json!({"continue": true}),
            Self::Pass => json!({"permission": "allow"}),
        }
    }
}

/// True for Cline's tools that can be denied without the end of the run.
fn goes_on(tool: &str) -> bool {
    matches!(tool, "run_commands" | "editor")
}

/// Cuts a reason at a character, so that it has at most [`REASON_BYTES`].
fn bounded(reason: &str) -> &str {
    reason.get(..reason.floor_char_boundary(REASON_BYTES)).unwrap_or(reason)
}

/// Returns a shell line that does nothing but print a text.
pub fn printing(text: &str) -> String {
    format!("printf '%s\\n' '{}'", text.replace('\'', r"'\''"))
}
