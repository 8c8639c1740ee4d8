//! Credentials written in escapes, character by character (`%67%68…`, `&#103;…`, `\x67…`, `\u0067…`, full-width
//! letters), or with some characters escaped (`\u002B`, `%2F`, `\/`). In: a text. Out: each run of escapes with a
//! credential in it, and each credential with escapes in it, as a whole. Runs are found by a test of every 32nd byte,
//! so clean text costs next to nothing; single escapes are resolved only where the text has one. Nested quotations
//! (JSON within JSON) are resolved one after another.

use std::{borrow::Cow, ops::Range};

use memchr::{memchr, memchr_iter, memchr3, memmem};

use super::SecretFinding;
use umbra_domain::Severity;

/// Distance in bytes of the places that are tested; the shortest run with a credential is longer.
pub(super) const SHORTEST: usize = 32;

/// Most bytes of a run that are read.
const LONGEST: usize = 16 * 1024;

/// Longest escape, in bytes.
const WIDEST: usize = 8;

/// First byte of full-width letters.
const FULL_WIDTH: u8 = 0xef;

/// Beginnings of escapes for the signs within credentials, `+ - / = _`, and for quotes, which show a quotation. None is
/// shorter than four bytes, which keeps the scan for all literals fast.
pub(super) const NEEDLES: [&str; 19] = [
    "&quot;", "&#34;", "%22%3", "&#43;", "&#45;", "&#47;", "&#61;", "&#95;", "&#x2", "&#x3", "&#x5", "\\u002",
    "\\u003", "\\u005", "\\u007", "\\x2b", "\\x2f", "\\x3d", "\\x5f",
];

/// Most quotations that are resolved one by one; the last step resolves all that are left.
const DEEPEST: usize = 6;

/// Findings about the backslashes of a text.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slashes {
    /// True if the text has a slash as some encoders of JSON write it: `\/`.
    pub(super) before_slash: bool,
    /// True if the text is quoted twice: an escape is escaped itself, `\\"` or `\\n`.
    pub(super) nested: bool,
}

impl Slashes {
    pub(super) fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut seen = Self::default();
        for at in memchr_iter(b'\\', bytes) {
            match bytes.get(at + 1) {
                Some(b'/') => seen.before_slash = true,
                Some(b'\\') => {
                    let behind = bytes.get(at + 2);
                    seen.nested |=
                        matches!(behind, Some(b'"' | b'\'' | b'\\' | b'n' | b'r' | b't' | b'u' | b'x' | b'/'));
                }
                _ => {}
            }
            if seen.before_slash && seen.nested {
                break;
            }
        }
        seen
    }
}

/// Finds the credentials in a quoted text. `find` searches the text behind the first quotation, the second, and so on.
/// Each step halves the backslashes, so few steps suffice.
pub(super) fn quoted(text: &str, find: impl Fn(&str) -> Vec<SecretFinding>) -> Vec<SecretFinding> {
    let mut found = Vec::new();
    let mut said = Cow::Borrowed(text);
    // Original place of each byte of the unquoted text.
    let mut places: Vec<usize> = Vec::new();
    for depth in 1..=DEEPEST {
        let (inner, own) = unquoted(&said, depth == DEEPEST);
        places = if depth == 1 { own } else { own.iter().filter_map(|at| places.get(*at).copied()).collect() };
        let place = |at: usize| places.get(at).copied();
        let within = find(&inner).into_iter();
        found.extend(
            within.filter_map(|one| Some(SecretFinding { span: place(one.span.start)?..place(one.span.end)?, ..one })),
        );
        said = Cow::Owned(inner);
        if !Slashes::of(&said).nested && memmem::find(said.as_bytes(), b"\\u00").is_none() {
            break;
        }
    }
    found
}

/// Removes one quotation from a text, or with `all` every one. Returns the original place of each byte, too.
fn unquoted(text: &str, all: bool) -> (String, Vec<usize>) {
    let bytes = text.as_bytes();
    let (mut said, mut places) = (String::with_capacity(text.len()), Vec::with_capacity(text.len() + 1));
    let mut at = 0;
    while at < bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        let plain = memchr3(b'\\', b'%', b'&', rest).unwrap_or(rest.len());
        said.push_str(text.get(at..at + plain).unwrap_or_default());
        places.extend(at..at + plain);
        at += plain;
        if at == bytes.len() {
            break;
        }
        let (sign, length) = quoted_sign(bytes, at, all).unwrap_or((bytes.get(at).copied().unwrap_or_default(), 1));
        said.push(char::from(sign));
        places.push(at);
        at += length;
    }
    places.push(at);
    (said, places)
}

/// Returns the character that a quotation escapes at a place, and the escape's length.
fn quoted_sign(bytes: &[u8], at: usize, all: bool) -> Option<(u8, usize)> {
    let rest = bytes.get(at..)?;
    let most = if all { rest.len() } else { 2 };
    let slashes = rest.iter().take(most).take_while(|byte| **byte == b'\\').count();
    match slashes {
        0 if rest.starts_with(b"&quot;") => Some((b'"', 6)),
        0 => escape(bytes, at).filter(|(sign, _)| *sign < 0x80),
        2.. if !all => Some((b'\\', 2)),
        _ => match rest.get(slashes)? {
            sign @ (b'"' | b'\'' | b'/') => Some((*sign, slashes + 1)),
            b'n' | b'r' => Some((b'\n', slashes + 1)),
            b't' => Some((b'\t', slashes + 1)),
            _ => escape(bytes, at + slashes - 1).map(|(sign, length)| (sign, slashes - 1 + length)),
        },
    }
}

/// Finds the credentials with escapes in them. `find` searches the text without escapes.
pub(super) fn within(text: &str, find: impl Fn(&str) -> Vec<SecretFinding>) -> Vec<SecretFinding> {
    let mut said = String::with_capacity(text.len());
    // Original place of each byte of the unescaped text.
    let mut places = Vec::with_capacity(text.len() + 1);
    let mut at = 0;
    while let Some(character) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let escape = if matches!(character, '\\' | '%' | '&') { single(text.as_bytes(), at) } else { None };
        let (character, length) = escape.unwrap_or((character, character.len_utf8()));
        said.push(character);
        places.extend(std::iter::repeat_n(at, character.len_utf8()));
        at += length;
    }
    places.push(at);
    let place = |place: usize| places.get(place).copied();
    let found = find(&said).into_iter().filter_map(|one| {
        let span = place(one.span.start)?..place(one.span.end)?;
        (span.len() != one.span.len()).then_some(SecretFinding { span, ..one })
    });
    found.collect()
}

/// Returns the character that is escaped at a place, and the escape's length. Quotes and backslashes stay: they end the
/// literal around them.
fn single(bytes: &[u8], at: usize) -> Option<(char, usize)> {
    if bytes.get(at..at + 2) == Some(b"\\/") {
        return Some(('/', 2));
    }
    let (byte, length) = escape(bytes, at)?;
    (byte < 0x80 && !matches!(byte, b'"' | b'\'' | b'\\')).then_some((char::from(byte), length))
}

/// Finds the runs of escapes that hold a credential. `find` searches the unescaped text.
pub(super) fn find(text: &str, find: impl Fn(&str) -> Vec<SecretFinding>) -> Vec<SecretFinding> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    if bytes.len() < SHORTEST || !may_hold(bytes) {
        return found;
    }
    let mut at = SHORTEST - 1;
    while let Some(byte) = bytes.get(at) {
        // Tests bytes that occur in escapes; most of them are in a word, whose neighbors then rule it out.
        let run = if may_belong(*byte) { run_around(bytes, at) } else { at..at };
        if run.len() > SHORTEST {
            found.extend(in_run(bytes, run.clone(), &find));
        }
        at = run.end.max(at) + SHORTEST - (run.end.max(at) + 1) % SHORTEST;
    }
    found
}

/// True if a text has a byte that an escape begins with.
fn may_hold(bytes: &[u8]) -> bool {
    memchr3(b'%', b'&', b'\\', bytes).or_else(|| memchr(FULL_WIDTH, bytes)).is_some()
}

fn may_belong(byte: u8) -> bool {
    byte.is_ascii_hexdigit() || byte >= 0x80 || matches!(byte, b'%' | b'&' | b'#' | b';' | b'\\' | b'x' | b'u')
}

/// Returns the character of the escape that begins at a place, and the escape's length in bytes.
fn escape(bytes: &[u8], at: usize) -> Option<(u8, usize)> {
    let rest = bytes.get(at..bytes.len().min(at + WIDEST))?;
    let number = |digits: &[u8], radix| {
        let value = u8::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()?;
        value.is_ascii_graphic().then_some(value)
    };
    let entity = |from: usize, radix| {
        let length = rest.get(from..)?.iter().position(|byte| *byte == b';')?;
        Some((number(rest.get(from..from + length)?, radix)?, from + length + 1))
    };
    match rest {
        [b'%', a, b, ..] => Some((number(&[*a, *b], 16)?, 3)),
        [b'&', b'#', b'x' | b'X', ..] => entity(3, 16),
        [b'&', b'#', ..] => entity(2, 10),
        [b'\\', b'x', a, b, ..] => Some((number(&[*a, *b], 16)?, 4)),
        [b'\\', b'u', b'0', b'0', a, b, ..] => Some((number(&[*a, *b], 16)?, 6)),
        [FULL_WIDTH, 0xbc, c @ 0x81..=0xbf, ..] => Some((c - 0x81 + b'!', 3)),
        [FULL_WIDTH, 0xbd, c @ 0x80..=0x9e, ..] => Some((c - 0x80 + b'`', 3)),
        _ => None,
    }
}

/// Returns the run of escapes around `at`, empty if there is none.
fn run_around(bytes: &[u8], at: usize) -> Range<usize> {
    let covering = |end: usize| {
        let first = end.saturating_sub(WIDEST);
        (first..end).rev().find(|start| escape(bytes, *start).is_some_and(|(_, length)| start + length >= end))
    };
    let Some(mut start) = covering(at + 1) else { return at..at };
    let mut end = start;
    while end - start < LONGEST
        && let Some((_, length)) = escape(bytes, end)
    {
        end += length;
    }
    // The part before `at`, no further than the place that was tested before.
    while start + SHORTEST + WIDEST > at
        && let Some(before) = covering(start).filter(|_| start > 0)
    {
        start = before;
    }
    start..end
}

/// Finds the credentials in a run, by the places of their escapes.
fn in_run(bytes: &[u8], run: Range<usize>, find: impl Fn(&str) -> Vec<SecretFinding>) -> Vec<SecretFinding> {
    let mut said = String::new();
    let mut starts = Vec::new();
    let mut at = run.start;
    while at < run.end
        && let Some((character, length)) = escape(bytes, at)
    {
        said.push(char::from(character));
        starts.push(at);
        at += length;
    }
    starts.push(at);
    let found = find(&said).into_iter().filter(|one| one.severity >= Severity::Warning);
    let place = |place: usize| starts.get(place).copied();
    found.filter_map(|one| Some(SecretFinding { span: place(one.span.start)?..place(one.span.end)?, ..one })).collect()
}
