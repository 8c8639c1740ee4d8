//! Passwords on command lines: in the short options of the commands that take them so, and piped into those that read
//! them. In: a text and the place of a command's name. Out: the password there. Long options such as `--password` are
//! names like any other (`assignments`).

use std::ops::Range;

use super::{Found, carriers::is_password, gibberish::is_gibberish, values};
use umbra_domain::Severity;

type Find = fn(&str, Range<usize>) -> Option<Found>;

/// The names of commands that wake these rules.
pub(super) const NEEDLES: &[(&str, Find)] = &[
    ("sshpass", |text, hit| option(text, hit, &["-p"], Place::Either)),
    ("mysql", |text, hit| option(text, hit, &["-p"], Place::Glued)),
    ("mariadb", |text, hit| option(text, hit, &["-p"], Place::Glued)),
    ("docker login", |text, hit| option(text, hit, &["-p"], Place::Either)),
    ("podman login", |text, hit| option(text, hit, &["-p"], Place::Either)),
    ("registry login", |text, hit| option(text, hit, &["-p"], Place::Either)),
    ("az login", |text, hit| option(text, hit, &["-p"], Place::Either)),
    ("oc login", |text, hit| option(text, hit, &["-p"], Place::Either)),
    ("mongosh", |text, hit| option(text, hit, &["-p"], Place::Either)),
    ("mongodump", |text, hit| option(text, hit, &["-p"], Place::Either)),
    ("mongorestore", |text, hit| option(text, hit, &["-p"], Place::Either)),
    ("psexec", |text, hit| option(text, hit, &["-p"], Place::Apart)),
    ("redis-cli", |text, hit| option(text, hit, &["-a"], Place::Either)),
    ("sqlcmd", |text, hit| option(text, hit, &["-P"], Place::Either)),
    ("ldap", |text, hit| option(text, hit, &["-w"], Place::Either)),
    ("7z ", |text, hit| option(text, hit, &["-p"], Place::Glued)),
    ("zip ", |text, hit| option(text, hit, &["-P"], Place::Either)),
    ("plink", |text, hit| option(text, hit, &["-pw"], Place::Apart)),
    ("pscp", |text, hit| option(text, hit, &["-pw"], Place::Apart)),
    ("openssl enc", |text, hit| option(text, hit, &["-k"], Place::Apart)),
    ("gh secret set", |text, hit| option(text, hit, &["--body", "-b"], Place::Either)),
    ("htpasswd", htpasswd),
    ("chpasswd", |text, hit| piped(text, hit, true)),
    ("sudo -s", |text, hit| piped(text, hit, false)),
    ("passwd --stdin", |text, hit| piped(text, hit, false)),
    ("password-stdin", |text, hit| piped(text, hit, false)),
];

/// Bytes of a command that are looked at.
const LONGEST: usize = 240;

/// Where an option has its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the same word: `-pVALUE`.
    Glued,
    /// In the next: `-pw VALUE`.
    Apart,
    /// In either, or behind an equals sign.
    Either,
}

fn option(text: &str, hit: Range<usize>, options: &[&str], place: Place) -> Option<Found> {
    let words = words(text, hit)?;
    words.iter().enumerate().find_map(|(number, word)| {
        let written = text.get(word.clone())?;
        let glued = options.iter().find_map(|option| written.strip_prefix(option))?;
        let value = match (glued, place) {
            ("", Place::Apart | Place::Either) => words.get(number + 1)?.clone(),
            ("", Place::Glued) | (_, Place::Apart) => return None,
            (glued, _) => word.end - glued.trim_start_matches('=').len()..word.end,
        };
        judge(text, unquoted(text, value))
    })
}

/// `htpasswd -b FILE USER PASSWORD`, and `-nb` without the file.
fn htpasswd(text: &str, hit: Range<usize>) -> Option<Found> {
    let words = words(text, hit)?;
    let is_option = |word: &&Range<usize>| text.get((*word).clone()).is_some_and(|word| word.starts_with('-'));
    let batch =
        |word: &Range<usize>| text.get(word.clone()).is_some_and(|word| word.starts_with('-') && word.contains('b'));
    let given = words.iter().any(batch);
    let value = words.iter().filter(|word| !is_option(word)).nth(2).or_else(|| words.last())?;
    given.then(|| judge(text, unquoted(text, value.clone())))?
}

/// What `echo` or `printf` hands to the command: all of it, or what stands behind its colon.
fn piped(text: &str, hit: Range<usize>, behind_colon: bool) -> Option<Found> {
    let from = text.ceil_char_boundary(hit.start.saturating_sub(LONGEST));
    let before = text.get(from..hit.start)?;
    let line = before.get(before.rfind('\n').map_or(0, |at| at + 1)..)?;
    let command = line.get(..line.rfind('|')?)?.trim_end();
    let teller = ["echo ", "printf "].iter().filter_map(|teller| command.rfind(teller)).max()?;
    let told = command.get(teller..)?;
    let word = told.rfind(' ').map_or(0, |at| at + 1);
    let start = hit.start - line.len() + teller + word;
    let value = unquoted(text, start..start + told.len() - word);
    let colon = if behind_colon { text.get(value.clone())?.find(':')? + 1 } else { 0 };
    let length = text.get(value.clone())?.trim_end_matches("\\n").len();
    judge(text, value.start + colon..value.start + length)
}

/// The words of the command behind its name, to the end of it.
fn words(text: &str, hit: Range<usize>) -> Option<Vec<Range<usize>>> {
    const MOST: usize = 24;
    if !values::starts_word(text, hit.start) {
        return None;
    }
    let bytes = text.as_bytes().get(..text.len().min(hit.end + LONGEST))?;
    let mut words = Vec::new();
    // `mysqldump` is `mysql`'s kin.
    let mut at = hit.end + bytes.get(hit.end..)?.iter().take_while(|byte| byte.is_ascii_lowercase()).count();
    let begins = at == hit.end || at - hit.end <= 8;
    let blank = bytes.get(at).is_some_and(|byte| matches!(byte, b' ' | b'\t')) || text.get(..at)?.ends_with(' ');
    while begins && blank && words.len() < MOST {
        at += bytes.get(at..)?.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        if bytes.get(at..)?.starts_with(b"\\\n") {
            at += 2;
            continue;
        }
        let start = at;
        let mut quote = None;
        while let Some(byte) = bytes.get(at) {
            match (quote, byte) {
                (None, b'"' | b'\'') => quote = Some(*byte),
                (Some(open), _) if open == *byte => quote = None,
                (None, b' ' | b'\t' | b'\n' | b'\r' | b';' | b'|' | b'&' | b')' | b'`') | (Some(_), b'\n') => break,
                _ => {}
            }
            at += 1;
        }
        if at == start {
            break;
        }
        words.push(start..at);
    }
    (!words.is_empty()).then_some(words)
}

/// A word without the quotes about it.
fn unquoted(text: &str, word: Range<usize>) -> Range<usize> {
    let written = text.get(word.clone()).unwrap_or_default();
    let inner = written.strip_prefix(['"', '\'']).unwrap_or(written);
    let start = word.end - inner.len();
    start..start + inner.trim_end_matches(['"', '\'']).len()
}

fn judge(text: &str, span: Range<usize>) -> Option<Found> {
    let value = text.get(span.clone())?;
    let digit = value.bytes().any(|byte| byte.is_ascii_digit());
    let letter = value.bytes().any(|byte| byte.is_ascii_alphabetic());
    let sign = value.bytes().any(|byte| byte.is_ascii_punctuation() && !b"-_./:,".contains(&byte));
    let random = letter && (digit || sign || is_gibberish(value));
    let place = value.starts_with(['/', '-', '.', '~']) || value.contains("://");
    let fits = (5..=256).contains(&value.len()) && value.is_ascii() && random && !place;
    if !fits || !is_password(value) || values::is_marker(value) {
        return None;
    }
    let strong = value.len() >= 10 && values::entropy(value) >= 3.0;
    let severity = if strong { Severity::Critical } else { Severity::Warning };
    Some(Found { span, rule: "command_password", title: "a password on a command line", severity })
}
