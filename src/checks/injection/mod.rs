//! Finds text that gives orders to an assistant, or to whoever reviews one, where it has none to give: in what came
//! from outside, and in the output under review. In: an event. Out: hits. It judges no intent: it knows the forms that
//! such orders take, in several languages, and leaves alone texts that quote them to discuss them.
//!
//! One pass finds the words that every form contains; an expression then looks at the sentences around, in
//! windows that together are at most four times the text, so that cost stays linear. `phrases` is the table.

mod phrases;

use std::{
    ops::Range,
    sync::{LazyLock, OnceLock},
};

use regex::Regex;

use super::needles::Needles;
use crate::domain::{CheckName, Event, FieldName, Hit};
use phrases::{PHRASES, Phrase, Reach};

/// How much is looked at before a word, in bytes.
const BEFORE: usize = 160;
/// How much is looked at after it.
const AFTER: usize = 480;
/// How far a search covers the words that follow.
const COVERED: usize = 160;
/// Hits of one rule in one text.
const MOST_HITS: usize = 5;

struct Index {
    needles: Needles,
    /// By word: the phrase that it belongs to.
    phrases: Vec<usize>,
    compiled: Vec<OnceLock<Option<Regex>>>,
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let words = PHRASES.iter().enumerate().flat_map(|(at, phrase)| phrase.words.iter().map(move |word| (at, *word)));
    let (phrases, words): (Vec<usize>, Vec<&str>) = words.unzip();
    Index { needles: Needles::new(words), phrases, compiled: PHRASES.iter().map(|_| OnceLock::new()).collect() }
});

/// Every hit in the texts that came from outside and in the output.
pub(super) fn hits(event: &Event) -> Vec<Hit> {
    let mut hits = Vec::new();
    event.for_each_text(|field, text| {
        if field.is_outside_data() || field.is_output() {
            find(
                text,
                |phrase| reaches(phrase, &field),
                |phrase, at| {
                    hits.push(Hit {
                        check: CheckName::Injection,
                        rule: phrase.rule.to_owned(),
                        severity: phrase.severity,
                        field: field.clone(),
                        start: at.start,
                        end: at.end,
                        description: phrase.description.to_owned(),
                    });
                },
            );
        }
    });
    hits
}

fn reaches(phrase: &Phrase, field: &FieldName) -> bool {
    match phrase.reach {
        Reach::Everywhere => true,
        Reach::Outside => field.is_outside_data(),
        Reach::Tools => field.is_outside_data() && field.as_str() != "input",
    }
}

fn find<'p>(text: &str, wanted: impl Fn(&Phrase) -> bool, mut note: impl FnMut(&'p Phrase, Range<usize>)) {
    let index = &*INDEX;
    // By phrase: how far the text was searched, where the last hit ended, how many there were.
    let mut covered = vec![(0, 0, 0); PHRASES.len()];
    index.needles.find(text, |number, word| {
        let Some(at) = index.phrases.get(number).copied() else { return true };
        if let (Some(phrase), Some(compiled), Some(covered)) =
            (PHRASES.get(at), index.compiled.get(at), covered.get_mut(at))
        {
            let (until, last, count) = *covered;
            if word.start >= until && count < MOST_HITS && wanted(phrase) {
                let regex = compiled.get_or_init(|| Regex::new(phrase.pattern).ok()).as_ref();
                let hit = regex.and_then(|regex| search(text, regex, &word, last));
                let end = hit.as_ref().map_or(last, |hit| hit.end);
                *covered = (end.max(word.start + COVERED), end, count + usize::from(hit.is_some()));
                if let Some(hit) = hit {
                    note(phrase, hit);
                }
            }
        }
        true
    });
}

/// The form that stands around a word, after the last one found.
fn search(text: &str, regex: &Regex, word: &Range<usize>, last: usize) -> Option<Range<usize>> {
    let start = text.ceil_char_boundary(word.start.saturating_sub(BEFORE)).max(last);
    let window = text.get(start..text.floor_char_boundary(word.end + AFTER))?;
    let hit = regex.find_iter(window).find(|hit| !is_discussed(text, start + hit.start()))?;
    Some(start + hit.start()..start + hit.end())
}

/// Whether a phrase stands in quotes in a text that talks about such phrases.
fn is_discussed(text: &str, at: usize) -> bool {
    const TALK: [&str; 17] = [
        "prompt injection",
        "injection attack",
        "jailbreak",
        "such as",
        "e.g.",
        "for example",
        "phrases like",
        "phrase",
        "patterns like",
        "instructions like",
        "for instance",
        "attacker",
        "payload",
        "classifier",
        "detect",
        "inputs like",
        "commands like",
    ];
    let before = text.get(text.ceil_char_boundary(at.saturating_sub(4))..at).unwrap_or_default();
    let quoted = before.contains(['"', '“', '«', '„', '‘', '`'])
        || before.ends_with([' ', '(']) && before.contains('\'')
        || before.ends_with('\'');
    if !quoted {
        return false;
    }
    let around = text
        .get(text.ceil_char_boundary(at.saturating_sub(200))..text.floor_char_boundary((at + 300).min(text.len())))
        .unwrap_or_default();
    let around = around.to_ascii_lowercase();
    TALK.iter().any(|word| around.contains(word))
}
