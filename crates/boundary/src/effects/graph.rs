//! Judges queries of graphs and documents outside SQL: Cypher, SPARQL, AQL. In: a text. Out: a verdict by the words
//! outside its strings.

use super::{functions, lists::among, statement::StatementVerdict};
use umbra_domain::Effect;

/// Most functions of a query that are judged. With more, anything may be there.
const MOST: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'t> {
    Word(&'t str),
    /// Quoted name, or address in angle brackets.
    Name(&'t str),
    Text,
    Mark(char),
}

/// Judges a text; none if it is in none of these languages. The more severe reading counts, with comments or without.
pub(super) fn judge(text: &str) -> Option<StatementVerdict> {
    [true, false].into_iter().filter_map(|comments| queries(&tokens(text, comments)?)).max()
}

/// Words of a text outside of its strings.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    tokens(text, false).unwrap_or_default().into_iter().filter_map(|token| match token {
        Token::Word(word) => Some(word),
        _ => None,
    })
}

fn queries(tokens: &[Token<'_>]) -> Option<StatementVerdict> {
    tokens.split(|token| *token == Token::Mark(';')).filter_map(query).max()
}

fn query(tokens: &[Token<'_>]) -> Option<StatementVerdict> {
    let Some(Token::Word(first)) = tokens.first() else { return None };
    let first = first.to_ascii_lowercase();
    let holds = |list: &str| (1..tokens.len()).any(|at| is(tokens, at, list));
    let marked = |mark| tokens.get(1) == Some(&Token::Mark(mark));
    let braces = tokens.contains(&Token::Mark('{'));
    let changing = match first.as_str() {
        "match" | "optional" | "unwind" | "with" | "return"
            if first != "with" && (marked('(') || holds("as match")) || holds("match unwind foreach merge") =>
        {
            "create delete detach drop foreach load merge remove set"
        }
        "create" | "merge" | "delete" if marked('(') => return Some(StatementVerdict::Writes(Effect::Write, "create")),
        "prefix" | "base" | "construct" | "ask" | "select" | "describe" | "insert" | "delete" | "with" if braces => {
            "add clear copy create delete drop insert load move"
        }
        "add" | "clear" | "copy" | "create" | "drop" | "load" | "move"
            if is(tokens, 1, "graph all default named silent csv data xml")
                || matches!(tokens.get(1), Some(Token::Name(_))) =>
        {
            return Some(StatementVerdict::Writes(Effect::Destructive, "update"));
        }
        "for" if is(tokens, 2, "in") => "insert remove replace update upsert",
        "let" if tokens.get(2) == Some(&Token::Mark('=')) => "insert remove replace update upsert",
        "remove" | "insert" | "upsert" | "update" | "replace" if holds("in into") && braces => {
            return Some(StatementVerdict::Writes(Effect::Destructive, "remove"));
        }
        _ => return None,
    };
    let placed = |at: &usize| {
        is(tokens, *at, changing)
            && tokens.get(at - 1) != Some(&Token::Mark('.'))
            && matches!(
                tokens.get(at + 1),
                Some(Token::Word(_) | Token::Name(_) | Token::Text | Token::Mark('{' | '(' | '<'))
            )
    };
    let first_acts = is(tokens, 0, changing);
    Some(match (1..tokens.len()).find(placed) {
        Some(at) if is(tokens, at, "create load merge set") => StatementVerdict::Writes(Effect::Write, "create"),
        Some(_) => StatementVerdict::Writes(Effect::Destructive, "delete"),
        None if first_acts => StatementVerdict::Writes(Effect::Destructive, "update"),
        None if asks_service(tokens) => StatementVerdict::Unknown,
        None if holds("call") || calls_unknown(tokens) || tokens.contains(&Token::Mark('\\')) => {
            StatementVerdict::Ambiguous
        }
        None => StatementVerdict::Reads,
    })
}

/// True if a query calls a function that is not known to compute.
fn calls_unknown(tokens: &[Token<'_>]) -> bool {
    let mut functions = 0;
    tokens.windows(2).enumerate().any(|(at, pair)| {
        let [Token::Word(name) | Token::Name(name), Token::Mark('(')] = pair else { return false };
        functions += 1;
        let before = at.checked_sub(2).and_then(|at| tokens.get(at..at + 2));
        // In SPARQL a dot ends a triple.
        let owned = matches!(before, Some([Token::Word(owner), Token::Mark('.')])
            if !among("point duration date datetime", owner) && !tokens.contains(&Token::Mark('?')));
        functions > MOST || owned || !functions::is_known(name)
    })
}

/// True if a query asks another server, which may do anything. The label service of Wikibase is harmless.
fn asks_service(tokens: &[Token<'_>]) -> bool {
    let renamed = (0..tokens.len()).any(|at| is(tokens, at, "prefix") && is(tokens, at + 1, "wikibase"));
    (1..tokens.len()).any(|at| {
        let labels = is(tokens, at + 1, "wikibase") && is(tokens, at + 3, "label") && !renamed;
        is(tokens, at, "service") && !labels
    })
}

fn is(tokens: &[Token<'_>], at: usize, list: &str) -> bool {
    matches!(tokens.get(at), Some(Token::Word(word)) if among(list, &word.to_ascii_lowercase()))
}

/// Tokens of a text; none if a string has no end.
fn tokens(text: &str, comments: bool) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let line = comments && ["//", "#", "--"].iter().any(|mark| rest.starts_with(mark));
        let (token, length) = match c {
            _ if line => (None, rest.find('\n').unwrap_or(rest.len())),
            '/' if comments && rest.starts_with("/*") => (None, rest.find("*/").map_or(rest.len(), |end| end + 2)),
            '"' | '\'' => (Some(Token::Text), quoted(rest, c)?),
            '`' => {
                let end = rest.get(1..)?.find('`')? + 2;
                (rest.get(1..end - 1).map(Token::Name), end)
            }
            '<' if address(rest).is_some() => {
                let end = address(rest)?;
                (rest.get(1..end).map(Token::Name), end + 1)
            }
            c if c.is_alphanumeric() || c == '_' => {
                let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                (rest.get(..end).map(Token::Word), end)
            }
            c => ((!c.is_whitespace()).then_some(Token::Mark(c)), c.len_utf8()),
        };
        tokens.extend(token);
        rest = rest.get(length..)?;
    }
    Some(tokens)
}

/// Length of the string that a text begins with.
fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            chars.next();
        } else if c == quote {
            return Some(at + 1);
        }
    }
    None
}

/// Index where an address in angle brackets ends, if a text begins with one: `<http://a>`.
fn address(text: &str) -> Option<usize> {
    let end = text.find(|c: char| c.is_whitespace() || c == '>')?;
    (text.get(end..)?.starts_with('>') && end > 1).then_some(end)
}
