//! A call of a tool that somebody asks the boundary about.

use serde_json::{Map, Value};

use super::{Effect, ToolAnnotations, ToolName};

/// An effect that a caller declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeclaredEffect {
    /// The effect.
    pub effect: Effect,
    /// True where it is believed although it is a lesser one than is known otherwise.
    pub is_believed: bool,
}

/// A call, as its caller describes it. Nothing in it is redacted yet.
#[derive(Clone, PartialEq)]
pub struct Call {
    /// The caller's id of it: a repetition gets the same decision.
    pub call_id: String,
    /// Who calls.
    pub agent: String,
    /// The session it belongs to.
    pub session: Option<String>,
    /// The run it belongs to; stubs of a run remember each other.
    pub run: Option<String>,
    /// Nobody chose the name of the run: it is that of a session or a process, and ends when shadow is lifted.
    pub default_run: bool,
    /// The run that started this one: its execution is inherited.
    pub parent_run: Option<String>,
    /// What makes the stubs of a run repeatable; the first call of the run sets it.
    pub seed: Option<String>,
    /// Whether the run is shown the faults that contracts name; the first call of the run sets it.
    pub faults: bool,
    /// The route that the agent works on.
    pub route: Option<String>,
    /// The modes that it is in, the outermost first.
    pub modes: Vec<String>,
    /// Which tool.
    pub tool: ToolName,
    /// Whether our own proxy asks, which has the tool's server at its other end: then which server that is, and what it says of
    /// the tool, is no caller's word.
    pub by_proxy: bool,
    /// Name that the tool's server gives itself, as our own proxy heard it.
    pub server_name: Option<String>,
    /// What the tool's server says about it.
    pub annotations: ToolAnnotations,
    /// What the caller says that the tool does.
    pub declared_effect: Option<DeclaredEffect>,
    /// The tool's description, as its server gives it.
    pub description: Option<String>,
    /// JSON Schema of the arguments, as its server gives it.
    pub input_schema: Option<Value>,
    /// JSON Schema of the result, as its server gives it.
    pub output_schema: Option<Value>,
    /// The arguments.
    pub arguments: Map<String, Value>,
    /// The result that a stub shall have.
    pub stub_override: Option<Value>,
    /// The result of a stub where no contract says what it is; `Some(Null)` for a tool that gives nothing.
    pub stub_fallback: Option<Value>,
    /// Ways to write that nobody can intercept, which the session has.
    pub uninterceptable: Vec<String>,
    /// W3C trace context.
    pub traceparent: Option<String>,
    /// Milliseconds that the caller waits.
    pub deadline_ms: Option<u64>,
}

impl Call {
    /// Whether its caller, or the tool's server, calls it a read.
    pub fn says_read(&self) -> bool {
        self.declared_effect.is_some_and(|declared| declared.effect == Effect::Read)
            || self.annotations.read_only == Some(true)
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}

/// What came of a call that ran.
#[derive(Clone, PartialEq)]
pub struct CallOutcome {
    /// Who called.
    pub agent: String,
    /// Whether it went well.
    pub status: OutcomeStatus,
    /// What the tool answered.
    pub result: Option<Value>,
    /// What went wrong.
    pub error: Option<String>,
    /// How long it took.
    pub duration_ms: Option<u64>,
}

impl std::fmt::Debug for CallOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallOutcome").field("status", &self.status).finish_non_exhaustive()
    }
}

words! {
    /// Whether a call went well.
    pub enum OutcomeStatus {
        /// The tool answered.
        Ok = "ok",
        /// The tool failed.
        Error = "error",
    }
}
