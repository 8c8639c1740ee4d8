//! Marks that part the letters of a word where a reader sees none: emphasis (`pre**vio**us`), tags (`pre<b>vio</b>us`),
//! letters as numbers (`&#105;gnore`). In: a text. Out: the text without them, if it has any.

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

use super::words::View;

/// No text needs more of them.
const MOST: usize = 10_000;

/// The text as it is shown.
pub(super) fn without(text: &str) -> Option<View> {
    // Of emphasis only what no multiplication looks like; of tags only those that stand in a line.
    static MARKS: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?i)&#(?:(\d{2,6})|x([\da-f]{2,5}));|\*\*|__|~~|</?(?:b|i|u|s|em|strong|span|mark|small|wbr|font)(?: [^<>\n]{0,80})?/?>|<!--[^<>\n]{0,40}-->").ok()
    });
    let bytes = text.as_bytes();
    let may = ["&#", "**", "~~", "<"].iter().any(|mark| memchr::memmem::find(bytes, mark.as_bytes()).is_some());
    if !may {
        return None;
    }
    let letter = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_alphabetic);
    let mut changes: Vec<(Range<usize>, String)> = Vec::new();
    for mark in MARKS.as_ref()?.captures_iter(text) {
        let at = mark.get(0)?.range();
        let number = mark.get(1).map(|digits| (digits, 10)).or_else(|| mark.get(2).map(|digits| (digits, 16)));
        if let Some((digits, radix)) = number {
            let c = u32::from_str_radix(digits.as_str(), radix).ok().and_then(char::from_u32);
            changes.extend(c.filter(|c| !c.is_control()).map(|c| (at, c.to_string())));
        } else if letter(at.start.checked_sub(1)) && letter(Some(at.end)) {
            changes.push((at, String::new()));
        }
        if changes.len() >= MOST {
            break;
        }
    }
    View::new(text, changes)
}
