//! Finds text that gives orders to an assistant, or to whoever reviews one, where it has none to give: in what came
//! from outside, and in the output under review. In: an event. Out: hits. It judges no intent: it knows the forms that
//! such orders take, in several languages, and leaves alone texts that quote them to discuss them.
//!
//! The same forms (`forms`, searched by `search`) are looked for in the text as it stands, with the disguise of single
//! words undone (`words`), and in what is encoded in it (`encoded`). Cost is linear: words are looked at once, expressions
//! only around what may begin one.

mod encoded;
mod forms;
mod lookalikes;
mod search;
mod words;

use std::{borrow::Cow, ops::Range};

pub(crate) use search::Index;

use super::rules::in_force;
use forms::Form;
use umbra_domain::{CheckName, Event, FieldName, Hit, Severity, TextScope};
use words::View;

/// An order that was found; `at` lies in the text as stored.
struct Found {
    rule: &'static str,
    severity: Severity,
    at: Range<usize>,
    description: &'static str,
}

impl Found {
    fn warning(rule: &'static str, at: Range<usize>, description: &'static str) -> Self {
        Self { rule, severity: Severity::Warning, at, description }
    }

    fn of(form: &Form, at: Range<usize>, text: &str) -> Self {
        Self { rule: form.rule, severity: form.severity_at(text, &at), at, description: form.description }
    }
}

/// Every hit in what the agent was given and in its output. Whoever sets a task may give an assistant any order, and a
/// judge of its work none.
pub(super) fn hits(event: &Event) -> Vec<Hit> {
    let (rules, mut hits) = (in_force(), Vec::new());
    event.for_each_text(|field, text| {
        if field.is_given() || field.is_output() {
            let counts = |one: &Found| field.is_outside_data() || field.is_output() || one.rule == forms::TO_REVIEWER;
            hits.extend(found(&rules.injection, text, &field).into_iter().filter(counts).map(|one| Hit {
                check: CheckName::Injection,
                rule: one.rule.to_owned(),
                severity: one.severity,
                field: field.clone(),
                start: one.at.start,
                end: one.at.end,
                description: one.description.to_owned(),
                value: None,
            }));
        }
    });
    hits
}

fn found(index: &Index, text: &str, field: &FieldName) -> Vec<Found> {
    let reaches = |scope: TextScope| match scope {
        TextScope::All => true,
        TextScope::Outside => field.is_outside_data(),
        TextScope::Tools => field.is_outside_data() && field.as_str() != "input",
    };
    let text = without_escapes(text);
    let text = text.as_ref();
    let mut found = Vec::new();
    search::find(index, text, reaches, |form, at| found.push(Found::of(form, at, text)));
    let words = words::look(text);
    if let Some(view) = words.view {
        disguised(index, text, &view, reaches, &mut found);
    }
    encoded::find(index, text, &words.blobs, reaches, &mut found);
    found.sort_by_key(|one| (one.at.start, one.at.end));
    found.dedup_by(|a, b| a.rule == b.rule && a.at == b.at);
    found
}

/// What stands in a view of the text; what stands in its plain words was found before.
fn disguised(index: &Index, text: &str, view: &View, reaches: impl Fn(TextScope) -> bool, found: &mut Vec<Found>) {
    search::find(index, &view.text, reaches, |form, at| {
        found.extend(view.origin(&at).map(|at| Found::of(form, at, text)));
    });
}

/// The text with line breaks where JSON or a quoted string writes `\n`, and plain blanks for those of other widths; every
/// place stays what it is.
fn without_escapes(text: &str) -> Cow<'_, str> {
    let mut plain: Option<String> = None;
    let mut copied = 0;
    for at in memchr::memchr3_iter(b'\\', 0xc2, 0xe2, text.as_bytes()) {
        let blank = match text.as_bytes().get(at..).unwrap_or_default() {
            [b'\\', b'n', ..] => " \n",
            [b'\\', b'r', ..] => " \r",
            [b'\\', b't', ..] => " \t",
            // No-break; en and em, thin and hair; narrow; of mathematics.
            [0xc2, 0xa0, ..] => "  ",
            [0xe2, 0x80, 0x80..=0x8a | 0xaf, ..] | [0xe2, 0x81, 0x9f, ..] => "   ",
            _ => continue,
        };
        let plain = plain.get_or_insert_with(|| String::with_capacity(text.len()));
        plain.push_str(text.get(copied..at).unwrap_or_default());
        plain.push_str(blank);
        copied = at + blank.len();
    }
    match plain {
        None => Cow::Borrowed(text),
        Some(plain) => Cow::Owned(plain + text.get(copied..).unwrap_or_default()),
    }
}
