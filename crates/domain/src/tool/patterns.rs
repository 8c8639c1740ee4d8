//! Patterns for tools: names and globs, looked up by the names with which agents call tools.

use std::collections::HashMap;

use globset::{Glob, GlobSet, GlobSetBuilder};

use super::normal::{NormalName, Readings, joined, normal_pattern, own_part};

/// Error for a pattern that is no glob.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a glob: write a name, or a pattern such as github.delete_*")]
pub struct BadPattern(pub String);

/// Compiled patterns, each identified by its place in the list.
///
/// A restriction (deny, ask, shadow, a graver effect) applies if any reading of a name matches: [`Self::restricting`].
/// A permission (live, a lesser effect, a stub) applies only to a name that surely is the tool's: [`Self::permitting`].
#[derive(Debug, Default)]
pub struct ToolPatterns {
    /// Patterns for every tool.
    any: Vec<usize>,
    whole: NormalPatterns,
    /// Tool parts of patterns with a server, for calls without a server.
    own: NormalPatterns,
    /// Names without wildcards and separators.
    joined: HashMap<String, Vec<usize>>,
}

/// Patterns in normal form.
#[derive(Debug, Default)]
struct NormalPatterns {
    /// Names without separators between words: `sendemail` is `sendEmail`.
    exact: HashMap<String, Vec<usize>>,
    globs: GlobSet,
    /// Place of each glob in `globs`.
    places: Vec<usize>,
}

impl ToolPatterns {
    /// Compiles patterns with their places.
    ///
    /// # Errors
    /// The first pattern that is no glob.
    pub fn compile<'a>(patterns: impl IntoIterator<Item = (&'a str, usize)>) -> Result<Self, BadPattern> {
        let (mut any, mut whole, mut own) = (Vec::new(), Vec::new(), Vec::new());
        let mut names = HashMap::<String, Vec<usize>>::new();
        for (pattern, place) in patterns {
            if pattern == "*" {
                any.push(place);
                continue;
            }
            let normal = normal_pattern(pattern);
            Glob::new(&normal).map_err(|_| BadPattern(pattern.to_owned()))?;
            own.extend(own_part(&normal).map(|own| (own.to_owned(), place)));
            if !is_wild(&normal) {
                names.entry(joined(&normal)).or_default().push(place);
            }
            whole.push((normal, place));
        }
        Ok(Self { any, whole: NormalPatterns::of(whole)?, own: NormalPatterns::of(own)?, joined: names })
    }

    /// Returns the places of the patterns that match any reading, in order. A pattern without a server matches the tool
    /// of every server; a call without a server may be of any server.
    pub fn restricting(&self, tool: &Readings) -> Vec<usize> {
        let mut found = self.any.clone();
        found.extend(self.named(tool));
        for reading in tool.all() {
            found.extend(self.whole.matching(&reading.to_string()));
            let own = if reading.server.is_some() { &self.whole } else { &self.own };
            found.extend(own.matching(&reading.own));
        }
        in_order(found)
    }

    /// Returns the places of the patterns that surely match the tool, in order: by the server and name of its spelling,
    /// or because the pattern names this very tool.
    pub fn permitting(&self, tool: &Readings) -> Vec<usize> {
        let mut found = self.any.clone();
        found.extend(self.named(tool));
        found.extend(self.whole.matching(&tool.sure().to_string()));
        in_order(found)
    }

    /// Like [`Self::permitting`], but a pattern without a server matches the tool of every server.
    pub fn permitting_any_server(&self, tool: &Readings) -> Vec<usize> {
        let mut found = self.permitting(tool);
        let NormalName { own, .. } = tool.sure();
        found.extend(self.whole.matching(own));
        in_order(found)
    }

    fn named(&self, tool: &Readings) -> impl Iterator<Item = usize> {
        self.joined.get(&tool.joined()).into_iter().flatten().copied()
    }
}

impl NormalPatterns {
    fn of(patterns: Vec<(String, usize)>) -> Result<Self, BadPattern> {
        let (mut named, mut globs) = (Self::default(), GlobSetBuilder::new());
        for (pattern, place) in patterns {
            if is_wild(&pattern) {
                globs.add(Glob::new(&pattern).map_err(|_| BadPattern(pattern.clone()))?);
                named.places.push(place);
            } else {
                named.exact.entry(without_signs(&pattern)).or_default().push(place);
            }
        }
        named.globs = globs.build().map_err(|_| BadPattern("all of them".to_owned()))?;
        Ok(named)
    }

    fn matching(&self, name: &str) -> impl Iterator<Item = usize> {
        let globbed = self.globs.matches(name).into_iter().filter_map(|glob| self.places.get(glob));
        self.exact.get(&without_signs(name)).into_iter().flatten().chain(globbed).copied()
    }
}

/// True for a pattern with wildcards.
pub fn is_wild(pattern: &str) -> bool {
    pattern.contains(['*', '?', '[', '{', '\\'])
}

fn without_signs(normal: &str) -> String {
    normal.replace('_', "")
}

fn in_order(mut places: Vec<usize>) -> Vec<usize> {
    places.sort_unstable();
    places.dedup();
    places
}
