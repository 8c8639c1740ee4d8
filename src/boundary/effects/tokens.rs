//! The words and signs of a statement. In: a text and where its dialect ends strings and comments. Out: tokens, without
//! comments. Linear.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'t> {
    Word(&'t str),
    /// A quoted name.
    Name(&'t str),
    /// A string.
    Text,
    Mark(char),
}

/// Where strings and comments end.
#[derive(Clone, Copy)]
pub(super) struct Dialect {
    /// A backslash takes the meaning from a quote, `#` opens a comment, comments do not nest, and `/*!` is executed.
    pub of_mysql: bool,
}

/// The tokens of a text. Comments are left out.
pub(super) fn tokens(text: &str, dialect: Dialect) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let line = |start: usize| rest.find('\n').map_or("", |end| rest.get(end.max(start)..).unwrap_or_default());
        let dashes = rest.starts_with("--")
            && (!dialect.of_mysql
                || rest.get(2..).is_none_or(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace)));
        rest = if dashes || (dialect.of_mysql && c == '#') {
            line(1)
        } else if dialect.of_mysql && rest.starts_with("/*!") {
            rest.get(3..).unwrap_or_default().trim_start_matches(|c: char| c.is_ascii_digit())
        } else if dialect.of_mysql && rest.starts_with("*/") {
            rest.get(2..).unwrap_or_default()
        } else if rest.starts_with("/*") {
            comment(rest, !dialect.of_mysql)
        } else if c == '\'' {
            let escapes =
                dialect.of_mysql || tokens.last().is_some_and(|token| matches!(token, Token::Word("e" | "E")));
            tokens.push(Token::Text);
            quoted(rest, c, escapes).1
        } else if c == '"' || c == '`' {
            let (name, after) = quoted(rest, c, dialect.of_mysql && c == '"');
            tokens.push(Token::Name(name));
            after
        } else if let Some((tag, after)) = (!dialect.of_mysql && c == '$').then(|| dollar(rest)).flatten() {
            tokens.push(Token::Text);
            after.find(tag).and_then(|end| after.get(end + tag.len()..)).unwrap_or_default()
        } else if c.is_alphanumeric() || c == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            tokens.push(Token::Word(word));
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
