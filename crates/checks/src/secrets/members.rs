//! Credentials known by their context in JSON: the name of their member (`{"password": "…"}`), another member with
//! their name (`{"name": "DB_PASSWORD", "value": "…"}`), or an argument before them (`["--password", "…"]`). In: the
//! lead to a text, and the text. Out: the credential in it.

use serde_json::{Map, Value};

use super::{SecretFinding, assignments, find_plain, names, separated, values};
use umbra_domain::Severity;

/// Context that leads to a text.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lead<'l> {
    /// Name of the member that holds the text.
    Member(&'l str),
    /// Arguments before the text, as on a command line.
    Arguments(&'l str),
}

/// Longest name, and longest value judged by it, in bytes.
const LONGEST: usize = 1000;

/// Finds the credential in a text by its lead.
pub(crate) fn find_by_lead(lead: Lead<'_>, value: &str) -> Option<SecretFinding> {
    if value.len() > LONGEST {
        return None;
    }
    match lead {
        Lead::Member(name) => in_member(name, value),
        Lead::Arguments(before) => {
            let start = before.len() + 1;
            let found = find_plain(&format!("{before} {value}")).into_iter().find(|one| one.span.start >= start)?;
            Some(SecretFinding { span: found.span.start - start..found.span.end - start, ..found })
        }
    }
}

/// Returns the whole text as a credential if its name can mean nothing else, whatever its form:
/// `{"password": "hunter2"}`, `["--token", "abc"]`.
pub(crate) fn credential_by_name(lead: Lead<'_>, value: &str) -> Option<SecretFinding> {
    let name = match lead {
        Lead::Member(name) => name,
        // An option or a header; words such as `password` are common in lists of words.
        Lead::Arguments(before) => before.rsplit(' ').next().filter(|last| {
            let header = last.trim_end_matches(':').to_ascii_lowercase();
            last.starts_with('-') || header.contains('-') || matches!(&*header, "authorization" | "cookie")
        })?,
    };
    // A text that was redacted already, behind the word for its kind: `Bearer [secret:github_token]`.
    let behind = value.split_once(' ').filter(|(scheme, _)| SCHEMES.iter().any(|one| one.eq_ignore_ascii_case(scheme)));
    let inner = behind.map_or(value, |(_, rest)| rest);
    let is_marked = inner.starts_with("[secret:") && inner.ends_with(']') && values::is_marker(inner);
    if name.len() > LONGEST || value.trim().is_empty() || is_marked || !names::is_credential(name, value) {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    let is_password = ["pass", "pw"].iter().any(|word| lower.contains(word));
    let (rule, title) = assignments::kind(if is_password { "password" } else { &lower });
    Some(SecretFinding::new(0..value.len(), rule, title, Severity::Warning))
}

/// Schemes before the credential in a header.
const SCHEMES: [&str; 5] = ["basic", "bearer", "digest", "token", "apikey"];

fn in_member(name: &str, value: &str) -> Option<SecretFinding> {
    let plain = value.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
    if !plain || name.len() > LONGEST || !assignments::names_secret(name) {
        return None;
    }
    let before = name.len() + 5;
    // A quote within the value would end the literal.
    let written = format!("\"{name}\": \"{}\"", value.replace(['"', '\\'], "'"));
    let found = find_plain(&written).into_iter().find(|one| one.span.start >= before)?;
    let span = found.span.start - before..(found.span.end - before).min(value.len());
    Some(SecretFinding { span, ..found })
}

/// Returns the name that an object's member gives to its `value`: `{"name": "DB_PASSWORD", "value": "…"}`,
/// `{"selector": "#password", "text": "…"}`.
pub(crate) fn name_of_value(map: &Map<String, Value>) -> Option<&str> {
    const NAMES: [&str; 9] = ["name", "key", "field", "header", "selector", "label", "id", "variable", "element"];
    const LONGEST_NAME: usize = 80;
    if !map.keys().any(|key| separated::is_value(key)) {
        return None;
    }
    map.iter()
        .filter(|(key, _)| NAMES.iter().any(|name| name.eq_ignore_ascii_case(key)))
        .filter_map(|(_, value)| value.as_str())
        .map(|name| name.trim_matches(|c: char| !c.is_ascii_alphanumeric()))
        .find(|name| name.len() <= LONGEST_NAME && assignments::names_secret(name))
}

/// True if a word names a secret that may follow it.
pub(crate) fn leads(word: &str) -> bool {
    const LONGEST_WORD: usize = 64;
    word.len() <= LONGEST_WORD && assignments::names_secret(word)
}

/// True if a member is a secret because it belongs to `credentials` or `secrets`, unless its name means an owner or an
/// attribute: `{"credentials": {"user": "app", "a": "…"}}`.
pub(crate) fn holds_secrets(above: &str, name: &str) -> bool {
    const HOLDERS: [&str; 3] = ["credentials", "secrets", "passwords"];
    const OPEN: [&str; 12] = [
        "user", "username", "login", "email", "account", "client", "host", "port", "region", "scope", "kind", "issuer",
    ];
    let last = above.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_ascii_lowercase();
    let lower = name.to_ascii_lowercase();
    let tail = lower.rsplit(['_', '-', '.']).next().unwrap_or_default();
    let camel = name.rfind(|c: char| c.is_ascii_uppercase()).and_then(|at| lower.get(at..)).unwrap_or_default();
    let about = |word: &str| names::is_about(word) || OPEN.contains(&word);
    HOLDERS.iter().any(|holder| last.ends_with(holder)) && !about(tail) && !about(camel)
}

/// True if a member of this name holds the value for another member's name.
pub(crate) fn is_value(name: &str) -> bool {
    separated::is_value(name)
}
