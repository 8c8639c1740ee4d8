//! What a tool does to the world, and what an operator says of it.

words! {
    /// What calling a tool leaves behind; graver is greater.
    #[derive(PartialOrd, Ord, schemars::JsonSchema, utoipa::ToSchema)]
    pub enum Effect {
        /// Nothing: it looks, or computes.
        Read = "read",
        /// Something is added or changed.
        Write = "write",
        /// Something is lost, or cannot be taken back.
        Destructive = "destructive",
    }
}

words! {
    /// Who said what the effect of a call is, the one that is believed before the others first.
    #[derive(schemars::JsonSchema, utoipa::ToSchema)]
    pub enum EffectSource {
        /// The arguments of the call: they ask for more than the tool is said to do.
        Arguments = "arguments",
        /// The tool's contract.
        Contract = "contract",
        /// `effects` in the tools file.
        Override = "override",
        /// The caller, whose key may declare effects, or who declares a graver one.
        Declared = "declared",
        /// The annotations of the tool's server.
        Annotations = "annotations",
        /// The tool's name, description and arguments, by our lexicon.
        Classifier = "classifier",
        /// Nobody: what is not known is destructive.
        Unknown = "unknown",
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
