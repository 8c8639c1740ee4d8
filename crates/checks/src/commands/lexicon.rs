//! The names that rules go by: programs, verbs, and the words that make a script worth parsing, read from
//! `rules/programs.toml`.

use std::{
    collections::{BTreeMap, HashSet},
    sync::LazyLock,
};

type Words = LazyLock<HashSet<&'static str>>;

static LISTS: LazyLock<BTreeMap<String, String>> =
    LazyLock::new(|| toml::from_str(include_str!("../../rules/programs.toml")).unwrap_or_default());

/// Words of a list; none if the file cannot be read, which every test of commands would show.
fn words(list: &str) -> HashSet<&'static str> {
    LISTS.get(list).map(String::as_str).unwrap_or_default().split_whitespace().collect()
}

/// Tools that administer something that outlives the command.
pub(super) static ADMINISTRATIVE: Words = LazyLock::new(|| words("administrative"));

/// Options whose value is the next argument, as they stand before a subcommand: `git -C dir push`.
pub(super) static WITH_VALUE: Words = LazyLock::new(|| words("with_value"));

/// Verbs after which something is gone.
pub(super) static REMOVING: Words = LazyLock::new(|| words("removing"));

/// Windows programs that an agent hardly ever needs, and that run or fetch code for whoever asks.
pub(super) static PROXIES: Words = LazyLock::new(|| words("proxies"));

/// Windows programs that do so as well, whose names are words or everyday tools: they count with `.exe` alone.
pub(super) static ORDINARY: Words = LazyLock::new(|| words("ordinary"));

/// Beginnings of words one of which every command has that some rule knows.
pub(super) static WAKING: Words = LazyLock::new(|| words("waking"));

/// Whole words of the same kind: as beginnings they would be those of `script`, `target`, `summary`.
pub(super) static WAKING_WHOLE: Words = LazyLock::new(|| words("waking_whole"));
