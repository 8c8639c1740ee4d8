//! Word lists of `data/effects.toml`, which explains them, with blanks between the words.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

/// Declares sections of the file, each with its word lists.
macro_rules! sections {
    ($($section:ident { $($list:ident),* $(,)? })*) => {$(
        #[derive(Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $section {
            $(pub $list: String,)*
        }
    )*};
}

sections! {
    Vocabulary { joints, before, manners, both, nouns, verbs }
    Verbs { alone, nouns }
    Statements { reading, acting, whole, pairs, dotted, schemas }
    Functions { known, families, catalogue, steps, pragmas, pragmas_of }
    Pipelines { stages, plugins }
    Commands { found, redis, redis_acts, redis_prose, redis_pairs, shell_programs }
    Names {
        languages, interpreters, boilerplate, joints, light, looks, not_inside, at_the_end, marked, amid, sights,
        listed, done, hardly, ordered, taken, attributes, made, queued,
    }
    Forms { no_verbs, again, against, objects }
    Descriptions {
        fillers, letting, between, joints, determiners, not_done, negations, plurals, harmless, suffered, disks,
    }
    Schemas { methods, programs, run_always, http, written, paths }
    Tools { searches, of_files, redis, logs, shells }
    Requests {
        schemes, manuals, pages, shown, done, done_with, of_cluster, headers, orders, curl, curl_valued,
    }
    ArgumentNames {
        methods, commands, argv, companions, notes, programs, statements, queries, piped, paired, settled, expressions,
        patterns, paths, named, addresses, parts, bodies, stages, asked_to_write, asked_to_destroy, asking,
    }
    Aws { valued, plain, loading, several }
    Code { operators, beyond, looking, of_others }
}

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
    pub names: Names,
    pub forms: Forms,
    /// Objects with which a verb means another action, by that action and the verb.
    pub objects: BTreeMap<String, BTreeMap<String, String>>,
    /// Second words of phrases, by action and first word.
    pub phrases: BTreeMap<String, BTreeMap<String, String>>,
    /// Second words of compounds, by first word.
    pub compounds: BTreeMap<String, String>,
    /// Base forms of past participles that do not end in `ed`.
    pub participles: BTreeMap<String, String>,
    pub descriptions: Descriptions,
    pub schemas: Schemas,
    pub tools: Tools,
    pub requests: Requests,
    pub arguments: ArgumentNames,
    pub aws: Aws,
    pub code: Code,
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

/// The lists; empty ones, by which nothing is read-only, if the file cannot be parsed, which a test rules out.
pub(super) static LISTS: LazyLock<Lists> =
    LazyLock::new(|| toml::from_str(include_str!("../../data/effects.toml")).unwrap_or_default());

/// True if a word is in a list.
pub(super) fn among(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|one| one == word)
}

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
