//! Effective execution: live or shadow. In: the settings, the variable, the overrides in force, and the owner of the
//! call. Out: live or shadow, the source that decided, and every other source.
//!
//! The narrowest override that applies wins; among equally narrow ones the stricter. Without one, the stricter of
//! settings file and variable; without those, the environment's default. A run that began in shadow, or that a shadow
//! run started, stays in shadow whatever else applies: real effects of such a run would be a surprise. A live override
//! from the future does not count: the clock has jumped back, and expiry cannot be judged.

use globset::Glob;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use umbra_domain::{
    Execution, Override, OverrideScope,
    tool::{Readings, ToolPatterns},
};

/// Execution as configured before the server started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredExecution {
    /// Environment name.
    pub environment: String,
    /// Execution by the settings file.
    pub settings: Option<Execution>,
    /// Name of the variable, and its execution.
    pub variable: (String, Option<Execution>),
    /// Default of the environment.
    pub default: Execution,
}

/// Reads a variable such as `AGENT_SAFE_MODE`. A value that is neither yes nor no counts as yes: it was set on purpose.
pub fn safe_mode(value: Option<&str>) -> Option<Execution> {
    match value.map(|value| value.trim().to_ascii_lowercase()).as_deref() {
        None | Some("" | "0" | "false" | "no" | "off") => None,
        Some(_) => Some(Execution::Shadow),
    }
}

/// Shadow that a call inherits from its run or from runs above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InheritedExecution {
    /// The call's run, which began in shadow.
    Began(String),
    /// A run above it that is or was in shadow.
    Shadow(String),
    /// A run above it that is unknown, or too far up.
    Unknown(String),
}

/// Owner of a call. Without an agent or tool, only overrides for every agent or tool apply.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallOwner<'a> {
    /// The agent.
    pub agent: Option<&'a str>,
    /// The session.
    pub session: Option<&'a str>,
    /// All tools that the called name may denote.
    pub tool: Option<&'a Readings>,
    /// Shadow that the call inherits.
    pub descent: Option<&'a InheritedExecution>,
}

/// A source that has a say on execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ExecutionSource)]
pub struct ExecutionSource {
    /// Kind of source: `run`, `parent_run`, `override`, `settings`, `variable` or `environment`.
    #[schema(value_type = String)]
    pub source: &'static str,
    /// Name of the source: the override's scope and value, the run, the variable or the environment.
    pub name: String,
    /// Execution that the source asks for.
    pub execution: Execution,
    /// Reason, if one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Time at which it ends by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// Effective execution, with its sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Effective {
    /// Live or shadow.
    pub execution: Execution,
    /// Source that decided.
    pub won: ExecutionSource,
    /// Other sources, in order of precedence.
    pub overruled: Vec<ExecutionSource>,
}

/// Determines the effective execution.
pub fn effective(
    configured: &ConfiguredExecution,
    overrides: &[Override],
    whose: CallOwner<'_>,
    now: Timestamp,
) -> Effective {
    let mut sources: Vec<ExecutionSource> = Vec::new();
    if let Some(InheritedExecution::Shadow(run)) = whose.descent {
        sources.push(plain("parent_run", run, Execution::Shadow));
    }
    let mut applying: Vec<&Override> = overrides
        .iter()
        .filter(|one| one.expires_at.is_none_or(|end| now < end))
        .filter(|one| one.execution == Execution::Shadow || one.set_at <= now)
        .filter(|one| applies(one, &configured.environment, whose))
        .collect();
    applying.sort_by(|a, b| (b.scope, b.execution, a.set_at).cmp(&(a.scope, a.execution, b.set_at)));
    sources.extend(applying.into_iter().map(|one| ExecutionSource {
        reason: Some(one.reason.clone()),
        expires_at: one.expires_at,
        ..plain("override", &named(one), one.execution)
    }));
    let mut said: Vec<ExecutionSource> = Vec::new();
    said.extend(configured.settings.map(|execution| plain("settings", "boundary.execution", execution)));
    said.extend(configured.variable.1.map(|execution| plain("variable", &configured.variable.0, execution)));
    said.sort_by_key(|source| std::cmp::Reverse(source.execution));
    sources.extend(said);
    let default = plain("environment", &configured.environment, configured.default);
    sources.push(default);
    // If another source already says shadow, that source is named.
    if let (Some(InheritedExecution::Began(run)), Some(ExecutionSource { execution: Execution::Live, .. })) =
        (whose.descent, sources.first())
    {
        sources.insert(0, plain("run", run, Execution::Shadow));
    }
    let won = sources.remove(0);
    Effective { execution: won.execution, won, overruled: sources }
}

/// True if an override applies to this call.
fn applies(one: &Override, environment: &str, whose: CallOwner<'_>) -> bool {
    match one.scope {
        OverrideScope::Global => true,
        OverrideScope::Environment => same_environment(&one.value, environment),
        OverrideScope::Agent => whose.agent.map_or_else(|| is_for_all(one), |agent| is_of_agent(one, agent)),
        OverrideScope::Session => whose.session == Some(&one.value),
        OverrideScope::Tool => whose.tool.map_or_else(|| is_for_all(one), |tool| is_of_tool(one, tool)),
    }
}

/// True if an override is for an agent; shadow ignores case.
pub fn is_of_agent(one: &Override, agent: &str) -> bool {
    let is_shadow = one.execution == Execution::Shadow;
    globbed(one, &one.value, agent) || is_shadow && globbed(one, &one.value.to_lowercase(), &agent.to_lowercase())
}

/// True if an override is for a tool: shadow for all that its name may denote, live for what it surely denotes.
pub fn is_of_tool(one: &Override, tool: &Readings) -> bool {
    let is_shadow = one.execution == Execution::Shadow;
    ToolPatterns::compile([(one.value.as_str(), 0)]).map_or(is_shadow, |pattern| {
        let places = if is_shadow { pattern.restricting(tool) } else { pattern.permitting(tool) };
        !places.is_empty()
    })
}

/// True if the override's pattern matches every name.
fn is_for_all(one: &Override) -> bool {
    one.value.chars().all(|char| char == '*')
}

/// Matches a name against a glob. A glob that is no longer valid matches in shadow only.
fn globbed(one: &Override, value: &str, name: &str) -> bool {
    value == name
        || Glob::new(value).map_or(one.execution == Execution::Shadow, |glob| glob.compile_matcher().is_match(name))
}

/// True if two names denote one environment, ignoring case: `Production` is `production`.
pub fn same_environment(one: &str, other: &str) -> bool {
    one.trim().to_lowercase() == other.trim().to_lowercase()
}

/// Scope and value of an override in one word.
pub(super) fn named(one: &Override) -> String {
    if one.value.is_empty() { one.scope.as_str().to_owned() } else { format!("{}:{}", one.scope.as_str(), one.value) }
}

fn plain(source: &'static str, name: &str, execution: Execution) -> ExecutionSource {
    ExecutionSource { source, name: name.to_owned(), execution, reason: None, expires_at: None }
}
