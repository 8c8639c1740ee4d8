//! Check for text that gives orders to an assistant or its reviewer without the right to: in outside data, and in the
//! output under review. In: an event. Out: hits. Intent is not judged: the check knows the forms of such orders, in
//! several languages, and skips texts that quote them for discussion.
//!
//! The same forms (`forms`, searched by `search`) are searched in the plain text, with disguised words restored
//! (`words`), and in encoded parts (`encoded`). Cost is linear: words are read once, expressions run only where a match
//! may begin.

mod encoded;
mod forms;
mod lookalikes;
mod search;
mod word_scan;

use std::{borrow::Cow, ops::Range};

pub(crate) use search::OrderForms;

use super::rules::in_force;
use forms::Form;
use umbra_domain::{CheckName, Event, FieldName, Hit, Severity, TextScope};
use word_scan::View;

/// A detected order, with its place in the stored text.
struct OrderFinding {
    rule: &'static str,
    severity: Severity,
    at: Range<usize>,
    description: &'static str,
}

impl OrderFinding {
    fn warning(rule: &'static str, at: Range<usize>, description: &'static str) -> Self {
        Self { rule, severity: Severity::Warning, at, description }
    }

    fn of(form: &Form, at: Range<usize>, text: &str) -> Self {
        Self { rule: form.rule, severity: form.severity_at(text, &at), at, description: form.description }
    }
}

/// Returns the hits in the texts that the agent was given and in its output. A task may give an assistant any order;
/// the reviewer of its work takes none.
pub(super) fn hits(event: &Event) -> Vec<Hit> {
    let (rules, mut hits) = (in_force(), Vec::new());
    event.for_each_text(|field, text| {
        if field.is_given() || field.is_output() {
            let counts =
                |one: &OrderFinding| field.is_outside_data() || field.is_output() || one.rule == forms::TO_REVIEWER;
            hits.extend(found(&rules.injection, text, &field).into_iter().filter(counts).map(|one| {
                Hit::new(CheckName::Injection, one.rule, one.severity, field.clone(), one.at, one.description)
            }));
        }
    });
    hits
}

fn found(index: &OrderForms, text: &str, field: &FieldName) -> Vec<OrderFinding> {
    let reaches = |scope: TextScope| match scope {
        TextScope::All => true,
        TextScope::Outside => field.is_outside_data(),
        TextScope::Tools => field.is_outside_data() && field.as_str() != "input",
    };
    let text = without_escapes(text);
    let text = text.as_ref();
    let mut found = Vec::new();
    search::find(index, text, reaches, |form, at| found.push(OrderFinding::of(form, at, text)));
    let words = word_scan::scan_words(text);
    if let Some(view) = words.view {
        disguised(index, text, &view, reaches, &mut found);
    }
    encoded::find(index, text, &words.blobs, reaches, &mut found);
    found.sort_by_key(|one| (one.at.start, one.at.end));
    found.dedup_by(|a, b| a.rule == b.rule && a.at == b.at);
    found
}

/// Adds orders that appear only once disguised words are restored; others were found in the plain text.
fn disguised(
    index: &OrderForms,
    text: &str,
    view: &View,
    reaches: impl Fn(TextScope) -> bool,
    found: &mut Vec<OrderFinding>,
) {
    search::find(index, &view.text, reaches, |form, at| {
        found.extend(view.origin(&at).map(|at| OrderFinding::of(form, at, text)));
    });
}

/// Replaces `\n` of JSON and quoted strings by line breaks, and blanks of other widths by plain ones. All places stay
/// the same.
fn without_escapes(text: &str) -> Cow<'_, str> {
    let mut plain: Option<String> = None;
    let mut copied = 0;
    for at in memchr::memchr3_iter(b'\\', 0xc2, 0xe2, text.as_bytes()) {
        let blank = match text.as_bytes().get(at..).unwrap_or_default() {
            [b'\\', b'n', ..] => " \n",
            [b'\\', b'r', ..] => " \r",
            [b'\\', b't', ..] => " \t",
            // No-break; en and em, thin and hair; narrow; mathematical.
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
