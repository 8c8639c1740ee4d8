//! Reader of calls in source text: finds those of the table, and takes the commands from their literals. What a name was given
//! before stands for the name; what is not known stands as `$name`.

use std::{cell::Cell, ops::Range, sync::LazyLock};

use aho_corasick::AhoCorasick;
use memchr::memchr;

use super::{
    calls::{self, Does},
    language::Language,
    tokens::{Token, Tokens},
};

/// Calls of one text that are told.
const MOST_CALLS: usize = 512;

/// Arguments of one call that are looked at.
const MOST_ARGUMENTS: usize = 64;

/// Assignments of one text that are remembered.
const MOST_NAMES: usize = 128;

/// Longest call, and longest text that is put together, in bytes.
const LONGEST_CALL: usize = 4 * 1024;

/// Values of names that are put in for one text.
const MOST_VALUES: usize = 256;

/// Bytes of calls that are read for each byte of a text, since calls within calls are read again, and for any text.
const EFFORT: (usize, usize) = (4, 64 * 1024);

/// Longest value that is added to a call as written, in bytes.
const LONGEST_VALUE: usize = 400;

/// Calls and lists within one another that are followed.
const DEEPEST: usize = 6;

/// Call by which a program starts a command, deletes a directory or runs code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Meaning of the text.
    pub does: Does,
    /// Shell text; for [`Does::Itself`] the call as written, with what its names were given before.
    pub text: String,
    /// Byte range of the call.
    pub span: Range<usize>,
}

/// Calls of a source text that start commands, delete directories or run code, in order.
pub fn started(code: &str, language: Option<Language>) -> Vec<Started> {
    if !may_start(code, language) {
        return Vec::new();
    }
    let tokens = Tokens::new(code, language);
    let (values, effort) = (Cell::new(MOST_VALUES), Cell::new(code.len().saturating_mul(EFFORT.0) + EFFORT.1));
    Reader { code, tokens, language, given: Vec::new(), values, effort, found: Vec::new() }.read()
}

/// True if a source text opens more brackets than it closes, outside of literals and comments. What a part closes that
/// begins in the middle counts for nothing.
pub fn is_open(code: &str, language: Option<Language>) -> bool {
    let mut tokens = Tokens::new(code, language);
    let depth = std::iter::from_fn(|| tokens.next()).fold(0_usize, |depth, (token, _)| match token {
        Token::Sign('(' | '[' | '{') => depth + 1,
        Token::Sign(')' | ']' | '}') => depth.saturating_sub(1),
        _ => depth,
    });
    depth > 0
}

/// True if a text names a call of the table, or has backquotes where they run commands.
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

struct Reader<'c> {
    code: &'c str,
    tokens: Tokens<'c>,
    language: Option<Language>,
    /// Names and where the value begins that they were given last.
    given: Vec<(&'c str, usize)>,
    /// Values that may still be put in.
    values: Cell<usize>,
    /// Bytes of calls that may still be read.
    effort: Cell<usize>,
    found: Vec<Started>,
}

impl<'c> Reader<'c> {
    fn read(mut self) -> Vec<Started> {
        while let Some((token, span)) = self.tokens.next()
            && self.found.len() < MOST_CALLS
        {
            match token {
                Token::Command(text) => self.found.push(Started { does: Does::Starts, text, span }),
                Token::Name(name) => self.name(name, span),
                Token::Text(_) | Token::Sign(_) => {}
            }
        }
        self.found
    }

    /// Notes what a name is given, or reads the call that it begins.
    fn name(&mut self, name: &'c str, span: Range<usize>) {
        let next = self.tokens.peek();
        if matches!(next, Some('=' | ':')) {
            self.remember(name);
            return;
        }
        // A tag before a text in backquotes runs it.
        let tag = name == "$" && next == Some('`');
        let does = if tag { Some(Does::Starts) } else { calls::meaning(name, self.language) };
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
            Does::Starts => command(arguments),
            Does::Itself => Some(self.written(span.start..end)),
        };
        self.found.extend(text.map(|text| Started { does, text, span: span.start..end }));
    }

    /// Reader of further arguments, which Rust gives one by one: `Command::new("sh").arg("-c").arg("…")`.
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

    /// Where the value begins that a name was given before a place.
    fn value_of(&self, name: &str, before: usize) -> Option<usize> {
        let (_, at) = self.given.iter().rev().find(|(known, at)| *known == name && *at < before)?;
        self.values.set(self.values.get().checked_sub(1)?);
        Some(*at)
    }

    /// A call as written, and the lines that gave its names their values.
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

    /// Arguments up to what closes them.
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

    /// The next argument, and true if it is the last one.
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
                    // What is done to the text so far changes little of it; elsewhere a dot joins texts.
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

    /// Adds what a name stands for to an argument.
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

/// Parts of an argument.
#[derive(Debug, Default)]
struct Parts {
    text: String,
    /// Any of the text is known.
    known: bool,
    list: Option<Vec<String>>,
    /// An option by name.
    named: bool,
    /// A name that a bracket follows.
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

/// Texts of arguments, those in lists among them.
fn words(arguments: Vec<Argument>) -> Vec<String> {
    let texts = |argument| match argument {
        Argument::Text(text, _) => vec![text],
        Argument::List(list) => list,
        Argument::Other => Vec::new(),
    };
    arguments.into_iter().flat_map(texts).collect()
}

/// Command that arguments amount to: the first one where it is a line, else a program and its arguments.
fn command(mut arguments: Vec<Argument>) -> Option<String> {
    // What comes before the program: a context, a mode.
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
