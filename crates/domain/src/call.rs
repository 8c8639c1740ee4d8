//! Tool call that the boundary is asked to decide, and its outcome.

use serde_json::{Map, Value};

use super::{Effect, GuardVerdict, ToolAnnotations, ToolName};

/// Effect that a caller declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeclaredEffect {
    /// Declared effect.
    pub effect: Effect,
    /// True if the declaration counts even if it is milder than the effect known otherwise.
    pub is_believed: bool,
}

/// Tool call as its caller describes it, not redacted yet.
#[derive(Clone, PartialEq, Default)]
pub struct Call {
    /// The caller's id of the call. A repetition gets the same decision.
    pub call_id: String,
    /// Agent that calls.
    pub agent: String,
    /// Session of the call.
    pub session: Option<String>,
    /// Run of the call. Stubs of one run remember each other.
    pub run: Option<String>,
    /// True if the run's name is that of a session or a process. Such a run ends when shadow is lifted.
    pub default_run: bool,
    /// Run that started this run; its execution is inherited.
    pub parent_run: Option<String>,
    /// Seed that makes the run's stubs repeatable; set by the first call of the run.
    pub seed: Option<String>,
    /// True if stubs of the run may show the faults that contracts name; set by the first call of the run.
    pub faults: bool,
    /// Route that the agent works on.
    pub route: Option<String>,
    /// Modes of the agent, the outermost first.
    pub modes: Vec<String>,
    /// Tool that is called.
    pub tool: ToolName,
    /// True if Umbra's own proxy asks. The proxy is connected to the tool's server, so the server's name and
    /// annotations are no claims of a caller.
    pub by_proxy: bool,
    /// Name that the tool's server gives itself, as the proxy heard it; the host, for a coding agent's own tool.
    pub server_name: Option<String>,
    /// Annotations by the tool's server.
    pub annotations: ToolAnnotations,
    /// Effect that the caller declares.
    pub declared_effect: Option<DeclaredEffect>,
    /// Description by the tool's server.
    pub description: Option<String>,
    /// JSON Schema of the arguments, by the tool's server.
    pub input_schema: Option<Value>,
    /// JSON Schema of the result, by the tool's server.
    pub output_schema: Option<Value>,
    /// Arguments of the call.
    pub arguments: Map<String, Value>,
    /// Result that the caller wants a stub to return.
    pub stub_override: Option<Value>,
    /// Result of a stub if no contract defines one; `Some(Null)` for a tool that returns nothing.
    pub stub_fallback: Option<Value>,
    /// Ways to write that the session has and that cannot be intercepted.
    pub uninterceptable: Vec<String>,
    /// W3C trace context.
    pub traceparent: Option<String>,
    /// Time that the caller waits, in milliseconds.
    pub deadline_ms: Option<u64>,
    /// Verdict of the built-in checks on the arguments; it counts like that of a rule.
    pub flagged: Option<FlaggedCall>,
}

/// Verdict of the built-in checks on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlaggedCall {
    /// The verdict.
    pub verdict: GuardVerdict,
    /// Reason, in words.
    pub reason: String,
}

impl Call {
    /// Returns an agent's call of a tool, about which nothing else is known.
    pub fn new(agent: impl Into<String>, tool: ToolName, arguments: Map<String, Value>) -> Self {
        Self { agent: agent.into(), tool, arguments, ..Self::default() }
    }

    /// True if the caller, or the tool's server, declares the tool a read.
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

/// Outcome of a call.
#[derive(Clone, PartialEq, utoipa::ToSchema)]
#[schema(as = OutcomeRequest)]
pub struct CallOutcome {
    /// Agent that made the call.
    pub agent: String,
    /// `ok` or `error`.
    pub status: OutcomeStatus,
    /// Answer of the tool, any JSON.
    pub result: Option<Value>,
    /// Error message.
    pub error: Option<String>,
    /// Duration of the call, in milliseconds.
    pub duration_ms: Option<u64>,
}

impl std::fmt::Debug for CallOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallOutcome").field("status", &self.status).finish_non_exhaustive()
    }
}

words! {
    /// Success or failure of a call.
    #[derive(utoipa::ToSchema)]
    pub enum OutcomeStatus {
        /// The tool answered.
        Ok = "ok",
        /// The tool failed.
        Error = "error",
    }
}
