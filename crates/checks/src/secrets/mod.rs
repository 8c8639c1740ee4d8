//! Check for credentials in text. In: any text. Out: spans with the rule that found them. Knows no events and replaces
//! nothing itself.
//!
//! One pass scans the text. Each literal that it meets (`ghp_`, `AKIA`, `password`, `://`) triggers the rules that
//! begin there, and those read only bytes next to the literal. Clean text costs the pass alone, and the whole is
//! linear. There are five kinds of rules:
//! - `formats`: the forms of providers' credentials, a table of keywords and expressions, `rules/secrets.toml`;
//! - `carriers`: structured containers of a credential: PEM blocks, JWTs, URLs, `Authorization` headers;
//! - `assignments`: a name such as `password` with a literal value (`literals` reads it), or with a key behind it
//!   (`named`);
//! - `flags` and `calls`: passwords in commands' short options, in calls and in statements;
//! - `apart`: values in a member, a line or a column of their own.
//!
//! `judgement` scores the literal of an assignment. `names` interprets the words of a name: `nextPageToken` is no
//! credential. `samples` holds the samples of standards.
//!
//! `encoded` decodes runs of base64 and of hexadecimal digits, `escaped` runs of escapes, and both search the result;
//! `broken` joins credentials that quotes or a line's end break.
//!
//! `values` holds the judgement that they share: is this value random, or a placeholder from a manual? `gibberish`
//! tells random letters from words.

mod assignments;
mod broken;
mod calls;
mod encoded;
mod escaped;
mod flags;
mod formats;
mod gibberish;
mod literals;
mod members;
mod named;
mod names;
mod samples;
mod score;
mod separated;
mod structured;
pub(super) mod values;

use std::ops::Range;

pub(super) use encoded::{decode, decode_hex};
pub(super) use formats::{Format, pattern};
pub(super) use members::{Lead, credential_by_name, find_by_lead, holds_secrets, is_value, leads, name_of_value};

use super::{literal_scanner::LiteralScanner, rules::in_force};
use umbra_domain::{CheckName, CheckRule, MatchPlace, Severity};

/// A credential in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SecretFinding {
    /// Byte range of the credential itself.
    pub(super) span: Range<usize>,
    /// Id of the rule that found it.
    pub(super) rule: &'static str,
    /// Kind of the credential, for people: "a GitHub token".
    pub(super) title: &'static str,
    /// Severity; critical when the credential looks live.
    pub(super) severity: Severity,
}

/// Shortest literal that the scanner can find, in bytes.
pub(super) const SHORTEST_LITERAL: usize = 3;

impl SecretFinding {
    fn new(span: Range<usize>, rule: &'static str, title: &'static str, severity: Severity) -> Self {
        Self { span, rule, title, severity }
    }
}

/// Rule that a literal triggers: from the text and the literal's place to the credential there.
type Find = fn(&str, Range<usize>) -> Option<SecretFinding>;

/// Rows of literals, `|` between them, and the rule that each of them triggers.
type Needles = &'static [(&'static str, Find)];

fn each_literal(rows: Needles) -> impl Iterator<Item = (&'static str, Find)> {
    rows.iter().flat_map(|(literals, find)| literals.split('|').map(|literal| (literal, *find)))
}

#[derive(Debug, Clone, Copy)]
enum Finder {
    Format(usize),
    Special(Find),
    /// Value that may be assigned to a name here.
    Assigned(Find),
    /// Header of a table that may be here.
    Column,
    /// Escaped characters.
    Escape,
}

/// Scanner of all rules about credentials.
#[derive(Debug)]
pub(super) struct SecretRules {
    formats: Vec<Format>,
    needles: LiteralScanner,
    /// Rule of each literal.
    finders: Vec<Finder>,
    /// Formats that are searched in every text.
    always: Vec<usize>,
}

impl SecretRules {
    pub(super) fn new<'r>(rows: impl Iterator<Item = &'r &'r CheckRule>) -> Self {
        let formats: Vec<Format> = rows.filter_map(|row| Format::new(row)).collect();
        let is_searched = |format: &Format| {
            let short = format.keywords.iter().any(|keyword| keyword.len() < SHORTEST_LITERAL);
            format.begins == MatchPlace::Free && (short || format.keywords.is_empty())
        };
        let always = formats.iter().enumerate().filter(|(_, format)| is_searched(format)).map(|(at, _)| at).collect();
        let rows = formats
            .iter()
            .enumerate()
            .flat_map(|(at, format)| format.keywords.iter().map(move |keyword| (keyword.as_str(), Finder::Format(at))));
        let special = |(needle, find)| (needle, Finder::Special(find));
        let carried = each_literal(structured::NEEDLES).map(special);
        let assigned = each_literal(assignments::NEEDLES).map(|(needle, find)| (needle, Finder::Assigned(find)));
        let special = [flags::NEEDLES, calls::NEEDLES].into_iter().flat_map(each_literal).map(special);
        let columns = separated::COLUMNS.into_iter().map(|needle| (needle, Finder::Column));
        let escapes = escaped::NEEDLES.into_iter().map(|needle| (needle, Finder::Escape));
        let (literals, finders): (Vec<&str>, Vec<Finder>) =
            rows.chain(carried).chain(assigned).chain(special).chain(columns).chain(escapes).unzip();
        Self { needles: LiteralScanner::new(literals), finders, always, formats }
    }
}

/// Returns every credential in the text, in order, without overlaps. Where several rules find the same bytes, the span
/// covers them all, and the most severe finding, then the first, gives the name.
pub(super) fn find(text: &str) -> Vec<SecretFinding> {
    let (mut found, escapes) = look(text);
    let slashes = escaped::Slashes::of(text);
    if escapes || slashes.before_slash {
        found.extend(escaped::within(text, find_plain));
    }
    if escapes || slashes.nested {
        found.extend(escaped::quoted(text, find_plain));
    }
    // Most texts of an event are names, too short for a run of either.
    if text.len() >= encoded::SHORTEST.min(escaped::SHORTEST) {
        found.extend(encoded::find(text, find_plain));
        found.extend(escaped::find(text, find_plain));
    }
    if found.is_empty() {
        return found;
    }
    found.retain(|one| !text.get(one.span.clone()).is_some_and(samples::is_printed));
    merge(found)
}

/// Finds credentials in the plain text.
fn find_plain(text: &str) -> Vec<SecretFinding> {
    look(text).0
}

/// Finds credentials in the plain text. The flag is true if an escape was met.
fn look(text: &str) -> (Vec<SecretFinding>, bool) {
    let rules = in_force();
    let index = &rules.secrets;
    let (mut found, mut escapes) = (Vec::new(), false);
    let mut searched: Vec<usize> = index.always.clone();
    let (mut futile, mut crowd) = (FailedMatchLimit::default(), NestedNameLimit::default());
    index.needles.find(text, |number, hit| {
        match index.finders.get(number) {
            Some(Finder::Format(at)) if futile.skips(*at, hit.start) => {}
            Some(Finder::Format(at)) => match index.formats.get(*at) {
                Some(format) if format.begins == MatchPlace::Free => searched.push(*at),
                Some(format) => match format.find_at(text, hit.clone()) {
                    Some(one) => found.push(one),
                    None => futile.note(*at, text, hit.start),
                },
                None => {}
            },
            Some(Finder::Special(find)) => found.extend(find(text, hit)),
            Some(Finder::Assigned(_)) if crowd.skips(text, &hit) => {}
            Some(Finder::Assigned(find)) => {
                let one = find(text, hit.clone());
                crowd.note(hit.start, one.as_ref().map(|one| &one.span));
                found.extend(one);
            }
            Some(Finder::Column) => found.extend(separated::column(text, &hit)),
            Some(Finder::Escape) => escapes = true,
            None => {}
        }
        true
    });
    searched.sort_unstable();
    searched.dedup();
    for format in searched.iter().filter_map(|at| index.formats.get(*at)) {
        found.extend(format.search(text));
    }
    (found, escapes)
}

/// Limit on formats that failed again and again in one unbroken run of letters: a text of nothing but their beginnings
/// is not read from each of them.
#[derive(Default)]
struct FailedMatchLimit {
    run: Range<usize>,
    /// For each format the beginning of the run in which it failed last, and the number of failures there.
    failed: Vec<(usize, u8)>,
}

impl FailedMatchLimit {
    /// Longest credential and its context, in bytes.
    const LONGEST: usize = 400;
    const ENOUGH: u8 = 8;

    fn skips(&self, format: usize, place: usize) -> bool {
        self.run.contains(&place)
            && self.run.end - place > Self::LONGEST
            && self.failed.get(format).is_some_and(|(run, times)| *run == self.run.start && *times >= Self::ENOUGH)
    }

    fn note(&mut self, format: usize, text: &str, place: usize) {
        if !self.run.contains(&place) {
            let rest = text.as_bytes().get(place..).unwrap_or_default();
            let part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
            self.run = place..place + rest.iter().take_while(part).count();
        }
        if self.failed.len() <= format {
            self.failed.resize(format + 1, (usize::MAX, 0));
        }
        if let Some((run, times)) = self.failed.get_mut(format) {
            *times = if *run == self.run.start { times.saturating_add(1) } else { 1 };
            *run = self.run.start;
        }
    }
}

/// Limit on names in the value of another name, `pwd=pwd=pwd=…`: judging each would read some hundred bytes that the
/// outer value covers.
#[derive(Default)]
struct NestedNameLimit {
    /// A value, and the number of names in it so far.
    value: Range<usize>,
    names: usize,
    /// Names in a row whose values begin with another name, as in `key=key=`, and are no credentials.
    rejected: usize,
}

impl NestedNameLimit {
    /// Shorter values are judged quickly, and fewer names cost little.
    const LONG: usize = 128;
    const ENOUGH: usize = 16;

    /// True for a name to skip: it begins an unquoted value, the next name is near and the end far. Such a value ends
    /// with the value around it, or extends behind it as that of a later name does.
    fn skips(&mut self, text: &str, hit: &Range<usize>) -> bool {
        const NEAR: usize = 24;
        let plain = |byte: &&u8| byte.is_ascii_lowercase() || matches!(byte, b'_' | b'-');
        let rest = text.as_bytes().get(hit.end..).unwrap_or_default();
        let name = rest.iter().skip(1).take(NEAR).take_while(plain).count();
        let named = rest.first() == Some(&b'=') && name > 2 && rest.get(name + 1) == Some(&b'=');
        self.rejected = if named { self.rejected } else { 0 };
        if self.rejected > Self::ENOUGH {
            return true;
        }
        if !self.value.contains(&hit.start) {
            return false;
        }
        self.names += 1;
        let crowded = match rest {
            [b'=', next, rest @ ..] => next.is_ascii_alphanumeric() && rest.iter().take(NEAR).any(|byte| *byte == b'='),
            _ => false,
        };
        let length = self.value.len();
        let far = length >= Self::LONG && self.value.end - hit.start > length / 4;
        crowded && far && self.names > Self::ENOUGH
    }

    fn note(&mut self, name: usize, value: Option<&Range<usize>>) {
        let Some(value) = value else {
            self.rejected += 1;
            return;
        };
        self.rejected = 0;
        if !self.value.contains(&name) {
            self.names = 0;
        }
        if value.end > self.value.end {
            self.value = value.clone();
        }
    }
}

/// True if a value looks like a manual's placeholder for a credential.
pub(super) fn is_placeholder(value: &str) -> bool {
    values::judge_format(value) == values::Appearance::Placeholder
}

/// True if `name` is a rule of this check.
pub(super) fn is_rule(name: &str) -> bool {
    let is_secret = |row: &CheckRule| row.id == name && row.check() == CheckName::Secrets;
    in_force().rows().iter().any(is_secret)
}

fn merge(mut found: Vec<SecretFinding>) -> Vec<SecretFinding> {
    found.sort_by_key(|one| (one.span.start, one.span.end));
    let mut merged: Vec<SecretFinding> = Vec::with_capacity(found.len());
    for one in found {
        match merged.last_mut() {
            Some(last) if one.span.start < last.span.end => {
                // A provider's own format says more than the name of the variable that holds it.
                if rank(&one) > rank(last) {
                    (last.rule, last.title, last.severity) = (one.rule, one.title, one.severity);
                }
                last.span.end = last.span.end.max(one.span.end);
            }
            _ => merged.push(one),
        }
    }
    merged
}

fn rank(found: &SecretFinding) -> (bool, Severity) {
    (!found.rule.starts_with("generic_"), found.severity)
}
