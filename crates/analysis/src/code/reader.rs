//! Reader of calls in source text: finds the calls of the table and takes the commands from their literals. A name that
//! was assigned before is replaced by its value; an unknown value stands as `$name`.

use std::{cell::Cell, ops::Range, sync::LazyLock};

use aho_corasick::AhoCorasick;
use memchr::memchr;

use super::{
    calls::{self, CallMeaning},
    language::{Language, here_document},
    tokens::{Token, Tokens},
};

/// Most calls of one text that are reported.
const MOST_CALLS: usize = 512;

/// Most arguments of one call that are read.
const MOST_ARGUMENTS: usize = 64;

/// Most assignments of one text that are remembered.
const MOST_NAMES: usize = 128;

/// Longest call, and longest text assembled from parts, in bytes.
const LONGEST_CALL: usize = 4 * 1024;

/// Most names that are replaced by their values in one text.
const MOST_VALUES: usize = 256;

/// Bytes of calls that may be read: a factor of the text's length, and a constant. Calls within calls are read again.
const EFFORT: (usize, usize) = (4, 64 * 1024);

/// Longest value that is added to a call as written, in bytes.
const LONGEST_VALUE: usize = 400;

/// Deepest nesting of calls and lists that is followed.
const DEEPEST: usize = 6;

/// Call by which a program starts a command, deletes a directory or runs code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Meaning of the text.
    pub does: CallMeaning,
    /// Shell text; for [`CallMeaning::Itself`] the call as written, and the values assigned to its names before.
    pub text: String,
    /// Byte range of the call.
    pub span: Range<usize>,
}

/// Finds the calls of a source text that start commands, delete directories or run code, in order.
pub fn started(code: &str, language: Option<Language>) -> Vec<Started> {
    if !may_start(code, language) {
        return Vec::new();
    }
    let tokens = Tokens::new(code, language);
    let (values, effort) = (Cell::new(MOST_VALUES), Cell::new(code.len().saturating_mul(EFFORT.0) + EFFORT.1));
    CodeReader { code, tokens, language, given: Vec::new(), values, effort, found: Vec::new() }.read()
}

/// True if a source text opens more brackets than it closes, outside of literals and comments, or ends within a literal
/// or a here-document. A closing bracket without an opening one, in a part that begins in the middle, is ignored.
pub fn is_open(code: &str, language: Option<Language>) -> bool {
    if language == Some(Language::Shell) {
        return in_here_document(code);
    }
    let mut tokens = Tokens::new(code, language);
    let (mut depth, mut quoted) = (0_usize, false);
    while let Some((token, _)) = tokens.next() {
        match token {
            Token::Sign('(' | '[' | '{') => depth += 1,
            Token::Sign(')' | ']' | '}') => depth = depth.saturating_sub(1),
            Token::Sign('"') => quoted = language.is_some(),
            Token::Sign('\n') => quoted = false,
            _ => {}
        }
    }
    depth > 0 || quoted
}

/// True if a script ends before a here-document does. Words in capitals alone count: `1 << n` shifts.
fn in_here_document(script: &str) -> bool {
    let mut given = None;
    for line in script.lines() {
        given = match given {
            Some(end) => Some(end).filter(|end| line.trim_start() != *end),
            None => here_document(line).filter(|end| end.starts_with(|c: char| c.is_ascii_uppercase())),
        };
    }
    given.is_some()
}

/// True if a text names a call of the table, or has backquotes where these run commands.
pub fn may_start(code: &str, language: Option<Language>) -> bool {
    static NAMES: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| AhoCorasick::new(calls::names()).ok());
    let quotes = matches!(language, Some(Language::Ruby | Language::Php | Language::Perl))
        && (memchr(b'`', code.as_bytes()).is_some() || code.contains("%x") || code.contains("qx"));
    quotes || code.contains("$`") || NAMES.as_ref().is_some_and(|names| names.is_match(code))
}

/// Argument of a call.
#[derive(Debug)]
enum Argument {
    /// Text, and true if any of it is known.
    Text(String, bool),
    /// Texts of a list.
    List(Vec<String>),
    /// An option by name, or nothing.
    Other,
}

struct CodeReader<'c> {
    code: &'c str,
    tokens: Tokens<'c>,
    language: Option<Language>,
    /// Assigned names, each with the byte where its latest value begins.
    given: Vec<(&'c str, usize)>,
    /// Names that may still be replaced by values.
    values: Cell<usize>,
    /// Bytes of calls that may still be read.
    effort: Cell<usize>,
    found: Vec<Started>,
}

impl<'c> CodeReader<'c> {
    fn read(mut self) -> Vec<Started> {
        while let Some((token, span)) = self.tokens.next()
            && self.found.len() < MOST_CALLS
        {
            match token {
                Token::Command(text) => self.found.push(Started { does: CallMeaning::Starts, text, span }),
                Token::Name(name) => self.name(name, span),
                Token::Text(_) | Token::Sign(_) => {}
            }
        }
        self.found
    }

    /// Remembers an assignment to a name, or reads the call that the name begins.
    fn name(&mut self, name: &'c str, span: Range<usize>) {
        let next = self.tokens.peek();
        if matches!(next, Some('=' | ':')) {
            self.remember(name);
            return;
        }
        // A tag before a text in backquotes runs it.
        let tag = name == "$" && next == Some('`');
        let does = if tag { Some(CallMeaning::Starts) } else { calls::meaning(name, self.language) };
        let Some(does) = does.filter(|_| self.effort.get() > 0) else { return };
        let bare = match next {
            Some('(') => false,
            Some('"' | '\'') if matches!(self.language, Some(Language::Ruby | Language::Perl)) => true,
            Some('`') if tag => true,
            _ => return,
        };
        let mut reader = self.tokens.clone();
        if !bare {
            reader.next();
        }
        let most = span.start + LONGEST_CALL;
        let mut arguments = self.arguments(&mut reader, if bare { '\n' } else { ')' }, most, 0);
        while let Some(mut chain) = self.chained(&reader) {
            arguments.extend(self.arguments(&mut chain, ')', most, 0));
            reader = chain;
        }
        let end = reader.at();
        let text = match does {
            CallMeaning::Starts => command(arguments),
            CallMeaning::Itself => Some(self.written(span.start..end)),
        };
        self.found.extend(text.map(|text| Started { does, text, span: span.start..end }));
    }

    /// Returns the reader of further arguments that Rust chains: `Command::new("sh").arg("-c").arg("…")`.
    fn chained(&self, reader: &Tokens<'c>) -> Option<Tokens<'c>> {
        let mut chain = reader.clone();
        let dot = std::iter::from_fn(|| chain.next()).find(|(token, _)| *token != Token::Sign('\n'))?;
        let adds = matches!(chain.next()?.0, Token::Name("arg" | "args"));
        let goes_on = self.language == Some(Language::Rust) && dot.0 == Token::Sign('.') && adds;
        (goes_on && chain.next()?.0 == Token::Sign('(')).then_some(chain)
    }

    fn remember(&mut self, name: &'c str) {
        let mut value = self.tokens.clone();
        if matches!(value.clone().next(), Some((Token::Sign(':'), _))) {
            value.next();
        }
        let assigns = matches!(value.next(), Some((Token::Sign('='), _)));
        let compares = self.code.get(value.at()..).is_some_and(|rest| rest.starts_with(['=', '>', '~']));
        if assigns && !compares && self.given.len() < MOST_NAMES {
            self.given.push((name, value.at()));
        }
    }

    /// Returns the byte where the value begins that was assigned to a name before a place.
    fn value_of(&self, name: &str, before: usize) -> Option<usize> {
        let (_, at) = self.given.iter().rev().find(|(known, at)| *known == name && *at < before)?;
        self.values.set(self.values.get().checked_sub(1)?);
        Some(*at)
    }

    /// Returns a call as written, and the lines that assign its names.
    fn written(&self, call: Range<usize>) -> String {
        let mut text = self.code.get(call.clone()).unwrap_or_default().to_owned();
        let mut tokens = self.tokens.from(call.start);
        while let Some((token, _)) = tokens.next().filter(|(_, span)| span.end <= call.end) {
            let Token::Name(name) = token else { continue };
            let owner = name.split(['.', '[']).next().unwrap_or(name);
            let value = self.value_of(owner, call.start).and_then(|at| self.code.get(at..)?.lines().next());
            let value = value.filter(|value| value.len() <= LONGEST_VALUE);
            text.extend(value.into_iter().flat_map(|value| ["\n", value]));
        }
        text
    }

    /// Reads arguments up to the closing sign.
    fn arguments(&self, tokens: &mut Tokens<'c>, closes: char, most: usize, depth: usize) -> Vec<Argument> {
        let mut arguments = Vec::new();
        while arguments.len() < MOST_ARGUMENTS && depth < DEEPEST {
            let (argument, last) = self.argument(tokens, closes, most, depth);
            arguments.push(argument);
            if last {
                break;
            }
        }
        arguments
    }

    /// Reads the next argument. The flag is true for the last one.
    fn argument(&self, tokens: &mut Tokens<'c>, closes: char, most: usize, depth: usize) -> (Argument, bool) {
        let mut parts = Parts::default();
        let last = loop {
            let Some((token, span)) = tokens.next().filter(|(_, span)| span.end <= most) else { break true };
            self.effort.set(self.effort.get().saturating_sub(span.len()));
            match token {
                Token::Sign(',') => break false,
                Token::Sign(sign) if sign == closes || closes == '\n' && sign == ';' => break true,
                Token::Sign(')' | ']' | '}') => break true,
                Token::Name("if" | "unless" | "or" | "and" | "do") if closes == '\n' => break true,
                Token::Text(part) => parts.add(&part),
                Token::Sign('(') => {
                    let inner = self.arguments(tokens, ')', most, depth + 1);
                    match inner.into_iter().next() {
                        Some(Argument::Text(text, true)) if parts.is_empty() => parts.add(&text),
                        Some(Argument::List(list)) if parts.is_empty() => {
                            parts.list.get_or_insert_default().extend(list);
                        }
                        _ if parts.calls => parts.unknown("value"),
                        _ => {}
                    }
                    parts.calls = false;
                }
                Token::Sign(opens @ ('[' | '{')) => {
                    let inner = self.arguments(tokens, if opens == '[' { ']' } else { '}' }, most, depth + 1);
                    // Only some languages list in braces; in the others they hold options.
                    let lists = opens == '[' || matches!(self.language, Some(Language::Go | Language::Java) | None);
                    if lists && !parts.known {
                        parts.list.get_or_insert_default().extend(words(inner));
                    }
                }
                Token::Name(name) => self.part(name, span.start, tokens, depth, &mut parts),
                Token::Sign('.') => {
                    // A method call changes little of the text so far; in PHP and Perl a dot joins texts.
                    let joins = matches!(self.language, Some(Language::Php | Language::Perl));
                    if !joins && matches!(tokens.clone().next(), Some((Token::Name(_), _))) {
                        tokens.next();
                    }
                }
                Token::Command(_) | Token::Sign(_) => {}
            }
            if parts.text.len() > LONGEST_CALL {
                break true;
            }
        };
        (parts.into_argument(), last)
    }

    /// Adds a name's value to an argument.
    fn part(&self, name: &str, at: usize, tokens: &mut Tokens<'c>, depth: usize, parts: &mut Parts) {
        let next = tokens.peek();
        if matches!(next, Some('=' | ':')) && parts.is_empty() {
            parts.named = name != "args";
            return;
        }
        if next == Some('(') {
            parts.calls = true;
            return;
        }
        let value = self.value_of(name, at).filter(|_| depth < DEEPEST);
        let value = value.map(|at| self.argument(&mut tokens.from(at), '\n', at + LONGEST_CALL, depth + 1).0);
        match value {
            Some(Argument::Text(value, true)) => parts.add(&value),
            Some(Argument::List(values)) if parts.is_empty() => parts.list.get_or_insert_default().extend(values),
            _ if matches!(name, "new" | "await" | "string" | "String") => {}
            _ => parts.unknown(name.rsplit(['.', '>', ':', '$', '@']).next().unwrap_or_default()),
        }
    }
}

/// Parts of an argument under construction.
#[derive(Debug, Default)]
struct Parts {
    text: String,
    /// True if any of the text is known.
    known: bool,
    list: Option<Vec<String>>,
    /// True for an option by name.
    named: bool,
    /// True after a name that a bracket follows.
    calls: bool,
}

impl Parts {
    fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    fn add(&mut self, text: &str) {
        self.text.push_str(text);
        self.known = true;
    }

    fn unknown(&mut self, name: &str) {
        self.text.push('$');
        self.text.push_str(name);
    }

    fn into_argument(self) -> Argument {
        match self.list {
            _ if self.named => Argument::Other,
            Some(list) if !self.known => Argument::List(list),
            _ if self.text.is_empty() => Argument::Other,
            _ => Argument::Text(self.text, self.known),
        }
    }
}

/// Flattens arguments to their texts, those of lists included.
fn words(arguments: Vec<Argument>) -> Vec<String> {
    let texts = |argument| match argument {
        Argument::Text(text, _) => vec![text],
        Argument::List(list) => list,
        Argument::Other => Vec::new(),
    };
    arguments.into_iter().flat_map(texts).collect()
}

/// Returns the command that arguments amount to: the first one where it is a whole line, else a program and its
/// arguments.
fn command(mut arguments: Vec<Argument>) -> Option<String> {
    // Arguments before the program, such as a context or a mode, are dropped.
    let first =
        arguments.iter().position(|argument| matches!(argument, Argument::Text(_, true) | Argument::List(_)))?;
    arguments.drain(..first);
    let is_text = matches!(arguments.first(), Some(Argument::Text(..)));
    let words = words(arguments);
    let first = words.first()?;
    if is_text && first.trim().contains(char::is_whitespace) {
        return Some(first.clone());
    }
    Some(words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect::<Vec<_>>().join(" "))
}
