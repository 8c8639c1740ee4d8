//! Providers' credential formats and how one is matched. In: a text and the place of a literal. Out: the credential
//! there. The table stands in `rules/secrets.toml`, one row a format; a row never matches without one of its keywords.

use std::{
    ops::Range,
    sync::{LazyLock, OnceLock},
};

use regex::Regex;
use serde::Deserialize;

use super::{Found, broken, values};
use umbra_domain::Severity;

/// Where a match begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Begins {
    /// At the keyword, and nothing of a word stands before it.
    #[default]
    Keyword,
    /// Up to 80 letters, digits, and `_ ~ . -` before the keyword.
    Word,
    /// At the keyword whatever stands before: it names a provider, the credential follows.
    Anywhere,
}

/// Checksum at the end of a token.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Checksum {
    /// The last six characters, as GitHub and npm write them.
    Github,
}

/// One format: a row of `rules/secrets.toml`, which says what its members mean.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Format {
    pub(crate) id: String,
    pub(crate) description: String,
    pub(crate) keywords: Vec<String>,
    regex: Option<String>,
    assigned: Option<String>,
    #[serde(default = "critical")]
    severity: Severity,
    #[serde(default)]
    begins: Begins,
    checksum: Option<Checksum>,
    #[cfg_attr(not(test), expect(dead_code, reason = "tests read it"))]
    pub(crate) hits: Vec<Sample>,
    #[cfg_attr(not(test), expect(dead_code, reason = "tests read it"))]
    pub(crate) misses: Vec<Sample>,
}

/// A text, or its parts.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
#[cfg_attr(not(test), expect(dead_code, reason = "tests read it"))]
pub(crate) enum Sample {
    Whole(String),
    Parts(Vec<String>),
}

fn critical() -> Severity {
    Severity::Critical
}

impl Format {
    /// The expression of what stands from the match's beginning; group 1, where there is one, is the credential.
    pub(crate) fn pattern(&self) -> String {
        match (&self.regex, &self.assigned, self.keywords.first()) {
            (Some(regex), ..) => regex.clone(),
            (None, Some(shape), Some(keyword)) => format!(r"(?i:{keyword}{ASSIGNED})\b({shape})"),
            _ => String::new(),
        }
    }

    fn begins(&self) -> Begins {
        if self.assigned.is_some() { Begins::Anywhere } else { self.begins }
    }
}

#[cfg(test)]
impl Sample {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Whole(text) => text.clone(),
            Self::Parts(parts) => parts.concat(),
        }
    }
}

/// Signs between a keyword and the value that it is assigned: `KEYWORD_TOKEN=`, `"keyword": `, `keyword token `.
const ASSIGNED: &str = r#"[a-z0-9_ .-]{0,25}["']?\]?[ \t]{0,3}(?:[:?]{0,2}=|=>|:|,|[ \t])[ \t]{0,3}\\?["']?"#;

#[derive(Default, Deserialize)]
struct File {
    rules: Vec<Format>,
}

static FORMATS: LazyLock<Vec<Format>> =
    LazyLock::new(|| toml::from_str::<File>(include_str!("../../rules/secrets.toml")).unwrap_or_default().rules);

/// Every row of the table.
pub(crate) fn all() -> impl Iterator<Item = &'static Format> {
    FORMATS.iter()
}

type Compiled = (&'static Format, OnceLock<Option<Regex>>);

/// Compiled when first met: a service that starts need not wait for two hundred expressions.
static COMPILED: LazyLock<Vec<Compiled>> = LazyLock::new(|| all().map(|format| (format, OnceLock::new())).collect());

/// Longest credential that a row may match, in bytes, with what leads to it.
const REACH: usize = 2048;

/// Places within a word from which a row is tried.
const MOST_STARTS: usize = 8;

/// The credential of row `at` whose literal stands at `hit`.
pub(super) fn find_at(at: usize, text: &str, hit: Range<usize>) -> Option<Found> {
    let (format, compiled) = COMPILED.get(at)?;
    let regex = compiled.get_or_init(|| Regex::new(&format!("^(?:{})", format.pattern())).ok()).as_ref()?;
    match format.begins() {
        Begins::Keyword if !values::starts_word(text, hit.start) => None,
        Begins::Keyword => {
            let found = find_from(hit.start, text, format, regex);
            let next = found.as_ref().and_then(|found| text.as_bytes().get(found.span.end));
            let may_go_on = next.is_none_or(|byte| matches!(byte, b'"' | b'\'' | b'\\' | b'\r' | b'\n'));
            let broken = may_go_on.then(|| find_broken(hit, text, format, regex, found.is_some())).flatten();
            broken.or(found)
        }
        // `rookTable` does not name Okta.
        Begins::Anywhere => {
            let before = text.as_bytes().get(..hit.start)?.last();
            let within = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_lowercase);
            let amid = within(before) && within(text.as_bytes().get(hit.start));
            (!amid).then(|| find_from(hit.start, text, format, regex))?
        }
        Begins::Word => {
            let first = values::word_start(text, hit.start, 80);
            // A name may be glued to it, as in `prod-` or `my_`.
            let word = text.get(first..hit.start)?;
            let glued = word.match_indices(['-', '_']).map(|(at, _)| first + at + 1).take(MOST_STARTS);
            std::iter::once(first).chain(glued).find_map(|start| find_from(start, text, format, regex))
        }
    }
}

fn find_from(start: usize, text: &str, format: &'static Format, regex: &Regex) -> Option<Found> {
    let window = text.get(start..text.floor_char_boundary(start.saturating_add(REACH)))?;
    // Where a group stands is dear to tell, and few rows have one.
    let secret = match regex.captures_len() {
        1 => regex.find(window)?,
        _ => regex.captures(window).and_then(|captures| captures.get(1).or_else(|| captures.get(0)))?,
    };
    let span = start + secret.start()..start + secret.end();
    if !values::ends_word(text, span.end) {
        return None;
    }
    judge(secret.as_str(), span, format)
}

/// The same, where quotes or a line's end break it.
fn find_broken(hit: Range<usize>, text: &str, format: &'static Format, regex: &Regex, whole: bool) -> Option<Found> {
    let joined = broken::joined(text, hit.start, hit.end, whole)?;
    let captures = regex.captures(&joined.text)?;
    let secret = captures.get(1).or_else(|| captures.get(0))?;
    let place = |at: usize| joined.places.get(at).copied();
    let span = place(secret.start())?..place(secret.end().checked_sub(1)?)? + 1;
    joined.ends.contains(&secret.end()).then(|| judge(secret.as_str(), span, format))?
}

fn judge(secret: &str, span: Range<usize>, format: &'static Format) -> Option<Found> {
    let severity = match values::judge_format(secret) {
        // It was made up or mistyped: no such token was ever issued.
        values::Look::Live if format.checksum.is_some() && !checksum_holds(secret) => Severity::Warning,
        values::Look::Live => format.severity,
        values::Look::Example => Severity::Info,
        values::Look::Placeholder => return None,
    };
    Some(Found { span, rule: &format.id, title: &format.description, severity })
}

/// Whether a token of a prefix, 30 characters and their CRC-32 in base 62 is whole; tokens of other lengths carry none.
/// <https://github.blog/engineering/platform-security/behind-githubs-new-authentication-token-formats/>
fn checksum_holds(token: &str) -> bool {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let Some((_, tail)) = token.split_once('_').filter(|(_, tail)| tail.len() == 36) else { return true };
    let Some((body, sum)) = tail.split_at_checked(30) else { return true };
    let mut rest = crc32(body.as_bytes());
    sum.bytes().rev().all(|digit| {
        let expected = DIGITS.get(rest as usize % 62);
        rest /= 62;
        expected == Some(&digit)
    })
}

/// The CRC of ISO 3309, as zip and gzip have it. Bit by bit: it sees thirty bytes at a time.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}
