//! Finds the stored text that a finding quotes.
//! In: stored fields, and a model's quote or a hit's offsets. Out: evidence whose quote is exactly the stored text
//! at its offsets, or none. Never: a quote with another word in it.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};

use super::sections::{quoted, stored_text};
use umbra_domain::{Event, Evidence, FieldName, Hit};

/// Fewest characters other than white space by which a quote identifies a place, and fewest if all are small letters:
/// shorter words stand in any text.
const MIN_QUOTE_CHARS: usize = 3;
const MIN_SMALL_LETTERS: usize = 5;
/// Longest quote that is looked up loosely, in bytes. A longer one must match exactly.
const MAX_LOOSE_BYTES: usize = 2_000;
/// Most characters stored of a model's quote.
const MAX_QUOTE_CHARS: usize = 500;
/// Most characters stored of the text that a check hit.
const MAX_HIT_CHARS: usize = 300;

/// Looks up a model's quote in the fields, in their order: exactly, else without regard to case and to runs of white
/// space. It must match whole. A quote with one level of JSON escapes too many or too few counts as the same.
pub(super) fn of_quote(fields: &[(FieldName, &str)], quote: &str) -> Option<Evidence> {
    let mut readings = vec![Cow::Borrowed(quote)];
    if quote.contains('\\') {
        readings.push(Cow::Owned(unescape(quote)));
    }
    let escaped = quoted(quote);
    readings.extend(escaped.get(1..escaped.len() - 1).filter(|inner| *inner != quote).map(Cow::Borrowed));
    readings.retain(|reading| {
        let signs = || reading.chars().filter(|c| !c.is_whitespace());
        let least = if signs().all(|c| c.is_ascii_lowercase()) { MIN_SMALL_LETTERS } else { MIN_QUOTE_CHARS };
        signs().count() >= least
    });
    let exactly = readings.iter().find_map(|reading| {
        fields.iter().find_map(|(field, text)| {
            let start = text.find(reading.as_ref())?;
            cut(field, text, start, start + reading.len(), MAX_QUOTE_CHARS)
        })
    });
    exactly.or_else(|| {
        readings.iter().filter_map(|reading| loosely(reading)).find_map(|pattern| {
            fields.iter().find_map(|(field, text)| {
                let found = pattern.find(text)?;
                cut(field, text, found.start(), found.end(), MAX_QUOTE_CHARS)
            })
        })
    })
}

/// Builds a pattern of a quote's words in any case, with any white space between them; `None` for a quote that is too
/// long, or whose few letters stand in any text.
fn loosely(quote: &str) -> Option<Regex> {
    let signs = || quote.chars().filter(|c| !c.is_whitespace());
    if quote.len() > MAX_LOOSE_BYTES || signs().all(char::is_alphabetic) && signs().count() < MIN_SMALL_LETTERS {
        return None;
    }
    let words: Vec<String> = quote.split_whitespace().map(regex::escape).collect();
    RegexBuilder::new(&words.join(r"\s+")).case_insensitive(true).build().ok()
}

/// Returns the text that a check hit; `None` if its offsets do not fit the stored field. An empty range at the start of
/// an absent field fits: emptiness is reported that way.
pub(super) fn of_hit(event: &Event, hit: &Hit) -> Option<Evidence> {
    let text = stored_text(event, &hit.field).unwrap_or_default();
    cut(&hit.field, text, hit.start, hit.end, MAX_HIT_CHARS)
}

/// Returns the evidence at these offsets, shortened to `max_chars` at its end.
fn cut(field: &FieldName, text: &str, start: usize, end: usize, max_chars: usize) -> Option<Evidence> {
    let quote = text.get(start..end)?;
    let quote = quote.char_indices().nth(max_chars).and_then(|(at, _)| quote.get(..at)).unwrap_or(quote);
    Some(Evidence { field: field.clone(), quote: quote.to_owned(), start, end: start + quote.len() })
}

/// Resolves JSON escapes; other backslashes stay as they are.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        // The longest form is a pair of `\uXXXX`, for a character beyond the first plane.
        let escape = [11, 5, 1].into_iter().find_map(|len| {
            let body = after.get(..len).filter(|body| len == 1 || body.starts_with('u'))?;
            let resolved = serde_json::from_str::<String>(&format!("\"\\{body}\"")).ok()?;
            (resolved.chars().count() == 1).then_some((len, resolved))
        });
        let (len, resolved) = escape.unwrap_or((0, "\\".to_owned()));
        out.push_str(&resolved);
        rest = after.get(len..).unwrap_or_default();
    }
    out + rest
}
