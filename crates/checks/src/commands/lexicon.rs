//! Word lists of the command rules: programs, verbs, and the words that make a script worth parsing, read from
//! `rules/programs.toml`.

use std::{
    collections::{BTreeMap, HashSet},
    sync::LazyLock,
};

type Words = LazyLock<HashSet<&'static str>>;

static LISTS: LazyLock<BTreeMap<String, String>> =
    LazyLock::new(|| toml::from_str(include_str!("../../rules/programs.toml")).unwrap_or_default());

/// Returns the words of a list; none if the file cannot be read, which every test of commands would show.
fn words(list: &str) -> HashSet<&'static str> {
    LISTS.get(list).map(String::as_str).unwrap_or_default().split_whitespace().collect()
}

/// Tools that administer resources which outlive the command.
pub(super) static ADMINISTRATIVE: Words = LazyLock::new(|| words("administrative"));

/// Options before a subcommand whose value is the next argument: `git -C dir push`.
pub(super) static WITH_VALUE: Words = LazyLock::new(|| words("with_value"));

/// Verbs that remove something.
pub(super) static REMOVING: Words = LazyLock::new(|| words("removing"));

/// Windows programs that agents rarely need, and that run or fetch any code.
pub(super) static PROXIES: Words = LazyLock::new(|| words("proxies"));

/// Windows programs of the same kind whose names are words or everyday tools: only with `.exe` do they count.
pub(super) static ORDINARY: Words = LazyLock::new(|| words("ordinary"));

/// Beginnings of words; every command that a rule knows contains one.
pub(super) static WAKING: Words = LazyLock::new(|| words("waking"));

/// Whole words of the same kind: as beginnings they would match `script`, `target`, `summary`.
pub(super) static WAKING_WHOLE: Words = LazyLock::new(|| words("waking_whole"));
