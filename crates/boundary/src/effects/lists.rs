//! Words of `data/effects.toml`, each list between blanks.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

/// Every list.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lists {
    pub vocabulary: Vocabulary,
    /// By what they do.
    pub verbs: BTreeMap<String, Verbs>,
    pub statements: Statements,
    pub programs: Programs,
    pub functions: Functions,
    pub pipelines: Pipelines,
    pub commands: Commands,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Vocabulary {
    pub joints: String,
    pub before: String,
    pub manners: String,
    pub both: String,
    pub nouns: String,
    pub verbs: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Verbs {
    /// Verbs that are hardly nouns.
    pub alone: String,
    /// Verbs that are nouns as well.
    pub nouns: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Programs {
    pub printing: String,
    pub versioned: String,
    pub tests: String,
    /// By program: letters of its options that only print.
    pub bare: BTreeMap<String, String>,
    pub known: BTreeMap<String, Program>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Statements {
    pub reading: String,
    pub acting: String,
    pub whole: String,
    pub pairs: String,
}

/// Options with which a program only prints.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Program {
    /// Subcommands that print, in one word or two; none where it has none.
    pub words: String,
    /// Options of one letter; behind a colon those that take a value, as `getopt` has it.
    pub letters: String,
    /// Other options, without what is behind `=`.
    pub options: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Functions {
    pub known: String,
    pub families: String,
    pub catalogue: String,
    pub steps: String,
    pub pragmas: String,
    pub pragmas_of: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pipelines {
    pub stages: String,
    pub plugins: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Commands {
    pub found: String,
    pub redis: String,
}

/// The lists; empty ones, by which nothing is known to look, if the file cannot be read, which a test rules out.
pub(super) static LISTS: LazyLock<Lists> =
    LazyLock::new(|| toml::from_str(include_str!("../../data/effects.toml")).unwrap_or_default());

#[cfg(test)]
mod tests {
    use super::LISTS;

    #[test]
    fn the_file_is_read() {
        assert!(
            LISTS.vocabulary.nouns.len() > 1_000 && LISTS.programs.known.contains_key("git") && LISTS.verbs.len() == 7
        );
    }
}
