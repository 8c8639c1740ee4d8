//! International bank account numbers. In: a text and the place of a word. Out: the number that begins there, if it has
//! its country's length and passes its check (ISO 13616).

use std::ops::Range;

use crate::word_lists;

/// Lengths of account numbers (SWIFT IBAN registry).
const IBAN_LENGTHS: &[(usize, &str)] = &[
    (15, "NO"),
    (16, "BE"),
    (18, "DK FO FI GL NL SD FK"),
    (19, "MK SI"),
    (20, "AT BA EE KZ XK LT LU MN"),
    (21, "HR LV LI CH"),
    (22, "BH BG CR GE DE IE ME RS GB VA"),
    (23, "TL GI IQ IL OM SO AE"),
    (24, "AD CZ MD PK RO SA SK ES SE TN VG"),
    (25, "LY PT ST"),
    (26, "IS TR"),
    (27, "BI DJ FR GR IT MR MC SM"),
    (28, "AL AZ BY CY DO SV GT HU LB NI PL"),
    (29, "BR EG PS QA UA"),
    (30, "JO KW MU YE"),
    (31, "MT SC"),
    (32, "LC"),
    (33, "RU"),
];

/// Finds the account number that begins at a word, with single separators between its groups.
pub(super) fn iban(text: &str, start: usize) -> Option<Range<usize>> {
    let rest = text.get(start..)?;
    let [a, b, c, d, ..] = rest.as_bytes() else { return None };
    if !(a.is_ascii_alphabetic() && b.is_ascii_alphabetic() && c.is_ascii_digit() && d.is_ascii_digit()) {
        return None;
    }
    let country = rest.get(..2)?.to_ascii_uppercase();
    let length = IBAN_LENGTHS.iter().find(|(_, countries)| countries.split(' ').any(|one| one == country))?.0;
    let mut compact = Vec::with_capacity(length);
    let mut gap = false;
    let mut end = 0;
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            b' ' | b'-' if !gap && at > 0 => gap = true,
            _ if byte.is_ascii_alphanumeric() => {
                gap = false;
                compact.push(byte.to_ascii_uppercase());
                end = at + 1;
                if compact.len() == length {
                    break;
                }
            }
            _ => break,
        }
    }
    let over = rest.as_bytes().get(end).is_some_and(u8::is_ascii_alphanumeric);
    (compact.len() == length && !over && mod_97(&compact) == 1).then(|| start..start + end)
}

/// Returns the remainder of ISO 7064, with the first four characters moved to the end.
fn mod_97(compact: &[u8]) -> u32 {
    let (head, tail) = compact.split_at(4.min(compact.len()));
    tail.iter().chain(head).fold(0, |sum, byte| match byte {
        b'0'..=b'9' => (sum * 10 + u32::from(byte - b'0')) % 97,
        _ => (sum * 100 + u32::from(byte - b'A') + 10) % 97,
    })
}

/// True for the examples of the IBAN registry and of documentation.
pub(super) fn is_sample_iban(text: &str) -> bool {
    let compact: String = text.chars().filter(char::is_ascii_alphanumeric).collect();
    word_lists::lists("sample_ibans", &compact.to_ascii_uppercase())
}
