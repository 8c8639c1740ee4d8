//! Nouns and modifiers that may stand beside a read verb in a name (`get_latest_invoice`) without making the tool a
//! write. In: a word. Out: its kind.
//!
//! Things to be read have nouns of every trade, so the lists can only hold the frequent ones. A word in none of them
//! counts against the name, unless it is a plural or stands before a known noun: `get_kafka_topic`.

use std::{collections::HashMap, sync::LazyLock};

use super::lists::LISTS;

/// Kind of a word in a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordKind {
    /// Noun that is hardly a verb: `customer`.
    Noun,
    /// Noun that is a verb as well, though seldom one of tools: `contact`.
    Both,
    /// Modifier that tells which one, or how: `open`, `latest`.
    Manner,
    /// Preposition before a noun: `by`.
    Before,
    /// Word that joins a second verb to the first: `and`.
    Joint,
    /// Verb that is not looked for in sentences: `remediate`.
    Verb,
}

static WORDS: LazyLock<HashMap<&'static str, WordKind>> = LazyLock::new(|| {
    let lists = &LISTS.vocabulary;
    let mut words = HashMap::new();
    let kinds = [
        (&lists.joints, WordKind::Joint),
        (&lists.before, WordKind::Before),
        (&lists.both, WordKind::Both),
        (&lists.manners, WordKind::Manner),
        (&lists.nouns, WordKind::Noun),
    ];
    for (list, kind) in kinds {
        for word in list.split_whitespace() {
            words.entry(word).or_insert(kind);
        }
    }
    for word in lists.verbs.split_whitespace() {
        words.entry(word).and_modify(|kind| *kind = WordKind::Both).or_insert(WordKind::Verb);
    }
    words
});

/// Kind of a lower-case word, if it is known. The plural of a noun or verb is a noun.
pub(super) fn word(word: &str) -> Option<WordKind> {
    let known = |word: &str| WORDS.get(word).copied();
    known(word).or_else(|| {
        let singular = word.strip_suffix("ies").and_then(|stem| known(&format!("{stem}y")));
        let singular = singular.or_else(|| word.strip_suffix("es").and_then(known));
        let singular = singular.or_else(|| word.strip_suffix('s').and_then(known));
        singular.filter(|kind| matches!(kind, WordKind::Noun | WordKind::Both | WordKind::Verb)).map(|_| WordKind::Noun)
    })
}
