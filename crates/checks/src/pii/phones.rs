//! Telephone numbers. In: groups of digits and their announcing words. Out: true for a telephone number. A number in
//! international or North American form needs no announcement; any other needs a word beside it.

use super::{
    contexts::{Contexts, Topic},
    numbers::Run,
};

/// Longest distance from a word to the number behind it, in bytes.
const BEFORE: usize = 32;
/// Longest distance from a number to a word behind it, in bytes: `-Fax`, ` office`.
const BEHIND: usize = 3;

/// True if a run of digits is a telephone number in use.
pub(super) fn is_phone(run: &Run<'_>, contexts: &Contexts) -> bool {
    let digits = run.digits();
    if !(7..=15).contains(&digits.len()) || run.groups.len() > 7 || is_fictitious(&digits) || is_toll_free(&digits) {
        return false;
    }
    // A switchboard's extension, as in `+49 89 1234-0`.
    let switchboard = run.sizes().last() == Some(&1) && digits.ends_with('0') && run.groups.len() > 2;
    if run.plus {
        let separated = run.groups.len() > 1;
        return has_country(&digits)
            && !switchboard
            && (8..=15).contains(&digits.len())
            && (separated || digits.len() >= 10)
            && (separated || !run.begins_line || labelled(run, contexts));
    }
    if run.is_address() || run.is_date() {
        return false;
    }
    is_north_american(run, &digits)
        || labelled(run, contexts) && run.fits_labelled()
        || reached(run, contexts)
        || is_national(run, &digits) && !contexts.before(run.span.start, BEFORE, Topic::Thing)
}

fn labelled(run: &Run<'_>, contexts: &Contexts) -> bool {
    let behind = |topic| contexts.after(run.span.end, BEHIND, topic);
    contexts.before(run.span.start, BEFORE, Topic::Phone) || behind(Topic::Phone) || behind(Topic::Line)
}

/// True behind an ambiguous word, if the digits are grouped like a telephone number.
fn reached(run: &Run<'_>, contexts: &Contexts) -> bool {
    let before = |topic| contexts.before(run.span.start, BEFORE, topic);
    let grouped = match run.sizes().as_slice() {
        [1, rest @ ..] => rest.len() >= 2 && rest.iter().all(|size| (2..=4).contains(size)),
        [2..=5, rest @ ..] => !rest.is_empty() && rest.len() <= 4 && rest.iter().all(|size| (2..=7).contains(size)),
        _ => false,
    };
    grouped && !before(Topic::Thing) && (before(Topic::Reach) || before(Topic::Line))
}

/// True for a national number: a leading zero and three groups or more.
fn is_national(run: &Run<'_>, digits: &str) -> bool {
    let sizes = run.sizes();
    let grouped = sizes.len() >= 3 && sizes.iter().all(|size| (2..=4).contains(size));
    grouped
        && (9..=11).contains(&digits.len())
        && digits.starts_with('0')
        && !digits.starts_with("00")
        && (run.is_uniform(" ") || run.bracket)
}

/// True for a North American number: area and exchange begin with 2 to 9 (North American Numbering Plan), in three
/// groups or with a bracket.
fn is_north_american(run: &Run<'_>, digits: &str) -> bool {
    let own = digits.strip_prefix("001").or_else(|| digits.strip_prefix('1')).filter(|rest| rest.len() == 10);
    let prefixed = own.is_some();
    let own = own.unwrap_or(digits).as_bytes();
    let form = match run.sizes().as_slice() {
        [3, 3, 4] => !prefixed && (run.bracket || run.is_uniform("-.")),
        [1 | 3, 3, 3, 4] => prefixed && (run.bracket || run.is_uniform("-.")),
        _ => false,
    };
    let opens = |at: usize| own.get(at).is_some_and(|digit| (b'2'..=b'9').contains(digit));
    // N11 is a service, not an area.
    let service = own.get(1..3) == Some(b"11");
    form && own.len() == 10 && opens(0) && opens(3) && !service
}

/// True for numbers that plans reserve for fiction: 555-0100 to 555-0199, and Ofcom's 07700 900000 to 900999.
fn is_fictitious(digits: &str) -> bool {
    let own = digits.strip_prefix("44").or_else(|| digits.strip_prefix('0')).unwrap_or(digits);
    let american = match digits.len() {
        7 => digits.starts_with("55501"),
        10.. => digits.get(digits.len() - 7..).is_some_and(|local| local.starts_with("55501")),
        _ => false,
    };
    let sequence = ["1234567", "123456789", "1234567890", "12345678", "0123456789"].contains(&own);
    let same = digits.bytes().skip(1).all(|digit| Some(&digit) == digits.as_bytes().first());
    american || own.starts_with("7700900") || sequence || same
}

/// True for toll-free numbers, in North America and where 0800 or 1800 is dialed: those of companies and hotlines.
fn is_toll_free(digits: &str) -> bool {
    const AREAS: [&str; 7] = ["800", "833", "844", "855", "866", "877", "888"];
    let own = digits.strip_prefix('1').filter(|_| digits.len() == 11);
    digits.starts_with("0800")
        || digits.starts_with("1800") && digits.len() == 10
        || own.is_some_and(|own| AREAS.iter().any(|area| own.starts_with(area)))
}

/// True if the digits begin with a country's code (ITU-T E.164; those of one and two digits, and the first two of
/// three).
fn has_country(digits: &str) -> bool {
    const TWO: [&str; 44] = [
        "20", "27", "30", "31", "32", "33", "34", "36", "39", "40", "41", "43", "44", "45", "46", "47", "48", "49",
        "51", "52", "53", "54", "55", "56", "57", "58", "60", "61", "62", "63", "64", "65", "66", "81", "82", "84",
        "86", "90", "91", "92", "93", "94", "95", "98",
    ];
    const THREE: [&str; 17] =
        ["21", "22", "23", "24", "25", "26", "29", "35", "37", "38", "42", "50", "59", "67", "68", "85", "97"];
    const ASIA: [&str; 5] = ["96", "99", "88", "69", "80"];
    let two = digits.get(..2).unwrap_or_default();
    let american = digits.starts_with('1') && digits.len() == 11;
    american && digits.get(1..2).is_some_and(|area| area > "1")
        || digits.starts_with('7') && digits.len() == 11
        || TWO.contains(&two)
        || THREE.contains(&two)
        || ASIA.contains(&two)
}
