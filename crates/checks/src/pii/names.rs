//! Names behind a label. In: a text and the end of a label such as `Patient` or `First name`. Out: the range of the
//! name. A name is recognized by a sign behind the label and by capitals.

use std::ops::Range;

/// Longest name, in bytes.
const LONGEST_NAME: usize = 100;

/// Finds a part of a name behind a label and a sign: one capitalized word.
pub(super) fn given_name(text: &str, from: usize) -> Option<Range<usize>> {
    let start = value_start(text, from)?;
    let rest = text.get(start..text.floor_char_boundary((start + LONGEST_NAME).min(text.len())))?;
    let part = |c: char| c.is_alphabetic() || matches!(c, '-' | '\'' | '’');
    let length = rest.find(|c: char| !part(c)).unwrap_or(rest.len());
    let name = rest.get(..length)?.trim_end_matches('\'');
    let capital = name.starts_with(char::is_uppercase) && name.chars().skip(1).all(|c| !c.is_uppercase() || c == '-');
    let ends = rest
        .get(length..)
        .is_none_or(|rest| rest.is_empty() || rest.starts_with(['\n', '"', '\'', ',', ';', ' ', '<']));
    (capital && ends && name.chars().count() >= 2).then(|| start..start + name.len())
}

/// Returns the beginning of a label's value, behind a quote, a sign and blanks.
fn value_start(text: &str, from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    let sign = rest.trim_start_matches(['"', '\'', '*', ' ', '_']);
    let after = sign.strip_prefix([':', '=', '：'])?;
    let value = after.trim_start_matches([' ', '"', '\'', '*']);
    Some(from + rest.len() - value.len())
}

/// Finds a name behind a label and a colon: two to four capitalized words on the same line.
pub(super) fn name(text: &str, from: usize) -> Option<Range<usize>> {
    let start = value_start(text, from)?;
    let end = text.floor_char_boundary((start + LONGEST_NAME).min(text.len()));
    let line = text.get(start..end)?.split(['\n', '"', ',', ';', '(', '|', '<', '\\']).next()?;
    // Names without blanks: 张伟.
    let unspaced = line
        .chars()
        .take_while(|c| matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}'));
    let length: usize = unspaced.map(char::len_utf8).sum();
    if (6..=18).contains(&length) {
        return Some(start..start + length);
    }
    let mut end = 0;
    let mut words = 0;
    for word in line.split(' ').take(4) {
        let bare = word.trim_end_matches(['.', '\'']);
        let capital = bare.chars().next().is_some_and(char::is_uppercase);
        let lower = bare.chars().skip(1).any(char::is_lowercase) || bare.chars().count() == 1;
        let particle = ["de", "da", "van", "von", "der", "den", "la", "bin", "al", "del", "di", "dos"].contains(&bare);
        let letters = !bare.is_empty() && bare.chars().all(|c| c.is_alphabetic() || matches!(c, '-' | '\'' | '’'));
        if !(letters && (capital && lower || particle && words > 0)) {
            break;
        }
        words += 1;
        end += word.trim_end_matches('\'').len() + usize::from(end > 0);
        if word.ends_with('\'') {
            break;
        }
    }
    if words >= 2 {
        return Some(start..start + end);
    }
    // `Doe, Jane`
    let rest = text.get(start + end..)?;
    let given = rest.strip_prefix(", ").filter(|_| words == 1)?.split(|c: char| !c.is_alphabetic()).next()?;
    let capital = given.starts_with(char::is_uppercase) && given.chars().skip(1).any(char::is_lowercase);
    capital.then(|| start..start + end + 2 + given.len())
}
