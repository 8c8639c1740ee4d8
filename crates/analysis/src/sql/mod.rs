//! Reader of SQL: text in, the acts of its statements out, as each dialect reads it.
//!
//! `sqlparser` has the grammars. A linear scan bounds its input: its own limit of recursion does not hold on all paths.
//! Dialects differ in where strings, names and comments end, so a text has several readings; the caller judges all of
//! them.

mod facts;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use sqlparser::{
    dialect::{
        BigQueryDialect, ClickHouseDialect, DatabricksDialect, Dialect, DuckDbDialect, GenericDialect, MsSqlDialect,
        MySqlDialect, OracleDialect, PostgreSqlDialect, RedshiftSqlDialect, SQLiteDialect, SnowflakeDialect,
    },
    keywords::Keyword,
    parser::Parser,
    tokenizer::{Token, Tokenizer},
};

pub use self::facts::{Act, QualifiedName, Statement};

/// Longest text that is read, in bytes.
const LONGEST: usize = 32 * 1024;
/// Most tokens that may nest: operators, keywords, brackets.
const MOST_STRUCTURAL: usize = 500;
/// Deepest brackets. Where a bracket may open a table or a query, the parser tries both.
const DEEPEST: usize = 12;

/// Readings of a text.
#[derive(Debug, Default)]
pub struct Readings {
    /// Statements of the text, by each dialect that could read all of it.
    pub parsed: Vec<Vec<Statement>>,
    /// For a text that no dialect could read as a whole: statements between semicolons that some dialect could read.
    pub parts: Vec<Statement>,
    /// Words seen only by dialects that could not read the text: where their strings end elsewhere, they may hide
    /// statements.
    pub unread: HashSet<String>,
    /// True if the text is too long or too deep to be read.
    pub over: bool,
}

/// Stack of the parser, in bytes: some 64 KiB for each token that may nest, in builds for tests.
const STACK: usize = 32 * 1024 * 1024;

/// Reads a text in every dialect, on a thread of its own: the parser may need more stack than a task of a server has.
pub fn read(text: &str) -> Readings {
    let unread = || Readings { over: true, ..Readings::default() };
    if text.len() > LONGEST {
        return unread();
    }
    std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || read_here(text));
        reader.ok().and_then(|reader| reader.join().ok()).unwrap_or_else(unread)
    })
}

fn read_here(text: &str) -> Readings {
    let mut readings = Readings::default();
    let dialects: [&dyn Dialect; 13] = [
        &PostgreSqlDialect {},
        &MySqlDialect {},
        &SQLiteDialect {},
        &MsSqlDialect {},
        &OracleDialect {},
        &SnowflakeDialect {},
        &BigQueryDialect {},
        &ClickHouseDialect {},
        &DuckDbDialect {},
        &RedshiftSqlDialect {},
        &DatabricksDialect {},
        &GenericDialect {},
        &sqlparser::dialect::HiveDialect {},
    ];
    let (mut seen, mut unread) = (HashSet::new(), HashSet::new());
    let mut failed = Vec::new();
    for dialect in dialects {
        // A character that a dialect does not know, such as another dialect's backtick, means that it would refuse the
        // text.
        let tokens = Tokenizer::new(dialect, text).tokenize().ok();
        let Some(mut tokens) = tokens.filter(|tokens| !tokens.iter().any(|token| matches!(token, Token::Char(_))))
        else {
            continue;
        };
        // `DROP TABLE $NAME` of a script: the parser expects a name where the script has a variable.
        for token in &mut tokens {
            if matches!(token, Token::Placeholder(name) if name.starts_with(['$', '?', ':'])) {
                *token = Token::make_word("placeholder", None);
            }
        }
        if !is_bounded(&tokens) {
            readings.over = true;
            return readings;
        }
        match parse(dialect, tokens.clone()) {
            Some(statements) => {
                seen.extend(words(&tokens));
                readings.parsed.push(statements);
            }
            None => failed.push((dialect, tokens)),
        }
    }
    if readings.parsed.is_empty() && failed.is_empty() {
        let parts = text.split(';').filter(|part| part.len() < text.len());
        readings.parts = parts.flat_map(|part| read_here(part).parsed).flatten().collect();
    }
    for (dialect, tokens) in failed {
        unread.extend(words(&tokens));
        if readings.parsed.is_empty() {
            let parts = tokens.split(|token| *token == Token::SemiColon);
            readings.parts.extend(parts.filter_map(|part| parse(dialect, part.to_vec())).flatten());
        }
    }
    readings.unread = unread.difference(&seen).cloned().collect();
    readings
}

fn parse(dialect: &dyn Dialect, tokens: Vec<Token>) -> Option<Vec<Statement>> {
    let statements = Parser::new(dialect).with_tokens(tokens).parse_statements().ok()?;
    Some(statements.iter().map(Statement::of).collect())
}

/// Returns the words of a text that are not quoted, in lower case.
fn words(tokens: &[Token]) -> impl Iterator<Item = String> {
    tokens.iter().filter_map(|token| match token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_ascii_lowercase()),
        _ => None,
    })
}

fn is_bounded(tokens: &[Token]) -> bool {
    let (mut structural, mut depth, mut deepest) = (0_usize, 0_usize, 0);
    for token in tokens {
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RParen | Token::RBracket | Token::RBrace => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
        structural += usize::from(match token {
            Token::Word(word) => word.keyword != Keyword::NoKeyword,
            Token::Whitespace(_) | Token::Comma | Token::Period | Token::Number(..) | Token::SingleQuotedString(_) => {
                false
            }
            _ => true,
        });
    }
    structural <= MOST_STRUCTURAL && deepest <= DEEPEST
}
