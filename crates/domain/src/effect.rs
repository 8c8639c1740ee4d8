//! What a tool does to the world, and what an operator says of it.

use serde::{Deserialize, Serialize};

/// What calling a tool leaves behind; graver is greater.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing: it looks, or computes.
    Read,
    /// Something is added or changed.
    Write,
    /// Something is lost, or cannot be taken back.
    Destructive,
}

impl Effect {
    /// Every effect, mildest first.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Destructive];

    /// The word in YAML and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Destructive => "destructive",
        }
    }

    /// The effect that `word` names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|effect| effect.as_str() == word)
    }
}

/// Who said what the effect of a call is, the one that is believed before the others first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EffectSource {
    /// The arguments of the call: they ask for more than the tool is said to do.
    Arguments,
    /// The tool's contract.
    Contract,
    /// `effects` in the tools file.
    Override,
    /// The annotations of the tool's server.
    Annotations,
    /// The tool's name, description and arguments, by our lexicon.
    Classifier,
    /// Nobody: what is not known is destructive.
    Unknown,
}

impl EffectSource {
    /// Every source, in order of precedence.
    pub const ALL: [Self; 6] =
        [Self::Arguments, Self::Contract, Self::Override, Self::Annotations, Self::Classifier, Self::Unknown];

    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Arguments => "arguments",
            Self::Contract => "contract",
            Self::Override => "override",
            Self::Annotations => "annotations",
            Self::Classifier => "classifier",
            Self::Unknown => "unknown",
        }
    }

    /// The source that `word` names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.as_str() == word)
    }
}

/// An operator's word on the tools that a glob names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectOverride {
    /// `server.tool`, or the name of a tool without a server; a glob may stand for several.
    pub tool: String,
    /// What they do.
    pub effect: Effect,
}
