//! Rulings of the guardrail on one moment of a session.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::DocumentNeed;

words! {
    /// Verdict of the guardrail; a later one wins over an earlier one.
    #[derive(PartialOrd, Ord, Default, schemars::JsonSchema, ToSchema)]
    pub enum SidecarVerdict {
        /// No objection.
        #[default]
        Allow = "allow",
        /// The agent may go on, with a warning.
        Warn = "warn",
        /// The agent must not go on.
        Block = "block",
    }
}

impl SidecarVerdict {
    /// Verdicts that a rule about documents, texts or words may have.
    pub const OF_RULES: [Self; 2] = [Self::Warn, Self::Block];
}

words! {
    /// Origin of a decision.
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

/// Document that is not in order, by an enforced rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DocumentDue {
    /// Name of the document.
    pub document: String,
    /// Section that the rule names, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    /// Name of the rule.
    pub rule: String,
    /// Requirement of the rule.
    pub needs: DocumentNeed,
    /// Verdict until the requirement is met.
    pub verdict: SidecarVerdict,
    /// Reason that the rule gives.
    pub reason: String,
}

/// Ruling of the guardrail on one moment of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Ruling {
    /// Gravest verdict of the matching rules that are enforced.
    pub decision: SidecarVerdict,
    /// Gravest verdict if the rules in audit mode were enforced too. Never milder than `decision`.
    pub would: SidecarVerdict,
    /// True if the decision is `block` only until a person approves the call. `POST /v1/decide` asks for the approval,
    /// and runs the call once it is given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_approval: bool,
    /// Enforced rule that decided; absent if none matched, or if no rule made the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Reason for the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Origin of the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_by: Option<CheckedBy>,
    /// Rule that decided `would`, if that is graver than `decision`.
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
