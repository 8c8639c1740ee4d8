//! Word lists of `data/effects.toml`, with blanks between the words.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

/// All lists.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lists {
    pub vocabulary: Vocabulary,
    /// Verbs by action.
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
    /// Letters of the options that only print, by program.
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
    /// Subcommands that print, of one or two words; empty if the program has none.
    pub words: String,
    /// Options of one letter; a colon follows those that take a value, as in `getopt`.
    pub letters: String,
    /// Other options, without the value behind `=`.
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

/// The lists; empty ones, by which nothing is read-only, if the file cannot be parsed, which a test rules out.
pub(super) static LISTS: LazyLock<Lists> =
    LazyLock::new(|| toml::from_str(include_str!("../../data/effects.toml")).unwrap_or_default());

#[cfg(test)]
mod tests {
    use super::LISTS;

    #[test]
    fn word_lists_load_from_the_effects_file() {
        assert!(
            LISTS.vocabulary.nouns.len() > 1_000 && LISTS.programs.known.contains_key("git") && LISTS.verbs.len() == 7
        );
    }
}
