//! An operator's word on effects. In: patterns with effects. Out: the effect of a tool, where one of them names it.

use umbra_domain::{
    Effect, EffectOverride,
    tool::{BadPattern, Readings, ToolPatterns, is_wild},
};

/// Compiled overrides.
#[derive(Debug, Default)]
pub struct Overrides {
    effects: Vec<Effect>,
    /// Places in `effects`.
    patterns: ToolPatterns,
    /// Those without wildcards.
    names: ToolPatterns,
}

impl Overrides {
    /// Compiles overrides. A name goes before a glob, a glob with more letters of its own before one with fewer, and
    /// then the first in the list.
    ///
    /// # Errors
    /// A pattern is no glob.
    pub fn compile(overrides: &[EffectOverride]) -> Result<Self, BadPattern> {
        let mut overrides: Vec<&EffectOverride> = overrides.iter().collect();
        overrides.sort_by_key(|EffectOverride { tool, .. }| specificity(tool));
        let patterns =
            || overrides.iter().enumerate().map(|(place, EffectOverride { tool, .. })| (tool.as_str(), place));
        Ok(Self {
            effects: overrides.iter().map(|one| one.effect).collect(),
            patterns: ToolPatterns::compile(patterns())?,
            names: ToolPatterns::compile(patterns().filter(|(tool, _)| !is_wild(tool)))?,
        })
    }

    /// The operator's word on a tool.
    pub fn of(&self, tool: &Readings) -> Option<Effect> {
        self.patterns.permitting(tool).first().and_then(|place| self.effects.get(*place)).copied()
    }

    /// True if one names this very tool, without wildcards.
    pub fn names(&self, tool: &Readings) -> bool {
        !self.names.permitting(tool).is_empty()
    }

    /// The gravest effect of the tools that are named and that it may be.
    pub fn at_least(&self, tool: &Readings) -> Option<Effect> {
        self.names.restricting(tool).iter().filter_map(|place| self.effects.get(*place)).max().copied()
    }
}

/// Order of patterns: names, then globs with more letters of their own first.
pub(crate) fn specificity(tool: &str) -> (bool, std::cmp::Reverse<usize>) {
    let wild = |c: char| matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | ',' | '\\');
    let letters = if is_wild(tool) { tool.chars().filter(|c| !wild(*c)).count() } else { 0 };
    (is_wild(tool), std::cmp::Reverse(letters))
}
