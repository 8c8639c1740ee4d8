//! Judgement of a value as a credential or a placeholder. In: a value, or a place in a text. Out: a judgement by
//! entropy, alphabet, repetition, and the words that manuals print in a credential's place. Names are not considered.

use std::{ops::Range, sync::LazyLock};

use aho_corasick::AhoCorasick;

use super::gibberish::is_gibberish;
use crate::word_lists;

/// Appearance of a value that has a provider's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Appearance {
    /// Looks like a working credential.
    Live,
    /// A documented example: harmless, but so well formed that it is redacted all the same.
    Example,
    /// Not a credential: `ghp_xxxx…`.
    Placeholder,
}

/// Judges a value that already has a provider's format.
pub(super) fn judge_format(value: &str) -> Appearance {
    if value.contains("EXAMPLE") {
        return Appearance::Example;
    }
    let tail = if value.len() < 12 { value } else { value.get(4..).unwrap_or(value) };
    // Long tokens in base64 have runs of `A` where their bytes are zero.
    if distinct(tail) < 5 || has_run(tail, (tail.len() / 5).max(8)) || says_placeholder(value) {
        return Appearance::Placeholder;
    }
    Appearance::Live
}

/// Shannon entropy in bits per byte.
pub(super) fn entropy(value: &str) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in value.bytes() {
        counts[usize::from(byte)] += 1;
    }
    let total = f64::from(u32::try_from(value.len()).unwrap_or(u32::MAX)).max(1.0);
    counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / total).map(|p| -p * p.log2()).sum()
}

/// Returns the number of different bytes in a value.
pub(super) fn distinct(value: &str) -> usize {
    let mut seen = [false; 256];
    value.bytes().for_each(|byte| seen[usize::from(byte)] = true);
    seen.iter().filter(|seen| **seen).count()
}

/// True if one byte is repeated `length` times in a row.
pub(super) fn has_run(value: &str, length: usize) -> bool {
    let mut run = 0;
    let mut last = 0;
    value.bytes().any(|byte| {
        run = if byte == last { run + 1 } else { 1 };
        last = byte;
        run >= length
    })
}

/// Placeholder words within values of a provider's format.
static PLACEHOLDERS_IN_FORMATS: LazyLock<AhoCorasick> = LazyLock::new(|| {
    words(&["xxxx", "your", "example", "placeholder", "redacted", "....", "****", "changeme", "insert"])
});

/// Placeholder words within values of names such as `password`.
static PLACEHOLDERS: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let all: Vec<&str> = word_lists::words("placeholders").collect();
    words(&all)
});

/// Further words, by which a value made of words alone is recognized: `YOURACCESSKEYHERE`.
static PHRASES: LazyLock<AhoCorasick> = LazyLock::new(|| {
    words(&[
        "your", "xxx", "here", "goes", "access", "account", "api", "auth", "client", "key", "password", "personal",
        "private", "project", "secret", "string", "token", "user", "value", "12345", "67890", "abcdef", "ghijkl",
        "mnopqr", "stuvwx",
    ])
});

fn words(list: &[&str]) -> AhoCorasick {
    #[expect(clippy::expect_used, reason = "the words are constants; a test builds the automaton")]
    AhoCorasick::builder().ascii_case_insensitive(true).build(list).expect("the words make an automaton")
}

/// Shortest word that counts anywhere in a value. A token of 34 letters and digits contains a given word of four
/// letters once in a hundred thousand, one of six letters never.
const TELLING: usize = 6;

/// True if a value is a placeholder.
pub(super) fn is_placeholder(value: &str) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let no_words = value.len() >= 20 && digits >= 3 || value.len() >= 12 && is_gibberish(value);
    let random = no_words && entropy(value) >= 3.0;
    let test = |place: Range<usize>| {
        let test = value.get(place.clone()).is_some_and(|word| word.eq_ignore_ascii_case("test") && has_one_case(word));
        test && (!random || is_apart(value, &place))
    };
    let named = if random {
        says_placeholder(value)
    } else {
        PLACEHOLDERS.find_iter(value).any(|found| value.get(found.range()).is_some_and(has_one_case))
    };
    named || distinct(value) < 4 || has_run(value, 6) || test(0..4) || test(value.len().saturating_sub(4)..value.len())
}

/// True if a value that looks random contains a manual's placeholder word. Random values contain short words as well:
/// these count between separators, or where the value is made of words.
pub(super) fn says_placeholder(value: &str) -> bool {
    PLACEHOLDERS_IN_FORMATS.find_iter(value).any(|found| {
        let word = value.get(found.range()).unwrap_or_default();
        match word.as_bytes() {
            [b'x' | b'X', ..] => {
                let run = run_around(value, found.range());
                run.len() >= TELLING || run.len() >= 4 && is_apart(value, &run)
            }
            [first, ..] if first.is_ascii_alphabetic() => {
                has_one_case(word)
                    && (word.len() >= TELLING || is_apart(value, &found.range()) || is_spelled_out(value))
            }
            _ => true,
        }
    })
}

/// True if letters are all small, all capitals, or small with a capital at the beginning.
fn has_one_case(word: &str) -> bool {
    let tail = word.get(1..).unwrap_or_default();
    !tail.bytes().any(|b| b.is_ascii_uppercase()) || !word.bytes().any(|b| b.is_ascii_lowercase())
}

/// True if no letter and no digit is next to a place.
fn is_apart(value: &str, place: &Range<usize>) -> bool {
    let alphanumeric = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let before = place.start.checked_sub(1).and_then(|at| value.as_bytes().get(at));
    !alphanumeric(before) && !alphanumeric(value.as_bytes().get(place.end))
}

/// Returns the run of one byte that `place` begins in.
fn run_around(value: &str, place: Range<usize>) -> Range<usize> {
    let (before, after) = value.as_bytes().split_at_checked(place.start).unwrap_or_default();
    let same = |byte: &&u8| Some(*byte) == after.first();
    let left = before.iter().rev().take_while(same).count();
    place.start - left..place.start + after.iter().take_while(same).count()
}

/// True if words make up at least half of a value's letters and digits.
fn is_spelled_out(value: &str) -> bool {
    let covered: usize = PHRASES.find_iter(value).map(|found| found.len()).sum();
    2 * covered >= value.bytes().filter(u8::is_ascii_alphanumeric).count()
}

/// True if a value is one of our own markers and little else, or the inside of a marker.
pub(super) fn is_marker(value: &str) -> bool {
    let (head, tail) = value.split_once("[secret:").unwrap_or(("", value));
    let (inside, rest) = tail.split_once(']').unwrap_or((tail, ""));
    let (rule, tag) = inside.split_once(':').unwrap_or((inside, ""));
    let tagged = tag.len() <= 2 && tag.bytes().all(|b| b.is_ascii_hexdigit());
    tagged && super::is_rule(rule) && head.len() + rest.len() <= 6
}

/// True if a word may begin here: no letter or digit stands before, except an escape such as `\n` or `%3D`. A hyphen or
/// an underscore may stand before: they join names to credentials.
pub(super) fn starts_word(text: &str, at: usize) -> bool {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    match before {
        [] | [.., b'\\', b'n' | b't' | b'r'] => true,
        [.., b'%', a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => true,
        [.., last] => !last.is_ascii_alphanumeric(),
    }
}

/// True if a word ends here.
pub(super) fn ends_word(text: &str, at: usize) -> bool {
    !text.as_bytes().get(at).is_some_and(u8::is_ascii_alphanumeric)
}

/// Returns the beginning of the word that reaches `at`, at most `most` bytes back.
pub(super) fn word_start(text: &str, at: usize, most: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    let length = before
        .iter()
        .rev()
        .take(most)
        .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'~' | b'.' | b'-'))
        .count();
    at - length
}

/// True for alternating letters and digits, as in no word and no version: `a1b2c3`, not `address3` or `utf8`.
pub(super) fn is_mixed(value: &str) -> bool {
    let class = |b: u8| {
        if b.is_ascii_digit() {
            1
        } else if b.is_ascii_alphabetic() {
            2
        } else {
            0
        }
    };
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    if digits == 0 {
        return false;
    }
    let turns = value.bytes().zip(value.bytes().skip(1)).filter(|(a, b)| class(*a) + class(*b) == 3).count();
    turns >= 3 || turns >= 2 && digits >= 2 || turns == 1 && digits < value.len() && is_gibberish(value)
}

/// True if a value is a UUID.
pub(super) fn is_uuid(value: &str) -> bool {
    value.len() == 36
        && value
            .bytes()
            .enumerate()
            .all(|(at, b)| if matches!(at, 8 | 13 | 18 | 23) { b == b'-' } else { b.is_ascii_hexdigit() })
}
