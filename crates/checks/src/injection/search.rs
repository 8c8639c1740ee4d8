//! Search for the forms of orders. One pass finds the words that every form contains; an expression then reads the
//! sentences around them, in windows that together are at most a few times the text, so cost stays linear.

use std::ops::Range;

use regex::bytes::Regex;

use super::forms::Form;
use crate::{literal_scanner::LiteralScanner, word_lists};
use umbra_domain::{CheckRule, TextScope};

/// Bytes that are read before a word.
const BEFORE: usize = 160;
/// Bytes that are read after a word.
const AFTER: usize = 480;
/// Bytes after a word within which further words of the form start no new search.
const COVERED: usize = 160;
/// Most hits of one form in one text.
const MOST_HITS: usize = 5;

/// Forms in force, with a scanner for their words.
#[derive(Debug)]
pub(crate) struct OrderForms {
    needles: LiteralScanner,
    /// Index of the form that each word belongs to.
    by_word: Vec<usize>,
    forms: Vec<Form>,
}

impl OrderForms {
    pub(crate) fn new<'r>(rows: impl Iterator<Item = &'r &'r CheckRule>) -> Self {
        let forms: Vec<Form> = rows.filter_map(|row| Form::new(row)).collect();
        let words =
            forms.iter().enumerate().flat_map(|(at, form)| form.words.iter().map(move |word| (at, word.as_str())));
        let (by_word, words): (Vec<usize>, Vec<&str>) = words.unzip();
        Self { needles: LiteralScanner::new(words), by_word, forms }
    }
}

/// Progress of a form: end of the searched part, end of the last hit, number of hits.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    until: usize,
    last: usize,
    count: usize,
}

/// Calls `note` with each form found in a text that is within its scope, and with its place.
pub(super) fn find<'f>(
    index: &'f OrderForms,
    text: &str,
    reaches: impl Fn(TextScope) -> bool,
    mut note: impl FnMut(&'f Form, Range<usize>),
) {
    let mut progress = vec![Progress::default(); index.forms.len()];
    index.needles.find(text, |number, word| {
        if let Some(at) = index.by_word.get(number).copied()
            && let (Some(form), Some(now)) = (index.forms.get(at), progress.get_mut(at))
            && word.start >= now.until
            && now.count < MOST_HITS
            && reaches(form.scope)
        {
            now.until = word.start + COVERED;
            if let Some(hit) = form.regex().and_then(|regex| around(text, regex, &word, now.last)) {
                *now = Progress { until: now.until.max(hit.end), last: hit.end, count: now.count + 1 };
                note(form, hit);
            }
        }
        true
    });
    for form in index.forms.iter().filter(|form| form.words.is_empty() && reaches(form.scope)) {
        let mut last = 0;
        for _ in 0..MOST_HITS {
            let Some(hit) = form.regex().and_then(|regex| from(text, regex, last)) else { break };
            last = hit.end;
            note(form, hit);
        }
    }
}

/// Finds the form around a word, behind the last hit.
fn around(text: &str, regex: &Regex, word: &Range<usize>, last: usize) -> Option<Range<usize>> {
    let start = text.ceil_char_boundary(word.start.saturating_sub(BEFORE)).max(last);
    from(text.get(..text.floor_char_boundary(word.end + AFTER))?, regex, start)
}

/// Finds the first match from a place on, without its leading separators.
fn from(text: &str, regex: &Regex, mut from: usize) -> Option<Range<usize>> {
    while let Some(hit) = regex.find_at(text.as_bytes(), from) {
        // An expression that counts bytes may end within a character.
        let (start, end) = (text.ceil_char_boundary(hit.start()), text.floor_char_boundary(hit.end()));
        let whole = text.get(start..end).unwrap_or_default();
        let lead = whole.len() - whole.trim_start_matches(parts).len();
        let at = start + lead..start + whole.trim_end().len();
        if !at.is_empty() && !is_discussed(text, at.start) && !is_note_in_code(text, &at) && !is_reported(text, &at) {
            return Some(at);
        }
        from = hit.end().max(text.ceil_char_boundary(from + 1));
        if from >= text.len() {
            break;
        }
    }
    None
}

fn parts(c: char) -> bool {
    c.is_whitespace() || matches!(c, '.' | '!' | '?' | ':' | ';' | ',' | ')' | ']' | '>' | '"' | '\'' | '*' | '-')
}

/// Longest distance of a quotation mark before and behind a quoted phrase, in bytes.
const LONGEST_QUOTE: usize = 120;

/// True if a phrase stands in quotes in a text about such phrases.
fn is_discussed(text: &str, at: usize) -> bool {
    let before = text.get(text.ceil_char_boundary(at.saturating_sub(LONGEST_QUOTE))..at).unwrap_or_default();
    let behind = text.get(at..text.floor_char_boundary((at + LONGEST_QUOTE).min(text.len()))).unwrap_or_default();
    if !is_quoted(before) || !behind.contains(['"', '`', '”', '»', '’', '\'', '“']) {
        return false;
    }
    let around = text
        .get(text.ceil_char_boundary(at.saturating_sub(200))..text.floor_char_boundary((at + 300).min(text.len())))
        .unwrap_or_default();
    let around = around.to_ascii_lowercase();
    word_lists::lines("talk_of_injection").any(|word| around.contains(word))
}

/// True if a phrase reports an act instead of ordering it, in languages where both look alike:
/// `el sistema ignora las instrucciones`, `elle a ignoré les consignes`.
fn is_reported(text: &str, at: &Range<usize>) -> bool {
    const VERBS: [&str; 10] =
        ["ignora", "ignoran", "ignoró", "ignoré", "ignorent", "ignoriert", "ignorato", "ignorou", "olvidó", "oublié"];
    const AUXILIARIES: [&str; 10] = ["a", "ai", "ont", "avait", "ha", "han", "había", "hat", "haben", "hatte"];
    const ARTICLES: [&str; 12] = ["el", "la", "los", "las", "le", "les", "il", "lo", "o", "der", "die", "das"];
    let first = text.get(at.clone()).and_then(|hit| hit.split_whitespace().next()).unwrap_or_default().to_lowercase();
    // A participle may lack its accent.
    let participle = first == "ignore";
    if !participle && !VERBS.contains(&first.as_str()) {
        return false;
    }
    let before =
        text.get(text.ceil_char_boundary(at.start.saturating_sub(LONGEST_QUOTE))..at.start).unwrap_or_default();
    let clause = before.rsplit(['.', '!', '?', ',', ';', ':', '\n']).next().unwrap_or_default().to_lowercase();
    let mut words = clause.split_whitespace().rev();
    let (last, other) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    AUXILIARIES.contains(&last) || !participle && ARTICLES.contains(&other)
}

/// True if the line before a place opens a quotation and does not close it.
fn is_quoted(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    let odd = |mark: char| line.matches(mark).count() % 2 == 1;
    // The value of a JSON key is no quotation.
    if line.rsplit_once('"').is_some_and(|(key, _)| key.trim_end().ends_with("\":")) {
        return false;
    }
    let single = line.char_indices().filter(|(at, c)| {
        // An apostrophe in a word is no quote.
        *c == '\'' && !line.get(..*at).is_some_and(|left| left.ends_with(char::is_alphabetic))
    });
    odd('"')
        || odd('`')
        || line
            .rfind(['“', '«', '„', '‘'])
            .is_some_and(|open| !line.get(open..).unwrap_or_default().contains(['”', '»', '’']))
        || single.count() % 2 == 1
}

/// True for a programmer's note (TODO) behind a comment's mark.
fn is_note_in_code(text: &str, at: &Range<usize>) -> bool {
    const MARKS: [&str; 8] = ["//", "#", "/*", "*", "--", ";", "%", "<!--"];
    if !text.get(at.clone()).is_some_and(|hit| hit.starts_with("TODO")) {
        return false;
    }
    let line = text.get(..at.start).and_then(|before| before.rsplit('\n').next()).unwrap_or_default().trim_end();
    line.len() < 400 && MARKS.iter().any(|mark| line.ends_with(mark))
}
