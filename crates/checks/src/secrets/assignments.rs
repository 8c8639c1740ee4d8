//! Values assigned to names such as `password`, `client_secret` or `API_KEY`. In: a text and the place of the word.
//! Out: the value, if it is a literal that looks random. Variables, calls, templates, environment look-ups and the
//! placeholders of manuals are skipped.

use std::{ops::Range, sync::LazyLock};

use aho_corasick::AhoCorasick;

use super::{
    Needles, SecretFinding, each_literal,
    literals::{Notation, hyphenated, to_end_of_word, value_after, whole, with_tail},
    named, names,
    score::{NameEvidence, is_identifier, is_spaced, judge, may_judge},
    values,
};
use umbra_domain::Severity;

/// Words within names that trigger this rule.
pub(super) const NEEDLES: Needles = &[
    (
        "pass|pwd|secret|token|apikey|api_key|api-key|api key|access_key|accesskey|access-key|private_key|privatekey|\
         account_key|auth_key|authkey|credential",
        strong,
    ),
    ("key|access|private|session|cookie|auth", weak),
    ("psk|jwt|otp_se|otp-se|otpse", strong),
    ("pw=|pw:|pw =|pw\"|pw'|pw\\\"", short),
    (
        "contrase\u{f1}a|contrasena|mot de passe|mot_de_passe|motdepasse|kennwort|wachtwoord|senha|has\u{142}o|\
         l\u{f6}senord|heslo|jelsz\u{f3}|\u{15f}ifre|parola|\u{43f}\u{430}\u{440}\u{43e}\u{43b}\u{44c}|\
         \u{41f}\u{430}\u{440}\u{43e}\u{43b}\u{44c}|\u{5bc6}\u{7801}|\u{5bc6}\u{78bc}|\
         \u{30d1}\u{30b9}\u{30ef}\u{30fc}\u{30c9}|\u{be44}\u{bc00}\u{bc88}\u{d638}",
        strong,
    ),
];

/// True if a name is the word for a password in a language other than English.
fn is_foreign(lower: &str) -> bool {
    const WORDS: [&str; 10] =
        ["contrase", "mot", "kennw", "wachtw", "senha", "has\u{142}o", "heslo", "jelsz", "parola", "l\u{f6}senord"];
    !lower.is_ascii() || WORDS.iter().any(|word| lower.starts_with(word))
}

/// True if a name contains a word that triggers these rules.
pub(super) fn names_secret(name: &str) -> bool {
    static WORDS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
        AhoCorasick::builder().ascii_case_insensitive(true).build(each_literal(NEEDLES).map(|(word, _)| word)).ok()
    });
    WORDS.as_ref().is_some_and(|words| words.is_match(name))
}

/// Returns the credential in a table cell whose column has this name.
pub(super) fn in_cell(name: &str, text: &str, cell: Range<usize>) -> Option<SecretFinding> {
    let value = text.get(cell.clone())?;
    let lower = name.to_ascii_lowercase();
    let about = lower.rsplit(['_', '-', '.', ' ', '/']).next().is_some_and(names::is_about);
    if about || names::is_open(&lower) || names::is_lookup_name(name, value) || is_identifier(value, "") {
        return None;
    }
    let severity = judge(name, value, NameEvidence::Strong, Notation::Separate)?;
    let (rule, title) = kind(&lower);
    Some(SecretFinding::new(cell, rule, title, severity))
}

fn strong(text: &str, hit: Range<usize>) -> Option<SecretFinding> {
    find(text, hit, NameEvidence::Strong)
}

/// Finds `pw`, which is too short for a literal of its own: the literal includes the sign behind it.
fn short(text: &str, hit: Range<usize>) -> Option<SecretFinding> {
    let whole =
        values::starts_word(text, hit.start) || text.get(..hit.start).is_some_and(|t| t.ends_with(['_', '-', '.']));
    whole.then(|| strong(text, hit.start..hit.start + 2))?
}

fn weak(text: &str, hit: Range<usize>) -> Option<SecretFinding> {
    find(text, hit, NameEvidence::Weak)
}

fn find(text: &str, hit: Range<usize>, strength: NameEvidence) -> Option<SecretFinding> {
    let found = assigned(text, hit.clone(), strength).or_else(|| key_behind_word(text, hit))?;
    (!names::within_resource(text, found.span.start)).then_some(found)
}

/// Finds a key with little context but the word itself.
fn key_behind_word(text: &str, hit: Range<usize>) -> Option<SecretFinding> {
    let word = text.get(hit.clone())?;
    if !["secret", "token", "key", "access", "private"].iter().any(|one| word.eq_ignore_ascii_case(one)) {
        return None;
    }
    let loud = word.bytes().all(|b| b.is_ascii_uppercase());
    let span = named::key_after(text, hit.end, loud)?;
    let before = text.get(text.floor_char_boundary(hit.start.saturating_sub(12))..hit.start)?.to_ascii_lowercase();
    if names::is_open(&before) {
        return None;
    }
    let name = text.get(values::word_start(text, hit.end, 64)..hit.end)?;
    if names::is_open(&name.to_ascii_lowercase()) || names::is_lookup_name(name, text.get(span.clone())?) {
        return None;
    }
    Some(SecretFinding::new(span, "service_key", "a service key", Severity::Warning))
}

fn assigned(text: &str, hit: Range<usize>, strength: NameEvidence) -> Option<SecretFinding> {
    let bytes = text.as_bytes();
    let name_byte = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    let right = bytes.get(hit.end..)?.iter().take(48).take_while(|b| name_byte(b)).count();
    let mut end = hit.end + right;
    while end > hit.end && matches!(bytes.get(end - 1), Some(b'.' | b'-')) {
        end -= 1;
    }
    if right > 30 && strength == NameEvidence::Weak || !may_assign(text, end) {
        return None;
    }
    let start = values::word_start(text, hit.start, 64);
    let name = text.get(start..end)?;
    let capitals = text.get(hit.clone())?.bytes().all(|b| b.is_ascii_uppercase());
    if let Some(value) = hyphenated(text, hit.end, right).filter(|_| strength == NameEvidence::Strong || capitals) {
        return Some(SecretFinding::new(value, "generic_secret", "a secret", Severity::Warning));
    }
    if right > 30 {
        return None;
    }
    // Most names in prose have no value, so this test comes before those of the name.
    let (value, mut written) = value_after(text, start, end)?;
    let literal = text.get(value.clone())?;
    let within = literal.starts_with('{') && strength == NameEvidence::Strong;
    let spaced = written == Notation::Quoted && strength == NameEvidence::Strong && is_spaced(literal);
    if !within && !spaced && !may_judge(literal) {
        return None;
    }
    let last = |name: &'_ str| name.rfind(['_', '-', '.']).map_or(0, |at| at + 1);
    let from_hit = text.get(hit.start..end)?;
    let full_last = name.get(last(name)..)?;
    let camel_tail =
        full_last.rfind(|c: char| c.is_ascii_uppercase()).and_then(|at| full_last.get(at..)).unwrap_or_default();
    let camel = camel_tail.len() > 1 && camel_tail.len() < full_last.len();
    if names::is_about(from_hit.get(last(from_hit)..)?)
        || names::is_about(full_last)
        || camel && names::is_about(camel_tail)
    {
        return None;
    }
    // `--- PASS: TestReader/empty`: the result of a test.
    if name == "PASS" && text.get(end..).is_some_and(|rest| rest.starts_with(": ")) {
        return None;
    }
    let lower = from_hit.to_ascii_lowercase();
    if lower.starts_with("pass") && !is_password_name(text, hit.start, &lower) {
        return None;
    }
    let lower_name = name.to_ascii_lowercase();
    if names::is_open(&lower_name) || names::is_lookup_name(name, literal) {
        return None;
    }
    if within {
        return within_json(literal, value.start);
    }
    // SQL: WITH PASSWORD '…'.
    if written == Notation::Loose
        && lower_name == "password"
        && text.get(..value.start).is_some_and(|t| t.ends_with('\''))
    {
        written = Notation::Quoted;
    }
    // `--recv-keys 9DC8…`: only options of passwords and tokens are evidence enough.
    if strength == NameEvidence::Weak
        && name.starts_with('-')
        && text.get(..value.start).is_some_and(|t| t.ends_with(' '))
    {
        written = Notation::Loose;
    }
    let strength = if capitals && written == Notation::Loose { NameEvidence::Strong } else { strength };
    let severity = judge(name, literal, strength, written)?;
    if written != Notation::Quoted && is_identifier(literal, text.get(value.end..)?) {
        return None;
    }
    let (rule, title) = kind(&lower);
    let span = whole(text, value);
    let span = if matches!(written, Notation::Shell | Notation::Bare) { with_tail(text, span) } else { span };
    let span = if written == Notation::Shell { to_end_of_word(text, start..end, span) } else { span };
    Some(SecretFinding::new(span, rule, title, severity))
}

/// Returns the rule of a name, and the title of its value.
pub(super) fn kind(lower: &str) -> (&'static str, &'static str) {
    if is_foreign(lower) || lower.starts_with("pass") || lower.starts_with("pw") || lower.starts_with("_pass") {
        ("generic_password", "a password")
    } else if lower.contains("token") {
        ("generic_token", "a token")
    } else if lower.contains("key") {
        ("generic_api_key", "an API key")
    } else {
        ("generic_secret", "a secret")
    }
}

/// True if a value may follow: most names in prose are followed by neither a sign nor a digit.
fn may_assign(text: &str, end: usize) -> bool {
    let after = text.as_bytes().get(end..).unwrap_or_default();
    // `name: DB_PASSWORD`, with its value on the next line.
    if matches!(after, [b'\n' | b'\r', ..]) {
        return true;
    }
    after.iter().take(32).take_while(|b| **b != b'\n').any(|b| {
        b.is_ascii_digit()
            || matches!(b, b'=' | b':' | b'>' | b'"' | b'\'' | b'`' | b'|' | b'!' | b'@' | b'#' | b'$' | 0xef)
    }) || text.as_bytes().get(end.saturating_sub(1)).is_some_and(u8::is_ascii_digit)
        || text
            .get(text.floor_char_boundary(end.saturating_sub(40))..end)
            .is_some_and(|name| name.bytes().any(|b| b.is_ascii_digit()))
        || after.iter().take(32).any(|b| *b == b'\\')
}

/// True for `pass`, `password`, `passwd`, `passphrase`, `passcode`, also with a prefix, but not for `bypass` or
/// `passed`.
fn is_password_name(text: &str, at: usize, lower: &str) -> bool {
    let tail = lower.get(4..).unwrap_or_default();
    let ends = tail.is_empty()
        || tail.starts_with(['_', '-', '.'])
        || ["w", "phrase", "code"].iter().any(|end| tail.starts_with(end));
    let head = text.get(text.floor_char_boundary(at.saturating_sub(3))..at).unwrap_or_default().to_ascii_lowercase();
    ends && !(head.ends_with("by") || head.ends_with("com") || head.ends_with("tres"))
}

/// Finds a credential stored as JSON in a string: the random value among its values.
fn within_json(json: &str, start: usize) -> Option<SecretFinding> {
    let mut at = 0;
    for part in json.split(['"', '\\', '\'', ':', ',', '{', '}', ' ']) {
        let digits = part.bytes().filter(u8::is_ascii_digit).count();
        let dense = part.len() >= 24
            && digits >= 4
            && part.bytes().all(|b| b.is_ascii_alphanumeric())
            && values::is_mixed(part);
        if dense && values::entropy(part) >= 3.0 && !values::is_placeholder(part) {
            let span = start + at..start + at + part.len();
            return Some(SecretFinding::new(span, "generic_token", "a token", Severity::Critical));
        }
        at += part.len() + 1;
    }
    None
}
