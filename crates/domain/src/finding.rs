//! What a review found.

use serde::{Deserialize, Serialize};

use super::{EventId, FieldName};

words! {
    /// How bad a finding is.
    #[derive(PartialOrd, Ord, schemars::JsonSchema, utoipa::ToSchema)]
    pub enum Severity {
        /// Worth knowing.
        Info = "info" as 0,
        /// Worth a look.
        Warning = "warning" as 1,
        /// Must not pass.
        Critical = "critical" as 2,
    }
}

words! {
    /// What a finding is about.
    #[derive(schemars::JsonSchema, utoipa::ToSchema)]
    pub enum Category {
        /// Credentials, unsafe operations, attacks.
        Security = "security",
        /// Contradicts what is known.
        Factual = "factual",
        /// Missing or cut off.
        Completeness = "completeness",
        /// Beside the task.
        Relevance = "relevance",
        /// Below what the agent usually delivers, or badly made.
        Quality = "quality",
        /// From a shadow's own criteria.
        Custom = "custom",
    }
}

words! {
    /// Who found it.
    #[derive(utoipa::ToSchema)]
    pub enum Source {
        /// A built-in check.
        Check = "check",
        /// A model.
        Model = "model",
    }
}

words! {
    /// Subject of a finding: whose words or acts it speaks against.
    #[derive(Default, utoipa::ToSchema)]
    pub enum About {
        /// The watched agent.
        #[default]
        Agent = "agent",
        /// Text that the agent was given (its task, its input, a tool's result), also where its output quotes it: no fault
        /// of the agent's, so nothing is rejected for it, and no breaker counts it.
        Given = "given",
    }
}

/// Where in the event a finding stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Evidence {
    /// The event's field, such as `output` or `tool.args.command`.
    #[schema(value_type = String, example = "output")]
    pub field: FieldName,
    /// The text there, verbatim from the stored (redacted) field.
    pub quote: String,
    /// First byte of the quote in the field's stored text (UTF-8).
    pub start: usize,
    /// One past its last byte.
    pub end: usize,
}

/// One thing that a review found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The event in which it was found.
    pub event_id: EventId,
    /// How bad.
    pub severity: Severity,
    /// About what.
    pub category: Category,
    /// One or two sentences.
    pub description: String,
    /// Where; a model's finding without a quote that was found has none.
    pub evidence: Option<Evidence>,
    /// True if the evidence stands in the text, or a second call agreed on what cannot be quoted.
    pub verified: bool,
    /// Author of the words or acts that the finding speaks against.
    #[serde(default)]
    pub about: About,
    /// A check or the model.
    pub source: Source,
    /// The check's rule (`secret.aws_access_key`), or the model's checklist item.
    pub rule: String,
}
