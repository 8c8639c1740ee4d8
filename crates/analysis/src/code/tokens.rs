//! Tokens of source text: names, literals and signs, without comments. In: a text and its language. Out: one token
//! after the other, with its byte range. Interpolated values of a literal stand as `$name`, as in a shell.

use std::ops::Range;

use super::language::Language::{self, Go, Java, JavaScript, Perl, Php, Python, Ruby, Rust};

/// Longest literal that is read, in bytes.
const LONGEST: usize = 16 * 1024;

/// Longest regular expression, and longest value interpolated in a literal, in characters.
const LONGEST_PART: usize = 200;

/// One token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// Name with its owners: `os.system`, `Open3.capture2`, `$this->run`.
    Name(&'t str),
    /// Literal.
    Text(String),
    /// Literal that is run as a command: in backquotes, or behind `%x` or `qx`.
    Command(String),
    /// Any other character, the end of a line among them.
    Sign(char),
}

/// Reader of tokens.
#[derive(Debug, Clone)]
pub(super) struct Tokens<'t> {
    text: &'t str,
    at: usize,
    language: Option<Language>,
    /// True if the last token was a value: a slash then divides.
    after_value: bool,
    /// End of the here-document that the line opened.
    skip_to: Option<usize>,
    /// Quotes without a closing one, each with the byte up to which that is known: none is searched for twice.
    unclosed: [(char, usize); 3],
    /// True once a here-document without an end was met: no later one is searched for.
    endless: bool,
}

impl<'t> Tokens<'t> {
    pub fn new(text: &'t str, language: Option<Language>) -> Self {
        let unclosed = ['"', '\'', '`'].map(|quote| (quote, 0));
        Self { text, at: 0, language, after_value: false, skip_to: None, unclosed, endless: false }
    }

    /// Returns the offset of the next byte.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns the same reader at another place.
    pub fn from(&self, at: usize) -> Self {
        Self { at, after_value: false, skip_to: None, ..*self }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn is(&self, languages: &[Language]) -> bool {
        self.language.is_some_and(|language| languages.contains(&language))
    }

    /// Returns the next character on the line, after blanks.
    pub fn peek(&self) -> Option<char> {
        self.rest().trim_start_matches([' ', '\t']).chars().next()
    }

    /// Returns the next token, and its byte range.
    pub fn next(&mut self) -> Option<(Token<'t>, Range<usize>)> {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r']).len();
            self.at += blank;
            if let Some(length) = self.comment() {
                self.at += length;
                continue;
            }
            let start = self.at;
            let first = self.rest().chars().next()?;
            let token = self.token(first);
            self.after_value = match &token {
                Token::Name(name) => *name != "return",
                Token::Text(_) | Token::Command(_) | Token::Sign(')' | ']' | '}') => true,
                Token::Sign(_) => false,
            };
            return Some((token, start..self.at));
        }
    }

    /// Returns the length of the comment that begins here.
    fn comment(&self) -> Option<usize> {
        let rest = self.rest();
        let line = || Some(rest.find('\n').unwrap_or(rest.len()));
        let before = self.text.get(..self.at).unwrap_or_default();
        if rest.starts_with("/*") && !self.is(&[Python, Ruby, Perl]) {
            return Some(rest.find("*/").map_or(rest.len(), |end| end + 2));
        }
        if rest.starts_with("//") && !self.is(&[Python, Ruby, Perl]) {
            return if self.language.is_some() || before.is_empty() || before.ends_with(['\n', ' ']) {
                line()
            } else {
                None
            };
        }
        let hash =
            rest.starts_with('#') && !rest.starts_with("#[") && !before.ends_with('$') && !rest.starts_with("#{");
        if !hash || self.is(&[JavaScript, Go, Rust, Java]) {
            return None;
        }
        if self.language.is_some() || rest.starts_with("# ") { line() } else { None }
    }

    fn token(&mut self, first: char) -> Token<'t> {
        if first == '\n' {
            self.at = self.skip_to.take().unwrap_or(self.at + 1);
            return Token::Sign('\n');
        }
        if let Some(token) = self.prefixed().or_else(|| self.here_document()) {
            return token;
        }
        if first.is_ascii_alphabetic() || matches!(first, '_' | '$' | '@' | '\\') {
            return self.name();
        }
        match first {
            '"' => self.quoted('"', self.language.is_none() || self.is(&[Ruby, Php])),
            '\'' if self.is(&[Rust, Go, Java]) => self.sign(first),
            '\'' => self.quoted('\'', false),
            '`' => self.quoted('`', !self.is(&[Go])),
            '/' if !self.after_value && self.is(&[JavaScript, Ruby, Perl]) => self.expression(),
            other => self.sign(other),
        }
    }

    fn sign(&mut self, sign: char) -> Token<'t> {
        self.at += sign.len_utf8();
        Token::Sign(sign)
    }

    /// Reads a literal between signs of the writer's choice: `%x(…)`, `%w[…]`, `%{…}`, `qx{…}`.
    fn percent(&mut self) -> Option<Token<'t>> {
        let rest = self.rest();
        let ruby = rest.starts_with('%') && self.is(&[Ruby]) && !self.after_value;
        let body = rest.strip_prefix('%').filter(|_| ruby).or_else(|| {
            let body = rest.strip_prefix('q').filter(|_| self.is(&[Perl]) && !self.after_value)?;
            body.starts_with('x').then_some(body)
        })?;
        let letters = usize::from(body.starts_with(['x', 'w', 'W', 'i', 'I', 'q', 'Q', 'r', 's']));
        let opens = body.get(letters..)?.chars().next()?;
        let closes = match opens {
            '(' => ")",
            '[' => "]",
            '{' => "}",
            '<' => ">",
            '|' => "|",
            '!' => "!",
            _ => return None,
        };
        self.at += 1 + letters + 1;
        match self.until(closes, true) {
            Token::Text(text) if body.starts_with('x') => Some(Token::Command(text)),
            token => Some(token),
        }
    }

    /// Reads a literal behind letters or in three quotes: `f"…"`, `r#"…"#`, `"""…"""`.
    fn prefixed(&mut self) -> Option<Token<'t>> {
        if let Some(token) = self.percent() {
            return Some(token);
        }
        let rest = self.rest();
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).filter(|letters| *letters <= 2)?;
        let (prefix, quotes) = rest.split_at(letters);
        let known =
            matches!(prefix.to_ascii_lowercase().as_str(), "" | "f" | "r" | "b" | "u" | "rb" | "br" | "fr" | "rf");
        let three =
            ["\"\"\"", "'''"].into_iter().find(|three| quotes.starts_with(three) && !self.is(&[Ruby, Php, Perl]));
        if let Some(three) = three.filter(|_| known) {
            self.at += letters + three.len();
            return Some(self.until(three, prefix.contains(['f', 'F'])));
        }
        if self.is(&[Rust]) && prefix == "r" && quotes.starts_with('#') {
            self.at += letters + 2;
            return Some(self.until("\"#", false));
        }
        let quote = quotes.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        (letters > 0 && known && !self.is(&[JavaScript, Ruby, Php, Perl])).then(|| {
            self.at += letters;
            self.quoted(quote, prefix.contains(['f', 'F']))
        })
    }

    /// Reads the text of a here-document, which begins on the next line.
    fn here_document(&mut self) -> Option<Token<'t>> {
        let rest = self.rest().strip_prefix("<<").filter(|_| self.is(&[Ruby, Php, Perl]) && !self.endless)?;
        let word = rest.trim_start_matches(['<', '~', '-']).trim_start_matches(['\'', '"']);
        let length = word.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(word.len());
        let end = word.get(..length).filter(|end| end.starts_with(|c: char| c.is_ascii_uppercase()))?;
        let begins = self.at + self.rest().find('\n')? + 1;
        let body = self.text.get(begins..)?;
        let mut at = begins;
        let found = body.split_inclusive('\n').find(|line| {
            let closes = line.trim().strip_prefix(end).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric));
            at += if closes { 0 } else { line.len() };
            closes
        });
        self.endless = found.is_none();
        let value = self.text.get(begins..at)?.to_owned();
        self.skip_to = Some(at + found?.len());
        self.at += self.rest().len() - word.len() + length;
        self.at += self.rest().len() - self.rest().trim_start_matches(['\'', '"']).len();
        Some(Token::Text(value))
    }

    fn name(&mut self) -> Token<'t> {
        let rest = self.rest();
        let word = |text: &str| {
            let sign = usize::from(text.starts_with(['$', '@', '\\']));
            let body = text.get(sign..).unwrap_or_default();
            sign + body.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(body.len())
        };
        let mut end = word(rest).max(1);
        while let Some(more) = rest.get(end..) {
            let Some(joint) = ["::", "->", "?.", "&.", ".", "\\"].iter().find(|joint| more.starts_with(**joint)) else {
                break;
            };
            let next = more.get(joint.len()..).unwrap_or_default();
            if !next.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '$') {
                break;
            }
            end += joint.len() + word(next);
        }
        self.at += end;
        Token::Name(rest.get(..end).unwrap_or_default())
    }

    /// Reads a regular expression between slashes, or a single slash where the line has no second one.
    fn expression(&mut self) -> Token<'t> {
        let rest = self.rest().get(1..).unwrap_or_default();
        let (mut escaped, mut class) = (false, false);
        for (at, c) in rest.char_indices().take(LONGEST_PART) {
            match c {
                '\n' => break,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '[' => class = true,
                ']' => class = false,
                '/' if !class => {
                    self.at += at + 2;
                    return Token::Text(String::new());
                }
                _ => {}
            }
        }
        self.sign('/')
    }

    /// Reads a literal between quotes, or the quote alone where its line must close the literal and does not.
    fn quoted(&mut self, quote: char, filled: bool) -> Token<'t> {
        let many_lines = quote == '`' || self.is(&[Ruby, Php, Perl, Rust]);
        let raw = quote == '`' && self.is(&[Go]);
        let known = self.unclosed.iter().any(|(known, until)| *known == quote && self.at < *until);
        let body = self.rest().get(1..self.rest().floor_char_boundary(LONGEST)).unwrap_or_default();
        let mut escaped = false;
        let ends = |(_, c): &(usize, char)| {
            let ends = !escaped && (*c == quote || *c == '\n' && !many_lines);
            escaped = !escaped && *c == '\\' && !raw;
            ends
        };
        let end = if known { None } else { body.char_indices().find(ends) };
        if end.is_none_or(|(_, c)| c != quote) {
            let until = self.at + end.map_or(body.len(), |(at, _)| at);
            self.unclosed.iter_mut().filter(|(known, _)| *known == quote).for_each(|one| one.1 = one.1.max(until));
            return self.sign(quote);
        }
        self.at += 1;
        match self.until(quote.encode_utf8(&mut [0; 4]), filled) {
            Token::Text(text) if quote == '`' && self.is(&[Ruby, Php, Perl]) => Token::Command(text),
            token => token,
        }
    }

    /// Reads a literal's value up to `closes`. In a `filled` literal, interpolated values become `$name`.
    fn until(&mut self, closes: &str, filled: bool) -> Token<'t> {
        let mut value = String::new();
        let end = self.text.len().min(self.at + LONGEST);
        while self.at < end {
            let rest = self.rest();
            if rest.starts_with(closes) {
                self.at += closes.len();
                break;
            }
            let put_in = if filled { self.put_in(rest) } else { None };
            if let Some((name, length)) = put_in {
                value.push('$');
                value.push_str(name);
                self.at += length;
                continue;
            }
            let Some(c) = rest.chars().next() else { break };
            self.at += c.len_utf8();
            if c != '\\' {
                value.push(c);
                continue;
            }
            let Some(next) = self.rest().chars().next() else { break };
            self.at += next.len_utf8();
            match next {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                '\n' => {}
                '"' | '\'' | '`' | '\\' | '/' | '$' | '#' => value.push(next),
                other => value.extend(['\\', other]),
            }
        }
        Token::Text(value)
    }

    /// Returns the name interpolated here, and the length of its notation: `{name}`, `${name}`, `#{name}`, `{$name}`.
    fn put_in(&self, rest: &'t str) -> Option<(&'t str, usize)> {
        let opens = match self.language {
            Some(Python) => "{",
            Some(JavaScript) => "${",
            Some(Ruby) => "#{",
            Some(Php) => "{$",
            Some(_) => return None,
            None => ["${", "#{"].into_iter().find(|opens| rest.starts_with(opens))?,
        };
        let inside = rest.strip_prefix(opens)?;
        let mut depth = 1_usize;
        let end = inside.char_indices().take(LONGEST_PART).find_map(|(at, c)| {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            (depth == 0).then_some(at)
        })?;
        let inner = inside.get(..end)?;
        let name = inner.rsplit(['.', '@', '$', '>']).next().unwrap_or_default();
        let name = name.get(..name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len()))?;
        Some((if name.is_empty() { "value" } else { name }, opens.len() + end + 1))
    }
}
