//! Rows of the rules about credentials, and their matching. In: a text and the place of a keyword. Out: the credential
//! there. The built-in rows are in `rules/secrets.toml`; a row never matches without one of its keywords.

use std::{ops::Range, sync::OnceLock};

use regex::{Captures, Match, Regex};

use super::{SecretFinding, broken, values};
use crate::rules::{Allow, MatchContext, intern, of_ascii};
use umbra_domain::{CheckRule, Checksum, MatchPlace, Severity};

/// Longest credential that a row may match, with its lead, in bytes.
const REACH: usize = 2048;

/// Most places within a word from which a row is tried.
const MOST_STARTS: usize = 8;

/// Compiled form of one row.
#[derive(Debug)]
pub(crate) struct Format {
    pub(super) id: &'static str,
    title: &'static str,
    pub(super) keywords: Vec<String>,
    pattern: String,
    /// Compiled on first use: the service starts without compiling two hundred expressions.
    compiled: OnceLock<Option<Regex>>,
    group: Option<usize>,
    severity: Severity,
    pub(super) begins: MatchPlace,
    checksum: Option<Checksum>,
    entropy: Option<f64>,
    allow: Vec<Allow>,
}

/// Signs between a keyword and the value assigned to it: `KEYWORD_TOKEN=`, `"keyword": `, `keyword token `.
const ASSIGNED: &str = r#"[a-z0-9_ .-]{0,25}["']?\]?[ \t]{0,3}(?:[:?]{0,2}=|=>|:|,|[ \t])[ \t]{0,3}\\?["']?"#;

/// Returns the expression of a row, from the beginning of a match on.
pub(crate) fn pattern(row: &CheckRule) -> Option<String> {
    let assigned = || Some(format!(r"(?i:{}{ASSIGNED})\b({})", row.keywords.first()?, row.assigned.as_ref()?));
    row.regex.as_deref().map(of_ascii).or_else(assigned)
}

impl Format {
    pub(super) fn new(row: &CheckRule) -> Option<Self> {
        let pattern = pattern(row)?;
        let begins = if row.assigned.is_some() { MatchPlace::Anywhere } else { row.begins.unwrap_or(MatchPlace::Free) };
        Some(Self {
            id: intern(&row.id),
            title: intern(row.description.as_deref().unwrap_or("a credential")),
            keywords: row.keywords.clone(),
            pattern: if begins == MatchPlace::Free { pattern } else { format!("^(?:{pattern})") },
            compiled: OnceLock::new(),
            group: row.secret_group,
            severity: row.severity.unwrap_or(Severity::Critical),
            begins,
            checksum: row.checksum,
            entropy: row.entropy,
            allow: row.allowlists.iter().map(Allow::new).collect(),
        })
    }

    fn regex(&self) -> Option<&Regex> {
        self.compiled.get_or_init(|| crate::rules::compiled(&self.pattern).ok()).as_ref()
    }

    /// Returns the credential of a match: the group that the row names, else the first group that is not empty.
    fn secret<'t>(&self, captures: &Captures<'t>) -> Option<Match<'t>> {
        let first = || captures.iter().skip(1).flatten().find(|group| !group.is_empty());
        self.group.map_or_else(first, |group| captures.get(group)).or_else(|| captures.get(0))
    }

    /// Returns every credential of a row whose matches may begin anywhere.
    pub(super) fn search<'t>(&'t self, text: &'t str) -> impl Iterator<Item = SecretFinding> + 't {
        let all = self.regex().into_iter().flat_map(|regex| regex.captures_iter(text));
        all.filter_map(|captures| {
            let (secret, whole) = (self.secret(&captures)?, captures.get(0)?);
            self.judge(secret.as_str(), MatchContext::within(text, secret.range(), whole.range()), secret.range())
        })
    }

    /// Returns the credential whose keyword stands at `hit`.
    pub(super) fn find_at(&self, text: &str, hit: Range<usize>) -> Option<SecretFinding> {
        let regex = self.regex()?;
        match self.begins {
            MatchPlace::Free => None,
            MatchPlace::Keyword if !values::starts_word(text, hit.start) => None,
            MatchPlace::Keyword => {
                let found = self.find_from(hit.start, text, regex);
                let next = found.as_ref().and_then(|found| text.as_bytes().get(found.span.end));
                let may_go_on = next.is_none_or(|byte| matches!(byte, b'"' | b'\'' | b'\\' | b'\r' | b'\n'));
                let broken = may_go_on.then(|| self.find_broken(hit, text, regex, found.is_some())).flatten();
                broken.or(found)
            }
            // `rookTable` does not name Okta.
            MatchPlace::Anywhere => {
                let before = text.as_bytes().get(..hit.start)?.last();
                let within = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_lowercase);
                let amid = within(before) && within(text.as_bytes().get(hit.start));
                (!amid).then(|| self.find_from(hit.start, text, regex))?
            }
            MatchPlace::Word => {
                let first = values::word_start(text, hit.start, 80);
                // The credential may follow a prefix, as in `prod-` or `my_`.
                let word = text.get(first..hit.start)?;
                let glued = word.match_indices(['-', '_']).map(|(at, _)| first + at + 1).take(MOST_STARTS);
                std::iter::once(first).chain(glued).find_map(|start| self.find_from(start, text, regex))
            }
        }
    }

    fn find_from(&self, start: usize, text: &str, regex: &Regex) -> Option<SecretFinding> {
        let window = text.get(start..text.floor_char_boundary(start.saturating_add(REACH)))?;
        // The place of a group is expensive to find, and few rows have one.
        let (secret, whole) = if regex.captures_len() == 1 {
            let whole = regex.find(window)?;
            (whole, whole)
        } else {
            let captures = regex.captures(window)?;
            (self.secret(&captures)?, captures.get(0)?)
        };
        let place = |at: Range<usize>| start + at.start..start + at.end;
        let span = place(secret.range());
        if !values::ends_word(text, span.end) {
            return None;
        }
        self.judge(secret.as_str(), MatchContext::within(text, span.clone(), place(whole.range())), span)
    }

    /// Finds a credential that quotes or a line's end break.
    fn find_broken(&self, hit: Range<usize>, text: &str, regex: &Regex, whole: bool) -> Option<SecretFinding> {
        let joined = broken::joined(text, hit.start, hit.end, whole)?;
        let captures = regex.captures(&joined.text)?;
        let secret = self.secret(&captures)?;
        let place = |at: usize| joined.places.get(at).copied();
        let span = place(secret.start())?..place(secret.end().checked_sub(1)?)? + 1;
        let ends = joined.ends.contains(&secret.end());
        ends.then(|| self.judge(secret.as_str(), MatchContext::new(text, span.clone()), span))?
    }

    fn judge(&self, secret: &str, place: MatchContext<'_>, span: Range<usize>) -> Option<SecretFinding> {
        let dull = self.entropy.is_some_and(|least| values::entropy(secret) <= least);
        if dull || self.allow.iter().any(|allow| allow.covers(place)) {
            return None;
        }
        let severity = match values::judge_format(secret) {
            // A wrong checksum: the token was invented or mistyped, and never issued.
            values::Appearance::Live if self.checksum.is_some() && !checksum_holds(secret) => {
                self.severity.min(Severity::Warning)
            }
            values::Appearance::Live => self.severity,
            values::Appearance::Example => Severity::Info,
            values::Appearance::Placeholder => return None,
        };
        Some(SecretFinding::new(span, self.id, self.title, severity))
    }
}

/// True if the checksum of a token holds: a prefix, 30 characters and their CRC-32 in base 62. Other lengths carry
/// none.
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

/// Returns the CRC of ISO 3309, as in zip and gzip. Bit by bit: the input has thirty bytes.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}
