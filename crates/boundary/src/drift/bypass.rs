//! Unguarded calls: matches calls in events with decisions. In: agents and tools whose calls must be decided, a call as
//! an event shows it, a decision. Out: whether the decision is about that call.

use std::time::Duration;

use globset::{Glob, GlobSet, GlobSetBuilder};
use serde_json::Value;

use umbra_checks::is_redacted;

/// Agents and tools whose calls must have been decided.
#[derive(Debug, Clone, Default)]
pub struct Required {
    agents: GlobSet,
    tools: GlobSet,
    /// Longest time between a decision and its event, if no `call_id` links them.
    pub within: Duration,
}

impl Required {
    /// Compiles globs of agents and tools.
    ///
    /// # Errors
    /// A text that is no glob.
    pub fn compile(agents: &[String], tools: &[String], within: Duration) -> Result<Self, globset::Error> {
        let set = |globs: &[String]| {
            let mut set = GlobSetBuilder::new();
            for glob in globs {
                set.add(Glob::new(glob)?);
            }
            set.build()
        };
        Ok(Self { agents: set(agents)?, tools: set(tools)?, within })
    }

    /// True if no calls must be decided.
    pub fn is_off(&self) -> bool {
        self.agents.is_empty()
    }

    /// True if a call of this tool by this agent must have been decided.
    pub fn wants(&self, agent: &str, tool: &str) -> bool {
        self.agents.is_match(agent) && self.tools.is_match(tool)
    }
}

/// True if an event's tool is the decided one, given as `server.name`. The name alone counts as the same, and so do the
/// forms `server__name` and `mcp__server__name` of agents that combine several servers.
pub fn same_tool(seen: &str, decided: &str) -> bool {
    let Some((server, name)) = decided.split_once('.') else { return seen == decided };
    seen == decided
        || seen == name
        || seen
            .strip_prefix("mcp__")
            .unwrap_or(seen)
            .strip_prefix(server)
            .is_some_and(|rest| rest.strip_prefix("__").is_some_and(|rest| rest == name))
}

/// True if arguments are the same. Redacted values match any other: the marker of a secret differs from one place to
/// another, and the audit redacts by the names of members as well.
pub fn same_arguments(seen: &Value, decided: &Value) -> bool {
    match (seen, decided) {
        (seen, Value::String(decided)) if !seen.is_array() && !seen.is_object() && is_redacted(decided) => true,
        (Value::Object(seen), Value::Object(decided)) => {
            seen.len() == decided.len()
                && seen.iter().all(|(key, value)| {
                    decided.get(key).is_some_and(|decided| same_arguments(value, decided)) || is_redacted(key)
                })
        }
        (Value::Array(seen), Value::Array(decided)) => {
            seen.len() == decided.len() && seen.iter().zip(decided).all(|(seen, decided)| same_arguments(seen, decided))
        }
        (Value::String(seen), Value::String(decided)) => seen == decided,
        (Value::Number(seen), Value::Number(decided)) => seen == decided || seen.as_f64() == decided.as_f64(),
        // A call without arguments.
        (Value::Null, Value::Object(decided)) => decided.is_empty(),
        (seen, decided) => seen == decided,
    }
}
