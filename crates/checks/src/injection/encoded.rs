//! Finds orders that are encoded: Base64 and hexadecimal wherever they stand, percent signs and escapes, and what a
//! text says is a cipher (rotated, reversed, Morse, binary, spaced hexadecimal). In: a text. Out: hits. A payload is
//! decoded once, to a bounded length, and judged by the same forms as plain text; a question or an order to the reader
//! counts too, since nobody encodes those for an honest one.

use std::ops::Range;

use memchr::{memchr3, memmem};

use super::{
    Found,
    ciphers::ciphers,
    search::{self, Index, Met},
};
use umbra_domain::TextScope;

const ORDER: &str = "An order or a question to the reader is encoded in the text.";
/// How much of a payload is decoded, in bytes.
pub(super) const MOST_DECODED: usize = 2048;
/// Runs with escapes that are looked at in one text.
const MOST_RUNS: usize = 1000;
/// Where a payload stands that a text speaks of, in bytes before and behind the word.
const NEAR: usize = 700;
/// Words that announce a payload.
pub(super) const ANNOUNCED: [&str; 13] = [
    "decod",
    "decipher",
    "decrypt",
    "cipher",
    "rot13",
    "rot-13",
    "rot 13",
    "base64",
    "morse",
    "hexadecimal",
    "binary",
    "reversed",
    "backwards",
];

/// Notes the encoded orders of a text; `blobs` are its long unbroken runs, `words` those that announce a payload.
pub(super) fn find(
    index: &Index,
    text: &str,
    blobs: &[Range<usize>],
    words: &[Range<usize>],
    reaches: impl Fn(TextScope) -> bool + Copy,
    found: &mut Vec<Found>,
) {
    let mut note = |at: Range<usize>, decoded: &str, announced: bool| {
        if is_order(index, decoded, announced && reaches(TextScope::Outside), reaches) {
            found.push(Found::warning("encoded_order", at, ORDER));
        }
    };
    for at in blobs {
        let blob = text.get(at.clone()).unwrap_or_default();
        for decoded in [base64(blob), hex(blob)].into_iter().flatten() {
            note(at.clone(), &decoded, false);
        }
    }
    for run in escaped(text) {
        if let Some(decoded) = text.get(run.clone()).and_then(unescape) {
            note(run, &decoded, false);
        }
    }
    for near in around(text, words) {
        let part = text.get(near.clone()).unwrap_or_default();
        for (at, decoded) in ciphers(part) {
            note(near.start + at.start..near.start + at.end, &decoded, true);
        }
    }
}

/// Whether a decoded text tells its reader what to do, or (`loosely`) asks it something.
fn is_order(index: &Index, decoded: &str, loosely: bool, reaches: impl Fn(TextScope) -> bool) -> bool {
    let mut order = false;
    search::find(index, decoded, &reaches, |met, _| order |= matches!(met, Met::Form(_)));
    order || loosely && is_sentence(decoded) && (decoded.trim_end().ends_with('?') || begins_with_request(decoded))
}

/// Whether it is English: mostly letters and spaces, with the words that every sentence has.
fn is_sentence(text: &str) -> bool {
    is_lettered(text) && has_common_words(text)
}

pub(super) fn is_lettered(text: &str) -> bool {
    let plain = |b: &u8| b.is_ascii_alphabetic() || matches!(b, b' ' | b'.' | b',' | b'?' | b'\'');
    text.bytes().filter(plain).count() * 10 >= text.len() * 9
}

pub(super) fn has_common_words(text: &str) -> bool {
    const COMMON: [&str; 21] = [
        "the", "is", "of", "to", "and", "you", "your", "in", "for", "me", "what", "that", "this", "all", "it", "are",
        "my", "with", "do", "how", "please",
    ];
    let mut first = None;
    text.as_bytes().split(|byte| !byte.is_ascii_alphanumeric()).filter(|word| (2..7).contains(&word.len())).any(
        |word| {
            let known = COMMON.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(word));
            // Two different ones.
            known.is_some() && first.replace(known).is_some_and(|before| before != known)
        },
    )
}

fn begins_with_request(text: &str) -> bool {
    const VERBS: [&str; 34] = [
        "what",
        "who",
        "where",
        "when",
        "why",
        "how",
        "which",
        "can",
        "could",
        "tell",
        "give",
        "write",
        "print",
        "send",
        "say",
        "explain",
        "list",
        "describe",
        "reveal",
        "show",
        "ignore",
        "forget",
        "repeat",
        "provide",
        "share",
        "output",
        "execute",
        "run",
        "delete",
        "open",
        "respond",
        "reply",
        "translate",
        "please",
    ];
    let first = text.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    VERBS.iter().any(|verb| first.eq_ignore_ascii_case(verb))
}

/// Base64 of either alphabet, if it is text.
pub(super) fn base64(blob: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(blob.len().min(MOST_DECODED * 4 / 3) * 3 / 4 + 3);
    let (mut bits, mut held) = (0_u32, 0);
    for byte in blob.bytes() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'=' => break,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xff).ok().filter(|byte| is_text(*byte))?);
            if bytes.len() >= MOST_DECODED {
                break;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// Pairs of hexadecimal digits, if they spell text.
pub(super) fn hex(blob: &str) -> Option<String> {
    let blob = blob.strip_prefix("0x").unwrap_or(blob).as_bytes();
    let mut bytes = Vec::with_capacity(blob.len().min(2 * MOST_DECODED) / 2);
    for pair in blob.chunks_exact(2).take(MOST_DECODED) {
        bytes.push(byte_of(pair, 16).filter(|byte| is_text(*byte))?);
    }
    String::from_utf8(bytes).ok()
}

pub(super) fn byte_of(digits: &[u8], radix: u32) -> Option<u8> {
    std::str::from_utf8(digits).ok().and_then(|digits| u8::from_str_radix(digits, radix).ok())
}

/// Text of ASCII: a payload in another script is encoded text of another kind, and no byte of a picture gets far.
pub(super) fn is_text(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e)
}

/// Runs without a space in which characters are written as `%69`, `\x69`, `\u0069` or `&#105;`.
fn escaped(text: &str) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    if memchr3(b'%', b'\\', b'&', text.as_bytes()).is_none() {
        return runs;
    }
    for mark in ["%20", "%69", "%49", "\\x", "\\u00", "&#"] {
        let mut end = 0;
        for at in memmem::find_iter(text.as_bytes(), mark.as_bytes()) {
            if runs.len() >= MOST_RUNS {
                return runs;
            }
            if at < end {
                continue;
            }
            let floor = text.ceil_char_boundary(at.saturating_sub(MOST_DECODED)).max(end);
            let before = text.get(floor..at).unwrap_or_default();
            let start = before.rfind(is_edge).map_or(floor, |edge| floor + edge + 1);
            let ceiling = text.floor_char_boundary((at + 3 * MOST_DECODED).min(text.len()));
            let behind = text.get(at..ceiling).unwrap_or_default();
            end = behind.find(is_edge).map_or(ceiling, |edge| at + edge);
            runs.push(start..end);
        }
    }
    runs
}

fn is_edge(c: char) -> bool {
    matches!(c, ' ' | '\n' | '\r' | '\t' | '"' | '\'' | '<' | '>' | '`')
}

/// What escapes in a run stand for; `None` where there are hardly any.
fn unescape(run: &str) -> Option<String> {
    let mut out = String::with_capacity(run.len().min(MOST_DECODED));
    let (mut rest, mut count) = (run, 0);
    while let Some(c) = rest.chars().next() {
        let escape =
            [("%", 2, 16, ""), ("\\x", 2, 16, ""), ("\\u00", 2, 16, ""), ("&#x", 2, 16, ";"), ("&#", 0, 10, ";")];
        let known = escape.into_iter().find_map(|(mark, digits, radix, end)| {
            let body = rest.strip_prefix(mark)?;
            let digits = if digits == 0 { body.bytes().take(3).take_while(u8::is_ascii_digit).count() } else { digits };
            let byte = byte_of(body.as_bytes().get(..digits)?, radix).filter(|byte| is_text(*byte))?;
            Some((byte, body.get(digits..)?.strip_prefix(end)?))
        });
        if let Some((byte, behind)) = known {
            out.push(char::from(byte));
            count += 1;
            rest = behind;
        } else {
            out.push(if c == '+' { ' ' } else { c });
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
        }
        if out.len() >= MOST_DECODED {
            break;
        }
    }
    (count >= 3).then_some(out)
}

/// The parts of the text around words that announce a payload.
fn around(text: &str, words: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    for word in words {
        let from = parts.last().map_or(0, |last| last.end);
        if word.end > from {
            let start = text.ceil_char_boundary(word.start.saturating_sub(NEAR)).max(from);
            parts.push(start..text.floor_char_boundary((word.end + NEAR).min(text.len())));
        }
    }
    parts
}
