//! Values separated from their names: in a member of their own (`{"name": "DB_PASSWORD", "value": "…"}`), on the line
//! below (`password: |`), in a column (`user,password`). In: a text and the place behind a name. Out: the beginning of
//! the value, or the credentials in a table's column.

use std::ops::Range;

use super::{SecretFinding, assignments::in_cell, values};

/// Names of members whose value belongs to the name in another member.
const VALUES: [&str; 7] = ["value", "val", "text", "content", "stringvalue", "plaintext", "secretvalue"];

/// True if a member of this name holds the value for another member's name.
pub(super) fn is_value(name: &str) -> bool {
    VALUES.iter().any(|one| one.eq_ignore_ascii_case(name))
}

/// Returns the beginning of the value in a following member: `"name": "X", "value": …`, or `name: X` with `value: …`
/// below, with at most two members between. A name without quotes must itself be a member's value.
pub(super) fn member(text: &str, start: usize, at: usize, quoted: bool) -> Option<usize> {
    const MOST: usize = 3;
    const REACH: usize = 240;
    let bytes = text.as_bytes().get(..text.len().min(at + REACH))?;
    let parted = match bytes.get(at)? {
        b',' => quoted,
        b'\n' | b'\r' => quoted || is_given(text, start),
        b'\\' => quoted && matches!(bytes.get(at + 1), Some(b'n' | b'r')),
        _ => false,
    };
    if !parted {
        return None;
    }
    let mut at = at;
    for _ in 0..MOST {
        at += blanks(bytes.get(at..)?);
        let (name, next) = key(text, bytes, at)?;
        if is_value(name) {
            return Some(next);
        }
        at = behind_scalar(bytes, next)?;
    }
    None
}

/// True if a name is itself a value: `name: DB_PASSWORD`.
fn is_given(text: &str, start: usize) -> bool {
    let before = text.as_bytes().get(..start).unwrap_or_default();
    before.iter().rev().find(|byte| **byte != b' ').is_some_and(|byte| matches!(byte, b':' | b'='))
}

/// Returns the length of the separators between two members, plain or escaped.
fn blanks(rest: &[u8]) -> usize {
    let mut at = 0;
    loop {
        match rest.get(at..) {
            Some([b' ' | b'\t' | b'\r' | b'\n' | b',', ..]) => at += 1,
            Some([b'\\', b'n' | b'r' | b't', ..]) => at += 2,
            _ => return at,
        }
    }
}

/// Returns the name of the member that begins at a place, and the beginning of its value.
fn key<'t>(text: &'t str, bytes: &[u8], at: usize) -> Option<(&'t str, usize)> {
    let quote = |byte: &&u8| matches!(byte, b'\\' | b'"' | b'\'' | b'`');
    let start = at + bytes.get(at..)?.iter().take(2).take_while(quote).count();
    let length = bytes.get(start..)?.iter().take(32).take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
    let mut end = start + length;
    let name = text.get(start..end).filter(|name| !name.is_empty())?;
    end += bytes.get(end..)?.iter().take(2).take_while(quote).count();
    end += bytes.get(end..)?.iter().take_while(|b| **b == b' ').count();
    match bytes.get(end..)? {
        [b'=', b'>', ..] => Some((name, end + 2)),
        [b':' | b'=', ..] => Some((name, end + 1)),
        _ => None,
    }
}

/// Returns the place behind a member's value, unless the value is an object or a list.
fn behind_scalar(bytes: &[u8], at: usize) -> Option<usize> {
    let at = at + bytes.get(at..)?.iter().take_while(|b| **b == b' ').count();
    let rest = bytes.get(at..)?;
    match rest.first()? {
        b'{' | b'[' => None,
        quote @ (b'"' | b'\'') => Some(at + 2 + rest.get(1..)?.iter().position(|b| b == quote || *b == b'\n')?),
        _ => Some(at + rest.iter().position(|b| matches!(b, b',' | b'\n' | b'}'))?),
    }
}

/// Returns the beginning of a value that stands alone on the line below a name: `Password:`, `password: |`.
pub(super) fn line_below(text: &str, at: usize) -> Option<usize> {
    const DEEPEST: usize = 40;
    const LONGEST: usize = 256;
    let bytes = text.as_bytes();
    let mut from = at;
    if matches!(bytes.get(from), Some(b'|' | b'>')) {
        from += 1 + usize::from(matches!(bytes.get(from + 1), Some(b'-' | b'+')));
    }
    let blank =
        |from: usize| bytes.get(from..).unwrap_or_default().iter().take(DEEPEST).take_while(|b| **b == b' ').count();
    from += blank(from);
    from += usize::from(bytes.get(from) == Some(&b'\r'));
    if bytes.get(from) != Some(&b'\n') || !text.get(..at)?.trim_end_matches(' ').ends_with([':', '\u{ff1a}']) {
        return None;
    }
    from += 1;
    from += blank(from);
    let rest = bytes.get(from..)?;
    let length = rest.iter().take(LONGEST).take_while(|b| b.is_ascii_graphic()).count();
    let line = rest.get(length..)?;
    let alone = matches!(line.get(line.iter().take_while(|b| **b == b' ').count()), None | Some(b'\n' | b'\r'));
    (alone && length >= 8 && bytes.get(from + length - 1) != Some(&b':')).then_some(from)
}

/// Words in a table's header that name a column of credentials.
pub(super) const COLUMNS: [&str; 9] =
    ["password", "passwd", "passwort", "pwd", "secret", "token", "api_key", "apikey", "api key"];

/// Returns the credentials in the column headed by the word at `hit`, in a table of Markdown, of psql, or of comma- or
/// tab-separated values.
pub(super) fn column(text: &str, hit: &Range<usize>) -> Vec<SecretFinding> {
    const ROWS: usize = 200;
    let Some((line, separator)) = header(text, hit) else { return Vec::new() };
    let heads = cells(text, line.clone(), separator);
    let Some(column) = heads.iter().position(|cell| cell.start <= hit.start && hit.end <= cell.end) else {
        return Vec::new();
    };
    let is_head = |cell: &Range<usize>| {
        let head = text.get(cell.clone()).unwrap_or_default();
        head.len() <= 40
            && head.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ' | '.' | '/'))
            && !head.starts_with(|c: char| c.is_ascii_digit())
    };
    let name = heads.get(column).and_then(|cell| text.get(cell.clone())).unwrap_or_default();
    let first = line_before(text, line.start).is_none_or(|before| cells(text, before, separator).len() != heads.len());
    if heads.len() < 2 || !first || !heads.iter().all(is_head) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut next = line.end + 1;
    for _ in 0..ROWS {
        let Some(row) = line_at(text, next) else { break };
        next = row.end + 1;
        if text.get(row.clone()).is_some_and(is_rule) {
            continue;
        }
        let row = cells(text, row, separator);
        let Some(cell) = row.get(column).filter(|_| row.len() == heads.len()) else { break };
        found.extend(in_cell(name, text, cell.clone()));
    }
    found
}

/// Longest line of a table that is read, in bytes.
const LONGEST_LINE: usize = 600;

/// Returns the line of a header, and its separator.
fn header(text: &str, hit: &Range<usize>) -> Option<(Range<usize>, u8)> {
    let bytes = text.as_bytes();
    // A separator, or the line's end, follows the name soon.
    let tail = bytes.get(hit.end..)?.iter().take(24).find(|b| b"|,;\t\n".contains(b) || b"=:({<".contains(b));
    if tail.is_some_and(|b| b"=:({<".contains(b)) || !values::starts_word(text, hit.start) {
        return None;
    }
    let from = hit.start.saturating_sub(LONGEST_LINE);
    let before = bytes.get(from..hit.start)?;
    let start = memchr::memrchr(b'\n', before).map_or(from, |at| from + at + 1);
    if start == from && from > 0 {
        return None;
    }
    let line = line_at(text, start).filter(|line| line.end < text.len())?;
    let separator =
        b"|\t,;".iter().find(|sign| memchr::memchr(**sign, bytes.get(line.clone()).unwrap_or_default()).is_some());
    Some((line, *separator?))
}

fn line_at(text: &str, start: usize) -> Option<Range<usize>> {
    let rest = text.as_bytes().get(start..).filter(|rest| !rest.is_empty())?;
    let length = memchr::memchr(b'\n', rest.get(..rest.len().min(LONGEST_LINE))?)
        .or_else(|| (rest.len() < LONGEST_LINE).then_some(rest.len()))?;
    (length > 0).then_some(start..start + length)
}

fn line_before(text: &str, start: usize) -> Option<Range<usize>> {
    let end = start.checked_sub(1)?;
    let from = end.saturating_sub(LONGEST_LINE);
    let begins = memchr::memrchr(b'\n', text.as_bytes().get(from..end)?).map_or(from, |at| from + at + 1);
    (begins < end && text.is_char_boundary(begins)).then_some(begins..end)
}

/// True if a line only separates a header from its rows.
fn is_rule(line: &str) -> bool {
    line.bytes().all(|b| b"-+|:= \r".contains(&b))
}

/// Returns the cells of a line, without surrounding blanks and quotes.
fn cells(text: &str, line: Range<usize>, separator: u8) -> Vec<Range<usize>> {
    const MOST: usize = 40;
    let bytes = text.as_bytes().get(line.clone()).unwrap_or_default();
    let mut cells = Vec::new();
    let (mut start, mut quoted) = (line.start, false);
    for (at, byte) in bytes.iter().enumerate() {
        quoted ^= *byte == b'"';
        if *byte == separator && !quoted {
            cells.push(start..line.start + at);
            start = line.start + at + 1;
        }
    }
    cells.push(start..line.end);
    let bare = |cell: Range<usize>| {
        let inner = text.get(cell.clone()).unwrap_or_default();
        let blank = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '*');
        let begins = cell.start + inner.len() - inner.trim_start_matches(blank).len();
        begins..begins + inner.trim_matches(blank).len()
    };
    let mut cells: Vec<_> = cells.into_iter().take(MOST).map(bare).collect();
    if separator == b'|' {
        // Drops the empty cells outside of the outer bars.
        cells.retain(|cell| !cell.is_empty() || cell.start > line.start + 1 && cell.end + 1 < line.end);
    }
    cells
}
