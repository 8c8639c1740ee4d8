//! Words that do nothing: what a name may hold beside a verb that looks, and still be a look. In: a word. Out: what it is.
//!
//! What is looked at is named by nouns of every trade, so the lists can only hold the frequent ones. A word that is in
//! none of them is held against the name, unless it is a plural or stands before a noun that is known: `get_kafka_topic`.

use std::{collections::HashMap, sync::LazyLock};

use super::lists::LISTS;

/// What a word of a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// It is hardly a verb: `customer`.
    Noun,
    /// It is a verb as well, though seldom one of tools: `contact`.
    Both,
    /// It says which one, or how: `open`, `latest`.
    Manner,
    /// It stands before a noun: `by`.
    Before,
    /// It puts a second verb beside the first: `and`.
    Joint,
    /// It is a verb that is not looked for in sentences: `remediate`.
    Verb,
}

static WORDS: LazyLock<HashMap<&'static str, Word>> = LazyLock::new(|| {
    let lists = &LISTS.vocabulary;
    let mut words = HashMap::new();
    let kinds = [
        (&lists.joints, Word::Joint),
        (&lists.before, Word::Before),
        (&lists.both, Word::Both),
        (&lists.manners, Word::Manner),
        (&lists.nouns, Word::Noun),
    ];
    for (list, kind) in kinds {
        for word in list.split_whitespace() {
            words.entry(word).or_insert(kind);
        }
    }
    for word in lists.verbs.split_whitespace() {
        words.entry(word).and_modify(|kind| *kind = Word::Both).or_insert(Word::Verb);
    }
    words
});

/// What a word in lower case is, where that is known. Its plural is the same, and no verb.
pub(super) fn word(word: &str) -> Option<Word> {
    let known = |word: &str| WORDS.get(word).copied();
    known(word).or_else(|| {
        let singular = word.strip_suffix("ies").and_then(|stem| known(&format!("{stem}y")));
        let singular = singular.or_else(|| word.strip_suffix("es").and_then(known));
        let singular = singular.or_else(|| word.strip_suffix('s').and_then(known));
        singular.filter(|kind| matches!(kind, Word::Noun | Word::Both | Word::Verb)).map(|_| Word::Noun)
    })
}
