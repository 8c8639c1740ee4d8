//! Keys behind a word such as `KEY` with little between, and behind a service's name: `acme SECRET 0a1b…`,
//! `acme-key 123e4567-…`, `acmeTOKEN-…`. In: a text and the place of the name with the word. Out: the key. The weaker
//! its
//! shape, the stronger its context must be: the word in capitals, or the name of a service that issues keys.

use std::{ops::Range, sync::LazyLock};

use aho_corasick::AhoCorasick;

use super::values;
use crate::word_lists;

static NAMES: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::builder().ascii_case_insensitive(true).build(word_lists::words("services")).ok());

/// Longest distance from a service's name to its key, in bytes.
const REACH: usize = 64;

/// Returns the key behind the name that ends at `end`. `loud` means that the word is written in capitals.
pub(super) fn key_after(text: &str, end: usize, loud: bool) -> Option<Range<usize>> {
    let start = end + gap(text.as_bytes().get(end..)?)?;
    let rest = text.as_bytes().get(start..)?;
    let run = rest.iter().take(257).take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')).count();
    let closed = rest.get(run).is_none_or(|b| b.is_ascii_whitespace() || b"\"'`,;)]}<".contains(b));
    let value = text.get(start..start + run).filter(|_| closed && (16..=256).contains(&run))?;
    let shape = shape(value)?;
    let known = || {
        let before = text.get(text.floor_char_boundary(start.saturating_sub(REACH))..start).unwrap_or_default();
        NAMES.as_ref().is_some_and(|names| names.is_match(before))
    };
    let convincing = match shape {
        Shape::Random => loud || known(),
        Shape::Ordered => known(),
    };
    (convincing && !values::is_marker(value)).then_some(start..start + run)
}

/// Returns the length between a name and its key: blanks, signs, and up to two more words of the kind.
fn gap(bytes: &[u8]) -> Option<usize> {
    const WORDS: [&[u8]; 6] = [b"key", b"token", b"secret", b"access", b"private", b"is"];
    let sign =
        |b: &u8| matches!(b, b' ' | b'\t' | b'\r' | b'\n' | b'=' | b':' | b'>' | b'"' | b'\'' | b'`' | b'-' | b'(');
    let mut at = 0;
    for _ in 0..3 {
        let signs = bytes.get(at..)?.iter().take(6).take_while(|b| sign(b)).count();
        // `-----END … KEY-----`: the next block follows.
        if bytes.get(at..at + signs)?.starts_with(b"--") {
            return None;
        }
        at += signs;
        let word = bytes.get(at..)?.iter().take(8).take_while(|b| b.is_ascii_alphabetic()).count();
        let spelt = bytes.get(at..at + word)?;
        if !WORDS.iter().any(|known| known.eq_ignore_ascii_case(spelt)) {
            break;
        }
        at += word;
    }
    (at > 0).then_some(at)
}

enum Shape {
    /// Random letters and digits.
    Random,
    /// A shape that could also name a thing: a UUID, groups of capitals, a short run, an alphabet.
    Ordered,
}

fn shape(value: &str) -> Option<Shape> {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    let distinct = values::distinct(value);
    if digits < 2 || letters < 2 || distinct < 8 || values::has_run(value, 6) || values::says_placeholder(value) {
        return None;
    }
    if values::is_uuid(value) || is_grouped(value) {
        return Some(Shape::Ordered);
    }
    // Words joined by signs are a name.
    let part = value.split(['-', '_']).map(str::len).max()?;
    if part < 16 {
        return None;
    }
    let random = value.len() >= 20 && values::is_mixed(value) && values::entropy(value) >= 3.0 && !is_counting(value);
    Some(if random { Shape::Random } else { Shape::Ordered })
}

/// True for `ABCDEFG-1234567-…`: four or more groups of capitals and digits, each of four bytes or more.
fn is_grouped(value: &str) -> bool {
    let group = |part: &str| part.len() >= 4 && part.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    value.split('-').count() >= 4 && value.split('-').all(group)
}

/// True if half of the bytes are followed by their successor, as in an alphabet.
fn is_counting(value: &str) -> bool {
    let steps = value.bytes().zip(value.bytes().skip(1)).filter(|(a, b)| a.wrapping_add(1) == *b).count();
    steps * 2 > value.len()
}
