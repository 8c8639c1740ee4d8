//! What a built-in check saw: a rule, a place, a severity.

use serde::{Deserialize, Serialize};

use super::{Category, FieldName, Severity};

words! {
    /// The families of built-in checks, as `checks:` in a shadow names them.
    #[derive(PartialOrd, Ord, schemars::JsonSchema, utoipa::ToSchema)]
    pub enum CheckName {
        /// Credentials in text.
        Secrets = "secrets",
        /// Destructive or privileged shell commands.
        Commands = "commands",
        /// Text that addresses an assistant or the reviewer.
        Injection = "injection",
        /// Cut-off output.
        Truncation = "truncation",
        /// Empty or refused output, and placeholders in it.
        Emptiness = "emptiness",
        /// Hidden or bidirectional characters.
        Hidden = "hidden",
        /// Calls that a task repeats over and over, and text that an output repeats.
        Loops = "loops",
        /// Personal data in what an agent hands out.
        Pii = "pii",
        /// Output that its tool call contradicts.
        Contradictions = "contradictions",
        /// Hosts that an agent reaches and should not.
        OutsideHosts = "outside_hosts",
    }
}

impl CheckName {
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
    /// Keyed hash, in hex, of the value that was taken out here; none where the text itself is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// A hit found while an event was accepted, stored with it. Reviews trust marks, never marker text.
pub type Mark = Hit;
