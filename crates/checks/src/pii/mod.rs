//! Finds personal data in what an agent hands out: its output and the arguments of its tool calls. In: an event. Out:
//! a hit for each place, with its exact span. What an agent only reads (results, inputs) is not looked at.
//!
//! A format with a checksum or an unmistakable form speaks for itself (`numbers` with `cards` and `ibans`, `phones`,
//! `mail`); anything else needs a word before it that says what it is (`labels`, `national` with `shapes`). One
//! look finds all such words (`contexts`, from the table in `words`).
//!
//! What identifies a person or can be used against one is a warning. What is public by custom or says little alone (a
//! role's mailbox, an author in a commit, a date in a sentence about a birth, an address or a name behind a bare label) is info; three such kinds
//! together describe a person, which is a warning again. Values that documentation reserves are not personal data.

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
mod words;

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

/// What stands somewhere in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    rule: &'static str,
    /// What it is, as a noun with its article.
    title: &'static str,
    severity: Severity,
    span: Range<usize>,
}

impl Found {
    fn new(rule: &'static str, title: &'static str, severity: Severity, span: Range<usize>) -> Self {
        Self { rule, title, severity, span }
    }
}

/// The personal data in an event.
pub(super) fn hits(event: &Event) -> Vec<Hit> {
    let mut hits = Vec::new();
    event.for_each_text(|field, text| {
        if field.as_str() == "output" || field.is_tool_argument() {
            hits.extend(find(text).into_iter().map(|found| hit(&field, &found)));
        }
    });
    hits
}

fn hit(field: &FieldName, found: &Found) -> Hit {
    let description = match found.rule {
        "profile" => "Several details here describe one person.".to_owned(),
        _ => format!("This is {}.", found.title),
    };
    Hit {
        check: CheckName::Pii,
        rule: found.rule.to_owned(),
        severity: found.severity,
        field: field.clone(),
        start: found.span.start,
        end: found.span.end,
        description,
        value: None,
    }
}

/// Opening of a marker in the place of an identifier: `[personal:credit_card]`.
pub(super) const MARKER: &str = "[personal:";
/// Rules that find no identifier of a person or an account: contact data, and facts.
const NO_IDENTIFIERS: [&str; 7] =
    ["birth_date", "email", "ip_address", "person_name", "phone_number", "postal_address", "profile"];

/// Puts markers in the place of numbers that identify a person or an account (cards, IBAN, national numbers), wherever they
/// stand in JSON. The name of a member counts as the word before its value. Samples of documentation go as well.
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

/// A text without identifiers; `None` where it has none.
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
    for Found { rule, span, .. } in found {
        redacted.push_str(led.get(copied..span.start).unwrap_or_default());
        for part in [MARKER, rule, "]"] {
            redacted.push_str(part);
        }
        copied = span.end;
    }
    redacted.push_str(led.get(copied..).unwrap_or_default());
    Some(redacted)
}

/// The personal data in a text, in order of place; spans do not overlap.
fn find(text: &str) -> Vec<Found> {
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

/// Findings in order of place, without overlaps.
fn apart(mut found: Vec<Found>) -> Vec<Found> {
    // Of two readings of one place the graver stands, then the longer.
    found.sort_by_key(|one| (one.span.start, std::cmp::Reverse((one.severity, one.span.len()))));
    let mut kept: Vec<Found> = Vec::with_capacity(found.len());
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

/// Adds what several weak kinds come to: from the first to the last of them.
fn profile(found: &mut Vec<Found>) {
    const WEAK: [&str; 3] = ["person_name", "birth_date", "postal_address"];
    let weak: Vec<&Found> = found.iter().filter(|one| WEAK.contains(&one.rule)).collect();
    let kinds = WEAK.iter().filter(|rule| weak.iter().any(|one| one.rule == **rule)).count();
    if kinds >= PROFILE
        && let (Some(first), Some(last)) = (weak.first(), weak.last())
    {
        let span = first.span.start..last.span.end;
        found.push(Found::new("profile", "", Severity::Warning, span));
    }
}
