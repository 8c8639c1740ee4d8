//! Whether a text is a statement that writes: SQL and its kin (Cypher, SPARQL), GraphQL, calls of a database's shell. In:
//! a text that is sent to a tool. Out: what can be told of it. Nothing is executed.
//!
//! Prose is no statement: a word such as `delete` counts only where the grammar has it (`delete from t`). Dialects differ in
//! where strings and comments end, so a text in which that matters is read in each way, and the gravest holds.

use std::{collections::HashSet, sync::LazyLock};

use super::{
    among,
    expression::{chain_looks, is_chain},
    functions, graphql,
    hidden::{begins_another, calls_by_name, calls_unknown, draws, starts_service},
    tokens::{Dialect, Token, dialects, tokens},
};
use umbra_domain::Effect;

/// What can be told of a text, the graver the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// It is no statement.
    Prose,
    /// It only reads.
    Reads,
    /// It opens like a statement, and nobody knows what it does; it may be prose.
    Odd,
    /// It is a statement, and nobody knows what it does.
    Unknown,
    /// It writes, by this word.
    Writes(Effect, &'static str),
}

/// Words by which statements open that only read.
const READING: [&str; 8] = ["desc", "describe", "explain", "return", "select", "show", "values", "with"];
/// Words by which other statements open.
pub(super) const OPENINGS: &str = "add alter analyze attach backup base begin call checkpoint clear cluster comment commit construct copy create \
    deallocate declare delete detach discard do drop exec execute export flush foreach grant handler import insert install kill \
    load lock match merge move notify optimize optional pragma prefix prepare purge refresh reindex remove rename repair replace reset \
    restore revoke rollback savepoint set shutdown start table truncate unload unlock unwind update upsert use vacuum";
/// What is created, altered and dropped.
const KINDS: &str = "aggregate bucket cast catalog collection column concurrently constraint database databases domain event extension \
    external foreign function global graph group if index keyspace language local login materialized measurement node operator or owned \
    package pipe policy procedure property publication retention role routine rule schema sequence server session shard stage statistics stream \
    subscription synonym system table tables tablespace task temp temporary trigger type unique unlogged user view warehouse";
/// Words by which a statement, or a part of one, writes.
const KEYWORDS: [&str; 14] = [
    "alter", "create", "delete", "drop", "for", "insert", "into", "lock", "merge", "rename", "replace", "truncate",
    "update", "upsert",
];
/// Commands with a dot before them that show something.
const DOTTED: [&str; 7] = ["databases", "help", "indexes", "schema", "show", "tables", "version"];

/// Reads a text.
pub(super) fn judge(text: &str) -> Verdict {
    if graphql::is_mutation(text) {
        return Verdict::Writes(Effect::Destructive, "mutation");
    }
    if graphql::subscribes(text) {
        return Verdict::Unknown;
    }
    if is_chain(text) {
        return if chain_looks(text) { Verdict::Reads } else { Verdict::Unknown };
    }
    if let Some(command) = dotted(text) {
        return if DOTTED.contains(&command) { Verdict::Reads } else { Verdict::Odd };
    }
    let start = text.trim_start_matches(|c: char| c.is_whitespace() || c == '(' || c == ';');
    let end = start.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(start.len());
    let first = start.get(..end).unwrap_or_default();
    let opens = opening(first) || ["for", "let"].iter().any(|word| first.eq_ignore_ascii_case(word));
    let hidden = start.starts_with("/*") || start.starts_with("--") || start.starts_with('#');
    if !opens && !hidden && !text.contains(';') {
        return Verdict::Prose;
    }
    let found = by_every_reading(text);
    // A name right before its bracket is no prose.
    let called = || {
        text.as_bytes()
            .windows(2)
            .any(|pair| matches!(pair, [name, b'('] if name.is_ascii_alphanumeric() || b"_\"`".contains(name)))
    };
    if found == Verdict::Odd && opens && called() { Verdict::Unknown } else { found }
}

/// The gravest that a text is in any dialect: where they disagree on what is quoted, it is a look only if all say so.
fn by_every_reading(text: &str) -> Verdict {
    let Some(dialects) = dialects(text) else {
        let plain = statements(&tokens(text, Dialect::default()));
        return if plain == Verdict::Prose { Verdict::Odd } else { plain.max(Verdict::Unknown) };
    };
    let mut gravest = Verdict::Prose;
    for dialect in dialects {
        gravest = gravest.max(statements(&tokens(text, dialect)));
        if matches!(gravest, Verdict::Writes(Effect::Destructive, _)) {
            break;
        }
    }
    gravest
}

/// What Kusto, and the shell of `SQLite`, are commanded with a dot before it, behind remarks: `.drop` of `.drop table T`.
fn dotted(text: &str) -> Option<&str> {
    let line = text.lines().map(str::trim_start).find(|line| !line.is_empty() && !line.starts_with("//"))?;
    let command = line.strip_prefix('.')?;
    let end = command.find(|c: char| !(c.is_ascii_alphabetic() || c == '-')).unwrap_or(command.len());
    let (word, rest) = command.split_at(end);
    (!word.is_empty() && (rest.is_empty() || rest.starts_with(char::is_whitespace))).then_some(word)
}

fn opening(word: &str) -> bool {
    static ALL: LazyLock<HashSet<&str>> =
        LazyLock::new(|| OPENINGS.split_whitespace().chain(READING.iter().copied()).collect());
    (2..=11).contains(&word.len()) && ALL.contains(word.to_ascii_lowercase().as_str())
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
    if let Some((effect, word)) = writes(tokens).or_else(|| draws(tokens)) {
        return Verdict::Writes(effect, word);
    }
    if let Some(verdict) = of_loop(&first, tokens) {
        return verdict;
    }
    let verdict = opened(&first, tokens);
    // A backslash is a command of a client: `\\gexec`.
    let calls = || calls_unknown(tokens) || calls_by_name(tokens) || tokens.contains(&Token::Mark('\\'));
    match verdict {
        Verdict::Reads if begins_another(&first, tokens) || starts_service(tokens) => Verdict::Unknown,
        Verdict::Reads if first != "pragma" && calls() => Verdict::Odd,
        other => other,
    }
}

/// What a statement is that does not write by any of its parts, by how it opens.
fn opened(first: &str, tokens: &[Token<'_>]) -> Verdict {
    let next = |list: &[&str]| is(tokens, 1, list);
    let holds = |list: &[&str]| (1..tokens.len()).any(|at| is(tokens, at, list));
    let marked = |mark| tokens.get(1) == Some(&Token::Mark(mark));
    match first {
        "match" | "optional" | "unwind" | "with" | "return"
            if (first != "with" && (marked('(') || next(&["match"]) || holds(&["as"])))
                || holds(&["match", "unwind", "foreach"]) =>
        {
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
        "prefix" | "base" | "construct" | "with" if first != "with" || marked('<') => {
            let changing = ["add", "clear", "copy", "create", "delete", "drop", "insert", "load", "move"];
            if holds(&changing) { Verdict::Writes(Effect::Destructive, "update") } else { Verdict::Reads }
        }
        "pragma" if tokens.contains(&Token::Mark('=')) => Verdict::Writes(Effect::Write, "pragma"),
        "pragma" if !is_shown(tokens) => Verdict::Odd,
        // What is explained is not run, but for `analyze`; what that runs was looked at above.
        "desc" | "describe" | "explain" | "pragma" | "return" | "show" | "select" | "values" | "with" => Verdict::Reads,
        "add" | "clear" | "copy" | "create" | "drop" | "load" | "move"
            if (1..4).any(|at| tokens.get(at) == Some(&Token::Mark('<'))) =>
        {
            Verdict::Writes(Effect::Destructive, "update")
        }
        "copy" if next(&["into"]) => Verdict::Writes(Effect::Write, "copy"),
        "call" if tokens.contains(&Token::Mark('(')) => Verdict::Writes(Effect::Destructive, "call"),
        "copy"
            if holds(&["from", "to"]) && (tokens.contains(&Token::Text) || holds(&["program", "stdin", "stdout"])) =>
        {
            Verdict::Writes(Effect::Destructive, "copy")
        }
        "do" if next(&["language"]) || tokens.get(1) == Some(&Token::Text) => {
            Verdict::Writes(Effect::Destructive, "do")
        }
        "exec" | "execute"
            if next(&["immediate"]) || matches!(tokens.get(2), Some(Token::Text | Token::Mark('@' | '.'))) =>
        {
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

/// What goes over things one by one, as the language of `ArangoDB` has it: `for d in c remove d in c`.
fn of_loop(first: &str, tokens: &[Token<'_>]) -> Option<Verdict> {
    let changing = ["insert", "remove", "replace", "update", "upsert"];
    let goes = first == "for" && is(tokens, 2, &["in"]) || first == "let" && tokens.get(2) == Some(&Token::Mark('='));
    let named = first == "remove"
        && (3..tokens.len()).any(|at| is(tokens, at, &["in"]))
        && tokens.len() < 64
        && matches!(tokens.get(1), Some(Token::Text | Token::Name(_) | Token::Mark('{')));
    if named || goes && (3..tokens.len()).any(|at| is(tokens, at, &changing) && is_placed(tokens, at)) {
        return Some(Verdict::Writes(Effect::Destructive, "remove"));
    }
    let returns = goes && (3..tokens.len()).any(|at| is(tokens, at, &["return"]));
    returns.then(|| if calls_unknown(tokens) { Verdict::Odd } else { Verdict::Reads })
}

/// Whether a word has something behind it that it may change, and is no part of a name.
fn is_placed(tokens: &[Token<'_>], at: usize) -> bool {
    let dotted = at.checked_sub(1).and_then(|before| tokens.get(before)) == Some(&Token::Mark('.'));
    !dotted && matches!(tokens.get(at + 1), Some(Token::Word(_) | Token::Name(_) | Token::Text | Token::Mark('{')))
}

/// Whether a `pragma` is one that shows something: `pragma table_info(t)`, `pragma main.page_count`.
fn is_shown(tokens: &[Token<'_>]) -> bool {
    let at = if tokens.get(2) == Some(&Token::Mark('.')) { 3 } else { 1 };
    let Some(Token::Word(name) | Token::Name(name)) = tokens.get(at) else { return false };
    match tokens.get(at + 1) {
        None => functions::is_pragma(name, false),
        Some(Token::Mark('(')) => functions::is_pragma(name, true),
        Some(_) => false,
    }
}

pub(super) fn is(tokens: &[Token<'_>], at: usize, list: &[&str]) -> bool {
    matches!(tokens.get(at), Some(Token::Word(word)) if list.iter().any(|one| word.eq_ignore_ascii_case(one)))
}

fn is_number(token: &Token<'_>) -> bool {
    matches!(token, Token::Word(word) if word.bytes().all(|byte| byte.is_ascii_digit()))
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
    let from = (1..tokens.len()).find(|at| is(tokens, *at, &["from"])).unwrap_or(tokens.len());
    for at in 0..tokens.len() {
        let Some(Token::Word(word)) = tokens.get(at) else { continue };
        let Some(keyword) = KEYWORDS.into_iter().find(|keyword| keyword.eq_ignore_ascii_case(word)) else { continue };
        let first = at == 0;
        // `(delete ...`, `) delete t`: where a statement stands.
        let placed = matches!(at.checked_sub(1).and_then(|before| tokens.get(before)), Some(Token::Mark('(' | ')')));
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
            "truncate"
                if first
                    && tokens.len() < 7
                    && named(at + 1)
                    && (tokens.len() < 3 || tokens.get(at + 2) == Some(&Token::Mark('.'))) =>
            {
                (Effect::Destructive, "truncate")
            }
            "delete" | "insert" | "update" | "merge" | "drop"
                if queries && placed && named(at + 1) && !is(tokens, at + 1, &["from", "as"]) =>
            {
                (Effect::Destructive, keyword)
            }
            // It locks what it shows.
            "for"
                if queries
                    && from < at
                    && (is(tokens, at + 1, &["update", "share"])
                        || is(tokens, at + 1, &["no", "key"]) && is(tokens, at + 2, &["key", "share"])) =>
            {
                (Effect::Write, "for update")
            }
            "create" | "alter" | "rename" if kind(at) && ident => (Effect::Write, "create"),
            "into" if queries && (named(at + 1) || matches!(tokens.get(at + 1), Some(Token::Mark('#' | '@')))) => {
                (Effect::Write, "into")
            }
            "lock" if queries && is(tokens, at + 1, &["in"]) && is(tokens, at + 2, &["share"]) => {
                (Effect::Write, "lock")
            }
            _ => continue,
        };
        return Some(found);
    }
    None
}
