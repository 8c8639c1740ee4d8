//! Scoring of a literal as a credential. In: the name, the literal, and its notation. Out: a severity, or `None`.
//! Variables, calls, templates, places, and the placeholders of manuals are ruled out.

use super::{gibberish::is_gibberish, literals::Notation, names, values};
use umbra_domain::Severity;

/// Evidence that a name gives about its value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NameEvidence {
    /// The name is that of a credential.
    Strong,
    /// The name may be that of a credential; the value must be long and random.
    Weak,
}

/// True if a value has the length of a credential and is one word of ASCII.
pub(super) fn may_judge(value: &str) -> bool {
    (5..=1000).contains(&value.len()) && value.is_ascii() && !value.contains(' ')
}

/// True if a quoted value is a password with blanks: none of its few parts is a word.
pub(super) fn is_spaced(value: &str) -> bool {
    let letters = |part: &str| part.bytes().all(|b| b.is_ascii_alphabetic() || b == b',');
    let is_word = |part: &str| letters(part) && !is_gibberish(part) && !changes_case(part);
    (10..=80).contains(&value.len())
        && value.bytes().all(|b| b.is_ascii_graphic() || b == b' ')
        && (2..=4).contains(&value.split(' ').count())
        && !value.split(' ').any(is_word)
        && value.split(' ').any(|part| part.len() >= 6 && is_irregular(part))
}

/// Returns the severity of `name` having this value; `None` when the value is no credential.
pub(super) fn judge(name: &str, value: &str, strength: NameEvidence, written: Notation) -> Option<Severity> {
    // A marker beside a value does not hide the value.
    if let Some((head, tail)) = value.split_once("[secret:")
        && let Some((_, rest)) = tail.split_once(']')
        && !values::is_marker(value)
    {
        return judge(name, &format!("{head}{rest}"), strength, written);
    }
    if written == Notation::Quoted && strength == NameEvidence::Strong && is_spaced(value) {
        return value.split(' ').filter_map(|part| judge(name, part, strength, written)).max();
    }
    if !may_judge(value) {
        return None;
    }
    // This order keeps a text of names alone cheap: each is its neighbor's value, and reads as a placeholder.
    if values::is_placeholder(value) {
        return None;
    }
    let severity = score_characters(name, value, strength, written)?;
    let ruled_out = values::is_marker(value)
        || is_expression(value, written)
        || name.to_ascii_lowercase().contains(&value.to_ascii_lowercase())
        || looks_like_place(value) && !is_phrase(name, value)
        || names::is_sealed(value)
        || names::is_time(value)
        || names::is_file(value)
        || names::is_digest(value)
        || is_said_in_digits(value);
    (!ruled_out).then_some(severity)
}

/// Returns the severity of a value by its characters alone; `None` when they are not those of a credential.
fn score_characters(name: &str, value: &str, strength: NameEvidence, written: Notation) -> Option<Severity> {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    let others = value.len() - digits - letters;
    if letters == 0 {
        return None;
    }
    let entropy = if digits < 2 { 0.0 } else { values::entropy(value) };
    let dense = digits >= 2 && value.len() >= 16 && entropy >= 3.0 && others * 4 <= value.len();
    let telling = digits > 0 || value.bytes().any(|b| b"!@#$%^&*+=".contains(&b));
    if written == Notation::Sentence && !(strength == NameEvidence::Strong && telling && value.len() >= 8) {
        return None;
    }
    // Where no sign joins it to its name, the value itself must look random.
    if written == Notation::Separate && !(strength == NameEvidence::Strong && value.len() >= 8 && is_irregular(value)) {
        return None;
    }
    let long_random = value.len() >= 20 && entropy >= 3.5 && digits >= 2 && others * 5 <= value.len();
    if written == Notation::Loose {
        return (strength == NameEvidence::Strong && dense && value.len() >= 20).then_some(Severity::Warning);
    }
    if strength == NameEvidence::Weak {
        let random = !values::is_uuid(value) && dense && values::is_mixed(value)
            || long_random
            || letters == value.len() && value.len() >= 12 && is_gibberish(value);
        return random.then_some(if long_random { Severity::Critical } else { Severity::Warning });
    }
    if long_random {
        return Some(Severity::Critical);
    }
    let quoted = written == Notation::Quoted;
    let env = written == Notation::Shell && !name.bytes().any(|b| b.is_ascii_lowercase());
    let mixed = (is_irregular(value) || is_word_and_number(value)) && (quoted || env || value.len() >= 8);
    let gibberish = is_gibberish(value) && (quoted || env || value.len() >= 8);
    let symbols = others > 0
        && digits > 0
        && letters > 0
        && (quoted || written == Notation::Sentence || is_chosen(name, value))
        && value.len() >= 8
        && !value.contains(['/', '.', ':']);
    (dense || mixed || gibberish || symbols).then_some(Severity::Warning)
}

/// True for `Sommer2026!`, a word, a number and a sign as in chosen passwords, behind the word for a password.
fn is_chosen(name: &str, value: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let named = ["password", "passwd", "passwort", "pwd"].iter().any(|word| lower.ends_with(word));
    let inner = value.get(1..).unwrap_or_default();
    named && inner.contains(['!', '@', '#', '$', '%', '^', '*', '?']) && !value.contains(['=', '(', '\\', '+'])
}

/// True for `s3cr3t`: the word "secret" with digits in place of letters.
fn is_said_in_digits(value: &str) -> bool {
    let letter = |c: char| match c {
        '3' => 'e',
        '5' | '$' => 's',
        other => other.to_ascii_lowercase(),
    };
    value.chars().map(letter).eq("secret".chars())
}

/// True for `wxyz200119`: a few letters and a number of several digits, as in chosen passwords.
fn is_word_and_number(value: &str) -> bool {
    let letters = value.bytes().take_while(u8::is_ascii_alphabetic).count();
    let digits = value.bytes().rev().take_while(u8::is_ascii_digit).count();
    (3..=6).contains(&letters) && digits >= 3 && value.len() >= 8 && letters + digits == value.len()
}

/// True for alternating letters and digits, or a digit among letters that change case.
fn is_irregular(value: &str) -> bool {
    values::is_mixed(value) || changes_case(value) && value.bytes().any(|b| b.is_ascii_digit())
}

/// True if small letters and capitals alternate as in no name: `hZgGqqel`, not `KeyExchange`.
fn changes_case(letters: &str) -> bool {
    let pairs = letters.bytes().zip(letters.bytes().skip(1));
    3 * pairs.filter(|(a, b)| a.is_ascii_uppercase() != b.is_ascii_uppercase()).count() > letters.len()
}

/// True for `maple-tiger-83-orbit` behind `passphrase`: words that form a passphrase.
fn is_phrase(name: &str, value: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    name.to_ascii_lowercase().contains("passphrase") && value.split(['-', '_']).count() >= 3 && value.bytes().all(plain)
}

/// True if an unquoted value is an identifier or a number of some language: `old_value`, `KeyExchange2`,
/// `0x80041064u32`, or the type in `name: Type = 1`.
pub(super) fn is_identifier(value: &str, after: &str) -> bool {
    let annotation = after.trim_start_matches(' ').starts_with('=') && after.starts_with(' ');
    let number = value.trim_end_matches(|c: char| c.is_ascii_alphanumeric()).is_empty()
        && (value.starts_with("0x")
            || value
                .split(['i', 'u', 'L', 'f'])
                .next()
                .is_some_and(|head| head.len() > 3 && head.bytes().all(|b| b.is_ascii_digit()))
                && value.len() < 24);
    let hex = value.len() >= 20 && value.bytes().all(|b| b.is_ascii_hexdigit());
    // `metric.Int64Counter`: a module before it marks it as a name.
    let least = if value.contains('.') { 6 } else { 8 };
    let is_word = |run: &str| run.len() >= least && !is_gibberish(run) && !changes_case(run);
    let word = !hex && value.split(|c: char| !c.is_ascii_alphabetic()).any(is_word);
    let code = value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.'));
    annotation || number || word && code
}

/// True if a value is code that computes a value.
fn is_expression(value: &str, written: Notation) -> bool {
    let opens = value.starts_with(['$', '<', '{', '%', '#', '[', '(', '*', '&', '!', '-', '=', '@']);
    let template = value
        .as_bytes()
        .array_windows()
        .any(|pair| matches!(pair, b"${" | b"{{" | b"<%" | b"$(" | b"%(" | b"#{" | b"{}" | b"%s" | b"()" | b"::"));
    let brackets = value.starts_with(['$', '<', '{', '%', '[', '(']);
    let colour =
        value.strip_prefix('#').is_some_and(|rest| rest.len() <= 8 && rest.bytes().all(|b| b.is_ascii_hexdigit()));
    // `\"+name+\"` joins; a quote within a password does not.
    let joins = value.starts_with("\\\"") || value.contains("\\\"+") || value.contains("+\\\"");
    if colour || joins || template || brackets || opens && written != Notation::Quoted {
        return true;
    }
    // `k3v9Qm2x$Tz7`: the part before the sign is random by itself, and no call.
    let head = value.split(['$', '{']).next().unwrap_or_default();
    let password = matches!(written, Notation::Shell | Notation::Sentence)
        && head.len() >= 5
        && (values::is_mixed(head) || written == Notation::Sentence)
        && !value.contains(['(', '[']);
    // `Str0ng$Pw!`: no variable's name continues like this behind the sign.
    let tail = value.split_once('$').map_or("", |(_, tail)| tail);
    let password = password
        || !head.is_empty() && tail.contains(['!', '@', '#', '%', '^', '*', '?']) && !value.contains(['(', '[', '{']);
    written != Notation::Quoted && (value.contains(['(', '[', '{', '$']) && !password || is_dotted_path(value))
}

/// True for `config.auth.password`: words joined by dots.
fn is_dotted_path(value: &str) -> bool {
    value.contains('.')
        && value
            .split('.')
            .all(|part| !part.is_empty() && part.len() < 24 && !part.starts_with(|c: char| c.is_ascii_digit()))
        && !values::is_mixed(value)
}

/// True for paths, URLs, mail addresses, host names, versions, dates.
fn looks_like_place(value: &str) -> bool {
    let url = value.contains("://")
        || value.starts_with('/') && value.bytes().filter(|b| *b == b'/').count() > 1 && values::entropy(value) < 4.3;
    let relative = value.starts_with("./") || value.starts_with("../") || value.starts_with("~/");
    let file = value.rsplit_once('.').is_some_and(|(stem, end)| {
        (2..=5).contains(&end.len())
            && end.bytes().all(|b| b.is_ascii_lowercase())
            && stem.len() < 60
            && !values::is_mixed(stem)
    });
    let domain =
        |host: &str| host.contains('.') && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'));
    let mail = value.split_once('@').is_some_and(|(_, host)| domain(host));
    let words = value
        .split(['_', '-', '.', '/', ':'])
        .all(|part| part.len() <= 12 && !values::is_mixed(part) && !is_gibberish(part));
    // `HKLM\\Software\\Acme`; an escaped quote separates no parts.
    let parts =
        value.as_bytes().array_windows().filter(|pair| matches!(pair, [b'\\', b] if !matches!(b, b'"' | b'\'')));
    let registry = parts.count() > 1;
    url || relative || registry || file || mail || words && value.contains(['_', '-', '.', '/', ':'])
}
