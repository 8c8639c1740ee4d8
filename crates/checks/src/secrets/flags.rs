//! Passwords on command lines: in short options of known commands, and piped into commands that read them. In: a text
//! and the place of a command's name. Out: the password there. Long options such as `--password` are ordinary names
//! (`assignments`).

use std::ops::Range;

use super::{Needles, SecretFinding, gibberish::is_gibberish, structured::is_password, values};
use umbra_domain::Severity;

/// Names of commands that trigger these rules.
pub(super) const NEEDLES: Needles = &[
    (
        "sshpass|docker login|podman login|registry login|az login|oc login|mongosh|mongodump|mongorestore",
        |text, hit| option(text, hit, &["-p"], ValuePlace::Either),
    ),
    ("mysql|mariadb|7z ", |text, hit| option(text, hit, &["-p"], ValuePlace::Glued)),
    ("psexec", |text, hit| option(text, hit, &["-p"], ValuePlace::Apart)),
    ("redis-cli", |text, hit| option(text, hit, &["-a"], ValuePlace::Either)),
    ("sqlcmd|zip ", |text, hit| option(text, hit, &["-P"], ValuePlace::Either)),
    ("ldap", |text, hit| option(text, hit, &["-w"], ValuePlace::Either)),
    ("plink|pscp", |text, hit| option(text, hit, &["-pw"], ValuePlace::Apart)),
    ("openssl enc", |text, hit| option(text, hit, &["-k"], ValuePlace::Apart)),
    ("gh secret set", |text, hit| option(text, hit, &["--body", "-b"], ValuePlace::Either)),
    ("htpasswd", htpasswd),
    ("chpasswd", |text, hit| piped(text, hit, true)),
    ("sudo -s|passwd --stdin|password-stdin", |text, hit| piped(text, hit, false)),
];

/// Most bytes of a command that are read.
const LONGEST: usize = 240;

/// Place of an option's value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValuePlace {
    /// In the same word: `-pVALUE`.
    Glued,
    /// In the next word: `-pw VALUE`.
    Apart,
    /// In either word, or behind an equals sign.
    Either,
}

fn option(text: &str, hit: Range<usize>, options: &[&str], place: ValuePlace) -> Option<SecretFinding> {
    let words = words(text, hit)?;
    words.iter().enumerate().find_map(|(number, word)| {
        let written = text.get(word.clone())?;
        let glued = options.iter().find_map(|option| written.strip_prefix(option))?;
        let value = match (glued, place) {
            ("", ValuePlace::Apart | ValuePlace::Either) => words.get(number + 1)?.clone(),
            ("", ValuePlace::Glued) | (_, ValuePlace::Apart) => return None,
            (glued, _) => word.end - glued.trim_start_matches('=').len()..word.end,
        };
        judge(text, unquoted(text, value))
    })
}

/// Finds the password of `htpasswd -b FILE USER PASSWORD`, and of `-nb` without the file.
fn htpasswd(text: &str, hit: Range<usize>) -> Option<SecretFinding> {
    let words = words(text, hit)?;
    let is_option = |word: &&Range<usize>| text.get((*word).clone()).is_some_and(|word| word.starts_with('-'));
    let batch =
        |word: &Range<usize>| text.get(word.clone()).is_some_and(|word| word.starts_with('-') && word.contains('b'));
    let given = words.iter().any(batch);
    let value = words.iter().filter(|word| !is_option(word)).nth(2).or_else(|| words.last())?;
    given.then(|| judge(text, unquoted(text, value.clone())))?
}

/// Finds the text that `echo` or `printf` pipes into the command: all of it, or the part behind its colon.
fn piped(text: &str, hit: Range<usize>, behind_colon: bool) -> Option<SecretFinding> {
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

/// Returns the words of the command behind its name.
fn words(text: &str, hit: Range<usize>) -> Option<Vec<Range<usize>>> {
    const MOST: usize = 24;
    if !values::starts_word(text, hit.start) {
        return None;
    }
    let bytes = text.as_bytes().get(..text.len().min(hit.end + LONGEST))?;
    let mut words = Vec::new();
    // `mysqldump` counts as `mysql`.
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

/// Returns a word without surrounding quotes.
fn unquoted(text: &str, word: Range<usize>) -> Range<usize> {
    let written = text.get(word.clone()).unwrap_or_default();
    let inner = written.strip_prefix(['"', '\'']).unwrap_or(written);
    let start = word.end - inner.len();
    start..start + inner.trim_end_matches(['"', '\'']).len()
}

fn judge(text: &str, span: Range<usize>) -> Option<SecretFinding> {
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
    Some(SecretFinding::new(span, "command_password", "a password on a command line", severity))
}
