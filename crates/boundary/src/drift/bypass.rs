//! Calls that nobody asked about. In: whose calls must be decided, a call as an event shows it, a decision. Out: whether the
//! one is of the other.

use std::time::Duration;

use globset::{Glob, GlobSet, GlobSetBuilder};
use serde_json::Value;

use umbra_checks::is_redacted;

/// Whose calls of which tools must have been decided.
#[derive(Debug, Clone, Default)]
pub struct Required {
    agents: GlobSet,
    tools: GlobSet,
    /// How long before its event a decision may have been made that no `call_id` names.
    pub within: Duration,
}

impl Required {
    /// Compiles globs of agents and tools.
    ///
    /// # Errors
    /// One that is no glob.
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

    /// Whether nothing is looked for.
    pub fn is_off(&self) -> bool {
        self.agents.is_empty()
    }

    /// Whether a call of this tool by this agent must have been decided.
    pub fn wants(&self, agent: &str, tool: &str) -> bool {
        self.agents.is_match(agent) && self.tools.is_match(tool)
    }
}

/// Whether an event's tool is the one that was decided of, as `server.name`: its name alone, and the forms
/// `server__name` and `mcp__server__name` of agents that put several servers together, are the same tool.
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

/// Whether arguments are the same. Where a secret was redacted, its marker differs from one place to another, and the
/// audit redacts by the names of members as well: such values count as the same.
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
