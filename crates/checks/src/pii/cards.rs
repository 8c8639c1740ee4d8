//! Payment card numbers. In: digits, their place and the announcing words. Out: true for a card's number. A number in
//! the range of a large network needs no announcement; any other needs a word before it.

use super::contexts::{Contexts, Topic};
use crate::word_lists;

/// Longest distance from a word to the number behind it, in bytes.
const NEAR: usize = 64;

/// True if digits pass the check of ISO/IEC 7812-1 for card numbers.
pub(super) fn luhn(digits: &str) -> bool {
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(place, digit)| {
            let value = u32::from(digit - b'0');
            let doubled = value * 2;
            if place % 2 == 0 { value } else { doubled / 10 + doubled % 10 }
        })
        .sum();
    sum.is_multiple_of(10)
}

pub(super) fn is_card(digits: &str, start: usize, contexts: &Contexts) -> bool {
    let same = digits.bytes().skip(1).all(|digit| Some(&digit) == digits.as_bytes().first());
    let sample = word_lists::lists("test_cards", digits) || digits.starts_with("4000000");
    if same || (sample && !contexts.samples) || !luhn(digits) {
        return false;
    }
    if contexts.before(start, NEAR, Topic::Card) {
        return !digits.starts_with('0');
    }
    !contexts.before(start, NEAR, Topic::Thing) && is_issued(digits)
}

/// True if the number is in the range of a large network, with the length that it issues (ISO/IEC 7812 register).
fn is_issued(digits: &str) -> bool {
    let head = |count: usize| digits.get(..count).and_then(|head| head.parse::<u32>().ok()).unwrap_or_default();
    match digits.len() {
        15 => matches!(head(2), 34 | 37),
        16 => {
            head(1) == 4
                || matches!(head(2), 51..=55 | 65)
                || matches!(head(4), 2200..=2204 | 2221..=2720 | 3528..=3589 | 6011)
                || matches!(head(3), 644..=649)
        }
        _ => false,
    }
}

/// True if an unquoted number is a member named `id`, or with a name that ends in it.
pub(super) fn is_identifier(text: &str, start: usize) -> bool {
    let from = text.ceil_char_boundary(start.saturating_sub(NEAR));
    let before = text.get(from..start).unwrap_or_default().trim_end();
    let name = before.strip_suffix(':').map(str::trim_end).and_then(|name| name.strip_suffix('"')).unwrap_or_default();
    let name = name.rsplit('"').next().unwrap_or_default();
    name == "id" || name.ends_with("_id") || name.ends_with("Id")
}
