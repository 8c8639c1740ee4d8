//! Effects of tools, and an operator's overrides of them.

words! {
    /// Effect of calling a tool; graver is greater.
    #[derive(PartialOrd, Ord, schemars::JsonSchema, utoipa::ToSchema)]
    pub enum Effect {
        /// Nothing changes: the tool looks, or computes.
        Read = "read",
        /// Something is added or changed.
        Write = "write",
        /// Something is lost, or cannot be taken back.
        Destructive = "destructive",
    }
}

words! {
    /// Source of a call's effect, in order of precedence.
    #[derive(schemars::JsonSchema, utoipa::ToSchema)]
    pub enum EffectSource {
        /// The arguments of the call: they ask for more than the tool's own effect.
        Arguments = "arguments",
        /// The tool's contract.
        Contract = "contract",
        /// `effects` in the tools file.
        Override = "override",
        /// The caller, if its key may declare effects or it declares a graver one.
        Declared = "declared",
        /// The annotations of the tool's server.
        Annotations = "annotations",
        /// The tool's name, description and arguments, by Umbra's lexicon.
        Classifier = "classifier",
        /// No source: an unknown effect counts as destructive.
        Unknown = "unknown",
    }
}

/// Effect that an operator sets for the tools that a glob names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectOverride {
    /// `server.tool`, or the name of a tool without a server; a glob matches several tools.
    pub tool: String,
    /// Effect of the tools.
    pub effect: Effect,
}
