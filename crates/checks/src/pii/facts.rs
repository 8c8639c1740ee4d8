//! Facts that are personal because of whom they are told: an illness, a salary, a religion beside a name; where somebody
//! lives, as coordinates; the name that somebody has in a network of people. In: a text and the place of a word that
//! announces such a fact. Out: the fact with its person, where both stand in one line.

use std::ops::Range;

/// How far around its word a person is looked for, in bytes.
const AROUND: usize = 96;

/// The illness or feature at a word, with the person who has it.
pub(super) fn of_person(text: &str, at: &Range<usize>) -> Option<Range<usize>> {
    let line = line_around(text, at);
    let person = person(text.get(line.clone())?)?;
    let span = line.start + person.start..line.start + person.end;
    Some(span.start.min(at.start)..span.end.max(at.end))
}

/// The amount that a word and a person belong to.
pub(super) fn pay(text: &str, at: &Range<usize>) -> Option<Range<usize>> {
    let line = line_around(text, at);
    let told = text.get(line.clone())?;
    let digits = told.bytes().filter(u8::is_ascii_digit).count();
    (digits >= 2).then(|| of_person(text, at))?
}

/// The sentence or line about a place, as far as it is near.
fn line_around(text: &str, at: &Range<usize>) -> Range<usize> {
    let from = text.floor_char_boundary(at.start.saturating_sub(AROUND));
    let to = text.ceil_char_boundary((at.end + AROUND).min(text.len()));
    let before = text.get(from..at.start).unwrap_or_default();
    let after = text.get(at.end..to).unwrap_or_default();
    let start = ['\n', ';'].iter().filter_map(|end| before.rfind(*end)).chain(before.rfind(". ")).max();
    let end = ['\n', ';'].iter().filter_map(|end| after.find(*end)).chain(after.find(". ")).min();
    start.map_or(from, |found| from + found + 1)..end.map_or(to, |found| at.end + found)
}

/// The first person that a line names: two words that begin with capitals, or one behind a title.
fn person(line: &str) -> Option<Range<usize>> {
    const TITLES: [&str; 9] = ["Mr", "Mrs", "Ms", "Dr", "Herr", "Herrn", "Frau", "Mme", "Sra"];
    /// Words that begin a sentence, and those of names that are no person's.
    const OTHERS: [&str; 22] = [
        "The", "A", "An", "Our", "In", "For", "Of", "And", "Average", "Annual", "Base", "Civil", "New", "United",
        "Human", "World", "National", "Health", "Blood", "Credit", "Patient", "Employee",
    ];
    let mut before: Option<Range<usize>> = None;
    let mut at = 0;
    for word in line.split(' ') {
        let start = at + word.len() - word.trim_start_matches(['"', '\'', '(']).len();
        at += word.len() + 1;
        let bare = word.trim_start_matches(['"', '\'', '(']);
        let bare = bare.strip_suffix("'s").or_else(|| bare.strip_suffix("’s")).unwrap_or(bare);
        let ends = bare.ends_with([',', '.', ':', ')', '"']);
        let bare = bare.trim_end_matches([',', '.', ':', ')', '"', '\'']);
        let mut letters = bare.chars();
        let capital = letters.next().is_some_and(char::is_uppercase)
            && bare.chars().count() > 1
            && letters.all(|c| c.is_lowercase() || matches!(c, '-' | '\'' | '’') || c.is_uppercase())
            && bare.chars().any(char::is_lowercase)
            && bare.chars().all(|c| c.is_alphabetic() || matches!(c, '-' | '\'' | '’'));
        if !capital {
            before = None;
            continue;
        }
        if let Some(first) = before {
            return Some(first.start..start + bare.len());
        }
        let title = TITLES.contains(&bare);
        let begins = (!OTHERS.contains(&bare) && !ends) || title;
        before = begins.then_some(start..start + bare.len());
    }
    None
}

/// A place on earth to ten metres or so behind a word: `52.52437, 13.41053`.
pub(super) fn coordinates(text: &str, from: usize) -> Option<Range<usize>> {
    const REACH: usize = 64;
    let window = text.get(from..text.floor_char_boundary((from + REACH).min(text.len())))?;
    let mut places = Vec::new();
    let mut at = 0;
    for part in window.split(|c: char| !(c.is_ascii_digit() || c == '.')) {
        let fine = part.split_once('.').is_some_and(|(whole, fraction)| {
            (1..=3).contains(&whole.len())
                && whole.parse::<u16>().is_ok_and(|degrees| degrees <= 180)
                && fraction.len() >= 4
                && fraction.bytes().all(|byte| byte.is_ascii_digit())
        });
        if fine {
            places.push(at..at + part.len());
        }
        at += part.len();
        at += window.get(at..)?.chars().next().map_or(0, char::len_utf8);
    }
    match places.as_slice() {
        [first, second, ..] => Some(from + first.start..from + second.end),
        _ => None,
    }
}

/// The name behind `my Instagram is @`, `Skype: live:` or in the address of a profile.
pub(super) fn handle(text: &str, word: &Range<usize>) -> Option<Range<usize>> {
    const REACH: usize = 16;
    let address = text.get(word.clone())?.ends_with('/');
    let labelled = text.get(word.clone())?.ends_with(':');
    let window = text.get(word.end..text.floor_char_boundary((word.end + 64).min(text.len())))?;
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '#' | ':');
    let skipped = window.trim_start_matches([' ', ':', '=', '"', '@']);
    let skipped = skipped.strip_prefix("is ").unwrap_or(skipped).trim_start_matches('@');
    let lead = window.len() - skipped.len();
    let length = skipped.find(|c: char| !part(c)).unwrap_or(skipped.len());
    let name = skipped.get(..length)?.trim_end_matches(['.', ':', '-']);
    let told = name.contains(|c: char| c.is_ascii_digit() || matches!(c, '_' | '.' | '#'));
    let marked = window.get(..lead)?.contains('@');
    let fits = if address { told || name.contains('-') } else { told || marked && !labelled };
    (lead <= REACH && name.len() >= 4 && fits && (!address || lead == 0))
        .then_some(word.end + lead..word.end + lead + name.len())
}
