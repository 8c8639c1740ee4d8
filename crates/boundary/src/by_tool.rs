//! Declarations about tools, by pattern. A name goes before a glob, a glob with more literal characters before one with
//! fewer, and then the first in the list.

use std::cmp::Reverse;

use umbra_domain::tool::{BadPattern, Readings, ToolPatterns, is_wild};

/// Declarations with their compiled patterns.
#[derive(Debug)]
pub(crate) struct ByTool<T> {
    /// Declarations, the most specific first.
    declared: Vec<T>,
    /// All patterns, with indexes into `declared`.
    patterns: ToolPatterns,
    /// Patterns without wildcards, with the same indexes.
    names: ToolPatterns,
}

impl<T> ByTool<T> {
    /// Compiles declarations, each with the pattern that `tool` returns.
    ///
    /// # Errors
    /// A pattern is no glob.
    pub fn compile(mut declared: Vec<T>, tool: impl Fn(&T) -> &str) -> Result<Self, BadPattern> {
        declared.sort_by_key(|one| specificity(tool(one)));
        let patterns = || declared.iter().enumerate().map(|(place, one)| (tool(one), place));
        let names = ToolPatterns::compile(patterns().filter(|(tool, _)| !is_wild(tool)))?;
        Ok(Self { patterns: ToolPatterns::compile(patterns())?, names, declared })
    }

    /// The most specific declaration about a tool.
    pub fn find(&self, tool: &Readings) -> Option<&T> {
        self.patterns.permitting(tool).first().and_then(|place| self.declared.get(*place))
    }

    /// True if a pattern names this very tool, without wildcards.
    pub fn names(&self, tool: &Readings) -> bool {
        !self.names.permitting(tool).is_empty()
    }

    /// Declarations that name, without wildcards, a tool that this name may denote.
    pub fn may_name(&self, tool: &Readings) -> impl Iterator<Item = &T> {
        self.names.restricting(tool).into_iter().filter_map(|place| self.declared.get(place))
    }
}

/// Sort key of patterns: names first, then globs with more literal characters.
fn specificity(tool: &str) -> (bool, Reverse<usize>) {
    let wild = |c: char| matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | ',' | '\\');
    let letters = if is_wild(tool) { tool.chars().filter(|c| !wild(*c)).count() } else { 0 };
    (is_wild(tool), Reverse(letters))
}
