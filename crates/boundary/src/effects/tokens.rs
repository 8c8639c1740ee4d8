//! The words and signs of a statement. In: a text and where its dialect ends strings and comments. Out: tokens, without
//! comments; and by which dialects a text can be read otherwise. Linear.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'t> {
    Word(&'t str),
    /// A quoted name.
    Name(&'t str),
    /// A string.
    Text,
    Mark(char),
}

/// Where strings and comments end, as a set of what dialects differ in. None of them is that of the standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Dialect(u16);

/// A backslash takes the meaning from a quote.
const ESCAPES: u16 = 1;
/// `#` opens a comment.
const HASH: u16 = 1 << 1;
/// Comments do not nest.
const FLAT: u16 = 1 << 2;
/// What stands in `/*!` is executed.
const EXECUTED: u16 = 1 << 3;
/// `--` opens a comment only before a blank.
const SPACED: u16 = 1 << 4;
/// `$$` is no quote.
const NO_DOLLAR: u16 = 1 << 5;
/// `[` opens a name.
const BRACKETS: u16 = 1 << 6;
/// `q'[` opens a string.
const Q_QUOTES: u16 = 1 << 7;
/// Three quotes open a string.
const TRIPLE: u16 = 1 << 8;
/// `//` opens a comment.
const SLASHES: u16 = 1 << 9;
/// A backtick is a sign like others.
const NO_TICKS: u16 = 1 << 10;
/// A carriage return ends a line.
const RETURNS: u16 = 1 << 11;

/// Signs that may end a line for somebody: what stands behind them in a comment cannot be told.
const LINES: [char; 5] = ['\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];
/// Most bytes that are read, all readings of a text together.
const MOST_READ: usize = 512 * 1024;

/// The dialects by which a text is to be read; nothing where there are too many of them.
pub(super) fn dialects(text: &str) -> Option<Vec<Dialect>> {
    let twice = |mark: &str| text.matches(mark).nth(1).is_some();
    let returns = text.split('\r').skip(1).any(|rest| !rest.starts_with('\n'));
    let spaced = |mark: &str| {
        text.split(mark).skip(1).any(|rest| !rest.is_empty() && !rest.starts_with([' ', '\t', '\n', '\r']))
    };
    if text.contains(LINES) && ["--", "#", "//"].iter().any(|mark| text.contains(mark)) {
        return None;
    }
    let held = [
        (ESCAPES, text.contains('\\') && text.contains(['\'', '"'])),
        (HASH, text.contains('#')),
        (FLAT, twice("/*")),
        (EXECUTED, text.contains("/*!") || text.contains("/*M!")),
        (SPACED, spaced("--")),
        (NO_DOLLAR, twice("$")),
        (BRACKETS, text.contains('[')),
        (Q_QUOTES, text.contains("q'") || text.contains("Q'")),
        (TRIPLE, text.contains("'''") || text.contains("\"\"\"")),
        (SLASHES, text.contains("//")),
        (NO_TICKS, text.split('`').skip(1).step_by(2).any(|name| name.contains(['\'', '"', ';', '-', '/', '#', '$']))),
        (RETURNS, returns),
    ];
    let differing: Vec<u16> = held.into_iter().filter_map(|(one, holds)| holds.then_some(one)).collect();
    let count = 1_usize << differing.len();
    if count > 2 && text.len().saturating_mul(count) > MOST_READ {
        return None;
    }
    let dialect = |set: usize| {
        let own = differing.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
        Dialect(own.fold(0, |all, (_, one)| all | one))
    };
    Some((0..count).map(dialect).collect())
}

impl Dialect {
    fn has(self, one: u16) -> bool {
        self.0 & one != 0
    }
}

/// The tokens of a text. Comments are left out.
pub(super) fn tokens(text: &str, dialect: Dialect) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut glued = false;
    while let Some(c) = rest.chars().next() {
        let was_glued = std::mem::replace(&mut glued, false);
        rest = if opens_line(rest, dialect) {
            after_line(rest, dialect)
        } else if let Some(inner) = executed(rest).filter(|_| dialect.has(EXECUTED)) {
            inner.trim_start_matches(|c: char| c.is_ascii_digit())
        } else if dialect.has(EXECUTED) && rest.starts_with("*/") {
            rest.get(2..).unwrap_or_default()
        } else if rest.starts_with("/*") {
            comment(rest, !dialect.has(FLAT))
        } else if let Some(after) = triple(rest).filter(|_| dialect.has(TRIPLE)) {
            tokens.push(Token::Text);
            after
        } else if c == '\'' {
            let before = tokens.last().filter(|_| was_glued);
            let escapes = dialect.has(ESCAPES) || matches!(before, Some(Token::Word("e" | "E")));
            let of_q =
                dialect.has(Q_QUOTES) && matches!(before, Some(Token::Word("q" | "Q" | "nq" | "NQ" | "Nq" | "nQ")));
            tokens.push(Token::Text);
            if of_q { after_q(rest) } else { quoted(rest, c, escapes).1 }
        } else if c == '"' || (c == '`' && !dialect.has(NO_TICKS)) {
            let (name, after) = quoted(rest, c, dialect.has(ESCAPES) && c == '"');
            tokens.push(Token::Name(name));
            after
        } else if c == '[' && dialect.has(BRACKETS) {
            let (name, after) = quoted(rest, ']', false);
            tokens.push(Token::Name(name));
            after
        } else if let Some((tag, after)) = (!dialect.has(NO_DOLLAR) && c == '$').then(|| dollar(rest)).flatten() {
            tokens.push(Token::Text);
            after.find(tag).and_then(|end| after.get(end + tag.len()..)).unwrap_or_default()
        } else if c.is_alphanumeric() || c == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            tokens.push(Token::Word(word));
            glued = true;
            after
        } else {
            if !c.is_whitespace() {
                tokens.push(Token::Mark(c));
            }
            rest.get(c.len_utf8()..).unwrap_or_default()
        };
    }
    tokens
}

/// Whether a comment begins here that goes to the end of the line.
fn opens_line(text: &str, dialect: Dialect) -> bool {
    let blank = || text.get(2..).is_none_or(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
    text.starts_with("--") && (!dialect.has(SPACED) || blank())
        || dialect.has(HASH) && text.starts_with('#')
        || dialect.has(SLASHES) && text.starts_with("//")
}

fn after_line(text: &str, dialect: Dialect) -> &str {
    let ends = |c: char| c == '\n' || dialect.has(RETURNS) && c == '\r';
    text.find(ends).and_then(|end| text.get(end..)).unwrap_or_default()
}

/// What stands in a comment that is executed.
fn executed(text: &str) -> Option<&str> {
    text.strip_prefix("/*!").or_else(|| text.strip_prefix("/*M!"))
}

/// What comes after a string in three quotes.
fn triple(text: &str) -> Option<&str> {
    let quotes = ["'''", "\"\"\""].into_iter().find(|quotes| text.starts_with(quotes))?;
    let mut rest = text.get(3..)?;
    while let Some(at) = rest.find(['\\', '\'', '"']) {
        let found = rest.get(at..).unwrap_or_default();
        if let Some(after) = found.strip_prefix(quotes) {
            return Some(after);
        }
        let skipped =
            found.chars().take(if found.starts_with('\\') { 2 } else { 1 }).map(char::len_utf8).sum::<usize>();
        rest = found.get(skipped..).unwrap_or_default();
    }
    Some("")
}

/// What comes after a string such as `'[it's]'`, which ends by the sign that it begins with and a quote.
fn after_q(text: &str) -> &str {
    let mut chars = text.get(1..).unwrap_or_default().chars();
    let Some(open) = chars.next() else { return "" };
    let close = match open {
        '[' => ']',
        '(' => ')',
        '{' => '}',
        '<' => '>',
        other => other,
    };
    let inner = chars.as_str();
    inner.find(&format!("{close}'")).and_then(|end| inner.get(end + close.len_utf8() + 1..)).unwrap_or_default()
}

/// What is within quotes, and what comes after. A quote that is doubled is one of the text.
fn quoted(text: &str, quote: char, escapes: bool) -> (&str, &str) {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if escapes && c == '\\' {
            chars.next();
        } else if c == quote && chars.next_if(|(_, next)| *next == quote).is_none() {
            return (text.get(1..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default());
        }
    }
    (text.get(1..).unwrap_or_default(), "")
}

/// What comes after a comment.
fn comment(text: &str, nests: bool) -> &str {
    let mut depth = 0_usize;
    let mut rest = text;
    while !rest.is_empty() {
        if rest.starts_with("/*") && (nests || depth == 0) {
            depth += 1;
            rest = rest.get(2..).unwrap_or_default();
        } else if rest.starts_with("*/") {
            depth -= 1;
            rest = rest.get(2..).unwrap_or_default();
            if depth == 0 {
                return rest;
            }
        } else {
            let next = rest.chars().next().map_or(1, char::len_utf8);
            rest = rest.get(next..).unwrap_or_default();
        }
    }
    ""
}

/// The mark that ends a text of `PostgreSQL` in dollars, and what follows its opening.
fn dollar(text: &str) -> Option<(&str, &str)> {
    let end = text.get(1..)?.find('$')? + 2;
    let tag = text.get(..end)?;
    let inner = tag.get(1..tag.len() - 1)?;
    let plain =
        inner.chars().all(|c| c.is_alphanumeric() || c == '_') && !inner.starts_with(|c: char| c.is_ascii_digit());
    plain.then(|| (tag, text.get(end..).unwrap_or_default()))
}
