//! Endings of prose, lists, tables, letters and records. In: the end of a text, and its last line. Out: the break, if
//! the text breaks off.

use super::{Break, SAMPLE};
use crate::word_lists;

const MID_SENTENCE: Break = ("cut_sentence", "The output ends in the middle of a sentence or a word.");

/// True if the last word needs another one.
pub(super) fn dangles(text: &str) -> bool {
    let mut words = text.rsplit(|c: char| c.is_whitespace());
    let last = words.next().unwrap_or_default().to_lowercase();
    let before = words.next().unwrap_or_default();
    let worded = before.ends_with(',') || before.len() > 1 && before.chars().all(char::is_lowercase);
    let count = words.filter(|word| !word.is_empty()).count() + 2;
    // `-rw-r--r-- 1 root root 12 May 1 10:00 a`: a letter behind a time is a name.
    intends(text)
        || word_lists::lists("connectives", &last) && (worded || last.len() > 1)
        || word_lists::lists("short_connectives", &last) && worded && count > 3
        || text.ends_with([',', '(', '[', '{', '=', '+', '&', '\\', '–']) && !is_padded(text)
        || [" will now", " >", " <", " ||", " *", "应该", "以及", "因为", "或者", "并且", "如果"]
            .iter()
            .any(|open| text.ends_with(open))
}

/// True for one line that says what its speaker does next, and has no mark at its end.
fn intends(text: &str) -> bool {
    let said = ["Let me ", "Let's ", "I'll ", "I will ", "I'm going to ", "Now "].iter().find_map(|start| {
        let rest = text.trim_start().strip_prefix(start)?;
        (*start != "Now " || rest.starts_with(char::is_lowercase)).then_some(rest)
    });
    said.is_some_and(|rest| rest.ends_with(char::is_alphanumeric) && !rest.contains('\n'))
}

/// Returns the break of prose that breaks off.
pub(super) fn broken(text: &str, last: &str) -> Option<Break> {
    if last.starts_with('#') && text.lines().count() > 1 {
        return Some(("cut_section", "The output ends with a heading and nothing under it."));
    }
    let is_row = |line: &str| line.len() > 1 && line.starts_with('|') && line.ends_with('|');
    if last.starts_with('|') && text.lines().any(|line| is_row(line.trim())) {
        let cells = |line: &str| line.matches('|').count();
        let head = text.lines().map(str::trim).find(|line| is_row(line)).map_or(0, cells);
        return (!last.ends_with('|') || cells(last) < head)
            .then_some(("cut_table", "The output ends in an incomplete table row."));
    }
    let paragraph = text.rsplit("\n\n").next().unwrap_or(text);
    let before_last = paragraph.rmatch_indices('\n').nth(1).map_or(0, |(at, _)| at + 1);
    let end = paragraph.get(before_last..).unwrap_or(paragraph);
    // A block of code that ends there is closed.
    let fence = ["```", "~~~"].iter().filter_map(|mark| end.rfind(mark)).max();
    let behind = fence.and_then(|at| end.get(at..)?.split_once('\n'));
    if unbalanced(behind.map_or(end, |(_, behind)| behind)) {
        return Some(("cut_bracket", "The output ends with an unclosed bracket, quotation or emphasis."));
    }
    if last.ends_with([':', '：']) && last.split_whitespace().count() > 3 {
        return Some(("cut_announcement", "The output ends after announcing more content."));
    }
    let rule = last.len() > 2 && last.bytes().all(|b| matches!(b, b'+' | b'-' | b'=' | b'|'));
    if rule || [":(", ";(", ":-("].iter().any(|face| last.ends_with(face)) {
        return None;
    }
    if last.ends_with(" >") || last.ends_with(" <") || last.ends_with(" ||") {
        return Some(MID_SENTENCE);
    }
    if is_ending(last) {
        return None;
    }
    if dangles(last) {
        return Some(MID_SENTENCE);
    }
    let items = list_items(text);
    if is_item(last) && items.len() > 1 {
        let (_, others) = items.split_last()?;
        let unpunctuated = others.iter().filter(|item| !is_ending(item)).count();
        return (unpunctuated * 2 < others.len()).then_some(MID_SENTENCE);
    }
    if is_place(last) || is_signature(text, last) || is_record(text, last) || is_block(text) {
        return None;
    }
    // A key or a heading that ends in a colon is no sentence.
    let sentences = text.lines().map(str::trim).filter(|line| is_sentence(line)).count();
    let words = last.split_whitespace().count() + last.chars().filter(|c| is_unspaced(*c)).count() / 2;
    // A report of one line needs no full stop.
    let lone =
        sentences == 0 && !last.contains(". ") && !text.contains('\n') && is_spaced(last) && words < LONGEST_REPORT;
    (sentences > 0 || words >= 9 && !lone).then_some(MID_SENTENCE)
}

/// True if a line ends like prose, not like rows and headings of layouts. Empty lines count as prose.
fn is_sentence(line: &str) -> bool {
    let head = line.ends_with(':') && (line.ends_with("):") || line.split_whitespace().count() < 4);
    is_ending(line) && !head && !line.starts_with("```") && !line.ends_with(['|', '}', ';', ']', '>'])
}

/// Longest report of one line, in words.
const LONGEST_REPORT: usize = 14;

fn is_spaced(line: &str) -> bool {
    !line.chars().any(is_unspaced)
}

/// True if a line ends like a sentence, a quotation, a link or a mark.
fn is_ending(line: &str) -> bool {
    line.chars().next_back().is_none_or(|c| {
        !(c.is_alphanumeric()
            || matches!(c, ',' | '-' | '–' | '(' | '[' | '{' | '/' | '\\' | '=' | '&' | '@' | '+' | '$' | '#' | '<'))
            || line.ends_with("etc")
    })
}

/// True if brackets, quotes, code marks or bold marks are open at the end of a paragraph.
fn unbalanced(paragraph: &str) -> bool {
    let (mut ticks, mut stars) = (0, 0);
    let [mut round, mut square, mut curly, mut quotes] = [0_i32; 4];
    let (mut star, mut before) = (false, ' ');
    for c in paragraph.chars() {
        // Two stars are one mark, three are one mark and one of another kind.
        star = c == '*' && !star;
        match c {
            '*' if !star => stars += 1,
            '`' => ticks += 1,
            // A bracket of an emoticon does not count.
            '(' if !matches!(before, ':' | ';' | '-') => round += 1,
            ')' => round -= 1,
            '[' => square += 1,
            ']' => square -= 1,
            '{' => curly += 1,
            '}' => curly -= 1,
            '“' => quotes += 1,
            '”' => quotes -= 1,
            _ => {}
        }
        before = c;
    }
    ticks % 2 == 1 || square > 0 || curly > 0 || quotes > 0 || round > 0 || stars % 2 == 1 && ticks == 0
}

/// True for scripts without spaces between words: Chinese, Japanese, Thai. Two such letters are about one word.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{e7f}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

pub(super) fn is_item(line: &str) -> bool {
    let line = line.trim_start();
    let number = line.bytes().take_while(u8::is_ascii_digit).count();
    line.starts_with("- ")
        || line.starts_with("* ")
        || line.starts_with("+ ")
        || line.starts_with("• ")
        || number > 0 && line.get(number..).is_some_and(|rest| rest.starts_with(". ") || rest.starts_with(") "))
}

pub(super) fn list_items(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| is_item(line)).collect()
}

/// True if the last word is an address or a path, which ends without a mark.
fn is_place(last: &str) -> bool {
    let word = last.rsplit(char::is_whitespace).next().unwrap_or_default();
    let address = word.trim_start_matches(['<', '(', '[', '"', '\'', '*', '`']);
    let scheme = address.bytes().take_while(u8::is_ascii_alphanumeric).count();
    address.get(scheme..).is_some_and(|rest| rest.starts_with("://")) && word.len() > 14 && word.is_ascii()
        || word.starts_with('/') && word.len() > 4
        || is_position(word)
        || word.contains('@') && word.contains('.')
}

/// True for a position in a file: `src/main.rs:3:5`.
fn is_position(word: &str) -> bool {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let file = word.split(':').next().is_some_and(|file| file.contains('.') && file.contains('/'));
    file && word.contains(':') && word.split(':').skip(1).all(number)
}

/// True for one word of base64 with its padding.
fn is_padded(text: &str) -> bool {
    let padded = text.ends_with('=') && text.len().is_multiple_of(4);
    padded && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=_-".contains(&byte))
}

/// True for a name under a letter.
fn is_signature(text: &str, last: &str) -> bool {
    let words = last.split_whitespace().count();
    let before = text.lines().rev().skip(1).map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let closing =
        word_lists::lines("letter_closings").any(|closing| before.trim_end_matches(',').eq_ignore_ascii_case(closing));
    words <= 4 && (closing || before == "--" || before.ends_with(',') && before.split_whitespace().count() <= 4)
}

/// True for an indented block that a line announced: a command, or a piece of code.
fn is_block(text: &str) -> bool {
    let mut lines = text.lines().rev().filter(|line| !line.trim().is_empty());
    let block =
        lines.by_ref().take(SAMPLE).take_while(|line| line.starts_with("    ") || line.starts_with('\t')).count();
    let announced = text.lines().rev().filter(|line| !line.trim().is_empty()).nth(block);
    block > 0 && announced.is_some_and(|line| line.trim_end().ends_with(':'))
}

/// True for lines of `name: value`, or similar short lines, none of which ends with a mark.
fn is_record(text: &str, last: &str) -> bool {
    let pair = |line: &str| {
        line.split_once(": ")
            .or_else(|| line.split_once('：'))
            .is_some_and(|(name, _)| name.len() < 40 && !name.contains(". "))
    };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let unmarked = lines.iter().filter(|line| !is_ending(line)).count();
    lines.len() > 1
        && (pair(last) && lines.iter().filter(|line| pair(line)).count() * 2 > lines.len()
            || unmarked * 4 > lines.len() * 3 && last.split_whitespace().count() < 9)
}
