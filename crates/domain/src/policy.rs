//! Rules of the tools file about calls, and their verdict on one call.

use serde::{Deserialize, Serialize};

use super::Effect;

words! {
    /// Verdict of a rule on a matching call; a later one wins over an earlier one.
    #[derive(PartialOrd, Ord, Default, schemars::JsonSchema, utoipa::ToSchema)]
    pub enum GuardVerdict {
        /// The call may run.
        #[default]
        Allow = "allow",
        /// The call may run, with a warning to the caller.
        Warn = "warn",
        /// A person must approve the call first.
        Ask = "ask",
        /// The call does not run.
        Block = "block",
    }
}

words! {
    /// Force of a rule: enforced, or only tried.
    #[derive(PartialOrd, Ord, Default, schemars::JsonSchema, utoipa::ToSchema)]
    pub enum PolicyMode {
        /// The rule is enforced.
        #[default]
        Enforce = "enforce",
        /// The rule is recorded beside the enforced ones, and changes nothing.
        Audit = "audit",
    }
}

/// Rule about calls. An empty list matches everything; a rule matches if all of its lists match and `when` holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PolicyRule {
    /// Unique name of the rule.
    pub name: String,
    /// Enforced, or only tried (audit).
    pub mode: PolicyMode,
    /// Agents: names or globs.
    pub agents: Vec<String>,
    /// Routes: names or globs. A call without a route matches an empty list alone.
    pub routes: Vec<String>,
    /// Modes: names or globs, one of which must match a mode of the call.
    pub modes: Vec<String>,
    /// Tools: `server.tool` or a tool's name, or globs.
    pub tools: Vec<String>,
    /// Tools that the rule leaves out, though they match `tools`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
    /// Effects.
    pub effects: Vec<Effect>,
    /// A predicate in CEL over `args`, `agent`, `route`, `modes`, `tool`, `effect` and `session`.
    pub when: Option<String>,
    /// Verdict on a matching call.
    pub verdict: GuardVerdict,
    /// Reason, told to the caller.
    pub reason: String,
    /// Labels that a matching call adds to its session.
    pub taints: Vec<String>,
}

/// Verdict of the rules on one call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Guard {
    /// Gravest verdict of the matching rules that are enforced.
    pub verdict: GuardVerdict,
    /// Gravest verdict if the rules in audit mode were enforced too. Never milder than `verdict`.
    pub would: GuardVerdict,
    /// Mode of the rule in `rule`; absent if none matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<PolicyMode>,
    /// Rule that decided `verdict`; if no enforced rule matched, the rule that decided `would`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Reason that the rule gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Rule that decided `would`, if that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub would_rule: Option<String>,
    /// Digest of all rules: equal versions mean equal rules.
    pub policy_version: String,
    /// Labels that the call adds to its session, in order, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<String>,
    /// One line for each rule that matched, in the order of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub explain: Vec<String>,
}

/// Rule that stands for the built-in checks in a [`Guard`].
const CHECKS: &str = "built-in checks";

impl Guard {
    /// Adds the verdict of the built-in checks, as if it were that of an enforced rule.
    #[must_use]
    pub fn with_checks(mut self, verdict: GuardVerdict, reason: &str) -> Self {
        self.explain.push(format!("{CHECKS}: {}, {reason}", verdict.as_str()));
        self.would = self.would.max(verdict);
        if verdict > self.verdict {
            self.verdict = verdict;
            self.mode = Some(PolicyMode::Enforce);
            self.rule = Some(CHECKS.to_owned());
            self.reason = Some(reason.to_owned());
        }
        self
    }
}
