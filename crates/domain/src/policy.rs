//! What an operator allows: rules as the tools file says them, and what they say of one call.

use serde::{Deserialize, Serialize};

use super::Effect;

words! {
    /// What a rule says of a call that it matches; a later one wins over an earlier one.
    #[derive(PartialOrd, Ord, Default, schemars::JsonSchema, utoipa::ToSchema)]
    pub enum GuardVerdict {
        /// It may run.
        #[default]
        Allow = "allow",
        /// It may run, and the caller is told why that is worth a thought.
        Warn = "warn",
        /// A person must approve it first.
        Ask = "ask",
        /// It does not run.
        Block = "block",
    }
}

words! {
    /// Whether what a rule says holds.
    #[derive(PartialOrd, Ord, Default, schemars::JsonSchema, utoipa::ToSchema)]
    pub enum PolicyMode {
        /// It holds.
        #[default]
        Enforce = "enforce",
        /// It is recorded beside what holds, and changes nothing.
        Audit = "audit",
    }
}

/// One rule. An empty list matches everything; a rule matches where all of its lists do, and `when` holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PolicyRule {
    /// Its unique name.
    pub name: String,
    /// Whether it holds or is tried.
    pub mode: PolicyMode,
    /// Agents: names or globs.
    pub agents: Vec<String>,
    /// Routes: names or globs. A call without a route matches an empty list alone.
    pub routes: Vec<String>,
    /// Modes: names or globs, one of which must match one of the call's.
    pub modes: Vec<String>,
    /// Tools: `server.tool` or a tool's name, or globs.
    pub tools: Vec<String>,
    /// Tools that it is not about, though they are among `tools`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
    /// Effects.
    pub effects: Vec<Effect>,
    /// A predicate in CEL over `args`, `agent`, `route`, `modes`, `tool`, `effect` and `session`.
    pub when: Option<String>,
    /// What it says of a call that it matches.
    pub verdict: GuardVerdict,
    /// Why, for whoever is stopped by it.
    pub reason: String,
    /// Labels that a matching call adds to its session.
    pub taints: Vec<String>,
}

/// What the rules say of one call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Guard {
    /// What holds: the gravest verdict of the rules in force that match.
    pub verdict: GuardVerdict,
    /// What would hold if the rules that are only tried did too. Never less than `verdict`.
    pub would: GuardVerdict,
    /// Of the rule that is named; absent where none matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<PolicyMode>,
    /// The rule that decided the verdict; where none in force did, the one that decided what would hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The reason that it gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The rule that decided what would hold, where that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub would_rule: Option<String>,
    /// Names the text of all rules: two equal versions are equal rules.
    pub policy_version: String,
    /// Labels that the call adds to its session, in order, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<String>,
    /// One line for each rule that matched, in the order of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub explain: Vec<String>,
}
