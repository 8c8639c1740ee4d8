//! Selects the reminders for a reviewer: earlier findings that people judged, most like this event first, and lessons
//! that are open for the agent.
//! In: an event with its hits, cases, lessons. Out: a few lines of JSON within a budget. Never: more than the budget,
//! or a case that has nothing in common with the event.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use umbra_domain::{Event, Hit};

/// Most bytes of all lines, with their line breaks.
pub(super) const MEMORY_BYTES: usize = 4_096;
/// Most cases.
const MAX_CASES: usize = 3;
/// Most lessons.
const MAX_LESSONS: usize = 3;
/// Most lines.
pub(super) const MEMORY_LINES: usize = MAX_CASES + MAX_LESSONS;
/// Most characters of a description.
const DESCRIPTION_CHARS: usize = 240;
/// Most characters of a quote, and of a note.
const QUOTE_CHARS: usize = 160;
/// Fewest characters of a word that is compared.
const WORD_CHARS: usize = 3;
/// Most different words of an event that are compared.
const MAX_WORDS: usize = 20_000;
/// Least share of a case's words that the event must hold, unless a check hit by the same rule.
const LEAST_LIKENESS: f64 = 0.25;

/// An earlier finding that people judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedFinding {
    /// True if people confirmed it; otherwise it was a false positive.
    pub was_right: bool,
    /// True if it was of the same agent.
    pub same_agent: bool,
    /// Rule of the check, or checklist item of the model.
    pub rule: String,
    /// Description of the finding.
    pub description: String,
    /// Text that it quoted.
    pub quote: Option<String>,
    /// Note by people.
    pub note: Option<String>,
}

/// A lesson that is open for the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lesson {
    /// Text of the lesson, in our words.
    pub text: String,
    /// Description of the fault by a reviewer.
    pub description: Option<String>,
}

/// Returns the reminders for the reviewer of this event, as lines for `memory` of the review.
pub fn select_reminders(event: &Event, hits: &[Hit], cases: &[JudgedFinding], lessons: &[Lesson]) -> Vec<String> {
    let lessons = lessons.iter().take(MAX_LESSONS).map(|lesson| {
        line([
            ("recurring_fault", Some(Value::from(lesson.text.as_str()))),
            ("described_as", lesson.description.as_deref().map(|text| cut(text, DESCRIPTION_CHARS))),
        ])
    });
    let mut left = MEMORY_BYTES;
    let fits = |line: &String| {
        let fits = line.len() < left;
        left -= if fits { line.len() + 1 } else { 0 };
        fits
    };
    lessons.chain(alike(event, hits, cases).into_iter().map(told)).filter(fits).collect()
}

/// Returns the cases most like the event, most alike first; of equal ones the agent's own, then the first.
fn alike<'a>(event: &Event, hits: &[Hit], cases: &'a [JudgedFinding]) -> Vec<&'a JudgedFinding> {
    if cases.is_empty() {
        return Vec::new();
    }
    let mut here = BTreeSet::new();
    event.for_each_text(|_, text| {
        for word in words(text) {
            if here.len() < MAX_WORDS {
                here.insert(word);
            }
        }
    });
    let rules: BTreeSet<String> = hits.iter().map(|hit| format!("{}.{}", hit.check.as_str(), hit.rule)).collect();
    let mut ranked: Vec<(f64, &JudgedFinding)> = Vec::new();
    for case in cases {
        let likeness = likeness(case, &here) + if rules.contains(&case.rule) { 1.0 } else { 0.0 };
        let known = ranked.iter().any(|(_, other)| other.description == case.description && other.quote == case.quote);
        if likeness >= LEAST_LIKENESS && !known {
            ranked.push((likeness, case));
        }
    }
    ranked.sort_by(|(a, one), (b, other)| b.total_cmp(a).then(other.same_agent.cmp(&one.same_agent)));
    ranked.into_iter().take(MAX_CASES).map(|(_, case)| case).collect()
}

/// Returns the share of a case's words that the event holds. The words of its quote count, since they are of the
/// event's kind; without a quote, those of its description.
fn likeness(case: &JudgedFinding, here: &BTreeSet<String>) -> f64 {
    let there: BTreeSet<String> = words(case.quote.as_deref().unwrap_or(&case.description)).collect();
    let shared = there.intersection(here).count();
    #[expect(clippy::cast_precision_loss, reason = "counts of words")]
    let share = shared as f64 / there.len().max(1) as f64;
    share
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| word.chars().count() >= WORD_CHARS).map(str::to_lowercase)
}

fn told(case: &JudgedFinding) -> String {
    line([
        ("earlier_finding", Some(cut(&case.description, DESCRIPTION_CHARS))),
        ("people_said", Some(Value::from(if case.was_right { "confirmed" } else { "false_positive" }))),
        ("same_agent", Some(Value::from(case.same_agent))),
        ("rule", Some(cut(&case.rule, QUOTE_CHARS))),
        ("quote", case.quote.as_deref().map(|text| cut(text, QUOTE_CHARS))),
        ("note", case.note.as_deref().map(|text| cut(text, QUOTE_CHARS))),
    ])
}

fn line<const N: usize>(parts: [(&str, Option<Value>); N]) -> String {
    let known = parts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(known.collect::<Map<_, _>>()).to_string()
}

fn cut(text: &str, max_chars: usize) -> Value {
    Value::from(text.chars().take(max_chars).collect::<String>())
}
