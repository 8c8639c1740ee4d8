//! Texts whose form says where they end: lines of JSON, differences, stack traces, PEM, data in base64, elements, logs.
//! In: a text. Out: how it breaks off, if it is of such a form and does.

use memchr::memmem;

use super::Break;

const JSON: Break = ("cut_json", "The output begins as JSON and ends before it is complete.");
const DIFF: Break = ("cut_diff", "The last hunk of a difference has fewer lines than it says.");
const TRACE: Break = ("cut_trace", "A stack trace ends before it says what was raised.");
const BLOCK: Break = ("cut_block", "A block of encoded data is opened and not closed.");
const TAG: Break = ("cut_tag", "An element is opened and not closed.");
const ROW: Break = ("cut_row", "The last line of a log is not complete.");

/// How the text breaks off by its form, if it does.
pub(super) fn cut(text: &str) -> Option<Break> {
    let holds = |what: &str| memmem::find(text.as_bytes(), what.as_bytes()).is_some();
    if is_cut_json_lines(text) {
        return Some(JSON);
    }
    if holds("@@ -") && is_cut_hunk(text) || text.starts_with("diff --git ") && is_bare_head(text) {
        return Some(DIFF);
    }
    if is_cut_trace(text) {
        return Some(TRACE);
    }
    if holds("-----BEGIN ") && is_open_block(text) || holds(";base64,") && is_cut_data(text) {
        return Some(BLOCK);
    }
    if text.starts_with('<') && is_open_root(text) {
        return Some(TAG);
    }
    is_cut_log(text).then_some(ROW)
}

/// Documents of JSON one after the other, the last of which has no end.
fn is_cut_json_lines(text: &str) -> bool {
    if !text.starts_with('{') || !text.contains('\n') {
        return false;
    }
    let mut seen = 0;
    for document in serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>() {
        match document {
            Ok(_) => seen += 1,
            Err(error) => return seen > 0 && error.is_eof(),
        }
    }
    false
}

/// Whether the last hunk has fewer lines than its head counts: `@@ -1,4 +1,5 @@`.
fn is_cut_hunk(text: &str) -> bool {
    // Blank lines at the end are lost with the blanks.
    const SPARE: usize = 1;
    let Some(at) = text.rfind("\n@@ -").map(|at| at + 1).or_else(|| text.starts_with("@@ -").then_some(0)) else {
        return false;
    };
    let mut lines = text.get(at..).unwrap_or_default().lines();
    let head = lines.next().unwrap_or_default();
    let mut ranges = head.split(' ').skip(1).map(|range| {
        let count = range.split_once(',').map_or("1", |(_, count)| count);
        (range.starts_with(['-', '+']), count.parse::<usize>().ok())
    });
    let (Some((true, Some(old))), Some((true, Some(new)))) = (ranges.next(), ranges.next()) else { return false };
    let (mut before, mut after) = (0, 0);
    for line in lines {
        match line.as_bytes().first() {
            Some(b'-') => before += 1,
            Some(b'+') => after += 1,
            Some(b' ' | b'\t') | None => (before, after) = (before + 1, after + 1),
            Some(b'\\') => {}
            _ => return false,
        }
    }
    before + SPARE < old || after + SPARE < new
}

/// A difference that ends with the head of a file's changes.
fn is_bare_head(text: &str) -> bool {
    let last = text.lines().next_back().unwrap_or_default();
    last.starts_with("--- ") || last.starts_with("+++ ")
}

/// Python's trace without its last line, or a frame of Java's that is not closed.
fn is_cut_trace(text: &str) -> bool {
    let last = text.lines().next_back().unwrap_or_default();
    let frames = memmem::rfind(text.as_bytes(), b"Traceback (most recent call last):")
        .is_some_and(|at| text.get(at..).unwrap_or_default().lines().skip(1).all(|line| line.starts_with([' ', '\t'])));
    let frame = last.trim_start().starts_with("at ") && last.starts_with(['\t', ' ']);
    frames || frame && !last.ends_with(')') && last.contains('.') && text.contains(")\n")
}

/// The last PEM block has no end.
fn is_open_block(text: &str) -> bool {
    let Some(at) = text.rfind("-----BEGIN ") else { return false };
    let block = text.get(at..).unwrap_or_default();
    let lines: Vec<&str> = block.lines().skip(1).map(str::trim).filter(|line| !line.is_empty()).collect();
    let encoded = |line: &&str| line.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
    !block.contains("-----END") && lines.iter().all(encoded) && lines.iter().any(|line| line.len() >= 16)
}

/// A text ends with data in base64 whose last group is not whole.
fn is_cut_data(text: &str) -> bool {
    let Some(at) = text.rfind(";base64,") else { return false };
    let data = text.get(at + 8..).unwrap_or_default();
    data.len() > 16
        && data.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte))
        && !data.len().is_multiple_of(4)
}

/// The first element of a document has no end. Browsers close what a page leaves open, a parser does not.
fn is_open_root(text: &str) -> bool {
    const VOID: [&str; 12] = ["br", "hr", "img", "input", "meta", "link", "p", "li", "td", "tr", "option", "base"];
    let root = if text.starts_with("<?xml") || text.to_ascii_lowercase().starts_with("<!doctype") {
        text.split_once('>').map_or("", |(_, rest)| rest.trim_start())
    } else {
        text
    };
    let Some(root) = root.strip_prefix('<') else { return false };
    let length = root.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b":_-".contains(byte)).count();
    let name = root.get(..length).unwrap_or_default();
    let head = root.split('>').next().unwrap_or_default();
    let marked = text.contains("</") || root.contains("=\"");
    marked
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && !head.ends_with('/')
        && matches!(root.as_bytes().get(length), Some(b'>' | b' ' | b'\n' | b'\t'))
        && !VOID.contains(&name.to_ascii_lowercase().as_str())
        && !text.contains(&format!("</{name}"))
        && !text.contains(&format!("<{name}/"))
}

/// Lines that begin with a time, of which the last says nothing or opens a quotation that the others close.
fn is_cut_log(text: &str) -> bool {
    const MOST: usize = 8;
    let mut lines = text.lines().rev().filter(|line| !line.trim().is_empty());
    let Some(last) = lines.next() else { return false };
    let others: Vec<&str> = lines.take(MOST).collect();
    let timed = |line: &str| {
        let head = line.get(..line.floor_char_boundary(64)).unwrap_or_default();
        let digits = head.bytes().filter(u8::is_ascii_digit).count();
        digits >= 8 && head.bytes().filter(|byte| *byte == b':').count() >= 2 && !line.contains("\": ")
    };
    let quotes = |line: &str| line.matches('"').count();
    let words = |line: &str| line.split_whitespace().count();
    let fewest = others.iter().map(|line| words(line)).min().unwrap_or_default();
    !others.is_empty()
        && timed(last)
        && others.iter().all(|line| timed(line))
        && (quotes(last) % 2 == 1 && others.iter().all(|line| quotes(line) % 2 == 0)
            || others.len() >= 2 && words(last) <= 3 && words(last) < fewest)
}
