//! Check for personal data in an agent's output and in the arguments of its tool calls. In: an event. Out: a hit for
//! each place, with its exact span. Texts that an agent only reads (results, inputs) are not checked.
//!
//! A format with a checksum or a distinctive form needs no announcement (`numbers` with `cards` and `ibans`, `phones`,
//! `mail`); any other value needs an announcing word before it (`labels`, `national` with `shapes`). One pass finds all
//! such words (`contexts`, from the table in `words`).
//!
//! Data that identifies a person or can be used against one is a warning. Data that is public by custom or says little
//! alone (a role's mailbox, an author in a commit, a date in a sentence about a birth, an address or a name behind a
//! bare label) is info; three such kinds together describe a person, which is a warning. Values that documentation
//! reserves are not personal data.

mod announcing_words;
mod cards;
mod contexts;
mod homes;
mod ibans;
mod labels;
mod mail;
mod names;
mod national;
mod numbers;
mod phones;
mod shapes;

use std::ops::Range;

use serde_json::Value;

use self::contexts::Contexts;
use umbra_domain::{CheckName, Event, FieldName, Hit, Severity};

/// Most hits in one text; a list of customers needs no finding for each line.
const MOST_HITS: usize = 20;
/// Fewest digits of an identifier.
const LEAST_DIGITS: usize = 6;
/// Kinds of weak data that together describe a person.
const PROFILE: usize = 3;

/// Personal data found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PersonalFinding {
    rule: &'static str,
    /// Kind of the data, as a noun with its article.
    title: &'static str,
    severity: Severity,
    span: Range<usize>,
}

impl PersonalFinding {
    fn new(rule: &'static str, title: &'static str, severity: Severity, span: Range<usize>) -> Self {
        Self { rule, title, severity, span }
    }
}

/// Returns hits for the personal data in an event.
pub(super) fn hits(event: &Event) -> Vec<Hit> {
    let mut hits = Vec::new();
    event.for_each_text(|field, text| {
        if field.as_str() == "output" || field.is_tool_argument() {
            hits.extend(find(text).into_iter().map(|found| hit(field.clone(), found)));
        }
    });
    hits
}

fn hit(field: FieldName, found: PersonalFinding) -> Hit {
    let description = match found.rule {
        "profile" => "Contains several details of one person.".to_owned(),
        _ => format!("Contains {}.", found.title),
    };
    Hit::new(CheckName::Pii, found.rule, found.severity, field, found.span, description)
}

/// Beginning of the marker that replaces an identifier: `[personal:credit_card]`.
pub(super) const MARKER: &str = "[personal:";
/// Rules for data that identifies no person or account: contact data, and facts.
const NO_IDENTIFIERS: [&str; 7] =
    ["birth_date", "email", "ip_address", "person_name", "phone_number", "postal_address", "profile"];

/// Replaces numbers that identify a person or an account (cards, IBAN, national numbers) by markers, anywhere in JSON.
/// The name of a member counts as the word before its value. Samples of documentation are replaced as well.
pub(super) fn redact_identifiers(value: &mut Value, name: Option<&str>) {
    match value {
        Value::String(text) => {
            if let Some(redacted) = without_identifiers(text, name) {
                *text = redacted;
            }
        }
        Value::Number(number) => {
            if let Some(redacted) = without_identifiers(&number.to_string(), name) {
                *value = Value::String(redacted);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact_identifiers(item, name)),
        Value::Object(members) => {
            members.iter_mut().for_each(|(name, member)| redact_identifiers(member, Some(name)));
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Returns a text without identifiers; `None` where it has none.
fn without_identifiers(text: &str, name: Option<&str>) -> Option<String> {
    if text.bytes().filter(u8::is_ascii_digit).count() < LEAST_DIGITS {
        return None;
    }
    let before = name.map(|name| format!("{name}: ")).unwrap_or_default();
    let led = format!("{before}{text}");
    let mut contexts = Contexts::of(&led);
    contexts.samples = true;
    let mut found = Vec::new();
    labels::find(&led, &contexts, &mut found);
    numbers::find(&led, &contexts, &mut found);
    found.retain(|one| one.span.start >= before.len() && !NO_IDENTIFIERS.contains(&one.rule));
    let found = apart(found);
    if found.is_empty() {
        return None;
    }
    let (mut redacted, mut copied) = (String::with_capacity(text.len()), before.len());
    for PersonalFinding { rule, span, .. } in found {
        redacted.push_str(led.get(copied..span.start).unwrap_or_default());
        for part in [MARKER, rule, "]"] {
            redacted.push_str(part);
        }
        copied = span.end;
    }
    redacted.push_str(led.get(copied..).unwrap_or_default());
    Some(redacted)
}

/// Finds the personal data in a text, in order of place; spans do not overlap.
fn find(text: &str) -> Vec<PersonalFinding> {
    let mut found = Vec::new();
    mail::find(text, &mut found);
    let contexts = Contexts::of(text);
    labels::find(text, &contexts, &mut found);
    numbers::find(text, &contexts, &mut found);
    let mut kept = apart(found);
    profile(&mut kept);
    kept.sort_by_key(|one| std::cmp::Reverse(one.severity));
    kept.truncate(MOST_HITS);
    kept.sort_by_key(|one| one.span.start);
    kept
}

/// Sorts findings by place and removes overlaps.
fn apart(mut found: Vec<PersonalFinding>) -> Vec<PersonalFinding> {
    // Of two readings of one place the more severe is kept, then the longer.
    found.sort_by_key(|one| (one.span.start, std::cmp::Reverse((one.severity, one.span.len()))));
    let mut kept: Vec<PersonalFinding> = Vec::with_capacity(found.len());
    for one in found {
        match kept.last_mut() {
            Some(last) if one.span.start < last.span.end => {
                if one.severity > last.severity {
                    *last = one;
                }
            }
            _ => kept.push(one),
        }
    }
    kept
}

/// Adds a profile where weak kinds together describe a person, from the first to the last of them.
fn profile(found: &mut Vec<PersonalFinding>) {
    const WEAK: [&str; 3] = ["person_name", "birth_date", "postal_address"];
    let weak: Vec<&PersonalFinding> = found.iter().filter(|one| WEAK.contains(&one.rule)).collect();
    let kinds = WEAK.iter().filter(|rule| weak.iter().any(|one| one.rule == **rule)).count();
    if kinds >= PROFILE
        && let (Some(first), Some(last)) = (weak.first(), weak.last())
    {
        let span = first.span.start..last.span.end;
        found.push(PersonalFinding::new("profile", "", Severity::Warning, span));
    }
}
