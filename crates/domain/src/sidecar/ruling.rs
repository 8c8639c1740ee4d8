//! What the guardrail says of one moment of a session.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::DocumentNeed;

words! {
    /// What the guardrail answers; a later one wins over an earlier one.
    #[derive(PartialOrd, Ord, Default, schemars::JsonSchema, ToSchema)]
    pub enum SidecarVerdict {
        /// Nothing stands against it.
        #[default]
        Allow = "allow",
        /// It may go on, and the agent is told why that is worth a thought.
        Warn = "warn",
        /// It must not go on.
        Block = "block",
    }
}

impl SidecarVerdict {
    /// Those that a rule about documents, texts or words may have.
    pub const OF_RULES: [Self; 2] = [Self::Warn, Self::Block];
}

words! {
    /// What decided an answer.
    #[derive(schemars::JsonSchema, ToSchema)]
    pub enum CheckedBy {
        /// A rule about calls or documents.
        Rule = "rule",
        /// A built-in check.
        Check = "check",
        /// A model.
        Model = "model",
    }
}

/// A document that is not in order, by a rule in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DocumentDue {
    /// The document.
    pub document: String,
    /// The section of it that is meant, where one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    /// The rule that wants it.
    pub rule: String,
    /// What it wants.
    pub needs: DocumentNeed,
    /// What it says until then.
    pub verdict: SidecarVerdict,
    /// Why.
    pub reason: String,
}

/// What the guardrail says of one moment of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Ruling {
    /// What holds: the gravest verdict of the rules in force that match.
    pub decision: SidecarVerdict,
    /// What would hold if the rules that are only tried did too. Never less than `decision`.
    pub would: SidecarVerdict,
    /// The rule in force that decided; absent where none matched, or where it is no rule's doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Why, in the words of that rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_by: Option<CheckedBy>,
    /// The rule that decided what would hold, where that is more than what holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub would_rule: Option<String>,
    /// One line for each rule that matched: calls, documents, texts, models, each in the order of its file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub explain: Vec<String>,
    /// Labels that the call adds to its session, in order, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<String>,
    /// Documents that are not in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub due: Vec<DocumentDue>,
}
