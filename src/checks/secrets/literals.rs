//! Reads the literal that a name is given, in whatever notation: `name = "…"`, `"name": "…"`, `NAME=…`, `--name …`,
//! `<name>…</name>`, `set_name("…")`, `name-…`. In: a text and the place of the name. Out: the literal's place and how it
//! is written. It does not judge it.

use std::ops::Range;

use super::values;

/// How a value is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// Between quotes.
    Quoted,
    /// `NAME=value` with a name in capitals, or a command-line flag.
    Shell,
    /// After another sign, up to a blank or a bracket.
    Bare,
    /// After the name and a space alone.
    Loose,
}

/// Bytes of a value that are looked at: assigned secrets are shorter, and a text of names alone stays cheap.
const LONGEST_VALUE: usize = 384;

/// The literal that the name at `start..end` is given.
pub(super) fn value_after(text: &str, start: usize, end: usize) -> Option<(Range<usize>, Written)> {
    let bytes = text.as_bytes();
    let mut at = end;
    let blank = |at: usize| {
        bytes.get(at..).unwrap_or_default().iter().take(40).take_while(|b| matches!(b, b' ' | b'\t')).count()
    };
    // What closes the name: "name", 'name', \"name\", ["name"], (name).
    let mut name_quoted = false;
    for close in [b'\\', b'"', b'\'', b'`', b']'] {
        if bytes.get(at) == Some(&close) {
            name_quoted |= close != b'\\';
            at += 1;
        }
    }
    let spaces = blank(at);
    at += spaces;
    let rest = text.get(at..text.floor_char_boundary(at + 4))?;
    let (operator, written) = match rest.as_bytes() {
        [b':', b':', ..] => return None,
        [b'=' | b'-', b'>', ..] | [b':' | b'=' | b'+' | b'?', b'=', ..] => (2, Written::Bare),
        [b'=', ..] if spaces == 0 => (1, Written::Shell),
        [b'=' | b':', ..] => (1, Written::Bare),
        [b'>', ..] if !name_quoted => (1, Written::Bare),
        [b',', ..] if name_quoted => (1, Written::Quoted),
        [b'(', b'"' | b'\'', ..] => (1, Written::Quoted),
        [b'(', ..] => (1 + decoding_call(text, at + 1)?, Written::Quoted),
        _ if spaces > 0 && text.get(..start)?.ends_with("--") => (0, Written::Shell),
        _ if spaces > 0 => (0, Written::Loose),
        _ => return None,
    };
    at += operator;
    at += blank(at);
    // A list's first, and what a call decodes.
    if bytes.get(at) == Some(&b'[') && matches!(bytes.get(at + 1), Some(b'"' | b'\'')) {
        at += 1;
    }
    at += decoding_call(text, at).unwrap_or(0);
    while matches!(bytes.get(at), Some(b'b' | b'r' | b'u' | b'L' | b'@'))
        && matches!(bytes.get(at + 1), Some(b'"' | b'\''))
    {
        at += 1;
    }
    if bytes.get(at) == Some(&b'\\') && matches!(bytes.get(at + 1), Some(b'"' | b'\'')) {
        at += 1;
    }
    let window = text.get(at..text.floor_char_boundary(at + LONGEST_VALUE))?;
    if let Some(quote) = window.bytes().next().filter(|b| matches!(b, b'"' | b'\'' | b'`')) {
        let inner = window.get(1..)?;
        // Within a string of a string, `\"` closes; elsewhere it does not.
        let nested = text.get(..at)?.ends_with('\\');
        let escaped = |at: usize| inner.get(..at).is_some_and(|before| before.ends_with('\\'));
        let close =
            inner.bytes().enumerate().position(|(at, b)| b == b'\n' || b == quote && (nested || !escaped(at)))?;
        let length = close - usize::from(nested && escaped(close));
        let written = if written == Written::Loose { written } else { Written::Quoted };
        return Some((at + 1..at + 1 + length, written));
    }
    if written == Written::Quoted {
        return None;
    }
    let stop = |b: u8| {
        b.is_ascii_whitespace()
            || matches!(b, b',' | b';' | b'"' | b'\'' | b'<' | b'>' | b'`' | b')' | b'}' | b']' | b'&' | b'|' | b'\\')
    };
    let closing = |b: u8| written == Written::Shell && matches!(b, b')' | b'}' | b']' | b',');
    let length = window.bytes().position(|b| stop(b) && !closing(b)).unwrap_or(window.len());
    Some((at..at + length, written))
}

/// Length of `Base64.decode(`, `b64decode(`, `unhexlify(` and their like before a quote.
fn decoding_call(text: &str, at: usize) -> Option<usize> {
    let rest = text.as_bytes().get(at..)?;
    let name = rest.iter().take(40).take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.')).count();
    let called = rest.get(..name).filter(|_| name > 0)?.to_ascii_lowercase();
    let decodes = [b"decode".as_slice(), b"unhex", b"fromhex", b"from_hex", b"frombase64", b"from_base64"]
        .iter()
        .any(|part| called.windows(part.len()).any(|window| window == *part));
    (decodes && rest.get(name) == Some(&b'(') && matches!(rest.get(name + 1), Some(b'"' | b'\''))).then_some(name + 1)
}

/// `vendor-secret-key-0a1b…`: a long random value that is joined to its name by a hyphen or a dot.
pub(super) fn hyphenated(text: &str, name_end: usize, run: usize) -> Option<Range<usize>> {
    let tail = text.get(name_end..name_end + run)?;
    let joints = tail.char_indices().filter(|(_, c)| matches!(c, '-' | '.')).map(|(at, _)| name_end + at + 1).take(3);
    joints.map(|start| start..start + value_length(text, start)).find(|place| {
        let value = text.get(place.clone()).unwrap_or_default();
        // Words joined by hyphens are short; a credential has one long part, or is a UUID.
        let part = value.split(['-', '_']).max_by_key(|part| part.len()).unwrap_or_default();
        let long = part.len() >= 16 && values::is_mixed(part) && values::entropy(part) >= 3.0;
        value.len() >= 20 && (long || values::is_uuid(value)) && !values::is_placeholder(value)
    })
}

/// Length of the run of letters, digits, `_` and `-` from `start`, at most 256.
fn value_length(text: &str, start: usize) -> usize {
    let rest = text.as_bytes().get(start..).unwrap_or_default();
    rest.iter().take(256).take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')).count()
}
