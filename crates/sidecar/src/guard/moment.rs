//! Moment of a session: an agent's step, or a text that reaches it, to be judged by the rules.

use serde_json::Value;

use super::super::document::Document;
use umbra_domain::{
    Effect, Event, Mark, ToolCall, ToolName,
    sidecar::{DocumentOf, Since},
};
use umbra_policy::AgentContext;

/// True if a document, or a section of it by its slug, was changed in substance since. Answered by the caller, which
/// keeps the history. Before the first turn, changes since the session began count.
pub type ChangeQuery<'a> = dyn Fn(Option<&str>, Since) -> bool + Sync + 'a;

/// A moment of a session. Its texts are as stored: without credentials and hidden characters.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    /// Agent and session.
    pub context: AgentContext<'a>,
    /// Step or text to judge.
    pub subject: MomentSubject<'a>,
    /// Marks of what `checks::screen` took out of [`MomentSubject::as_event`]: the only input of the checks `secrets`
    /// and `hidden`.
    pub marks: &'a [Mark],
    /// State of the session's documents; `None` if it is unknown or there is no session. Rules about documents are then
    /// skipped, since a fault of ours must not stop an agent.
    pub documents: Option<&'a [MomentDocument<'a>]>,
}

/// Step of an agent, or text that reaches it.
#[derive(Clone, Copy)]
pub enum MomentSubject<'a> {
    /// Start of a turn.
    Turn,
    /// Message of any speaker.
    Message {
        /// Role of the speaker, in the word of its protocol: assistant, user, system, tool.
        role: &'a str,
        /// Text of the message.
        text: &'a str,
        /// True if calls come with it, so that it is no answer yet.
        with_calls: bool,
    },
    /// Call of a tool, before it runs.
    Call {
        /// The tool.
        tool: &'a ToolName,
        /// Effect of the tool.
        effect: Effect,
        /// Arguments of the call.
        args: &'a Value,
    },
    /// Result of a tool.
    Result {
        /// The tool.
        tool: &'a ToolName,
        /// Text of the result.
        text: &'a str,
    },
}

/// State of a document of a session.
#[derive(Clone, Copy)]
pub struct MomentDocument<'a> {
    /// Name of the document.
    pub name: &'a str,
    /// Content; `None` if there is no document, or it cannot be read.
    pub document: Option<&'a Document>,
    /// Answers which parts were changed.
    pub changed: &'a ChangeQuery<'a>,
}

/// Speaker of a message, by the role's word in its protocol.
#[derive(Clone, Copy, PartialEq)]
enum Speaker {
    Agent,
    /// A person or a program that tells the agent something.
    Other,
    Tool,
    Unknown,
}

impl Speaker {
    fn of(role: &str) -> Self {
        match role.to_ascii_lowercase().as_str() {
            "assistant" | "agent" | "model" | "ai" => Self::Agent,
            "user" | "human" | "system" | "developer" => Self::Other,
            "tool" | "function" => Self::Tool,
            _ => Self::Unknown,
        }
    }
}

impl MomentSubject<'_> {
    /// Returns the agent's step that may wait for a document; `None` for words of others and words that announce calls.
    pub(super) fn step(&self) -> Option<DocumentOf> {
        match *self {
            MomentSubject::Turn => Some(DocumentOf::Turn),
            MomentSubject::Message { role, with_calls, .. } => {
                let answers = !with_calls && matches!(Speaker::of(role), Speaker::Agent | Speaker::Unknown);
                answers.then_some(DocumentOf::Message)
            }
            MomentSubject::Call { .. } => Some(DocumentOf::Call),
            MomentSubject::Result { .. } => None,
        }
    }

    /// Returns the event that the checks look at: words of the agent are its output, words of others its input, and
    /// words of an unknown role both. A turn has no text.
    pub fn as_event(&self) -> Event {
        let mut event = Event::default();
        match *self {
            MomentSubject::Turn => {}
            MomentSubject::Message { role, text, .. } => {
                let speaker = Speaker::of(role);
                if speaker == Speaker::Tool {
                    event.tool = Some(ToolCall { result: Some(text.to_owned()), ..ToolCall::default() });
                } else {
                    event.input = (speaker != Speaker::Agent).then(|| text.to_owned());
                    event.output = (speaker != Speaker::Other).then(|| text.to_owned());
                }
            }
            MomentSubject::Call { tool, args, .. } => {
                event.tool = Some(ToolCall { name: tool.to_string(), args: args.clone(), ..ToolCall::default() });
            }
            MomentSubject::Result { tool, text } => {
                let result = Some(text.to_owned());
                event.tool = Some(ToolCall { name: tool.to_string(), result, ..ToolCall::default() });
            }
        }
        event
    }
}
