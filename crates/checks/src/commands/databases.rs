//! Statements given to a database's client that destroy data. In: one call. Out: the data that its statement destroys.
//! Statements are found in arguments, here-documents and piped input. SQL is read by its grammar, commands of other
//! stores by their words.

use super::Detection;
use crate::word_lists;
use umbra_analysis::{
    shell::{
        ProgramCall,
        targets::{PathKind, is_data},
    },
    sql::{self, Act, Readings},
};
use umbra_domain::Severity::{self, Critical, Info, Warning};

/// Most statements that are read of a text that is too long as a whole.
const MOST_PARTS: usize = 32;

/// Adds the data that the call destroys.
pub(super) fn detect_destroyed_data(call: &ProgramCall, sights: &mut Vec<Detection>) {
    let drops = match call.program.as_str() {
        "dropdb" | "dropuser" => true,
        "mysqladmin" => call.operands().any(|word| word == "drop"),
        "pg_restore" => call.has('c', "clean"),
        "influx" | "influxd" => {
            matches!(call.operands().collect::<Vec<_>>().as_slice(), ["delete", ..] | [_, "delete", ..])
        }
        _ => false,
    };
    if drops {
        let severity = if is_passing(call) { Info } else { Critical };
        sights.push(Detection::of(call, "database_destruction", severity, "deletes data of a database."));
    } else if word_lists::lists("database_clients", &call.program) {
        database(call, sights);
    }
}

fn database(call: &ProgramCall, sights: &mut Vec<Detection>) {
    let mut statements: Vec<&str> =
        call.args.iter().map(|arg| arg.text.as_str()).filter(|arg| arg.contains([' ', '(', '\t', '\n', '*'])).collect();
    statements.extend(call.given.as_deref());
    let joined;
    if call.program.ends_with("-cli") || call.program == "bq" || call.program == "turso" {
        joined = call.args.iter().map(|arg| arg.text.as_str()).collect::<Vec<_>>().join(" ");
        statements.push(&joined);
    }
    if call.has_argument(":memory:") {
        return;
    }
    let passing = is_passing(call);
    if call.fed.is_some() && call.operands().any(|word| matches!(word.to_ascii_lowercase().as_str(), "del" | "unlink"))
    {
        let does = "deletes every key that another command lists.";
        sights.push(Detection::of(call, "database_destruction", Warning, does));
    }
    let executed: Vec<String> = statements.iter().filter_map(|text| executed(text)).collect();
    statements.extend(executed.iter().map(String::as_str));
    let mut worst: Option<(Severity, &str)> =
        statements.iter().any(|text| empties_by_script(text)).then_some((Critical, "empties the whole store"));
    for text in statements {
        let text = behind_option(text);
        let most = match () {
            () if passing => Info,
            () if is_rolled_back(text) => Warning,
            () => Critical,
        };
        let read = statements_of(text);
        let acts = read.iter().flat_map(|statement| &statement.acts);
        let by_words = text.split([';', '\n']).chain([text]).filter_map(empties_store);
        for (severity, what) in acts.filter_map(destroys).chain(by_words) {
            let severity = severity.min(most);
            if worst.is_none_or(|(known, _)| severity > known) {
                worst = Some((severity, what));
            }
        }
    }
    if let Some((severity, what)) = worst {
        let form = if word_lists::lists("other_clients", &call.program) { "a command" } else { "SQL" };
        let what = format!("Runs {form} in `{}` that {what}.", call.program);
        sights.push(Detection::new("database_destruction", severity, what));
    }
}

/// Reads the statements of a text as SQL. Of a text that is too long as a whole, only statements that may destroy
/// something are read.
fn statements_of(text: &str) -> Vec<sql::Statement> {
    let upper = text.to_ascii_uppercase();
    let mentions = |text: &str| ["DROP", "TRUNCATE", "DELETE", "UPDATE"].iter().any(|word| text.contains(word));
    if !mentions(&upper) {
        return Vec::new();
    }
    let Readings { parsed, parts, over, .. } = sql::read(text);
    let rest =
        if over { upper.split(';').filter(|part| mentions(part)).take(MOST_PARTS).collect() } else { Vec::new() };
    let rest = rest.into_iter().flat_map(|part| sql::read(part).parsed).flatten();
    parsed.into_iter().flatten().chain(parts).chain(rest).collect()
}

/// Returns the statement that a block of a procedural language executes: `DO $$ BEGIN EXECUTE 'DROP TABLE x'; END $$`.
fn executed(text: &str) -> Option<String> {
    let at = text.to_ascii_uppercase().find("EXECUTE")?;
    let rest = text.get(at..)?;
    // The first of joined literals, or the format of `format(…)`, shows what the statement does.
    let literal = rest.split('\'').nth(1).filter(|literal| literal.contains(' '))?;
    Some(literal.to_owned())
}

/// True if a script for Redis empties it: `EVAL "redis.call('flushall')"`, or `keys('*')` deleted.
fn empties_by_script(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let calls = |name: &str| {
        ["redis.call(", "redis.pcall("]
            .iter()
            .any(|call| ["'", "\""].iter().any(|quote| lower.contains(&format!("{call}{quote}{name}"))))
    };
    calls("flush")
        || (calls("del") || calls("unlink")) && calls("keys") && (lower.contains("'*'") || lower.contains("\"*\""))
}

/// True if the call names a disposable database: `test`, `app_test`, `tmp_1`, or a file among temporary ones.
fn is_passing(call: &ProgramCall) -> bool {
    let passes =
        |word: &str| matches!(word.to_ascii_lowercase().as_str(), "test" | "tests" | "tmp" | "temp" | "scratch");
    call.operands().filter(|name| !name.contains(char::is_whitespace)).any(|name| {
        if is_data(name) && call.target(name) == PathKind::Temporary {
            return true;
        }
        let name = name.rsplit('/').next().unwrap_or(name);
        name.split(['_', '-', '.']).any(passes)
    })
}

/// True if a text rolls its transaction back at the end.
fn is_rolled_back(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    let last = upper.trim_end_matches(|c: char| c == ';' || c.is_whitespace());
    (last.ends_with("ROLLBACK") || last.ends_with("ROLLBACK TRANSACTION"))
        && !upper.contains("COMMIT")
        && (upper.contains("BEGIN") || upper.contains("START TRANSACTION"))
}

/// Returns the statement behind its option: `--command=…`, `-e…`.
fn behind_option(text: &str) -> &str {
    match text.strip_prefix("--").and_then(|option| option.split_once('=')) {
        Some((name, value)) if name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-') => value,
        _ => text.strip_prefix("-c").or_else(|| text.strip_prefix("-e")).unwrap_or(text),
    }
}

/// Returns the loss that an act of SQL causes.
fn destroys(act: &Act) -> Option<(Severity, &'static str)> {
    match act {
        Act::Drops(true) => Some((Critical, "drops data")),
        Act::Drops(false) => Some((Warning, "drops a part of a database")),
        Act::Empties => Some((Critical, "empties a table")),
        Act::Deletes(true) => Some((Critical, "deletes every row of a table")),
        Act::Updates(true) => Some((Warning, "changes every row of a table")),
        _ => None,
    }
}

/// Returns the loss that a command of Redis, `MongoDB`, Cassandra or another store without SQL causes.
fn empties_store(statement: &str) -> Option<(Severity, &'static str)> {
    let upper = statement.to_ascii_uppercase();
    let words: Vec<&str> = upper.split_whitespace().collect();
    // Behind one of these words, the next word is a key's name.
    let reads =
        |word: &str| matches!(word, "GET" | "SET" | "EXISTS" | "TYPE" | "TTL" | "INFO" | "HELP" | "SCAN" | "COMMAND");
    let before = |at: usize| at.checked_sub(1).and_then(|before| words.get(before));
    let flushes = words.iter().position(|word| matches!(*word, "FLUSHALL" | "FLUSHDB"));
    let drops = [".DROPDATABASE(", ".DROP(", "DELETEMANY({})", "REMOVE({})", ".DROP_COLLECTION(", ".DROP_DATABASE("];
    match () {
        // The directory that a store saves to can receive an SSH key or a cron job.
        () if words.windows(3).any(|three| matches!(three, ["CONFIG", "SET", "DIR" | "DBFILENAME"])) => {
            Some((Critical, "changes the file to which the store saves its data"))
        }
        () if flushes.is_some_and(|at| before(at).is_none_or(|word| !reads(word))) => {
            Some((Critical, "empties the whole store"))
        }
        () if words.contains(&"DETACH") && words.iter().any(|word| word.starts_with("DELETE")) => {
            Some((Critical, "deletes every node that it matches"))
        }
        () if drops.iter().any(|call| upper.contains(call)) => {
            Some((Critical, "drops or empties a collection or database"))
        }
        () => match words.as_slice() {
            [
                "DROP",
                "KEYSPACE" | "TABLESPACE" | "COLLECTION" | "CATALOG" | "OWNED" | "COLUMNFAMILY" | "MEASUREMENT"
                | "BUCKET",
                ..,
            ] => Some((Critical, "drops data")),
            ["ALTER", "TABLE", _, "DELETE", ..] => Some((Critical, "deletes rows of a table")),
            _ => None,
        },
    }
}
