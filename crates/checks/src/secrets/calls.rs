//! Passwords in calls and statements: `auth=("bob", "…")`, `IDENTIFIED BY '…'`, `ConvertTo-SecureString "…"`; and
//! secret parts of JSON web keys. In: a text and the place of the announcing literal. Out: the credential there.

use std::ops::Range;

use super::{Needles, SecretFinding, gibberish::is_gibberish, structured::is_password, values};
use umbra_domain::Severity;

/// Literals that trigger these rules.
pub(super) const NEEDLES: Needles = &[
    ("auth=(|auth = (|auth: (|basicauth(|basic_auth(|.login(|.auth(", second_argument),
    ("mysqli(|mysqli_connect(|pdo(", third_argument),
    ("curlopt_userpwd", pair_after),
    ("b64encode(|base64_encode(|btoa(", pair),
    ("identified by|identified with|convertto-securestring", quoted),
    (r#""d":|"d" :|\"d\":|"p":|"q":|"dp":|"dq":|"qi":"#, key_part),
];

/// Longest value that is read, in bytes.
const LONGEST: usize = 256;

/// Finds the second of two literals: `("bob", "…")`.
fn second_argument(text: &str, hit: Range<usize>) -> Option<SecretFinding> {
    let user = literal(text, skip(text, hit.end, b" \t\n"))?;
    let comma = skip(text, user.end + 1, b" \t");
    if text.as_bytes().get(comma) != Some(&b',') {
        return None;
    }
    let span = literal(text, skip(text, comma + 1, b" \t\n"))?;
    let same = text.get(user) == text.get(span.clone());
    (!same).then(|| password(text, span))?
}

/// Finds the third of three literals: `mysqli("host", "bob", "…")`.
fn third_argument(text: &str, hit: Range<usize>) -> Option<SecretFinding> {
    let mut at = hit.end;
    for _ in 0..2 {
        let argument = literal(text, skip(text, at, b" \t\n"))?;
        at = skip(text, argument.end + 1, b" \t\n");
        if text.as_bytes().get(at) != Some(&b',') {
            return None;
        }
        at += 1;
    }
    password(text, literal(text, skip(text, at, b" \t\n"))?)
}

/// Finds a password in `CURLOPT_USERPWD, "bob:…"`.
fn pair_after(text: &str, hit: Range<usize>) -> Option<SecretFinding> {
    pair(text, hit.start..skip(text, hit.end, b" \t\n,=>"))
}

/// Finds a password in `b64encode(b"bob:…")`, the user and password of a header.
fn pair(text: &str, hit: Range<usize>) -> Option<SecretFinding> {
    let at = hit.end + usize::from(text.as_bytes().get(hit.end) == Some(&b'b'));
    let span = literal(text, at)?;
    let (user, told) = text.get(span.clone())?.split_once(':')?;
    let named = (1..=64).contains(&user.len()) && user.bytes().all(|byte| byte.is_ascii_graphic()) && user != told;
    named.then(|| password(text, span.end - told.len()..span.end))?
}

/// Finds the next literal, behind options and methods.
fn quoted(text: &str, hit: Range<usize>) -> Option<SecretFinding> {
    let rest = text.as_bytes().get(hit.end..)?;
    let lead = rest.iter().take(48).take_while(|byte| byte.is_ascii_alphanumeric() || b" \t_-".contains(byte)).count();
    password(text, literal(text, hit.end + lead)?)
}

fn password(text: &str, span: Range<usize>) -> Option<SecretFinding> {
    let value = text.get(span.clone())?;
    let told = value.bytes().any(|byte| byte.is_ascii_digit() || b"!@#$%^&*+=?".contains(&byte)) || is_gibberish(value);
    let letters = value.bytes().any(|byte| byte.is_ascii_alphabetic());
    let plain = value.bytes().all(|byte| byte.is_ascii_graphic()) && !value.starts_with(['/', '$', '@', ':', '?']);
    if value.len() < 6 || !told || !letters || !plain || !is_password(value) || values::is_marker(value) {
        return None;
    }
    let strong = value.len() >= 10 && values::entropy(value) >= 3.0;
    let severity = if strong { Severity::Critical } else { Severity::Warning };
    Some(SecretFinding::new(span, "call_password", "a password in a function call", severity))
}

/// Finds a secret part of a JSON web key (RFC 7518, 6.2.2 and 6.3.2), near the member `kty`.
fn key_part(text: &str, hit: Range<usize>) -> Option<SecretFinding> {
    const NEAR: usize = 3000;
    const LONGEST_PART: usize = 1000;
    let start = skip(text, hit.end, b" \t\n\\");
    let quote = text.as_bytes().get(start).filter(|byte| **byte == b'"')?;
    let rest = text.as_bytes().get(start + 1..)?;
    let part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let length = rest.iter().take(LONGEST_PART).take_while(part).count();
    let closed = rest.get(length).is_some_and(|byte| byte == quote || *byte == b'\\');
    let span = start + 1..start + 1 + length;
    if !closed || length < 40 || values::entropy(text.get(span.clone())?) < 3.5 {
        return None;
    }
    let from = text.floor_char_boundary(hit.start.saturating_sub(NEAR));
    let near = text.get(from..text.floor_char_boundary(span.end + NEAR))?;
    memchr::memmem::find(near.as_bytes(), b"\"kty").is_some().then_some(SecretFinding::new(
        span,
        "json_web_key",
        "the secret part of a JSON web key",
        Severity::Critical,
    ))
}

/// Returns the inside of the literal that begins at a place.
fn literal(text: &str, at: usize) -> Option<Range<usize>> {
    let rest = text.as_bytes().get(at..)?;
    let quote = rest.first().filter(|byte| matches!(byte, b'"' | b'\''))?;
    let length = rest.iter().skip(1).take(LONGEST).position(|byte| byte == quote || *byte == b'\n')?;
    (rest.get(1 + length) == Some(quote)).then_some(at + 1..at + 1 + length)
}

fn skip(text: &str, at: usize, bytes: &[u8]) -> usize {
    at + text.as_bytes().get(at..).unwrap_or_default().iter().take(40).take_while(|byte| bytes.contains(byte)).count()
}
