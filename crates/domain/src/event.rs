//! Event: a copy of one action or output of an agent.

use std::{borrow::Cow, fmt};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{EventId, Mark, NanoUsd, Trigger, TriggerMark};

/// Name of a text in an event: `task`, `input`, `output`, `tool.name`, `tool.result`, `tool.error`, or a path with dots
/// for strings within JSON, such as `tool.args.command` or `metadata.repo`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FieldName(pub Cow<'static, str>);

impl FieldName {
    /// Returns the field with a fixed name.
    pub const fn fixed(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True for text that the agent itself produced for its user.
    pub fn is_output(&self) -> bool {
        self.0 == "output"
    }

    /// True for an argument that the agent gave to a tool.
    pub fn is_tool_argument(&self) -> bool {
        self.0.starts_with("tool.args")
    }

    /// True for text that came to the agent from outside: its input, or a tool's result or error.
    pub fn is_outside_data(&self) -> bool {
        matches!(&*self.0, "input" | "tool.result" | "tool.error")
    }

    /// True for text that the agent was given and does not answer for: its task, its input, a tool's result or error.
    pub fn is_given(&self) -> bool {
        self.is_outside_data() || self.0 == "task"
    }
}

impl fmt::Display for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A tool call.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ToolCall {
    /// Name of the tool.
    #[schema(min_length = 1, max_length = 256, example = "write_file")]
    pub name: String,
    /// Arguments, any JSON.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub args: Value,
    /// Result: text; other JSON is kept as its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Error: text; other JSON is kept as its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Exit code of the program that the tool ran; any but 0 is a failure.
    #[schema(minimum = -2_147_483_648_i64, maximum = 4_294_967_295_i64, example = 0)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
}

impl ToolCall {
    /// True if the call returned an error, or its program a code other than 0.
    pub fn has_failed(&self) -> bool {
        self.error.is_some() || self.exit_code.is_some_and(|code| code != 0)
    }
}

words! {
    /// Form in which the built-in checks read an output.
    #[derive(Default)]
    pub enum OutputForm {
        /// Sentences: commands stand in fenced blocks and behind prompts.
        #[default]
        Text = "text",
        /// Source text in any language, fenced or not.
        Code = "code",
        /// A script of a shell.
        Shell = "shell",
    }
}

impl OutputForm {
    /// Returns the form of a text that is submitted for review: code for `code_written` and `security_risk`, else text.
    pub fn on_demand(trigger: Trigger) -> Self {
        match trigger {
            Trigger::CodeWritten | Trigger::SecurityRisk => Self::Code,
            Trigger::TaskComplete | Trigger::Error | Trigger::All => Self::Text,
        }
    }
}

/// Longest duration of an action, in milliseconds: a year. A longer one is a mistake of units.
pub const MOST_DURATION_MS: u64 = 365 * 86_400_000;

/// Tokens of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TokenCount {
    /// Tokens read.
    #[serde(default)]
    pub input: u64,
    /// Tokens written.
    #[serde(default)]
    pub output: u64,
}

impl TokenCount {
    /// Returns the sum of both.
    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

/// Content of an event: as the sender wrote it before `checks::screen`, screened once stored. `Debug` shows no text.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = EventBody, description = "Content of an event.")]
pub struct Event {
    /// Name of the watched agent.
    #[schema(min_length = 1, max_length = 256, example = "writer-agent")]
    pub agent: String,
    /// Piece of work that the event belongs to.
    #[schema(max_length = 256, example = "t-1")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Session of the agent.
    #[schema(max_length = 256)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Triggers that the sender named, in its order.
    #[schema(ignore)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<Trigger>,
    /// Instruction that the agent was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Kind of task.
    #[schema(max_length = 256)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    /// Input of the agent: text; other JSON is kept as its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Output of the agent: text; other JSON is kept as its text.
    #[schema(example = "Deployed. The key is in config.py.")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Tool call and its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolCall>,
    /// Cost of this action, in US dollars.
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 1_000_000)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<NanoUsd>,
    /// Cost of the whole task so far, in US dollars.
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 1_000_000)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_cost_usd: Option<NanoUsd>,
    /// Tokens that the action used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenCount>,
    /// Status at the end of the action: `ok`, `error`, …
    #[schema(max_length = 256)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Reason why the model stopped: `stop`, `length`, …
    #[schema(max_length = 256)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Number of the attempt at the same output, from 1.
    #[schema(minimum = 1, maximum = 1000)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Event whose output this one replaces.
    #[schema(value_type = Option<String>, pattern = "^evt_[0-9a-f]{32}$")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<EventId>,
    /// Start of the action, by the sender's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurred_at: Option<Timestamp>,
    /// Duration of the action, in milliseconds.
    #[schema(maximum = 31_536_000_000_i64, example = 840)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Any data of the sender.
    #[schema(value_type = Option<std::collections::HashMap<String, Value>>)]
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Form that the caller named for the output; without one, the declared triggers decide.
    #[schema(ignore)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_form: Option<OutputForm>,
}

/// Event as stored: screened, with its triggers and marks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredEvent {
    /// The event, normalized and redacted.
    pub event: Event,
    /// Triggers of the event, declared ones first.
    pub triggers: Vec<TriggerMark>,
    /// Hits found while the event was accepted.
    pub marks: Vec<Mark>,
}

impl StoredEvent {
    /// Returns the remains of an erased event: agent, task id, and triggers without their reasons.
    #[must_use]
    pub fn erased(self) -> Self {
        let Event { agent, task_id, .. } = self.event;
        let nameless = |mark: TriggerMark| TriggerMark { why: String::new(), ..mark };
        Self {
            event: Event { agent, task_id, ..Event::default() },
            triggers: self.triggers.into_iter().map(nameless).collect(),
            marks: Vec::new(),
        }
    }
}

impl Event {
    /// Calls `visit` with each text that a review reads, in reading order.
    pub fn for_each_text<'a>(&'a self, mut visit: impl FnMut(FieldName, &'a str)) {
        let fixed = |name: &'static str| FieldName::fixed(name);
        if let Some(text) = &self.task {
            visit(fixed("task"), text);
        }
        if let Some(text) = &self.input {
            visit(fixed("input"), text);
        }
        if let Some(tool) = &self.tool {
            // Preallocated for names: growing costs as much as reading a text.
            let mut path = String::with_capacity(64);
            path.push_str("tool.args");
            walk(&tool.args, &mut path, &mut visit);
            if let Some(text) = &tool.result {
                visit(fixed("tool.result"), text);
            }
            if let Some(text) = &tool.error {
                visit(fixed("tool.error"), text);
            }
        }
        if let Some(text) = &self.output {
            visit(fixed("output"), text);
        }
    }

    /// Returns the text of one field, if the event has it.
    pub fn text(&self, field: &FieldName) -> Option<&str> {
        let mut found = None;
        self.for_each_text(|name, text| {
            if found.is_none() && name == *field {
                found = Some(text);
            }
        });
        found
    }

    /// Returns the number of bytes of all texts that a review reads.
    pub fn text_len(&self) -> usize {
        fn below(value: &Value) -> usize {
            match value {
                Value::String(text) => text.len(),
                Value::Array(items) => items.iter().map(below).sum(),
                Value::Object(map) => map.values().map(below).sum(),
                Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            }
        }
        let of = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let of_tool = |tool: &ToolCall| below(&tool.args) + of(&tool.result) + of(&tool.error);
        of(&self.task) + of(&self.input) + self.tool.as_ref().map_or(0, of_tool) + of(&self.output)
    }

    /// True if the sender marked the action, or its tool call, as failed.
    pub fn is_failed(&self) -> bool {
        const WORDS: &str = "\
            error errored failed failure fail timeout timed_out exception aborted crashed status_code_error";
        let failed = |status: &str| WORDS.split(' ').any(|word| status.eq_ignore_ascii_case(word));
        self.status.as_deref().is_some_and(failed) || self.tool.as_ref().is_some_and(ToolCall::has_failed)
    }

    /// Returns the form of the output: the named one, else code if the sender declared `code_written`, else text.
    pub fn output_form(&self) -> OutputForm {
        let declared = self.triggers.contains(&Trigger::CodeWritten);
        self.output_form.unwrap_or(if declared { OutputForm::Code } else { OutputForm::Text })
    }

    /// Returns the cost that is compared with a floor: the whole task's, else the action's own; `None` is unknown.
    pub fn floor_cost(&self) -> Option<NanoUsd> {
        self.task_cost_usd.or(self.cost_usd)
    }
}

/// Visits the texts in JSON. `path` is the path of `value`; it is restored at the end.
fn walk<'a>(value: &'a Value, path: &mut String, visit: &mut impl FnMut(FieldName, &'a str)) {
    let mut below = |part: &str, item: &'a Value, visit: &mut _| {
        let length = path.len();
        path.push('.');
        path.push_str(part);
        walk(item, path, visit);
        path.truncate(length);
    };
    match value {
        Value::String(text) => visit(FieldName(Cow::Owned(path.clone())), text),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                below(&index.to_string(), item, visit);
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                below(key, item, visit);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("triggers", &self.triggers)
            .field("text_len", &self.text_len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ToolCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCall").finish_non_exhaustive()
    }
}
