//! Personal numbers: payment cards, bank accounts, social security numbers, network addresses, telephone numbers. In: a
//! text and its announcing words. Out: findings. The scan goes from digit to digit, reads the run of groups around
//! each, and reads no byte more than a few times.

use std::ops::Range;

use super::{
    PersonalFinding,
    cards::{is_card, is_identifier},
    contexts::{Contexts, Topic},
    ibans::{iban, is_sample_iban},
    national, phones,
};
use umbra_domain::Severity;

/// Most groups of one run; a table row of numbers is several runs.
const MOST_GROUPS: usize = 12;
/// Longest word that may be a number, in bytes.
const LONGEST_WORD: usize = 62;

/// Groups of digits, with the separators between them.
#[derive(Debug)]
pub(super) struct Run<'t> {
    text: &'t str,
    pub(super) span: Range<usize>,
    pub(super) groups: Vec<Range<usize>>,
    /// True if a plus stands before the first group.
    pub(super) plus: bool,
    /// True if a group stands in round brackets.
    pub(super) bracket: bool,
    /// True if the run begins its line.
    pub(super) begins_line: bool,
}

impl<'t> Run<'t> {
    /// Reads the run whose first group begins at `start`. `groups` is the reused buffer of an earlier run.
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

    /// Returns the number of digits of each group.
    pub(super) fn sizes(&self) -> Vec<usize> {
        self.groups.iter().map(Range::len).collect()
    }

    /// Returns the digits of all groups.
    pub(super) fn digits(&self) -> String {
        self.digits_of(0..self.groups.len())
    }

    fn digits_of(&self, window: Range<usize>) -> String {
        self.groups.get(window).unwrap_or_default().iter().filter_map(|group| self.text.get(group.clone())).collect()
    }

    /// Returns the separators between the groups of a window.
    fn gaps(&self, window: Range<usize>) -> impl Iterator<Item = &str> {
        let groups = self.groups.get(window).unwrap_or_default();
        groups.windows(2).filter_map(|pair| match pair {
            [left, right] => self.text.get(left.end..right.start),
            _ => None,
        })
    }

    /// True if all groups are separated by the same one of these characters.
    pub(super) fn is_uniform(&self, of: &str) -> bool {
        self.is_uniform_in(0..self.groups.len(), of)
    }

    fn is_uniform_in(&self, window: Range<usize>, of: &str) -> bool {
        let first = self.gaps(window.clone()).next().unwrap_or_default();
        first.len() == 1 && of.contains(first) && self.gaps(window).all(|gap| gap == first)
    }

    /// True for four groups of up to 255 with points.
    pub(super) fn is_address(&self) -> bool {
        self.groups.len() == 4 && self.is_uniform(".") && self.address().is_some()
    }

    fn address(&self) -> Option<std::net::Ipv4Addr> {
        self.text.get(self.groups.first()?.start..self.groups.last()?.end)?.parse().ok()
    }

    /// True if the run begins with a date, alone or with a time behind it.
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

    /// True if the run may be a number behind an announcing word: no figure with a fraction, no version.
    pub(super) fn fits_labelled(&self) -> bool {
        let sizes = self.groups.iter().map(Range::len);
        self.groups.len() == 1 || sizes.max().unwrap_or_default() >= 2
    }

    /// Returns the end of the number's extension: `x0135`, ` ext. 12`.
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

    /// True if the following text makes the run part of a longer name or a figure with a unit.
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

pub(super) fn find(text: &str, contexts: &Contexts, found: &mut Vec<PersonalFinding>) {
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
            // Fewer digits are no number of a known kind.
            if run.groups.iter().map(Range::len).sum::<usize>() >= 7 && !bytes_before(bytes, run.span.start) {
                digits(&run, contexts, found);
            }
            at = at.max(run.span.end);
            groups = run.groups;
        } else if own.len() <= LONGEST_WORD
            && let Some(end) = letters(text, word, contexts, found)
        {
            at = end;
        }
    }
}

/// True if the bytes before a run make it part of a name, an amount, a fraction or a key.
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

/// Adds the findings in a run of digits.
fn digits(run: &Run<'_>, contexts: &Contexts, found: &mut Vec<PersonalFinding>) {
    let start = run.span.start;
    if run.is_address() {
        if run.address().is_some_and(is_of_somebody)
            && !run.goes_on()
            && contexts.before(start, 24, Topic::Network)
            && (contexts.before(start, 96, Topic::Person) || contexts.after(run.span.end, 64, Topic::Person))
        {
            found.push(PersonalFinding::new(
                "ip_address",
                "a person's IP address",
                Severity::Warning,
                run.span.clone(),
            ));
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
        found.push(PersonalFinding::new("phone_number", "a person's telephone number", Severity::Warning, span));
    }
}

/// Returns the finding for some neighboring groups of a run.
fn window(run: &Run<'_>, window: Range<usize>, contexts: &Contexts) -> Option<PersonalFinding> {
    let groups = run.groups.get(window.clone())?;
    let span = groups.first()?.start..groups.last()?.end;
    let count: usize = groups.iter().map(Range::len).sum();
    if !(9..=19).contains(&count) || (window.end == run.groups.len() && run.goes_on()) || run.plus {
        return None;
    }
    let sizes: Vec<usize> = groups.iter().map(Range::len).collect();
    let digits = run.digits_of(window.clone());
    if sizes == [3, 2, 4] && run.is_uniform_in(window.clone(), "-") && is_social_security(&digits) {
        return Some(PersonalFinding::new("us_ssn", "a US social security number", Severity::Warning, span));
    }
    let card = match sizes.as_slice() {
        [12..=19] => true,
        [4, 4, 4, 1..=4] | [4, 6, 4 | 5] | [4, 4, 4, 4, 3] => run.is_uniform_in(window.clone(), " -"),
        _ => false,
    };
    if card && !is_identifier(run.text, span.start) && is_card(&digits, span.start, contexts) {
        return Some(PersonalFinding::new("credit_card", "a payment card number", Severity::Warning, span));
    }
    let (rule, title) = national::unannounced(&digits, &sizes, run.text.get(span.clone())?)?;
    Some(PersonalFinding::new(rule, title, Severity::Warning, span))
}

/// Adds a finding for a word of letters and digits: the beginning of an IBAN, or a national number.
fn letters(text: &str, word: Range<usize>, contexts: &Contexts, found: &mut Vec<PersonalFinding>) -> Option<usize> {
    let own = text.get(word.clone())?;
    if let Some(span) = iban(text, word.start) {
        let end = span.end;
        if contexts.samples || !is_sample_iban(text.get(span.clone())?) {
            found.push(PersonalFinding::new("iban", "a bank account number", Severity::Warning, span));
        }
        return Some(end);
    }
    let (rule, title) = national::unannounced_word(own)?;
    found.push(PersonalFinding::new(rule, title, Severity::Warning, word.clone()));
    Some(word.end)
}

/// True for an area, group and serial that the US administration issues, except for its own specimens.
pub(super) fn is_social_security(digits: &str) -> bool {
    let part = |at: Range<usize>| digits.get(at).and_then(|part| part.parse::<u32>().ok()).unwrap_or_default();
    let (area, group, serial) = (part(0..3), part(3..5), part(5..9));
    digits.len() == 9
        && !matches!(area, 0 | 666 | 900..)
        && group != 0
        && serial != 0
        && !matches!(digits, "078051120" | "219099999" | "123456789" | "111111111" | "123121234")
}

/// True if an address may be a person's: public, and none of the well-known resolvers.
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
