//! Rules of the guardrail, as the sidecar file says them: about calls, documents and texts, and in words.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    super::{CheckName, PolicyMode, PolicyRule, Severity},
    SidecarVerdict,
};

words! {
    /// What a rule wants of a document. What is not there fulfils none of it.
    #[derive(schemars::JsonSchema, ToSchema)]
    pub enum DocumentNeed {
        /// The document is there; where a section is named, that is there too, and not empty.
        Exists = "exists",
        /// It was changed in substance since: words were added or changed, or an item was given another state. Whatever else is
        /// changed is no update: what is removed, blanks, case and signs, titles, comments and front matter.
        Updated = "updated",
        /// It has items with boxes, and none of them is open. Without any it is no finished work; YAML has none.
        Complete = "complete",
    }
}

words! {
    /// Since when a document must have changed.
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
    /// Steps of an agent that may be held up until a document is in order.
    #[derive(schemars::JsonSchema, ToSchema)]
    pub enum DocumentOf {
        /// The start of a turn.
        Turn = "turn",
        /// An answer: a message of the agent's own that comes without calls.
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
        /// What a tool answered.
        Result = "result",
    }
}

impl TextOf {
    /// Whether a check looks at such texts at all. One that needs two of them (`contradictions`) looks at none.
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

/// A document that has to be in order. An empty list matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DocumentRule {
    /// Its unique name.
    pub name: String,
    /// Whether it holds or is tried.
    pub mode: PolicyMode,
    /// Agents: names or globs.
    pub agents: Vec<String>,
    /// Routes: names or globs. What has no route matches an empty list alone.
    pub routes: Vec<String>,
    /// Modes: names or globs, one of which must match one of the agent's.
    pub modes: Vec<String>,
    /// Steps that it is about; all where it is empty, or calls alone where `tools` are named.
    #[serde(default)]
    pub of: Vec<DocumentOf>,
    /// Tools whose calls it is about; calls of all tools where it is empty.
    pub tools: Vec<String>,
    /// The document's name.
    pub document: String,
    /// A section of it, by slug or title, with those within it; the whole document without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    /// What is wanted of it.
    pub needs: DocumentNeed,
    /// Since when it must have changed, where it has to be updated.
    pub since: Since,
    /// What is said where it is not in order: warn or block.
    pub verdict: SidecarVerdict,
    /// Why, for the agent that is told.
    pub reason: String,
}

/// What no text of a session may have in it, by the built-in checks. An empty list of agents, routes, modes or texts
/// matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TextRule {
    /// Its unique name.
    pub name: String,
    /// Whether it holds or is tried.
    pub mode: PolicyMode,
    /// Agents: names or globs.
    pub agents: Vec<String>,
    /// Routes: names or globs. What has no route matches an empty list alone.
    pub routes: Vec<String>,
    /// Modes: names or globs, one of which must match one of the agent's.
    pub modes: Vec<String>,
    /// The texts that are looked at.
    pub of: Vec<TextOf>,
    /// The checks that look.
    pub checks: Vec<CheckName>,
    /// The least severity that counts.
    pub severity: Severity,
    /// What is said of a text in which they see something: warn or block.
    pub verdict: SidecarVerdict,
    /// Why, for the agent that is told.
    pub reason: String,
}

/// A policy in words, which a shadow holds messages and calls against. An empty list matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelRule {
    /// Its unique name.
    pub name: String,
    /// Whether it holds or is tried.
    pub mode: PolicyMode,
    /// Agents: names or globs.
    pub agents: Vec<String>,
    /// Routes: names or globs. What has no route matches an empty list alone.
    pub routes: Vec<String>,
    /// Modes: names or globs, one of which must match one of the agent's.
    pub modes: Vec<String>,
    /// Where given, it is about calls of these tools alone; else about messages and calls alike.
    pub tools: Vec<String>,
    /// The shadow that judges: its words, its model and its caps.
    pub shadow: String,
    /// How long its answer is waited for, in milliseconds where it is written as JSON.
    #[serde(rename = "deadline_ms", with = "millis")]
    #[schema(value_type = u64)]
    pub deadline: Duration,
    /// What is said where the policy is violated: warn or block.
    pub verdict: SidecarVerdict,
    /// Why, for the agent that is told.
    pub reason: String,
}

/// Every rule of a sidecar file. Names are unique over all four lists.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct SidecarRules {
    /// About calls, as in the tools file.
    pub policies: Vec<PolicyRule>,
    /// About documents.
    pub documents: Vec<DocumentRule>,
    /// About texts.
    pub texts: Vec<TextRule>,
    /// In words.
    pub models: Vec<ModelRule>,
}

impl SidecarRules {
    /// The names of all rules, list by list.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let policies = self.policies.iter().map(|rule| rule.name.as_str());
        let documents = self.documents.iter().map(|rule| rule.name.as_str());
        let texts = self.texts.iter().map(|rule| rule.name.as_str());
        policies.chain(documents).chain(texts).chain(self.models.iter().map(|rule| rule.name.as_str()))
    }
}

/// Durations as whole milliseconds.
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
