//! Personal values behind a label: national numbers, passports, licences, dates of birth, names, addresses. In: a text
//! and its announcing words. Out: the values right behind them. At most a few dozen bytes behind each word are read.

use std::ops::{Range, RangeInclusive};

use super::{
    PersonalFinding,
    contexts::{Contexts, Topic},
    homes::{has_postal_code, postal_address},
    names::{given_name, name},
    national::NATIONAL,
    shapes::digits_of,
};
use umbra_domain::Severity;

/// Longest distance from a label to its value, in bytes.
const REACH: usize = 32;
/// Longest value without its separators, in bytes.
const LONGEST: usize = 20;

pub(super) fn find(text: &str, contexts: &Contexts, found: &mut Vec<PersonalFinding>) {
    let mut described = None;
    for (at, topic) in contexts.labels() {
        let one = match topic {
            Topic::National(place) => national(text, at.end, place),
            Topic::Licence => {
                value(text, at.end, |id| digits_of(id) >= 5 && id.len() - digits_of(id) <= 6, "-").map(|span| {
                    PersonalFinding::new("driving_licence", "a driving licence number", Severity::Warning, span)
                })
            }
            // The bare word is common in texts: its number must follow at once.
            Topic::Passport => value(text, at.end, is_passport, "")
                .filter(|span| span.start == at.end || !text.get(at.clone()).is_some_and(|word| word.ends_with(' ')))
                .map(|span| PersonalFinding::new("passport", "a passport number", Severity::Warning, span)),
            Topic::SortCode => bank_account(text, at, |code| code.len() == 6 && digits_of(code) == 6, 8..=8)
                .map(|span| PersonalFinding::new("uk_bank_account", "a bank account number", Severity::Warning, span)),
            Topic::Routing => bank_account(text, at, is_routing, 6..=17)
                .map(|span| PersonalFinding::new("us_bank_account", "a bank account number", Severity::Warning, span)),
            Topic::Birth => birth_date(text, at.end).map(|span| {
                let severity = if is_given(text, at, span.start) { Severity::Warning } else { Severity::Info };
                PersonalFinding::new("birth_date", "a date of birth", severity, span)
            }),
            Topic::Account => value(text, at.end, |id| (8..=18).contains(&id.len()) && digits_of(id) == id.len(), " -")
                .filter(|span| is_given(text, at, span.start) && names_bank(text, at))
                .map(|span| PersonalFinding::new("bank_account", "a bank account number", Severity::Warning, span)),
            Topic::Given => given_name(text, at.end).and_then(|span| {
                let parts = contexts.labels().filter(|(_, topic)| *topic == Topic::Given).take(2).count();
                (parts == 2).then(|| PersonalFinding::new("person_name", "a person's name", Severity::Warning, span))
            }),
            Topic::Patient => name(text, at.end).map(|span| {
                PersonalFinding::new(
                    "person_name",
                    "the name of a person in care or under contract",
                    Severity::Warning,
                    span,
                )
            }),
            // The bare label is common in files; with a date of birth in the text it is a person's.
            Topic::Name if *described.get_or_insert_with(|| contexts.has(Topic::Birth)) || !is_bare(text, at) => {
                let severity = if is_bare(text, at) { Severity::Info } else { Severity::Warning };
                name(text, at.end).map(|span| PersonalFinding::new("person_name", "a person's name", severity, span))
            }
            Topic::Home => postal_address(text, at.end).map(|span| {
                // The bare word announces a company's address as well.
                let home = !text.get(at.clone()).is_some_and(|word| word.eq_ignore_ascii_case("address"))
                    || text.get(span.clone()).is_some_and(has_postal_code);
                let severity = if home { Severity::Warning } else { Severity::Info };
                PersonalFinding::new("postal_address", "a postal address", severity, span)
            }),
            _ => None,
        };
        found.extend(one);
    }
}

/// True if only a sign, a verb or one more word stands between a label and its value.
fn is_given(text: &str, label: &Range<usize>, start: usize) -> bool {
    let between = text.get(label.end..start).unwrap_or_default();
    // The point of `d.o.b.` ends no sentence.
    between.len() <= 20 && (between.trim() == "." || !between.contains(['.', '!', '?', '\n', ',']))
}

/// True if a bank is named near an account: by its code, or by a word for bank accounts.
fn names_bank(text: &str, label: &Range<usize>) -> bool {
    const NEAR: usize = 64;
    const CODES: [&str; 9] = ["bic", "swift", "ifsc", "bsb", "blz", "bank", "clabe", "konto", "compte"];
    let from = text.floor_char_boundary(label.start.saturating_sub(NEAR));
    let to = text.floor_char_boundary((label.end + NEAR).min(text.len()));
    let near = text.get(from..to).unwrap_or_default().to_ascii_lowercase();
    CODES.iter().any(|code| near.contains(code))
}

fn is_bare(text: &str, at: &Range<usize>) -> bool {
    text.get(at.clone()).is_some_and(|word| word.eq_ignore_ascii_case("name"))
}

/// True for digits with one or two letters, or for a German passport's nine characters, which include no vowel.
fn is_passport(id: &str) -> bool {
    let digits = digits_of(id);
    // A check digit may follow the nine.
    let german = matches!(id.len(), 9 | 10)
        && (3..=9).contains(&digits)
        && id.bytes().all(|byte| byte.is_ascii_digit() || b"CFGHJKLMNPRTVWXYZ".contains(&byte))
        && id.starts_with(|first: char| first.is_ascii_alphabetic());
    (7..=9).contains(&id.len()) && digits >= 6 || german
}

/// True for the number of a bank in the United States, with its check (ABA).
fn is_routing(code: &str) -> bool {
    let weights = [3, 7, 1].into_iter().cycle();
    let sum: u32 = code.bytes().zip(weights).map(|(byte, weight)| u32::from(byte.wrapping_sub(b'0')) * weight).sum();
    code.len() == 9 && digits_of(code) == 9 && sum.is_multiple_of(10) && sum > 0
}

/// Finds the account beside its bank's code: `Account number 48291037, sort code 20-45-91`.
fn bank_account(
    text: &str,
    label: &Range<usize>,
    is_code: impl Fn(&str) -> bool,
    digits: RangeInclusive<usize>,
) -> Option<Range<usize>> {
    const NEAR: usize = 64;
    let code = value(text, label.end, is_code, "- ")?;
    let from = text.floor_char_boundary(label.start.saturating_sub(NEAR));
    let window = text.get(from..text.floor_char_boundary(code.end + NEAR))?;
    let mut at: usize = 0;
    for run in window.split(|c: char| !c.is_ascii_alphanumeric()) {
        let before = window.get(window.floor_char_boundary(at.saturating_sub(24))..at)?.to_ascii_lowercase();
        let announced = ["account", "acct", "a/c"].iter().any(|word| before.contains(word));
        if digits.contains(&run.len()) && digits_of(run) == run.len() && announced && from + at != code.start {
            return Some(from + at..from + at + run.len());
        }
        let after = at + run.len();
        at = after + window.get(after..)?.chars().next().map_or(0, char::len_utf8);
    }
    None
}

fn national(text: &str, from: usize, place: usize) -> Option<PersonalFinding> {
    let kind = NATIONAL.get(place)?;
    let span = value(text, from, kind.shape, " -./")?;
    Some(PersonalFinding::new(kind.rule, kind.title, Severity::Warning, span))
}

/// Finds the first value behind a place that fits a shape, at its longest. The shape sees it without single separators.
fn value(text: &str, from: usize, shape: impl Fn(&str) -> bool, separators: &str) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let alnum = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_alphanumeric);
    let joined = |at: usize| at > 0 && (alnum(at - 1) || bytes.get(at - 1) == Some(&b'_'));
    for start in from..bytes.len().min(from + REACH) {
        if !alnum(start) || joined(start) {
            continue;
        }
        let mut compact = String::with_capacity(LONGEST);
        let mut best = None;
        let mut at = start;
        while compact.len() <= LONGEST {
            while let Some(byte) = bytes.get(at).filter(|byte| byte.is_ascii_alphanumeric()) {
                if compact.len() > LONGEST {
                    break;
                }
                compact.push(char::from(byte.to_ascii_uppercase()));
                at += 1;
            }
            if !alnum(at) && compact.len() <= LONGEST && shape(&compact) {
                best = Some(start..at);
            }
            let separated = bytes.get(at).is_some_and(|byte| separators.as_bytes().contains(byte));
            if !separated || !alnum(at + 1) {
                break;
            }
            at += 1;
        }
        if best.is_some() {
            return best;
        }
    }
    None
}

/// Finds a date behind a word: `1980-02-28`, `28/02/1980`, `28. Februar 1980`, `Feb 28, 1980`.
fn birth_date(text: &str, from: usize) -> Option<Range<usize>> {
    const MONTHS: [&str; 20] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec", "mai", "okt", "dez", "ene",
        "abr", "ago", "fév", "dic",
    ];
    let bytes = text.as_bytes();
    let end = text.floor_char_boundary((from + REACH).min(text.len()));
    let window = text.get(from..end)?.split("\n\n").next()?;
    let start = from + window.find(|c: char| c.is_ascii_digit())?;
    let tail = text.get(start..text.floor_char_boundary((start + 24).min(text.len())))?;
    let length = tail.bytes().take_while(|byte| byte.is_ascii_digit() || b"-/. ".contains(byte)).count();
    let written = tail.get(..length)?.trim_end_matches(['-', '/', '.', ' ']);
    let parts: Vec<u32> = written.split(['-', '/', '.']).filter_map(|part| part.trim().parse().ok()).collect();
    let year = |value: u32| (1900..2030).contains(&value);
    // 1990年5月17日
    if let (Some(month), Some(end)) = (tail.find('年'), tail.find('日'))
        && tail.get(..month).and_then(|four| four.parse().ok()).is_some_and(year)
    {
        return Some(start..start + end + '日'.len_utf8());
    }
    if let [a, b, c] = parts.as_slice()
        && (year(*a) && *b <= 12 && *c <= 31 || year(*c) && *a <= 31 && *b <= 31)
    {
        return Some(start..start + written.len());
    }
    let line_end = bytes.get(from..)?.iter().take(48).position(|byte| *byte == b'\n').unwrap_or(48);
    let line_end = text.floor_char_boundary((from + line_end).min(text.len()));
    let line = text.get(from..line_end)?.to_ascii_lowercase();
    let month = MONTHS.iter().filter_map(|month| line.find(month)).min()?;
    let year_at = line
        .match_indices(|c: char| c.is_ascii_digit())
        .map(|(at, _)| at)
        .find(|at| line.get(*at..at + 4).and_then(|four| four.parse().ok()).is_some_and(year))?;
    let first = line.find(|c: char| c.is_ascii_digit())?.min(month);
    (year_at > month).then(|| from + first..from + year_at + 4)
}
