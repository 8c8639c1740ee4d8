//! Reader of the literal assigned to a name, in many notations: `name = "…"`, `"name": "…"`, `NAME=…`, `--name …`,
//! `<name>…</name>`, `set_name("…")`, `name-…`. In: a text and the place of the name. Out: the literal's range and
//! notation, without a judgement. Values in a member, a line or a column of their own are found by `apart`.

use std::ops::Range;

use super::{gibberish::is_gibberish, separated, values};

/// Notation of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Notation {
    /// Between quotes.
    Quoted,
    /// `NAME=value` with a name in capitals, or a command-line flag.
    Shell,
    /// After another sign, up to a blank or a bracket.
    Bare,
    /// After the name and a verb: `the password is …`.
    Sentence,
    /// Alone on the line below its name, or in the next column.
    Separate,
    /// After the name and a space alone.
    Loose,
}

/// Most bytes of a value that are read: assigned secrets are shorter, and a text of names alone stays cheap.
const LONGEST_VALUE: usize = 384;

/// Returns the literal assigned to the name at `start..end`, and its notation.
pub(super) fn value_after(text: &str, start: usize, end: usize) -> Option<(Range<usize>, Notation)> {
    let bytes = text.as_bytes();
    let mut at = end;
    let blank = |at: usize| {
        bytes.get(at..).unwrap_or_default().iter().take(40).take_while(|b| matches!(b, b' ' | b'\t')).count()
    };
    // Signs that close the name: "name", 'name', \"name\", ["name"], (name).
    let mut name_quoted = false;
    for close in [b'\\', b'"', b'\'', b'`', b']', b'*', b'*'] {
        if bytes.get(at) == Some(&close) {
            name_quoted |= !matches!(close, b'\\' | b'*');
            at += 1;
        }
    }
    at += blank(at);
    let mut written = Notation::Bare;
    if let Some(value) = separated::member(text, start, at, name_quoted) {
        at = value;
    } else {
        let operator;
        (operator, written) = sign(text, start..end, at, name_quoted)?;
        at += operator;
    }
    at += blank(at);
    if written == Notation::Bare
        && let Some(below) = separated::line_below(text, at)
    {
        (at, written) = (below, Notation::Separate);
    }
    // The first item of a list, and the argument of a decoding call.
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
    // Behind the colon of `**name:** value`, and before the value of `name: **value**`.
    if bytes.get(at..at + 2) == Some(b"**") {
        at += 2;
        at += blank(at);
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
        let written = if matches!(written, Notation::Loose | Notation::Separate) { written } else { Notation::Quoted };
        return Some((at + 1..at + 1 + length, written));
    }
    if written == Notation::Quoted {
        return None;
    }
    let stop = |b: u8| {
        b.is_ascii_whitespace()
            || matches!(b, b',' | b';' | b'"' | b'\'' | b'<' | b'>' | b'`' | b')' | b'}' | b']' | b'&' | b'|' | b'\\')
    };
    let closing = |b: u8| written == Notation::Shell && matches!(b, b')' | b'}' | b']' | b',');
    let length = window.bytes().position(|b| stop(b) && !closing(b)).unwrap_or(window.len());
    // `密码：…，请登录后修改`: a sentence continues behind the value.
    let ends = |value: &str| value.find(|c: char| !c.is_ascii() && !is_latin(c));
    let length = window.get(..length).filter(|value| !value.is_ascii()).and_then(ends).unwrap_or(length);
    let value = window.get(..length)?.trim_end_matches("**");
    let value = if written == Notation::Sentence { value.trim_end_matches(['.', ':', '?', '!']) } else { value };
    Some((at..at + value.len(), written))
}

fn is_latin(c: char) -> bool {
    c.is_alphabetic() && c < '\u{250}'
}

/// Extends an unquoted value behind the sign that ended it, where the rest belongs to the same password:
/// `k3v9Qm;x2Tz7`. A statement, a parameter or an element behind it is a word, or has a sign of its own.
pub(super) fn with_tail(text: &str, value: Range<usize>) -> Range<usize> {
    const MOST: usize = 4;
    let bytes = text.as_bytes();
    let mut end = value.end;
    for _ in 0..MOST {
        if !bytes.get(end).is_some_and(|b| b";&<>|,\"'{}$".contains(b)) {
            break;
        }
        let part = |b: &&u8| b.is_ascii_alphanumeric() || b"_-!@#%^*+~.".contains(b);
        let length = bytes.get(end + 1..).unwrap_or_default().iter().take(64).take_while(part).count();
        let next = end + 1 + length;
        let run = text.get(end + 1..next).unwrap_or_default();
        let random = length >= 3 && (values::is_mixed(run) || is_gibberish(run));
        // Only the line's end or an enclosing sign may follow.
        let closes = bytes.get(next).is_none_or(|b| b.is_ascii_whitespace() || b"\"'`;&<>|,{}$)]".contains(b));
        let word = bytes.get(next) == Some(&b' ') && bytes.get(end).is_some_and(|b| b"&;|".contains(b));
        if !random || !closes || word {
            break;
        }
        end = next;
    }
    value.start..end
}

/// Extends a variable's value to the end of its word, as in a file of variables: `DB_PASSWORD=Tr0ub4dor&3x`. The value
/// ends where another assignment or a possible command follows: that text is scanned as well.
pub(super) fn to_end_of_word(text: &str, name: Range<usize>, value: Range<usize>) -> Range<usize> {
    const LONGEST_TAIL: usize = 256;
    let bytes = text.as_bytes();
    let variable = text.get(name.clone()).is_some_and(|name| !name.bytes().any(|b| b.is_ascii_lowercase()));
    let before = name.start.checked_sub(1).and_then(|at| bytes.get(at));
    let opens_line = matches!(before, None | Some(b'\n'));
    let opens_word = opens_line || matches!(before, Some(b' ' | b'\t' | b'"' | b'\'' | b'`'));
    let rest = bytes.get(value.end..).unwrap_or_default();
    let part = |b: &&u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\'' | b'`' | b'\\');
    let length = rest.iter().take(LONGEST_TAIL).take_while(part).count();
    let tail = rest.get(..length).unwrap_or_default();
    let ends_line = matches!(rest.get(length), None | Some(b'\n' | b'\r'));
    let goes_on = tail.iter().position(|b| *b == b'=').is_some_and(|at| at + 1 < length);
    let command = tail.starts_with(b"&&") || tail.starts_with(b"||") || tail.contains(&b'/');
    let command = command || !tail.iter().any(u8::is_ascii_digit);
    let of_it = tail.starts_with(b"&") || opens_line && ends_line;
    if variable && opens_word && of_it && !goes_on && !command { value.start..value.end + length } else { value }
}

/// Extends a value that reached the limit to the end of its run: keys in base64 have thousands of bytes.
pub(super) fn whole(text: &str, value: Range<usize>) -> Range<usize> {
    const LONGEST_RUN: usize = 16 * 1024;
    if value.len() + 4 < LONGEST_VALUE {
        return value;
    }
    let rest = text.as_bytes().get(value.end..).unwrap_or_default();
    let part = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'_' | b'-');
    let length = rest.iter().take(LONGEST_RUN).take_while(part).count();
    let padding = rest.get(length..).unwrap_or_default().iter().take(2).take_while(|b| **b == b'=').count();
    value.start..value.end + length + padding
}

/// Returns the length of the sign at `at` between a name and its value, and the notation of the value.
fn sign(text: &str, name: Range<usize>, at: usize, name_quoted: bool) -> Option<(usize, Notation)> {
    let spaces = text.get(..at)?.ends_with([' ', '\t']);
    let rest = text.as_bytes().get(at..)?;
    Some(match rest {
        [b':', b':', ..] => return None,
        [b'=' | b'-', b'>', ..] | [b':' | b'=' | b'+' | b'?', b'=', ..] => (2, Notation::Bare),
        [b'=', ..] if !spaces => (1, Notation::Shell),
        [b'=' | b':', ..] => (1, Notation::Bare),
        // A full-width colon.
        [0xef, 0xbc, 0x9a, ..] => (3, Notation::Bare),
        [b'>', ..] if !name_quoted || names_element(text, name.start) => (1, Notation::Bare),
        [b'<', b'/', ..] => (next_element(rest)?, Notation::Bare),
        [b',', ..] if name_quoted => (1, Notation::Quoted),
        [b'v' | b'V', ..] if name_quoted && spaces => (attribute(rest)?, Notation::Quoted),
        // は, 是, 为: the verb of a sentence.
        [0xe3, 0x81, 0xaf, ..] | [0xe6, 0x98, 0xaf, ..] | [0xe4, 0xb8, 0xba, ..] => (3, Notation::Sentence),
        [b'|', ..] if in_cell(text, name.start) => (1, Notation::Bare),
        [b'(', b'"' | b'\'', ..] => (1, Notation::Quoted),
        [b'(', ..] => (1 + decoding_call(text, at + 1)?, Notation::Quoted),
        _ if spaces && is_option(text, &name) => (0, Notation::Shell),
        _ if spaces && is_column(text, name.end, at) => (0, Notation::Separate),
        _ if spaces => match verb(rest).or_else(|| phrase(text, name, at)) {
            Some(length) => (length, Notation::Sentence),
            None => (0, Notation::Loose),
        },
        _ => return None,
    })
}

/// True for an option: `--password VALUE`, `-Password VALUE`.
fn is_option(text: &str, name: &Range<usize>) -> bool {
    text.get(name.start..).is_some_and(|name| name.starts_with('-'))
        || text.get(..name.start).is_some_and(|before| before.ends_with("--"))
}

/// True if a name is the attribute of the element that holds the value: `<string name="api_password">…`.
fn names_element(text: &str, start: usize) -> bool {
    let before = text.get(..start).unwrap_or_default().trim_end_matches(['"', '\'']);
    [" name=", " key="].iter().any(|attribute| before.ends_with(attribute))
}

/// Returns the length from the end of an element that holds a name to the inside of the next: `</key> <string>`.
fn next_element(rest: &[u8]) -> Option<usize> {
    const LONGEST: usize = 80;
    let rest = rest.get(..rest.len().min(LONGEST))?;
    let close = rest.iter().position(|byte| *byte == b'>')? + 1;
    let blank = rest.get(close..)?.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let next = rest.get(close + blank..)?;
    let named = next.starts_with(b"<string>") || next.starts_with(b"<value>");
    named.then(|| Some(close + blank + next.iter().position(|byte| *byte == b'>')? + 1))?
}

/// Returns the length of `value=` behind a quoted name.
fn attribute(rest: &[u8]) -> Option<usize> {
    let named = rest.get(..6)?.eq_ignore_ascii_case(b"value=") && matches!(rest.get(6), Some(b'"' | b'\''));
    named.then_some(6)
}

/// True if a bar before the name makes it a cell of a table, no pipe.
fn in_cell(text: &str, start: usize) -> bool {
    let before = text.as_bytes().get(..start).unwrap_or_default();
    before.iter().rev().take(40).find(|byte| !matches!(byte, b' ' | b'\t' | b'*' | b'`')) == Some(&b'|')
}

/// Returns the length of the verb between a name and its value in a sentence, in some languages.
fn verb(rest: &[u8]) -> Option<usize> {
    const VERBS: [&str; 9] = ["is now ", "is: ", "is ", "was ", "to ", "ist ", "est ", "es ", "\u{e8} "];
    VERBS.iter().find(|verb| rest.starts_with(verb.as_bytes())).map(|verb| verb.len())
}

/// True if a tab or several blanks separate a name from the following text, as in a table.
fn is_column(text: &str, end: usize, at: usize) -> bool {
    text.get(end..at).is_some_and(|gap| gap.contains('\t') || gap.contains("  "))
}

/// Returns the length of the words between a password's name and the sign or verb before its value:
/// `für den Mailserver: `, `del servidor nuevo es: `.
fn phrase(text: &str, name: Range<usize>, at: usize) -> Option<usize> {
    const MOST: usize = 6;
    const LONGEST: usize = 64;
    const VERBS: [&str; 8] = ["is", "was", "ist", "lautet", "est", "es", "\u{e8}", "\u{435}\u{441}\u{442}\u{44c}"];
    let called = text.get(name)?.to_ascii_lowercase();
    if ["token", "key", "secret", "auth", "session", "cookie"].iter().any(|word| called.contains(word)) {
        return None;
    }
    let rest = text.get(at..text.floor_char_boundary(at + LONGEST))?;
    let mut from = 0;
    for _ in 0..MOST {
        let tail = rest.get(from..)?;
        let length = tail.find(|c: char| !c.is_alphabetic() && c != '-' && c != '\'').unwrap_or(tail.len());
        let word = tail.get(..length).filter(|word| !word.is_empty())?;
        let behind = tail.get(length..)?;
        let sign = [": ", " : ", "\u{ff1a}"].iter().find_map(|sign| behind.strip_prefix(sign));
        if let Some(value) = sign {
            return Some(rest.len() - value.trim_start_matches(' ').len());
        }
        let next = behind.strip_prefix(' ')?;
        if VERBS.contains(&word) {
            return Some(rest.len() - next.trim_start_matches(' ').len());
        }
        from += length + 1;
    }
    None
}

/// Returns the length of `[]byte(`, `Base64.decode(`, `b64decode(`, `unhexlify(` and the like before a quote.
fn decoding_call(text: &str, at: usize) -> Option<usize> {
    let rest = text.as_bytes().get(at..)?;
    if rest.starts_with(b"[]byte(") {
        return matches!(rest.get(7), Some(b'"' | b'`')).then_some(7);
    }
    let name = rest.iter().take(40).take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.')).count();
    let called = rest.get(..name).filter(|_| name > 0)?.to_ascii_lowercase();
    let decodes = [b"decode".as_slice(), b"unhex", b"fromhex", b"from_hex", b"frombase64", b"from_base64"]
        .iter()
        .any(|part| called.windows(part.len()).any(|window| window == *part));
    (decodes && rest.get(name) == Some(&b'(') && matches!(rest.get(name + 1), Some(b'"' | b'\''))).then_some(name + 1)
}

/// Finds a long random value joined to its name by a hyphen or a dot: `vendor-secret-key-0a1b…`.
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

/// Returns the length of the run of letters, digits, `_` and `-` from `start`, at most 256.
fn value_length(text: &str, start: usize) -> usize {
    let rest = text.as_bytes().get(start..).unwrap_or_default();
    rest.iter().take(256).take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')).count()
}
