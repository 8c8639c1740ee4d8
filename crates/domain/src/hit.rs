//! What a built-in check saw: a rule, a place, a severity.

use serde::{Deserialize, Serialize};

use super::{Category, FieldName, Severity};

/// The families of built-in checks, as `checks:` in a shadow names them.
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
pub enum CheckName {
    /// Credentials in text.
    Secrets,
    /// Destructive or privileged shell commands.
    Commands,
    /// Text that addresses an assistant or the reviewer.
    Injection,
    /// Cut-off output.
    Truncation,
    /// Empty or refused output, and placeholders in it.
    Emptiness,
    /// Hidden or bidirectional characters.
    Hidden,
    /// Calls that a task repeats over and over, and text that an output repeats.
    Loops,
    /// Personal data in what an agent hands out.
    Pii,
    /// Output that its tool call contradicts.
    Contradictions,
    /// Hosts that an agent reaches and should not.
    OutsideHosts,
}

impl CheckName {
    /// Every check.
    pub const ALL: [Self; 10] = [
        Self::Secrets,
        Self::Commands,
        Self::Injection,
        Self::Truncation,
        Self::Emptiness,
        Self::Hidden,
        Self::Loops,
        Self::Pii,
        Self::Contradictions,
        Self::OutsideHosts,
    ];

    /// The word in YAML and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Secrets => "secrets",
            Self::Commands => "commands",
            Self::Injection => "injection",
            Self::Truncation => "truncation",
            Self::Emptiness => "emptiness",
            Self::Hidden => "hidden",
            Self::Loops => "loops",
            Self::Pii => "pii",
            Self::Contradictions => "contradictions",
            Self::OutsideHosts => "outside_hosts",
        }
    }

    /// The check that `word` names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|check| check.as_str() == word)
    }

    /// What its findings are about.
    pub fn category(self) -> Category {
        match self {
            Self::Secrets | Self::Commands | Self::Injection | Self::Hidden | Self::Pii | Self::OutsideHosts => {
                Category::Security
            }
            Self::Contradictions => Category::Factual,
            Self::Truncation | Self::Emptiness => Category::Completeness,
            Self::Loops => Category::Quality,
        }
    }
}

/// A hit of a built-in check, with offsets into the field's stored text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hit {
    /// The family.
    pub check: CheckName,
    /// The rule within it, such as `aws_access_key`.
    pub rule: String,
    /// How bad.
    pub severity: Severity,
    /// Where: the event's field.
    pub field: FieldName,
    /// First byte in the field's stored text (UTF-8).
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// One sentence that explains it to a person, without quoting a secret.
    pub description: String,
}

/// A hit found while an event was accepted, stored with it. Reviews trust marks, never marker text.
pub type Mark = Hit;
