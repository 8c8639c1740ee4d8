//! What is judged: a moment of a session.

use serde_json::Value;

use super::super::document::Document;
use umbra_domain::{
    Effect, Event, Mark, ToolCall, ToolName,
    sidecar::{DocumentOf, Since},
};

/// Whether a document, or a section of it by its slug, was changed in substance since. Who keeps the history answers; where
/// there was no turn yet, what was changed since the session began counts.
pub type Changed<'a> = dyn Fn(Option<&str>, Since) -> bool + Sync + 'a;

/// A moment of a session. Its texts are as they are kept: without credentials and hidden characters.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    /// Who acts.
    pub agent: &'a str,
    /// The route that the agent is on, where it has one.
    pub route: Option<&'a str>,
    /// The modes in which it works.
    pub modes: &'a [String],
    /// What clings to its session.
    pub taints: &'a [String],
    /// Its session, where it has one.
    pub session: Option<&'a str>,
    /// What it does.
    pub subject: Subject<'a>,
    /// What was taken out of the subject's texts before, as `checks::screen` tells it of [`Subject::as_event`]: all that
    /// the checks `secrets` and `hidden` go by.
    pub marks: &'a [Mark],
    /// How the documents of its session stand; `None` where that is not known, or there is no session: rules about documents
    /// are not asked then, since a fault of ours stops nobody.
    pub documents: Option<&'a [Standing<'a>]>,
}

/// What an agent does.
#[derive(Clone, Copy)]
pub enum Subject<'a> {
    /// It begins a turn.
    Turn,
    /// Something is said.
    Message {
        /// By whom, in the word of its protocol: assistant, user, system, tool.
        role: &'a str,
        /// What.
        text: &'a str,
        /// True if calls come with it, so that it is no answer yet.
        with_calls: bool,
    },
    /// It is about to call a tool.
    Call {
        /// The tool.
        tool: &'a ToolName,
        /// What that does.
        effect: Effect,
        /// With which arguments.
        args: &'a Value,
    },
    /// A tool has answered.
    Result {
        /// The tool.
        tool: &'a ToolName,
        /// What it answered.
        text: &'a str,
    },
}

/// How a document of a session stands.
#[derive(Clone, Copy)]
pub struct Standing<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it says; `None` where there is none, or none that can be read.
    pub document: Option<&'a Document>,
    /// What has changed of it.
    pub changed: &'a Changed<'a>,
}

/// Speaker of a message, by the word of a protocol.
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

impl Subject<'_> {
    /// The step of the agent that may wait for a document; none where others speak, or speech only announces calls.
    pub(super) fn step(&self) -> Option<DocumentOf> {
        match *self {
            Subject::Turn => Some(DocumentOf::Turn),
            Subject::Message { role, with_calls, .. } => {
                let answers = !with_calls && matches!(Speaker::of(role), Speaker::Agent | Speaker::Unknown);
                answers.then_some(DocumentOf::Message)
            }
            Subject::Call { .. } => Some(DocumentOf::Call),
            Subject::Result { .. } => None,
        }
    }

    /// The event as which the checks see it: what an agent says is its output, what it is told its input. What a role says
    /// that nobody knows is both. A turn has no text.
    pub fn as_event(&self) -> Event {
        let mut event = Event::default();
        match *self {
            Subject::Turn => {}
            Subject::Message { role, text, .. } => {
                let speaker = Speaker::of(role);
                if speaker == Speaker::Tool {
                    event.tool = Some(ToolCall { result: Some(text.to_owned()), ..ToolCall::default() });
                } else {
                    event.input = (speaker != Speaker::Agent).then(|| text.to_owned());
                    event.output = (speaker != Speaker::Other).then(|| text.to_owned());
                }
            }
            Subject::Call { tool, args, .. } => {
                event.tool = Some(ToolCall { name: tool.to_string(), args: args.clone(), ..ToolCall::default() });
            }
            Subject::Result { tool, text } => {
                let result = Some(text.to_owned());
                event.tool = Some(ToolCall { name: tool.to_string(), result, ..ToolCall::default() });
            }
        }
        event
    }
}
