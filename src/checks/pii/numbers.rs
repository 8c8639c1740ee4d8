//! What numbers give away: payment cards, bank accounts, social security numbers, network addresses, telephone numbers.
//! In: a text and its announcing words. Out: what its digits are. It goes from digit to digit, reads the run of groups
//! around each, and never looks at a byte more than a few times.

use std::ops::Range;

use super::{
    Found,
    contexts::{Contexts, Topic},
    national, phones,
};
use crate::domain::Severity;

/// Most groups of one run; a table's row of numbers is several runs.
const MOST_GROUPS: usize = 12;
/// Longest word that may be a number of something.
const LONGEST_WORD: usize = 40;
/// How far a word may stand before its number, in bytes.
const NEAR: usize = 64;

/// Groups of digits with what stands between them.
#[derive(Debug)]
pub(super) struct Run<'t> {
    text: &'t str,
    pub(super) span: Range<usize>,
    pub(super) groups: Vec<Range<usize>>,
    /// A plus stands before the first group.
    pub(super) plus: bool,
    /// A group stands in round brackets.
    pub(super) bracket: bool,
    /// Nothing stands before it in its line.
    pub(super) begins_line: bool,
}

impl<'t> Run<'t> {
    /// The run whose first group begins at `start`; `groups` is what an earlier run leaves.
    fn read(text: &'t str, start: usize, mut groups: Vec<Range<usize>>) -> Self {
        let bytes = text.as_bytes();
        let opens = |at: usize| at.checked_sub(1).and_then(|before| bytes.get(before)).copied();
        let mut first = start;
        let bracket = opens(first) == Some(b'(');
        first -= usize::from(bracket);
        let plus = opens(first) == Some(b'+');
        first -= usize::from(plus);
        let begins_line = opens(first).is_none_or(|byte| byte == b'\n');
        groups.clear();
        let mut at = start;
        let mut brackets = bracket;
        loop {
            let digits = bytes.get(at..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 {
                break;
            }
            groups.push(at..at + digits);
            at += digits;
            let rest = bytes.get(at..).unwrap_or_default();
            let gap = rest.iter().take(4).take_while(|byte| b" .-/()".contains(byte)).count();
            let gap_text = rest.get(..gap).unwrap_or_default();
            let opening = gap_text.iter().any(|byte| matches!(byte, b'(' | b')'));
            if gap == 0 || gap > 3 || gap > 1 && !opening || groups.len() >= MOST_GROUPS {
                break;
            }
            if !rest.get(gap).is_some_and(u8::is_ascii_digit) {
                break;
            }
            brackets |= opening;
            at += gap;
        }
        let end = groups.last().map_or(start, |group| group.end);
        Self { text, span: first..end, groups, plus, bracket: brackets, begins_line }
    }

    /// How many digits each group has.
    pub(super) fn sizes(&self) -> Vec<usize> {
        self.groups.iter().map(Range::len).collect()
    }

    /// The digits of all groups.
    pub(super) fn digits(&self) -> String {
        self.digits_of(0..self.groups.len())
    }

    fn digits_of(&self, window: Range<usize>) -> String {
        self.groups.get(window).unwrap_or_default().iter().filter_map(|group| self.text.get(group.clone())).collect()
    }

    /// The bytes between the groups of a window.
    fn gaps(&self, window: Range<usize>) -> impl Iterator<Item = &str> {
        let groups = self.groups.get(window).unwrap_or_default();
        groups.windows(2).filter_map(|pair| match pair {
            [left, right] => self.text.get(left.end..right.start),
            _ => None,
        })
    }

    /// Whether all groups are held apart by the same one of these characters.
    pub(super) fn is_uniform(&self, of: &str) -> bool {
        self.is_uniform_in(0..self.groups.len(), of)
    }

    fn is_uniform_in(&self, window: Range<usize>, of: &str) -> bool {
        let first = self.gaps(window.clone()).next().unwrap_or_default();
        first.len() == 1 && of.contains(first) && self.gaps(window).all(|gap| gap == first)
    }

    /// Four groups of up to 255 with points.
    pub(super) fn is_address(&self) -> bool {
        self.groups.len() == 4 && self.is_uniform(".") && self.address().is_some()
    }

    fn address(&self) -> Option<std::net::Ipv4Addr> {
        self.text.get(self.groups.first()?.start..self.groups.last()?.end)?.parse().ok()
    }

    /// A date at its beginning, by itself or with a time behind it.
    pub(super) fn is_date(&self) -> bool {
        let value = |at: usize| -> usize {
            self.groups.get(at).and_then(|group| self.text.get(group.clone())?.parse().ok()).unwrap_or(usize::MAX)
        };
        let sizes: Vec<usize> = self.groups.iter().take(3).map(Range::len).collect();
        let gap = self.gaps(0..2).next().unwrap_or_default();
        let year = |value: usize| (1800..2200).contains(&value);
        match sizes.as_slice() {
            [4, 1 | 2, 1 | 2] => year(value(0)) && value(1) <= 12 && value(2) <= 31 && gap != " ",
            [1 | 2, 1 | 2, 4] => year(value(2)) && value(0) <= 31 && value(1) <= 31,
            [4, 4] => year(value(0)) && year(value(1)),
            _ => false,
        }
    }

    /// Whether it may be a number behind a word that announces one: not a figure with a fraction, no version.
    pub(super) fn fits_labelled(&self) -> bool {
        let sizes = self.groups.iter().map(Range::len);
        self.groups.len() == 1 || sizes.max().unwrap_or_default() >= 2
    }

    /// Where its extension ends: `x0135`, ` ext. 12`.
    fn end_of_extension(&self) -> usize {
        let rest = self.text.get(self.span.end..).unwrap_or_default();
        let own = rest.trim_start_matches(' ');
        let mark = ["extension ", "ext. ", "ext.", "ext ", "x", "#"].iter().find_map(|mark| own.strip_prefix(mark));
        let digits = mark.map_or(0, |own| own.bytes().take_while(u8::is_ascii_digit).count());
        match mark {
            Some(own) if (1..=6).contains(&digits) => self.span.end + rest.len() - own.len() + digits,
            _ => self.span.end,
        }
    }

    /// Whether something goes on behind it that makes it part of a longer name or a figure with a unit.
    fn goes_on(&self) -> bool {
        let rest = self.text.as_bytes().get(self.span.end..).unwrap_or_default();
        match rest {
            // An extension: `x0135`, `ext 12`.
            [b'x', digit, ..] if digit.is_ascii_digit() => false,
            [byte, ..] if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'%' | b'$') => true,
            [b'.' | b':' | b',', digit, ..] => digit.is_ascii_digit(),
            _ => false,
        }
    }
}

pub(super) fn find(text: &str, contexts: &Contexts<'_>, found: &mut Vec<Found>) {
    let bytes = text.as_bytes();
    let mut groups = Vec::new();
    let mut at = 0;
    while let Some(digit) = bytes.get(at..).and_then(|rest| rest.iter().position(u8::is_ascii_digit)) {
        let digit = at + digit;
        let joins = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let before = bytes.get(at..digit).unwrap_or_default().iter().rev().take_while(|byte| joins(byte)).count();
        let length = bytes.get(digit..).unwrap_or_default().iter().take_while(|byte| joins(byte)).count();
        let word = digit - before..digit + length;
        at = word.end;
        let own = bytes.get(word.clone()).unwrap_or_default();
        if own.iter().all(u8::is_ascii_digit) {
            let run = Run::read(text, word.start, std::mem::take(&mut groups));
            // Fewer digits are nothing that this file knows.
            if run.groups.iter().map(Range::len).sum::<usize>() >= 7 && !bytes_before(bytes, run.span.start) {
                digits(&run, contexts, found);
            }
            at = at.max(run.span.end);
            groups = run.groups;
        } else if own.len() <= LONGEST_WORD
            && let Some(end) = letters(text, word, found)
        {
            at = end;
        }
    }
}

/// Whether what stands before a run makes it part of something else: a name, an amount, a fraction, a key.
fn bytes_before(bytes: &[u8], start: usize) -> bool {
    let before = start.checked_sub(1).and_then(|at| bytes.get(at)).copied();
    let further = start.checked_sub(2).and_then(|at| bytes.get(at)).copied();
    match before {
        Some(byte) if byte.is_ascii_alphanumeric() => true,
        Some(b'_' | b'$' | b'%' | b'\\' | b'@') => true,
        Some(b'-' | b'.' | b'/' | b'#') => further.is_some_and(|byte| byte.is_ascii_alphanumeric()),
        _ => false,
    }
}

/// What a run of digits is.
fn digits(run: &Run<'_>, contexts: &Contexts<'_>, found: &mut Vec<Found>) {
    let start = run.span.start;
    if run.is_address() {
        if run.address().is_some_and(is_of_somebody)
            && !run.goes_on()
            && contexts.before(start, 24, Topic::Network)
            && (contexts.before(start, 96, Topic::Person) || contexts.after(run.span.end, 64, Topic::Person))
        {
            found.push(Found::new("ip_address", "a person's network address", Severity::Warning, run.span.clone()));
        }
        return;
    }
    let mut taken = false;
    for first in 0..run.groups.len() {
        for last in first + 1..=run.groups.len() {
            if let Some(one) = window(run, first..last, contexts) {
                found.push(one);
                taken = true;
            }
        }
    }
    if !taken && !run.goes_on() && phones::is_phone(run, contexts) {
        let span = run.span.start..run.end_of_extension();
        found.push(Found::new("phone_number", "a person's telephone number", Severity::Warning, span));
    }
}

/// What some neighbouring groups of a run are.
fn window(run: &Run<'_>, window: Range<usize>, contexts: &Contexts<'_>) -> Option<Found> {
    let groups = run.groups.get(window.clone())?;
    let span = groups.first()?.start..groups.last()?.end;
    let count: usize = groups.iter().map(Range::len).sum();
    if !(9..=19).contains(&count) || (window.end == run.groups.len() && run.goes_on()) || run.plus {
        return None;
    }
    let sizes: Vec<usize> = groups.iter().map(Range::len).collect();
    let digits = run.digits_of(window.clone());
    if sizes == [3, 2, 4] && run.is_uniform_in(window.clone(), "-") && is_social_security(&digits) {
        return Some(Found::new("us_ssn", "a US social security number", Severity::Warning, span));
    }
    let card = match sizes.as_slice() {
        [12..=19] => true,
        [4, 4, 4, 1..=4] | [4, 6, 4 | 5] | [4, 4, 4, 4, 3] => run.is_uniform_in(window.clone(), " -"),
        _ => false,
    };
    if card && !is_identifier(run.text, span.start) && is_card(&digits, span.start, contexts) {
        return Some(Found::new("credit_card", "the number of a payment card", Severity::Warning, span));
    }
    let (rule, title) = national::unannounced(&digits, &sizes, run.text.get(span.clone())?)?;
    Some(Found::new(rule, title, Severity::Warning, span))
}

/// Whether a number without quotes is the member `id` of an object, or one whose name ends so.
fn is_identifier(text: &str, start: usize) -> bool {
    let from = text.ceil_char_boundary(start.saturating_sub(NEAR));
    let before = text.get(from..start).unwrap_or_default().trim_end();
    let name = before.strip_suffix(':').map(str::trim_end).and_then(|name| name.strip_suffix('"')).unwrap_or_default();
    let name = name.rsplit('"').next().unwrap_or_default();
    name == "id" || name.ends_with("_id") || name.ends_with("Id")
}

/// A word of letters and digits: an IBAN begins with it, or it is a national number.
fn letters(text: &str, word: Range<usize>, found: &mut Vec<Found>) -> Option<usize> {
    let own = text.get(word.clone())?;
    if let Some(span) = iban(text, word.start) {
        let end = span.end;
        if !is_sample_iban(text.get(span.clone())?) {
            found.push(Found::new("iban", "the number of a bank account", Severity::Warning, span));
        }
        return Some(end);
    }
    let (rule, title) = national::unannounced_word(own)?;
    found.push(Found::new(rule, title, Severity::Warning, word.clone()));
    Some(word.end)
}

/// Whether digits pass the check that ISO/IEC 7812-1 asks of card numbers.
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

fn is_card(digits: &str, start: usize, contexts: &Contexts<'_>) -> bool {
    /// Numbers that processors publish for tests (Adyen, Braintree, Stripe).
    const TESTS: [&str; 21] = [
        "4111111111111111",
        "4242424242424242",
        "4012888888881881",
        "4222222222222",
        "4000056655665556",
        "5555555555554444",
        "5105105105105100",
        "5200828282828210",
        "2223003122003222",
        "378282246310005",
        "371449635398431",
        "378734493671000",
        "6011111111111117",
        "6011000990139424",
        "6011000000000004",
        "3056930009020004",
        "36227206271667",
        "30569309025904",
        "38520000023237",
        "3530111333300000",
        "3566002020360505",
    ];
    let same = digits.bytes().skip(1).all(|digit| Some(&digit) == digits.as_bytes().first());
    if same || TESTS.contains(&digits) || digits.starts_with("4000000") || !luhn(digits) {
        return false;
    }
    if contexts.before(start, NEAR, Topic::Card) {
        return !digits.starts_with('0');
    }
    !contexts.before(start, NEAR, Topic::Thing) && is_issued(digits)
}

/// Whether the number lies in the range of a large network, at the length that it issues (ISO/IEC 7812 register).
fn is_issued(digits: &str) -> bool {
    let head = |count: usize| digits.get(..count).and_then(|head| head.parse::<u32>().ok()).unwrap_or_default();
    match digits.len() {
        15 => matches!(head(2), 34 | 37),
        16 => {
            head(1) == 4
                || matches!(head(2), 51..=55 | 65)
                || matches!(head(4), 2221..=2720 | 3528..=3589 | 6011)
                || matches!(head(3), 644..=649)
        }
        _ => false,
    }
}

/// Area, group and serial that the US administration issues, its own specimens left out.
pub(super) fn is_social_security(digits: &str) -> bool {
    let part = |at: Range<usize>| digits.get(at).and_then(|part| part.parse::<u32>().ok()).unwrap_or_default();
    let (area, group, serial) = (part(0..3), part(3..5), part(5..9));
    digits.len() == 9
        && !matches!(area, 0 | 666 | 900..)
        && group != 0
        && serial != 0
        && !matches!(digits, "078051120" | "219099999" | "123456789" | "111111111" | "123121234")
}

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

/// The account number that begins at a word, spaces between its groups allowed.
fn iban(text: &str, start: usize) -> Option<Range<usize>> {
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

/// The remainder by ISO 7064, the first four characters moved to the end.
fn mod_97(compact: &[u8]) -> u32 {
    let (head, tail) = compact.split_at(4.min(compact.len()));
    tail.iter().chain(head).fold(0, |sum, byte| match byte {
        b'0'..=b'9' => (sum * 10 + u32::from(byte - b'0')) % 97,
        _ => (sum * 100 + u32::from(byte - b'A') + 10) % 97,
    })
}

/// The examples of the IBAN registry and of documentation.
fn is_sample_iban(text: &str) -> bool {
    const SAMPLES: [&str; 12] = [
        "GB82WEST12345698765432",
        "GB29NWBK60161331926819",
        "GB33BUKB20201555555555",
        "DE89370400440532013000",
        "FR1420041010050500013M02606",
        "NL91ABNA0417164300",
        "ES9121000418450200051332",
        "IT60X0542811101000000123456",
        "BE68539007547034",
        "CH9300762011623852957",
        "SE4550000000058398257466",
        "SE3550000000054910000003",
    ];
    let compact: String = text.chars().filter(char::is_ascii_alphanumeric).collect();
    SAMPLES.iter().any(|sample| compact.eq_ignore_ascii_case(sample))
}

/// Whether an address may be somebody's: public, and none of the resolvers that everybody names.
fn is_of_somebody(address: std::net::Ipv4Addr) -> bool {
    const RESOLVERS: [[u8; 4]; 6] =
        [[8, 8, 8, 8], [8, 8, 4, 4], [1, 1, 1, 1], [1, 0, 0, 1], [9, 9, 9, 9], [1, 2, 3, 4]];
    let [first, second, ..] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_unspecified()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || first == 0
        || first >= 224
        || first == 100 && (64..128).contains(&second)
        || RESOLVERS.contains(&address.octets()))
}
