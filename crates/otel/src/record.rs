//! Record: what one span or log says of a call, an agent or a prompt.

use serde::{Deserialize, Serialize};
use umbra_domain::{NanoUsd, StoredEvent};

/// Kind of a span or a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordKind {
    /// A call of a model.
    Model,
    /// A call of a tool.
    Tool,
    /// Work of an agent, from its prompt to its answer.
    Agent,
    /// A prompt of a user.
    Prompt,
    /// A step between an agent and its calls.
    Wrapper,
    /// Something else, kept for its place in the tree.
    #[default]
    Other,
}

/// Role of a text in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartRole {
    /// The user's request: `task` of the event.
    Prompt,
    /// The model's answer: `output` of the event.
    Output,
    /// A tool with its arguments: `tool.name` and `tool.args` of the event.
    Call,
    /// Result or error of a tool: `tool.result`, `tool.error`, `tool.exit_code` of the event; without an id of the call
    /// also `tool.name`.
    Result,
}

/// A text of a record, as the fields of an event that it becomes, so that it is screened like one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Role of the text.
    pub role: PartRole,
    /// Id of the tool call, if the sender gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The fields; marks are empty until it is screened.
    pub stored: StoredEvent,
}

/// Tokens of a call of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Tokens read, those of a cache included.
    pub input: u64,
    /// Tokens written.
    pub output: u64,
}

/// Facts of one span or log.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Record {
    /// Kind of the record.
    pub kind: RecordKind,
    /// True for a log.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_log: bool,
    /// Trace id, in hex; of a log without a trace a name made from its session.
    pub trace: String,
    /// Span id, in hex. A log that is no part of its span has a name of its own behind it.
    pub span: String,
    /// Id of the parent span, in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// `service.name`.
    pub service: String,
    /// Instrumentation scope.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scope: String,
    /// Name of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Id of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// Name of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider's id of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// Id of the tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_id: Option<String>,
    /// Name of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// Reason for which the model stopped, in the sender's word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// Cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<NanoUsd>,
    /// Start and end, in nanoseconds since 1970.
    pub start: i64,
    /// End, in nanoseconds since 1970; that of a log is its start.
    pub end: i64,
    /// Ids of tool calls in the history that the model was given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<String>,
    /// Texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// True if the sender dropped attributes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
}

impl Record {
    /// Returns the first part of a role.
    pub fn part(&self, role: PartRole) -> Option<&Part> {
        self.parts.iter().find(|part| part.role == role)
    }
}
