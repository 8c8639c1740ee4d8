//! Word lists of the checks, read from `rules/words.toml`, which says what each list is for.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::LazyLock,
};

static TEXTS: LazyLock<BTreeMap<String, String>> =
    LazyLock::new(|| toml::from_str(include_str!("../rules/words.toml")).unwrap_or_default());

static LISTS: LazyLock<HashMap<&str, HashSet<&str>>> =
    LazyLock::new(|| TEXTS.iter().map(|(list, text)| (list.as_str(), text.split_whitespace().collect())).collect());

/// Returns the words of a list.
pub(crate) fn words(list: &str) -> impl Iterator<Item = &'static str> {
    LISTS.get(list).into_iter().flatten().copied()
}

/// Returns the lines of a list of texts that may contain blanks.
pub(crate) fn lines(list: &str) -> impl Iterator<Item = &'static str> {
    TEXTS.get(list).into_iter().flat_map(|text| text.lines()).filter(|line| !line.is_empty())
}

/// True if a list has this word.
pub(crate) fn lists(list: &str, word: &str) -> bool {
    LISTS.get(list).is_some_and(|words| words.contains(word))
}
