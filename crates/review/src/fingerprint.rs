//! Fingerprints: names of faults, by which a recurrence is recognised.
//! In: a finding. Out: 16 hex digits. Never: anything of the place, the quote, the agent or the task: the table's
//! key adds agent and task type.
//!
//! A check's finding is named by category and rule. A model's is named by category, checklist item and the words of
//! its description: order and repetition do not count, nor do case, short function words, quoted parts, and tokens
//! that name one instance (with a digit, or written like a path, an address, a member or a variable).

use std::{collections::BTreeSet, sync::LazyLock};

use regex::Regex;

use umbra_domain::{Finding, FindingSource, FindingSubject};

/// Function words that vary between two descriptions of the same fault.
const FUNCTION_WORDS: [&str; 44] = [
    "a", "an", "and", "are", "as", "at", "be", "been", "but", "by", "can", "could", "do", "does", "for", "from", "has",
    "have", "in", "into", "is", "it", "its", "may", "of", "on", "or", "so", "that", "the", "their", "then", "there",
    "they", "this", "to", "was", "were", "which", "while", "will", "with", "would", "you",
];

#[expect(clippy::expect_used, reason = "the pattern is a constant")]
static QUOTED: LazyLock<Regex> = LazyLock::new(|| {
    // A single quote opens only after, and closes only before, something other than a letter: "agent's" has none.
    Regex::new(r#""[^"]*"|`[^`]*`|“[^”]*”|«[^»]*»|\B'[^']*'\B"#).expect("a valid pattern")
});

/// Returns the fingerprint of a finding: 16 hex digits, the same on every replica and in every version that keeps this
/// rule.
pub fn fingerprint(finding: &Finding) -> String {
    let (kind, words) = match finding.source {
        FindingSource::Check => ("check", BTreeSet::new()),
        FindingSource::Model => ("model", words(&finding.description)),
    };
    let named = [kind, finding.category.as_str(), finding.rule.as_str()];
    // A text that an agent was given is no fault of its own, however often it recurs.
    let given = (finding.about == FindingSubject::Given).then_some("given");
    let mut hasher = blake3::Hasher::new();
    for part in named.into_iter().chain(given).chain(words.iter().map(String::as_str)) {
        // Prefixed by its length, so that no two lists of parts run together to the same bytes.
        hasher.update(&part.len().to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex().chars().take(16).collect()
}

fn words(description: &str) -> BTreeSet<String> {
    let unquoted = QUOTED.replace_all(description, " ");
    let tokens = unquoted.split_whitespace().map(|token| token.trim_matches(|c: char| !c.is_alphanumeric()));
    let general = tokens.filter(|token| !names_instance(token));
    let words = general.flat_map(|token| token.split(|c: char| !c.is_alphanumeric())).map(str::to_lowercase);
    words.filter(|word| word.len() > 1 && !FUNCTION_WORDS.contains(&word.as_str())).collect()
}

/// True if a token names one instance: `2026-02-28`, `src/main.rs`, `a@b.c`, `user_id`, `fetchUser`, `Vec::new`.
fn names_instance(token: &str) -> bool {
    let camel = token.chars().zip(token.chars().skip(1)).any(|(a, b)| a.is_lowercase() && b.is_uppercase());
    camel || token.chars().any(|c| c.is_numeric() || matches!(c, '_' | '/' | '\\' | '.' | ':' | '@' | '=' | '(' | '#'))
}
