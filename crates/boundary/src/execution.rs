//! Whether calls run, and who decided that. In: the settings, the variable, the overrides in force, whose call it is. Out:
//! live or shadow, the source that won, and every source that was looked at.
//!
//! The narrowest override that applies wins; among equally narrow ones the stricter. Without one, the stricter of settings
//! file and variable; without those, the environment's default. A run that began in shadow, or that a shadow run started, is
//! shadow, whatever else applies: what it would do for real, nobody expects. An override that makes calls run and is from a time that
//! has yet to come is none: the clock has jumped back, and nobody knows what has expired.

use globset::Glob;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use umbra_domain::{
    Execution, Override, OverrideScope,
    tool::{Readings, ToolPatterns},
};

/// What is said before the server starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configured {
    /// The environment's name.
    pub environment: String,
    /// What the settings file says.
    pub settings: Option<Execution>,
    /// The variable's name, and what it says.
    pub variable: (String, Option<Execution>),
    /// The environment's default.
    pub default: Execution,
}

/// What a variable such as `AGENT_SAFE_MODE` says. What is neither yes nor no counts as yes: who set it meant something.
pub fn safe_mode(value: Option<&str>) -> Option<Execution> {
    match value.map(|value| value.trim().to_ascii_lowercase()).as_deref() {
        None | Some("" | "0" | "false" | "no" | "off") => None,
        Some(_) => Some(Execution::Shadow),
    }
}

/// What a call has of its run and of those further up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Descent {
    /// The run, which began in shadow.
    Began(String),
    /// A run further up that is or was in shadow.
    Shadow(String),
    /// A run further up of which nothing is known, or which lies too far up.
    Unknown(String),
}

/// Whose call it is. Without a name it is any call: an override counts if it is for every name.
#[derive(Debug, Clone, Copy, Default)]
pub struct Whose<'a> {
    /// The agent.
    pub agent: Option<&'a str>,
    /// The session.
    pub session: Option<&'a str>,
    /// The tool: all that it may be.
    pub tool: Option<&'a Readings>,
    /// What its run makes of it.
    pub descent: Option<&'a Descent>,
}

/// A source that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ExecutionSource)]
pub struct Source {
    /// `run`, `parent_run`, `override`, `settings`, `variable` or `environment`.
    #[schema(value_type = String)]
    pub source: &'static str,
    /// Which one: the override's scope and value, the variable's name, the environment.
    pub name: String,
    /// What it says.
    pub execution: Execution,
    /// Why, where somebody said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it ends by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
}

/// Whether calls run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Effective {
    /// Whether they do.
    pub execution: Execution,
    /// Who decided.
    pub won: Source,
    /// Who else has something to say, in the order of precedence.
    pub overruled: Vec<Source>,
}

/// Decides.
pub fn effective(configured: &Configured, overrides: &[Override], whose: Whose<'_>, now: Timestamp) -> Effective {
    let mut sources: Vec<Source> = Vec::new();
    if let Some(Descent::Shadow(run)) = whose.descent {
        sources.push(plain("parent_run", run, Execution::Shadow));
    }
    let mut applying: Vec<&Override> = overrides
        .iter()
        .filter(|one| one.expires_at.is_none_or(|end| now < end))
        .filter(|one| one.execution == Execution::Shadow || one.set_at <= now)
        .filter(|one| applies(one, &configured.environment, whose))
        .collect();
    applying.sort_by(|a, b| (b.scope, b.execution, a.set_at).cmp(&(a.scope, a.execution, b.set_at)));
    sources.extend(applying.into_iter().map(|one| Source {
        reason: Some(one.reason.clone()),
        expires_at: one.expires_at,
        ..plain("override", &named(one), one.execution)
    }));
    let mut said: Vec<Source> = Vec::new();
    said.extend(configured.settings.map(|execution| plain("settings", "boundary.execution", execution)));
    said.extend(configured.variable.1.map(|execution| plain("variable", &configured.variable.0, execution)));
    said.sort_by_key(|source| std::cmp::Reverse(source.execution));
    sources.extend(said);
    let default = plain("environment", &configured.environment, configured.default);
    sources.push(default);
    // Where it is shadow anyway, whoever says so is named.
    if let (Some(Descent::Began(run)), Some(Source { execution: Execution::Live, .. })) =
        (whose.descent, sources.first())
    {
        sources.insert(0, plain("run", run, Execution::Shadow));
    }
    let won = sources.remove(0);
    Effective { execution: won.execution, won, overruled: sources }
}

/// Whether an override is for this call.
fn applies(one: &Override, environment: &str, whose: Whose<'_>) -> bool {
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

/// True if an override is for a tool: shadow for all that it may be, live for what it surely is.
pub fn is_of_tool(one: &Override, tool: &Readings) -> bool {
    let is_shadow = one.execution == Execution::Shadow;
    ToolPatterns::compile([(one.value.as_str(), 0)]).map_or(is_shadow, |pattern| {
        let places = if is_shadow { pattern.restricting(tool) } else { pattern.permitting(tool) };
        !places.is_empty()
    })
}

/// Whether its glob matches every name.
fn is_for_all(one: &Override) -> bool {
    one.value.chars().all(|char| char == '*')
}

/// A glob that cannot be read any more counts where it is strict.
fn globbed(one: &Override, value: &str, name: &str) -> bool {
    value == name
        || Glob::new(value).map_or(one.execution == Execution::Shadow, |glob| glob.compile_matcher().is_match(name))
}

/// Whether two names are of one environment, in whatever letters: `Production` is `production`.
pub fn same_environment(one: &str, other: &str) -> bool {
    one.trim().to_lowercase() == other.trim().to_lowercase()
}

/// Its scope and value in one word.
pub(super) fn named(one: &Override) -> String {
    if one.value.is_empty() { one.scope.as_str().to_owned() } else { format!("{}:{}", one.scope.as_str(), one.value) }
}

fn plain(source: &'static str, name: &str, execution: Execution) -> Source {
    Source { source, name: name.to_owned(), execution, reason: None, expires_at: None }
}
