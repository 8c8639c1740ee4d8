//! What a review found.

use serde::{Deserialize, Serialize};

use super::{EventId, FieldName};

/// How bad a finding is.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Worth a look.
    Warning,
    /// Must not pass.
    Critical,
}

impl Severity {
    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }

    /// The severity that `word` names.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Info, Self::Warning, Self::Critical].into_iter().find(|s| s.as_str() == word)
    }

    /// A small stable number, as stored; higher is worse.
    pub fn code(self) -> i16 {
        match self {
            Self::Info => 0,
            Self::Warning => 1,
            Self::Critical => 2,
        }
    }

    /// The severity with this stored number.
    pub fn from_code(code: i16) -> Self {
        match code {
            0 => Self::Info,
            1 => Self::Warning,
            _ => Self::Critical,
        }
    }
}

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Credentials, unsafe operations, attacks.
    Security,
    /// Contradicts what is known.
    Factual,
    /// Missing or cut off.
    Completeness,
    /// Beside the task.
    Relevance,
    /// Below what the agent usually delivers, or badly made.
    Quality,
    /// From a shadow's own criteria.
    Custom,
}

impl Category {
    /// Every category.
    pub const ALL: [Self; 6] =
        [Self::Security, Self::Factual, Self::Completeness, Self::Relevance, Self::Quality, Self::Custom];

    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Security => "security",
            Self::Factual => "factual",
            Self::Completeness => "completeness",
            Self::Relevance => "relevance",
            Self::Quality => "quality",
            Self::Custom => "custom",
        }
    }

    /// The category that `word` names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| category.as_str() == word)
    }
}

/// Who found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A built-in check.
    Check,
    /// A model.
    Model,
}

impl Source {
    /// The word in JSON and in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Model => "model",
        }
    }

    /// The source that `word` names.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Check, Self::Model].into_iter().find(|source| source.as_str() == word)
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
    /// Whether the evidence stands in the text.
    pub verified: bool,
    /// A check or the model.
    pub source: Source,
    /// The check's rule (`secret.aws_access_key`), or the model's checklist item.
    pub rule: String,
}
