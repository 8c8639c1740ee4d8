//! Whether a text is a statement that writes: SQL and its kin (Cypher, SPARQL), GraphQL, calls of a database's shell. In:
//! a text that is sent to a tool. Out: what can be told of it. Nothing is executed.
//!
//! Prose is no statement: a word such as `delete` counts only where the grammar has it (`delete from t`). Dialects differ in
//! where strings and comments end, so a text in which that matters is read in two ways, and the graver one holds.

use std::{collections::HashSet, sync::LazyLock};

use super::{lexicon::verb, name::words};
use crate::domain::Effect;

/// What can be told of a text, the graver the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// It is no statement.
    Prose,
    /// It only reads.
    Reads,
    /// It opens like a statement, and nobody knows what it does.
    Odd,
    /// It writes, by this word.
    Writes(Effect, &'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'t> {
    Word(&'t str),
    /// A quoted name.
    Name(&'t str),
    /// A string.
    Text,
    Mark(char),
}

/// Where strings and comments end.
#[derive(Clone, Copy)]
struct Dialect {
    /// A backslash takes the meaning from a quote, `#` opens a comment, comments do not nest, and `/*!` is executed.
    of_mysql: bool,
}

/// Words by which statements open that only read.
const READING: [&str; 7] = ["desc", "describe", "explain", "select", "show", "values", "with"];
/// Words by which other statements open.
const OPENINGS: &str = "alter analyze attach backup base begin call checkpoint clear cluster comment commit construct copy create \
    deallocate declare delete detach discard do drop exec execute export flush foreach grant handler import insert install kill \
    load lock match merge move notify optimize optional pragma prefix prepare purge refresh reindex rename repair replace reset \
    restore revoke rollback savepoint set shutdown start table truncate unload unlock unwind update upsert use vacuum";
/// What is created, altered and dropped.
const KINDS: &str = "aggregate bucket cast catalog collection column concurrently constraint database databases domain event extension \
    external foreign function global graph group if index keyspace language local login materialized node operator or owned \
    package pipe policy procedure property publication role routine rule schema sequence server session stage statistics stream \
    subscription synonym system table tables tablespace task temp temporary trigger type unique unlogged user view warehouse";
/// Words by which a statement, or a part of one, writes.
const KEYWORDS: [&str; 12] = [
    "alter", "create", "delete", "drop", "insert", "into", "merge", "rename", "replace", "truncate", "update", "upsert",
];
/// Most functions of a statement, and most words `mutation` of a text, that are looked at. With more, anything may be there.
const MOST: usize = 1_000;
/// Functions that write, by how their names begin. Of a few families every function counts.
const WRITING: &str = "cursor_to_xml dblink dbms_ get_lock http_delete http_patch http_post http_put lo_creat lo_export lo_from \
    lo_import lo_put lo_truncate lo_unlink load_extension lowrite nextval opendatasource openquery openrowset pg_advisory \
    pg_cancel pg_create pg_drop pg_export pg_file_ pg_import pg_log_backend pg_logical_emit pg_notify pg_promote pg_reload \
    pg_replication pg_restore pg_rotate pg_stat_reset pg_switch pg_terminate pg_try_advisory pg_wal_replay query_to_xml \
    release_lock set_config setval sp_ sys_eval sys_exec utl_ writefile xp_";
/// What functions with a writing verb in their name begin with that compute a value: `array_append`.
const PURE: [&str; 14] = [
    "array",
    "bit",
    "generate",
    "json",
    "jsonb",
    "list",
    "make",
    "map",
    "regexp",
    "st",
    "string",
    "to",
    "xml",
    "xmlelement",
];
/// Functions that are called like a writing verb, and compute a value.
const PURE_WHOLE: [&str; 6] = ["append", "fill", "insert", "mode", "replace", "adjust"];
/// What a `pragma` shows, given an argument.
const SHOWN: [&str; 8] = [
    "foreign_key_check",
    "foreign_key_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "table_info",
    "table_xinfo",
];

/// Reads a text.
pub(super) fn judge(text: &str) -> Verdict {
    if is_mutation(text) {
        return Verdict::Writes(Effect::Destructive, "mutation");
    }
    if let Some(word) = called_method(text) {
        return Verdict::Writes(Effect::Destructive, word);
    }
    let start = text.trim_start_matches(|c: char| c.is_whitespace() || c == '(' || c == ';');
    let end = start.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(start.len());
    let first = start.get(..end).unwrap_or_default();
    let opens = opening(first);
    let hidden = start.starts_with("/*") || start.starts_with("--") || start.starts_with('#');
    if !opens && !hidden && !text.contains(';') {
        return Verdict::Prose;
    }
    let plain = statements(&tokens(text, Dialect { of_mysql: false }));
    let differs = ["\\", "#", "/*", "--"].iter().any(|mark| text.contains(mark));
    if differs { plain.max(statements(&tokens(text, Dialect { of_mysql: true }))) } else { plain }
}

fn opening(word: &str) -> bool {
    static ALL: LazyLock<HashSet<&str>> =
        LazyLock::new(|| OPENINGS.split_whitespace().chain(READING.iter().copied()).collect());
    (2..=11).contains(&word.len()) && ALL.contains(word.to_ascii_lowercase().as_str())
}

fn among(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|one| one == word)
}

/// The gravest of several statements. One that is none, beside one that is, may be anything.
fn statements(tokens: &[Token<'_>]) -> Verdict {
    let all: Vec<Verdict> =
        tokens.split(|token| *token == Token::Mark(';')).filter(|one| !one.is_empty()).map(statement).collect();
    let gravest = all.iter().copied().max().unwrap_or(Verdict::Prose);
    if gravest == Verdict::Reads && all.contains(&Verdict::Prose) { Verdict::Odd } else { gravest }
}

fn statement(tokens: &[Token<'_>]) -> Verdict {
    let start = tokens.iter().take_while(|token| **token == Token::Mark('(')).count();
    let tokens = tokens.get(start..).unwrap_or_default();
    let Some(Token::Word(first)) = tokens.first() else { return Verdict::Prose };
    let first = first.to_ascii_lowercase();
    if let Some((effect, word)) = writes(tokens) {
        return Verdict::Writes(effect, word);
    }
    let next = |list: &[&str]| is(tokens, 1, list);
    let holds = |list: &[&str]| (1..tokens.len()).any(|at| is(tokens, at, list));
    let marked = |mark| tokens.get(1) == Some(&Token::Mark(mark));
    match first.as_str() {
        "match" | "optional" | "unwind" if marked('(') || next(&["match"]) || holds(&["as"]) => {
            let changing = ["create", "delete", "detach", "drop", "foreach", "load", "merge", "remove", "set"];
            match (1..tokens.len()).find(|at| is(tokens, *at, &changing)) {
                Some(at) if is(tokens, at, &["delete", "detach", "drop", "remove"]) => {
                    Verdict::Writes(Effect::Destructive, "delete")
                }
                Some(_) => Verdict::Writes(Effect::Write, "create"),
                None if holds(&["call"]) => Verdict::Odd,
                None => Verdict::Reads,
            }
        }
        "prefix" | "base" | "construct" => {
            let changing = ["add", "clear", "copy", "create", "delete", "drop", "insert", "load", "move"];
            if holds(&changing) { Verdict::Writes(Effect::Destructive, "update") } else { Verdict::Reads }
        }
        "pragma" if tokens.contains(&Token::Mark('=')) => Verdict::Writes(Effect::Write, "pragma"),
        "pragma" if tokens.contains(&Token::Mark('(')) && !next(&SHOWN) => Verdict::Odd,
        // What is explained is not run, but for `analyze`; what that runs was looked at above.
        "desc" | "describe" | "explain" | "pragma" | "show" | "select" | "values" | "with" => Verdict::Reads,
        "call" if tokens.contains(&Token::Mark('(')) => Verdict::Writes(Effect::Destructive, "call"),
        "copy"
            if holds(&["from", "to"]) && (tokens.contains(&Token::Text) || holds(&["program", "stdin", "stdout"])) =>
        {
            Verdict::Writes(Effect::Destructive, "copy")
        }
        "do" if next(&["language"]) || tokens.get(1) == Some(&Token::Text) => {
            Verdict::Writes(Effect::Destructive, "do")
        }
        "exec" | "execute" if next(&["immediate"]) || tokens.get(1).is_some_and(is_procedure) => {
            Verdict::Writes(Effect::Destructive, "exec")
        }
        "kill" if tokens.len() < 4 && tokens.iter().any(is_number) => Verdict::Writes(Effect::Destructive, "kill"),
        "load" if next(&["csv", "data", "xml"]) => Verdict::Writes(Effect::Write, "load"),
        "lock" | "optimize" | "repair" if next(&["table", "tables"]) => Verdict::Writes(Effect::Write, "lock"),
        "refresh" if next(&["materialized"]) => Verdict::Writes(Effect::Write, "refresh"),
        "backup" | "restore" if next(&["database", "log", "table"]) => Verdict::Writes(Effect::Write, "restore"),
        "grant" | "revoke" if holds(&["on", "to", "from"]) && (holds(&["privileges", "on"]) || tokens.len() < 5) => {
            Verdict::Writes(Effect::Destructive, "grant")
        }
        "clear" if next(&["graph", "all", "default", "named", "silent"]) => {
            Verdict::Writes(Effect::Destructive, "clear")
        }
        word if opening(word) => Verdict::Odd,
        _ => Verdict::Prose,
    }
}

fn is(tokens: &[Token<'_>], at: usize, list: &[&str]) -> bool {
    matches!(tokens.get(at), Some(Token::Word(word)) if list.iter().any(|one| word.eq_ignore_ascii_case(one)))
}

fn is_number(token: &Token<'_>) -> bool {
    matches!(token, Token::Word(word) if word.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_procedure(token: &Token<'_>) -> bool {
    matches!(token, Token::Word(word) | Token::Name(word) if writing_function(word))
}

/// What a statement writes at any place in it: some dialects need no `;` between two, and a part of a query may write.
fn writes(tokens: &[Token<'_>]) -> Option<(Effect, &'static str)> {
    let explained = is(tokens, 0, &["explain", "describe", "desc"])
        && !(1..tokens.len()).any(|at| is(tokens, at, &["analyze", "analyse"]));
    if explained || is(tokens, 0, &["show"]) {
        return None;
    }
    // A sentence may begin with these words, too.
    let queries = is(tokens, 0, &["select", "values", "explain"])
        || (is(tokens, 0, &["with"]) && (1..tokens.len()).any(|at| is(tokens, at, &["as"])));
    // `set a = 1`, `set a.b = 1`
    let equals = |at: &usize| (at + 2..at + 6).any(|next| tokens.get(next) == Some(&Token::Mark('=')));
    let assigned = (2..tokens.len()).rev().find(|at| is(tokens, *at, &["set"]) && equals(at)).unwrap_or(0);
    let soon = |at: usize, list: &[&str]| (at + 1..at + 12).any(|later| is(tokens, later, list));
    let kind =
        |at: usize| matches!(tokens.get(at + 1), Some(Token::Word(word)) if among(KINDS, &word.to_ascii_lowercase()));
    let named = |at: usize| matches!(tokens.get(at), Some(Token::Word(_) | Token::Name(_)));
    let opened =
        |at: usize| tokens.get(at + 1) == Some(&Token::Mark('(')) || tokens.get(at + 1) == Some(&Token::Mark('{'));
    let mut functions = 0;
    for at in 0..tokens.len() {
        let Some(Token::Word(word) | Token::Name(word)) = tokens.get(at) else { continue };
        if queries && tokens.get(at + 1) == Some(&Token::Mark('(')) {
            functions += 1;
            if functions > MOST || writing_function(word) {
                return Some((Effect::Destructive, "a function"));
            }
        }
        let Some(Token::Word(word)) = tokens.get(at) else { continue };
        let Some(keyword) = KEYWORDS.into_iter().find(|keyword| keyword.eq_ignore_ascii_case(word)) else { continue };
        let first = at == 0;
        let ident = named(at + 2) || tokens.get(at + 1).is_some_and(|token| matches!(token, Token::Name(_)));
        let found = match keyword {
            "delete" if is(tokens, at + 1, &["from", "data", "where"]) && (named(at + 2) || opened(at + 1)) => {
                (Effect::Destructive, "delete")
            }
            "delete" if first && (opened(at) || soon(at, &["from"]) && soon(at, &["where", "join", "using"])) => {
                (Effect::Destructive, "delete")
            }
            "insert" if is(tokens, at + 1, &["into", "overwrite", "ignore", "data", "or"]) => (Effect::Write, "insert"),
            "insert" if first && (opened(at) || soon(at, &["values", "select"])) => (Effect::Write, "insert"),
            "replace" | "upsert" | "merge" if is(tokens, at + 1, &["into"]) => (Effect::Write, "merge"),
            "merge" | "create" if first && tokens.get(at + 1) == Some(&Token::Mark('(')) => (Effect::Write, "create"),
            "merge" if first && soon(at, &["using"]) => (Effect::Write, "merge"),
            "update" if !is(tokens, at.wrapping_sub(1), &["for", "on", "do"]) && named(at + 1) && assigned > at + 1 => {
                (Effect::Write, "update")
            }
            "drop" | "truncate" if kind(at) && ident => (Effect::Destructive, "drop"),
            "truncate" if first && tokens.len() < 3 && named(at + 1) => (Effect::Destructive, "truncate"),
            "create" | "alter" | "rename" if kind(at) && ident => (Effect::Write, "create"),
            "into" if queries && named(at + 1) => (Effect::Write, "into"),
            _ => continue,
        };
        return Some(found);
    }
    None
}

/// Whether a function changes something, by its name. What none of us knows and is not called like a verb computes.
fn writing_function(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    if WRITING.split_whitespace().any(|start| name.starts_with(start)) {
        return true;
    }
    let words = words(&name);
    let first = words.first().map_or("", String::as_str);
    if PURE.contains(&first) || PURE_WHOLE.contains(&name.as_str()) || first == "regexp" {
        return false;
    }
    let strict = |word: &String| verb(word).is_some_and(|verb| !verb.noun && verb.act.effect() > Effect::Read);
    let taken = || words.len() > 1 && verb(first).is_some_and(|verb| verb.act.effect() == Effect::Destructive);
    words.iter().any(strict) || taken()
}

/// Whether a text holds a mutation of GraphQL: the word outside of every brace and string, before a brace.
fn is_mutation(text: &str) -> bool {
    if !text.contains("mutation") || !text.contains('{') {
        return false;
    }
    let (mut depth, mut quoted, mut comment, mut seen) = (0_usize, false, false, 0);
    for (at, c) in text.char_indices() {
        match c {
            '\n' => comment = false,
            _ if comment => {}
            '"' => quoted = !quoted,
            _ if quoted => {}
            '#' => comment = true,
            '{' | '(' => depth += 1,
            '}' | ')' => depth = depth.saturating_sub(1),
            'm' if depth == 0 => {
                // Bounded: the word may stand there often.
                let rest = text.get(at..text.floor_char_boundary(at + 300)).unwrap_or_default();
                let before = text.get(..at).and_then(|text| text.chars().next_back());
                let after = rest.strip_prefix("mutation").map(|rest| rest.chars().next().unwrap_or(' '));
                let opens = before.is_none_or(|c| c.is_whitespace() || c == '}' || c == ',')
                    && after.is_some_and(|c| c.is_whitespace() || matches!(c, '{' | '(' | '@' | '#'));
                // Prose has words between this one and a brace: a mutation has a name, and variables.
                let head = rest.find(['{', '(']).and_then(|end| rest.get(..end));
                seen += usize::from(opens);
                if seen > MOST || opens && head.is_some_and(|head| head.split_whitespace().count() < 4) {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

/// The writing method that a text calls in a database's shell: `db.users.deleteMany({})`, `g.V().drop()`.
fn called_method(text: &str) -> Option<&'static str> {
    let text = text.trim_start();
    if !["db.", "g.", "r."].iter().any(|start| text.starts_with(start)) {
        return None;
    }
    text.split('.').skip(1).take(200).find_map(|part| {
        let name = part.get(..part.find('(')?)?.trim();
        let first = words(name).into_iter().next()?;
        verb(&first).filter(|verb| verb.act.effect() > Effect::Read).map(|verb| verb.word)
    })
}

/// The tokens of a text. Comments are left out.
fn tokens(text: &str, dialect: Dialect) -> Vec<Token<'_>> {
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
