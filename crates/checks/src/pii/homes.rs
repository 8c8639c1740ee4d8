//! Home addresses. In: a text and the end of a word such as `Anschrift`. Out: the address behind it: a number and a
//! street, to the end of the line.

use std::ops::Range;

use super::shapes::digits_of;
use crate::word_lists;

/// True for a word of four to six digits, or mixed ones as in Britain, the Netherlands and Canada.
pub(super) fn has_postal_code(address: &str) -> bool {
    let words: Vec<&str> = address.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let digits = |word: &&str| (4..=6).contains(&word.len()) && digits_of(word) == word.len();
    let mixed = |word: &&str| {
        (2..=4).contains(&word.len()) && digits_of(word) >= 1 && word.bytes().any(|byte| byte.is_ascii_uppercase())
    };
    words.iter().skip(1).any(digits) || words.windows(2).any(|pair| pair.iter().all(mixed))
}

/// Finds a number and a street behind a word, to the end of the line.
pub(super) fn postal_address(text: &str, from: usize) -> Option<Range<usize>> {
    let end = text.floor_char_boundary((from + 110).min(text.len()));
    let window = text.get(from..end)?;
    let lead = window.len() - window.trim_start_matches(|c: char| !c.is_alphanumeric()).len();
    let line = window.get(lead..)?.split(['\n', '"', '\'', '\\', '<', '{']).next()?.trim_end();
    let words = || line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let street = words().any(|word| {
        let lower = word.to_lowercase();
        word_lists::words("streets").any(|street| lower == street || street.len() >= 5 && lower.ends_with(street))
    });
    let numbered = words().take(8).any(|word| {
        word.len() <= 6
            && word.bytes().filter(u8::is_ascii_digit).count() + 1 >= word.len()
            && word.bytes().any(|b| b.is_ascii_digit())
    });
    // Addresses without blanks: 朝阳区建国路88号.
    let parts = ['市', '区', '區', '路', '号', '號', '丁', '町', '県', '都', '동', '구'];
    let unspaced = line.matches(parts).count() >= 2 && line.contains(|c: char| c.is_ascii_digit());
    let (street, numbered) = (street || unspaced, numbered || unspaced);
    (lead <= 24 && street && numbered).then(|| from + lead..from + lead + line.len())
}
