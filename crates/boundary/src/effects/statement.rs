//! Judges texts that may be statements: SQL, similar languages (Cypher, SPARQL, AQL), GraphQL, calls of a database's
//! shell. In: a text that is sent to a tool. Out: a verdict. Nothing is executed.
//!
//! A statement reads if some dialect of SQL can parse all of it, each dialect that can takes it for a read, and every
//! function in it is known to compute. Prose is no statement: a word such as `delete` counts only where a grammar has
//! it.

use umbra_analysis::sql::{self, Act, QualifiedName, Readings, Statement};
use umbra_domain::Effect;

use super::{
    expression::{is_chain, is_read_only_chain},
    functions, graph, graphql,
    lists::{LISTS, among},
    name,
};

/// Verdict on a text, in order of severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StatementVerdict {
    /// Text that is no statement.
    Prose,
    /// Statement that only reads.
    Reads,
    /// Text that opens like a statement, and may be prose; its effect is unknown.
    Ambiguous,
    /// Statement with an unknown effect.
    Unknown,
    /// Statement that writes, by this word.
    Writes(Effect, &'static str),
}

/// Most words that are read of a text without a grammar.
const MOST_WORDS: usize = 2_000;
/// Characters that end a line in some databases only: with them, the end of a comment is ambiguous.
const LINES: [char; 6] = ['\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];

/// Judges a text.
pub(super) fn judge(text: &str) -> StatementVerdict {
    if graphql::is_mutation(text) {
        return StatementVerdict::Writes(Effect::Destructive, "mutation");
    }
    if graphql::subscribes(text) {
        return StatementVerdict::Unknown;
    }
    if is_chain(text) {
        return if is_read_only_chain(text) { StatementVerdict::Reads } else { StatementVerdict::Unknown };
    }
    if let Some(command) = dotted(text) {
        return if among(&LISTS.statements.dotted, command) {
            StatementVerdict::Reads
        } else {
            StatementVerdict::Ambiguous
        };
    }
    let start = text.trim_start_matches(|c: char| c.is_whitespace() || c == '(' || c == ';');
    let end = start.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(start.len());
    let first = start.get(..end).unwrap_or_default().to_ascii_lowercase();
    let opens = among(&LISTS.statements.reading, &first) || among(&LISTS.statements.acting, &first);
    let hidden = start.starts_with("/*") || start.starts_with("--") || start.starts_with('#');
    if !opens && !hidden && !text.contains(';') {
        return StatementVerdict::Prose;
    }
    if first == "pragma" && !start.trim_end_matches([';', ' ']).contains(';') {
        return pragma(start.get(end..).unwrap_or_default());
    }
    let parted = text.replace("\r\n", "\n");
    if parted.contains(LINES) && ["--", "#", "//"].iter().any(|mark| text.contains(mark)) || text.contains("/*M!") {
        return StatementVerdict::Unknown;
    }
    let readings = sql::read(text);
    let found = if readings.parsed.is_empty() { unparsed(text, opens, &readings) } else { parsed(text, &readings) };
    if found == StatementVerdict::Ambiguous && opens && is_spoken(text) { StatementVerdict::Unknown } else { found }
}

/// Most severe verdict of all dialects. If a dialect that could not parse the text sees a word of action that the
/// others take for a part of a string, the verdict is unknown.
fn parsed(text: &str, readings: &Readings) -> StatementVerdict {
    let gravest = readings.parsed.iter().flatten().map(statement).max().unwrap_or(StatementVerdict::Prose);
    let hides = || readings.unread.iter().any(|word| among(&LISTS.statements.acting, word));
    let acts = readings.parsed.iter().flatten().any(|statement| statement.acts.contains(&Act::Other));
    let unknown = gravest <= StatementVerdict::Ambiguous && hides()
        || gravest == StatementVerdict::Ambiguous && acts && text.contains(['\'', '"', '=']);
    if unknown { StatementVerdict::Unknown } else { gravest }
}

/// Judges a text that is no SQL as a whole: a statement among others, one in another language, or one without a
/// grammar.
fn unparsed(text: &str, opens: bool, readings: &Readings) -> StatementVerdict {
    let part =
        readings.parts.iter().map(statement).max().filter(|gravest| matches!(gravest, StatementVerdict::Writes(..)));
    let graph = graph::judge(text);
    if let Some(verdict) = part.max(graph) {
        return verdict;
    }
    if opens || readings.over { StatementVerdict::Ambiguous } else { StatementVerdict::Prose }
}

/// True if a text can hardly be prose: it has a name right before a bracket, or two words that only statements have.
fn is_spoken(text: &str) -> bool {
    let called = |pair: &[u8]| matches!(pair, [name, b'('] if name.is_ascii_alphanumeric() || b"_\"`".contains(name));
    let words: Vec<String> = graph::words(text).take(MOST_WORDS).map(str::to_ascii_lowercase).collect();
    let acts = |two: &[String]| {
        among(&LISTS.statements.pairs, &two.join("."))
            && two.last().is_some_and(|last| !text.to_ascii_lowercase().trim_end().ends_with(last.as_str()))
    };
    text.contains("$$") || text.as_bytes().windows(2).any(called) || words.windows(2).any(acts)
}

/// Dot command of Kusto or of the shell of `SQLite`, behind comments: `.drop` of `.drop table T`.
fn dotted(text: &str) -> Option<&str> {
    let line = text.lines().map(str::trim_start).find(|line| !line.is_empty() && !line.starts_with("//"))?;
    let command = line.strip_prefix('.')?;
    let end = command.find(|c: char| !(c.is_ascii_alphabetic() || c == '-')).unwrap_or(command.len());
    let (word, rest) = command.split_at(end);
    (!word.is_empty() && (rest.is_empty() || rest.starts_with(char::is_whitespace))).then_some(word)
}

/// Judges a pragma of `SQLite`: `table_info(t)`, `main.page_count`.
fn pragma(text: &str) -> StatementVerdict {
    let (name, value) = text.split_once('(').map_or((text, None), |(name, value)| (name, Some(value)));
    let name = name.trim_end_matches([';', ' ']).trim();
    let name = name.rsplit('.').next().unwrap_or(name);
    match () {
        () if text.contains('=') => StatementVerdict::Writes(Effect::Write, "pragma"),
        () if functions::is_pragma(name, value.is_some()) => StatementVerdict::Reads,
        () => StatementVerdict::Ambiguous,
    }
}

fn statement(statement: &Statement) -> StatementVerdict {
    let gravest = statement.acts.iter().map(act).max().unwrap_or(StatementVerdict::Unknown);
    gravest.max(match () {
        () if gravest > StatementVerdict::Reads => gravest,
        () if statement.aliases.iter().any(|alias| among(&LISTS.statements.whole, &alias.to_ascii_lowercase())) => {
            StatementVerdict::Unknown
        }
        () => judge_side_effects(statement),
    })
}

fn act(act: &Act) -> StatementVerdict {
    let (effect, word) = match act {
        Act::Reads => return StatementVerdict::Reads,
        Act::Other => return StatementVerdict::Ambiguous,
        Act::Locks => (Effect::Write, "for update"),
        Act::Stores => (Effect::Write, "into"),
        Act::Inserts => (Effect::Write, "insert"),
        Act::Updates(_) => (Effect::Write, "update"),
        Act::Deletes(_) => (Effect::Destructive, "delete"),
        Act::Builds => (Effect::Write, "create"),
        Act::Grants => (Effect::Destructive, "grant"),
        Act::Drops(_) => (Effect::Destructive, "drop"),
        Act::Empties => (Effect::Destructive, "truncate"),
    };
    StatementVerdict::Writes(effect, word)
}

/// Judges side effects of a query: function calls with and without brackets, the next value of a sequence, a pragma as
/// a table.
fn judge_side_effects(statement: &Statement) -> StatementVerdict {
    let next = statement.columns.iter().any(|column| column.last().eq_ignore_ascii_case("nextval"));
    if next {
        return StatementVerdict::Writes(Effect::Write, "nextval");
    }
    let pragma = |table: &QualifiedName| {
        let small = table.last().to_ascii_lowercase();
        small.strip_prefix("pragma_").is_some_and(|name| !functions::is_pragma(name, false))
    };
    if statement.tables.iter().any(pragma) {
        return StatementVerdict::Writes(Effect::Destructive, "pragma");
    }
    let dual = statement.tables.iter().any(|table| table.last().eq_ignore_ascii_case("dual"));
    let bare = dual || statement.tables.is_empty();
    let by_name = |column: &QualifiedName| {
        let owned = column.owner().is_some();
        let shown = ["currval", "level"].iter().any(|known| column.last().eq_ignore_ascii_case(known));
        owned && dual && !shown || (owned || bare) && name::acts(column.last())
    };
    // The owner of a schema writes its functions, whatever their names.
    let unknown = |call: &QualifiedName| {
        let owned = call.owner().is_some_and(|owner| !among(&LISTS.statements.schemas, &owner.to_ascii_lowercase()));
        owned || !functions::is_known(call.last())
    };
    if statement.calls.iter().any(unknown) || statement.columns.iter().any(by_name) {
        StatementVerdict::Ambiguous
    } else {
        StatementVerdict::Reads
    }
}
