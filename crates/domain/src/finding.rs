//! Findings of reviews and checks.

use serde::{Deserialize, Serialize};

use super::{EventId, FieldName};

words! {
    /// Severity of a finding.
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
    /// Category of a finding.
    #[derive(schemars::JsonSchema, utoipa::ToSchema)]
    pub enum FindingCategory {
        /// Credentials, unsafe operations, attacks.
        Security = "security",
        /// Content that contradicts known facts.
        Factual = "factual",
        /// Content that is missing or cut off.
        Completeness = "completeness",
        /// Content that does not serve the task.
        Relevance = "relevance",
        /// Work that is badly made, or below what the agent usually delivers.
        Quality = "quality",
        /// From a shadow's own criteria.
        Custom = "custom",
    }
}

words! {
    /// Source of a finding.
    #[derive(utoipa::ToSchema)]
    pub enum FindingSource {
        /// A built-in check.
        Check = "check",
        /// A model.
        Model = "model",
    }
}

words! {
    /// Subject of a finding: the author of the words or acts that it speaks against.
    #[derive(Default, utoipa::ToSchema)]
    pub enum FindingSubject {
        /// The watched agent.
        #[default]
        Agent = "agent",
        /// Text that the agent was given (its task, its input, a tool's result), also where its output quotes the text.
        /// Such a finding is no fault of the agent's: it rejects nothing, and no breaker counts it.
        Given = "given",
    }
}

/// Place of a finding in the event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Evidence {
    /// The event's field, such as `output` or `tool.args.command`.
    #[schema(value_type = String, example = "output")]
    pub field: FieldName,
    /// Text at that place, verbatim from the stored (redacted) field.
    pub quote: String,
    /// First byte of the quote in the field's stored text (UTF-8).
    pub start: usize,
    /// One past the last byte of the quote.
    pub end: usize,
}

/// One finding of a review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Event of the finding.
    pub event_id: EventId,
    /// Severity of the finding.
    pub severity: Severity,
    /// Category of the finding.
    pub category: FindingCategory,
    /// Description in one or two sentences.
    pub description: String,
    /// Place of the finding; `None` for a model's finding whose quote was not found.
    pub evidence: Option<Evidence>,
    /// True if the evidence stands in the text, or a second call agreed on a finding that cannot be quoted.
    pub verified: bool,
    /// Author of the words or acts that the finding speaks against.
    #[serde(default)]
    pub about: FindingSubject,
    /// Source of the finding.
    pub source: FindingSource,
    /// The check's rule (`secret.aws_access_key`), or the model's checklist item.
    pub rule: String,
}
