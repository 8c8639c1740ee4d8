//! Effect overrides of the operator. In: patterns with effects. Out: the effect of a tool, if a pattern matches it.

use umbra_domain::{
    Effect, EffectOverride,
    tool::{BadPattern, Readings, ToolPatterns, is_wild},
};

/// Compiled overrides.
#[derive(Debug, Default)]
pub struct Overrides {
    effects: Vec<Effect>,
    /// All patterns, with indexes into `effects`.
    patterns: ToolPatterns,
    /// Patterns without wildcards, with the same indexes.
    names: ToolPatterns,
}

impl Overrides {
    /// Compiles overrides. A name goes before a glob, a glob with more literal characters before one with fewer, and
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

    /// Effect by which the operator overrides a tool's.
    pub fn of(&self, tool: &Readings) -> Option<Effect> {
        self.patterns.permitting(tool).first().and_then(|place| self.effects.get(*place)).copied()
    }

    /// True if a pattern names this very tool, without wildcards.
    pub fn names(&self, tool: &Readings) -> bool {
        !self.names.permitting(tool).is_empty()
    }

    /// Most severe effect among the named tools that this name may denote.
    pub fn at_least(&self, tool: &Readings) -> Option<Effect> {
        self.names.restricting(tool).iter().filter_map(|place| self.effects.get(*place)).max().copied()
    }
}

/// Sort key of patterns: names first, then globs with more literal characters.
pub(crate) fn specificity(tool: &str) -> (bool, std::cmp::Reverse<usize>) {
    let wild = |c: char| matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | ',' | '\\');
    let letters = if is_wild(tool) { tool.chars().filter(|c| !wild(*c)).count() } else { 0 };
    (is_wild(tool), std::cmp::Reverse(letters))
}
