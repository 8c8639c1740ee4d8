//! Recognizer of refusals, in the languages that models answer in most. In: a short text. Out: true if it opens by
//! declining to help. A text that reports a failure or a missing thing is no refusal.

use std::sync::LazyLock;

use regex::RegexSet;

use super::word_lists;

/// True if a text opens by declining.
pub(super) fn declines(text: &str) -> bool {
    static ALL: LazyLock<Option<RegexSet>> =
        LazyLock::new(|| RegexSet::new(word_lists::lines("refusals").map(|form| format!("(?i){form}"))).ok());
    ALL.as_ref().is_some_and(|all| all.is_match(text))
}
