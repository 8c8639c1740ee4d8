//! Reads single lines: blank, heading, item with its state, fence, comment, key.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Least indentation of a nested item relative to its parent, in columns.
pub(super) const STEP: usize = 2;
/// Columns of indentation that make a line code outside of lists; also the tab width (`CommonMark` 0.31, 2.2 and 4.4).
pub(super) const CODE: usize = 4;

/// State of an item of a task list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ItemState {
    /// `[ ]`, and any other sign, such as `[~]`, `[/]` or `[ x]`.
    Open,
    /// `[x]`, also `[X]`.
    Done,
    /// `[-]`: will not be done.
    Dropped,
}

impl ItemState {
    /// Reads the sign between brackets; `None` if it is no box. Letters and digits other than `x` are labels.
    fn of(sign: &str) -> Option<Self> {
        let mut bare = sign.trim_matches([' ', '\t']).chars();
        match (sign, bare.next(), bare.next()) {
            ("x" | "X", ..) => Some(Self::Done),
            ("-", ..) => Some(Self::Dropped),
            (_, None, _) | (_, Some('x' | 'X'), None) => Some(Self::Open),
            (_, Some(sign), None) if !sign.is_alphanumeric() && !sign.is_control() => Some(Self::Open),
            _ => None,
        }
    }

    /// Returns the box of this state, with brackets.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::Open => "[ ]",
            Self::Done => "[x]",
            Self::Dropped => "[-]",
        }
    }
}

/// Parts of an item's own lines: indentation and bullet, box, text. Positions are in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marker {
    /// Columns before the bullet.
    pub indent: usize,
    /// The bullet alone: `-` or `12.`.
    pub bullet: Range<usize>,
    /// Start of the box, or of the text if there is no box.
    pub prefix: usize,
    pub state: Option<ItemState>,
    /// Start of the text behind the box, with its leading blanks.
    pub text: usize,
}

impl Marker {
    /// Reads the marker of a markdown item; of several lines the first counts.
    pub(super) fn of(line: &str) -> Option<Self> {
        if is_break(line) {
            return None;
        }
        let mut marker = Self::bare(line, |c| matches!(c, b'-' | b'*' | b'+'), true)?;
        if let Some((sign, rest)) = line[marker.prefix..].strip_prefix('[').and_then(|rest| rest.split_once(']'))
            && rest.bytes().next().is_none_or(|c| c.is_ascii_whitespace())
        {
            marker.state = ItemState::of(sign);
            marker.text += if marker.state.is_some() { sign.len() + 2 } else { 0 };
        }
        Some(marker)
    }

    /// Reads the marker of a YAML line, an element of a block sequence.
    pub(super) fn of_yaml(line: &str) -> Option<Self> {
        Self::bare(line, |c| c == b'-', false)
    }

    fn bare(line: &str, is_bullet: impl Fn(u8) -> bool, numbered: bool) -> Option<Self> {
        let (indent, start) = indent(line);
        let bytes = &line.as_bytes()[start..];
        let digits = bytes.iter().take_while(|c| c.is_ascii_digit()).count();
        let length = match bytes.get(digits)? {
            c if digits == 0 && is_bullet(*c) => 1,
            b'.' | b')' if numbered && (1..=9).contains(&digits) => digits + 1,
            _ => return None,
        };
        let blanks = bytes[length..].iter().take_while(|c| matches!(c, b' ' | b'\t')).count();
        let ends = bytes[length..].first().is_none_or(|c| matches!(c, b'\r' | b'\n'));
        let prefix = start + length + blanks;
        (blanks > 0 || ends).then_some(Self {
            indent,
            bullet: start..start + length,
            prefix,
            state: None,
            text: prefix,
        })
    }
}

/// Returns the indentation of a line, in columns and in bytes.
pub(super) fn indent(line: &str) -> (usize, usize) {
    let mut columns = 0;
    for (at, c) in line.bytes().enumerate() {
        match c {
            b' ' => columns += 1,
            b'\t' => columns += CODE - columns % CODE,
            _ => return (columns, at),
        }
    }
    (columns, line.len())
}

/// True if a line is blank.
pub(super) fn is_blank(line: &str) -> bool {
    line.bytes().all(|c| matches!(c, b' ' | b'\t' | b'\r' | b'\n'))
}

/// Returns level and title of a heading (`## Title ##`).
pub(super) fn heading(line: &str) -> Option<(usize, &str)> {
    let (columns, start) = indent(line);
    let rest = line[start..].trim_end();
    let level = rest.bytes().take_while(|c| *c == b'#').count();
    let title = &rest[level..];
    if columns >= CODE || !(1..=6).contains(&level) || !(title.is_empty() || title.starts_with([' ', '\t'])) {
        return None;
    }
    let title = title.trim();
    let open = title.trim_end_matches('#');
    let closed = open.is_empty() || open.ends_with([' ', '\t']);
    Some((level, if closed { open.trim_end() } else { title }))
}

/// Returns the heading level that an underline (`===` or `---`) gives to the title above it.
pub(super) fn underline(line: &str) -> Option<usize> {
    let (columns, start) = indent(line);
    let rest = line[start..].trim_end();
    let all = |c: u8| !rest.is_empty() && rest.bytes().all(|other| other == c);
    match (columns < CODE, all(b'='), all(b'-')) {
        (true, true, _) => Some(1),
        (true, _, true) => Some(2),
        _ => None,
    }
}

/// True if a line is a thematic break: `---`, `* * *`.
pub(super) fn is_break(line: &str) -> bool {
    let mut signs = line.bytes().filter(|c| !c.is_ascii_whitespace());
    let Some(first @ (b'-' | b'*' | b'_')) = signs.next() else { return false };
    let mut count = 1;
    for sign in signs {
        if sign != first {
            return false;
        }
        count += 1;
    }
    count >= 3
}

/// Block whose lines are not interpreted until it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Enclosure {
    /// Fence, with its character and its length.
    Fence(u8, usize),
    /// `<!--`, until `-->`.
    Comment,
}

impl Enclosure {
    /// Returns the block that a line opens, and true if the block is still open at the end of the line.
    pub(super) fn opened(line: &str) -> Option<(Self, bool)> {
        let rest = line.trim_start_matches([' ', '\t']);
        if let Some(comment) = rest.strip_prefix("<!--") {
            return Some((Self::Comment, !comment.contains("-->")));
        }
        let sign = *rest.as_bytes().first().filter(|c| matches!(c, b'`' | b'~'))?;
        let length = rest.bytes().take_while(|c| *c == sign).count();
        let is_code_span = sign == b'`' && rest[length..].contains('`');
        (length >= 3 && !is_code_span).then_some((Self::Fence(sign, length), true))
    }

    /// True if a line ends the block.
    pub(super) fn ends(self, line: &str) -> bool {
        match self {
            Self::Comment => line.contains("-->"),
            Self::Fence(sign, least) => {
                let rest = line.trim();
                rest.len() >= least && rest.bytes().all(|c| c == sign)
            }
        }
    }
}

/// Returns the key at the first column of a YAML line (`key: value`), without quotes.
pub(super) fn key(line: &str) -> Option<&str> {
    let first = *line.as_bytes().first()?;
    if let quote @ (b'"' | b'\'') = first {
        let end = 1 + line[1..].find(char::from(quote))?;
        let after = line[end + 1..].trim_start_matches([' ', '\t']);
        return after.strip_prefix(':').filter(|rest| ends_key(rest)).map(|_| &line[1..end]);
    }
    if first.is_ascii_whitespace() || b"#-?:,[]{}&*!|>%@`".contains(&first) {
        return None;
    }
    let end = line.match_indices(':').map(|(at, _)| at).find(|at| ends_key(&line[at + 1..]))?;
    Some(line[..end].trim_end())
}

fn ends_key(rest: &str) -> bool {
    rest.bytes().next().is_none_or(|c| c.is_ascii_whitespace())
}

/// True if the lines below this YAML line that are indented further are the text of a block scalar (`|`, `>-`).
pub(super) fn opens_block(line: &str) -> bool {
    let code = line.split(" #").next().unwrap_or(line).trim_end();
    let last = code.rsplit([' ', '\t']).next().unwrap_or(code);
    let sign = last.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-'));
    matches!(sign, "|" | ">") && last.len() <= 3
}

/// Returns the explicit id that `<!-- id: x -->` or `{#x}` gives to the element of these lines.
pub(super) fn explicit_id(own: &str) -> Option<&str> {
    let named = |name: &str| {
        let is_sign = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        !name.is_empty() && name.len() <= 64 && name.chars().all(is_sign)
    };
    let mut rest = own;
    while let Some((comment, after)) = rest.split_once("<!--").and_then(|(_, after)| after.split_once("-->")) {
        if let Some(name) = comment.trim().strip_prefix("id:").map(str::trim).filter(|name| named(name)) {
            return Some(name);
        }
        rest = after;
    }
    let (_, name) = own.lines().next()?.trim_end().strip_suffix('}')?.rsplit_once("{#")?;
    Some(name).filter(|name| named(name))
}

/// Returns a text with single blanks and without `<!-- id: x -->`, to compare texts by their words.
pub(super) fn substance(text: &str) -> String {
    let mut bare = text;
    let mut kept = String::new();
    while let Some((before, rest)) = bare.split_once("<!--") {
        let Some((comment, after)) = rest.split_once("-->") else { break };
        kept.push_str(before);
        if !comment.trim().starts_with("id:") {
            kept.extend(["<!--", comment, "-->"]);
        }
        bare = after;
    }
    kept.push_str(bare);
    let mut out = String::with_capacity(kept.len());
    for word in kept.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}
