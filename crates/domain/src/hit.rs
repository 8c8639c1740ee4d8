//! Hits of the built-in checks: a rule, a place, a severity.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{FieldName, FindingCategory, Severity};

words! {
    /// Family of built-in checks, as named under `checks:` in a shadow.
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
        /// Calls that a task keeps repeating, and text that an output repeats.
        Loops = "loops",
        /// Personal data in text that an agent sends out.
        Pii = "pii",
        /// Output that its tool call contradicts.
        Contradictions = "contradictions",
        /// Hosts that an agent reaches and should not.
        OutsideHosts = "outside_hosts",
    }
}

impl CheckName {
    /// Returns the category of the check's findings.
    pub fn category(self) -> FindingCategory {
        match self {
            Self::Secrets | Self::Commands | Self::Injection | Self::Hidden | Self::Pii | Self::OutsideHosts => {
                FindingCategory::Security
            }
            Self::Contradictions => FindingCategory::Factual,
            Self::Truncation | Self::Emptiness => FindingCategory::Completeness,
            Self::Loops => FindingCategory::Quality,
        }
    }
}

/// A hit of a built-in check, with offsets into the field's stored text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hit {
    /// Family of the check.
    pub check: CheckName,
    /// Rule within the family, such as `aws_access_key`.
    pub rule: String,
    /// Severity of the hit.
    pub severity: Severity,
    /// Field of the event.
    pub field: FieldName,
    /// First byte in the field's stored text (UTF-8).
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Explanation for people in one sentence, without quoting a secret.
    pub description: String,
    /// Keyed hash, in hex, of the value that was redacted here; `None` if the text itself is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

impl Hit {
    /// Returns a hit at a place whose text is stored as it was.
    pub fn new(
        check: CheckName,
        rule: &str,
        severity: Severity,
        field: FieldName,
        at: Range<usize>,
        description: impl Into<String>,
    ) -> Self {
        let (rule, description) = (rule.to_owned(), description.into());
        Self { check, rule, severity, field, start: at.start, end: at.end, description, value: None }
    }
}

/// A hit found while an event was accepted, stored with it. Reviews trust marks, never marker text.
pub type Mark = Hit;
