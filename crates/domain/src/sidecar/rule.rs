//! Rules of the guardrail in the sidecar file: about calls, documents and texts, and policies in words.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    super::{CheckName, PolicyMode, PolicyRule, Severity},
    SidecarVerdict,
};

words! {
    /// Requirement of a rule on a document. A missing document meets none.
    #[derive(schemars::JsonSchema, ToSchema)]
    pub enum DocumentNeed {
        /// The document exists; if a section is named, the section exists too and is not empty.
        Exists = "exists",
        /// The document has changed in substance: words were added or changed, or an item got another state. Removals
        /// and changes of blanks, case, signs, titles, comments and front matter do not count.
        Updated = "updated",
        /// The document has items with boxes, and none of them is open. A document without such items is not complete;
        /// YAML has none.
        Complete = "complete",
    }
}

words! {
    /// Start of the time in which a document must have changed.
    #[derive(Default, schemars::JsonSchema, ToSchema)]
    pub enum Since {
        /// Since the last turn of the session.
        #[default]
        Turn = "turn",
        /// Since the sidecar was attached.
        Session = "session",
    }
}

words! {
    /// Steps of an agent that a document rule may hold up.
    #[derive(schemars::JsonSchema, ToSchema)]
    pub enum DocumentOf {
        /// The start of a turn.
        Turn = "turn",
        /// An answer: a message of the agent without calls.
        Message = "message",
        /// A call of a tool.
        Call = "call",
    }
}

words! {
    /// Texts of a session that checks look at.
    #[derive(schemars::JsonSchema, ToSchema)]
    pub enum TextOf {
        /// A message.
        Message = "message",
        /// The arguments of a call.
        Call = "call",
        /// The result of a tool.
        Result = "result",
    }
}

impl TextOf {
    /// True if the check looks at such texts at all. `contradictions` needs two of them and looks at none.
    pub fn is_seen_by(self, check: CheckName) -> bool {
        match check {
            CheckName::Secrets | CheckName::Hidden => true,
            CheckName::Injection => self != Self::Call,
            CheckName::Commands | CheckName::Emptiness | CheckName::Pii | CheckName::OutsideHosts => {
                self != Self::Result
            }
            CheckName::Truncation | CheckName::Loops => self == Self::Message,
            CheckName::Contradictions => false,
        }
    }
}

/// Rule about a document that must be in order. An empty list matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DocumentRule {
    /// Unique name of the rule.
    pub name: String,
    /// Enforced, or only tried (audit).
    pub mode: PolicyMode,
    /// Agents: names or globs.
    pub agents: Vec<String>,
    /// Routes: names or globs. A step without a route matches an empty list alone.
    pub routes: Vec<String>,
    /// Modes: names or globs, one of which must match a mode of the agent.
    pub modes: Vec<String>,
    /// Steps that the rule is about. If empty: all, or calls alone if `tools` are named.
    #[serde(default)]
    pub of: Vec<DocumentOf>,
    /// Tools whose calls the rule is about; all tools if empty.
    pub tools: Vec<String>,
    /// Name of the document.
    pub document: String,
    /// Section of the document, by slug or title, with its subsections; the whole document if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    /// Requirement on the document.
    pub needs: DocumentNeed,
    /// Start of the time in which the document must have changed, if `needs` is `updated`.
    pub since: Since,
    /// Verdict if the document is not in order: warn or block.
    pub verdict: SidecarVerdict,
    /// Reason, told to the agent.
    pub reason: String,
}

/// Rule about the texts of a session, by the built-in checks. Empty lists of agents, routes, modes or texts match all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TextRule {
    /// Unique name of the rule.
    pub name: String,
    /// Enforced, or only tried (audit).
    pub mode: PolicyMode,
    /// Agents: names or globs.
    pub agents: Vec<String>,
    /// Routes: names or globs. A step without a route matches an empty list alone.
    pub routes: Vec<String>,
    /// Modes: names or globs, one of which must match a mode of the agent.
    pub modes: Vec<String>,
    /// Texts that the checks look at.
    pub of: Vec<TextOf>,
    /// Built-in checks that run.
    pub checks: Vec<CheckName>,
    /// Least severity that counts.
    pub severity: Severity,
    /// Verdict on a text with a hit that counts: warn or block.
    pub verdict: SidecarVerdict,
    /// Reason, told to the agent.
    pub reason: String,
}

/// Policy in words, by which a shadow judges messages and calls. An empty list matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelRule {
    /// Unique name of the rule.
    pub name: String,
    /// Enforced, or only tried (audit).
    pub mode: PolicyMode,
    /// Agents: names or globs.
    pub agents: Vec<String>,
    /// Routes: names or globs. A step without a route matches an empty list alone.
    pub routes: Vec<String>,
    /// Modes: names or globs, one of which must match a mode of the agent.
    pub modes: Vec<String>,
    /// Tools whose calls alone the rule is about; if empty, messages and calls alike.
    pub tools: Vec<String>,
    /// Shadow that judges, by its criteria, its model and its caps.
    pub shadow: String,
    /// Longest wait for the shadow's answer, in milliseconds when written as JSON.
    #[serde(rename = "deadline_ms", with = "millis")]
    #[schema(value_type = u64)]
    pub deadline: Duration,
    /// Verdict if the policy is violated: warn or block.
    pub verdict: SidecarVerdict,
    /// Reason, told to the agent.
    pub reason: String,
}

/// All rules of a sidecar file. Names are unique over all four lists.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct SidecarRules {
    /// Rules about calls, as in the tools file.
    pub policies: Vec<PolicyRule>,
    /// Rules about documents.
    pub documents: Vec<DocumentRule>,
    /// Rules about texts.
    pub texts: Vec<TextRule>,
    /// Policies in words.
    pub models: Vec<ModelRule>,
}

impl SidecarRules {
    /// Returns the names of all rules, list by list.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let policies = self.policies.iter().map(|rule| rule.name.as_str());
        let documents = self.documents.iter().map(|rule| rule.name.as_str());
        let texts = self.texts.iter().map(|rule| rule.name.as_str());
        policies.chain(documents).chain(texts).chain(self.models.iter().map(|rule| rule.name.as_str()))
    }
}

/// Serde form of durations: whole milliseconds.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}
