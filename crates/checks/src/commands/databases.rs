//! Statements that destroy data, given to a database's client. In: one call. Out: what its statement destroys. It finds
//! statements in arguments, here-documents and what is piped in. SQL is read by its grammar, commands of other stores by
//! their words.

use super::Sight;
use umbra_analysis::{
    shell::Call,
    sql::{self, Act, Readings},
};
use umbra_domain::Severity::{self, Critical, Info, Warning};

/// Statements that are read of a text that is too long as a whole.
const MOST_PARTS: usize = 32;

/// Programs that hand statements to a database.
pub(super) fn is_client(program: &str) -> bool {
    matches!(
        program,
        "psql"
            | "mysql"
            | "mariadb"
            | "sqlite3"
            | "sqlcmd"
            | "mongosh"
            | "mongo"
            | "clickhouse-client"
            | "clickhouse"
            | "clickhouse-local"
            | "cockroach"
            | "cqlsh"
            | "snowsql"
            | "sqlplus"
            | "bq"
            | "duckdb"
            | "mssql-cli"
            | "trino"
            | "redis-cli"
            | "valkey-cli"
            | "keydb-cli"
            | "pgcli"
            | "mycli"
            | "litecli"
            | "usql"
            | "influx"
            | "cypher-shell"
            | "isql"
            | "tsql"
            | "bteq"
            | "vsql"
            | "beeline"
            | "hive"
            | "spark-sql"
            | "invoke-sqlcmd"
            | "surreal"
            | "presto"
            | "impala-shell"
            | "arangosh"
            | "monetdb"
            | "mclient"
            | "osql"
            | "sql"
            | "ksql"
            | "pgbench"
            | "athenacli"
            | "turso"
            | "wrangler"
    )
}

/// What the call destroys.
pub(super) fn look(call: &Call, sights: &mut Vec<Sight>) {
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
        let what = format!("`{}` drops data of a database.", call.shown());
        let severity = if is_passing(call) { Info } else { Critical };
        sights.push(Sight::new("database_destruction", severity, what));
    } else if is_client(&call.program) {
        database(call, sights);
    }
}

fn database(call: &Call, sights: &mut Vec<Sight>) {
    let mut statements: Vec<&str> =
        call.args.iter().map(|arg| arg.text.as_str()).filter(|arg| arg.contains([' ', '(', '\t', '\n', '*'])).collect();
    statements.extend(call.given.as_deref());
    let joined;
    if call.program.ends_with("-cli") || call.program == "bq" || call.program == "turso" {
        joined = call.args.iter().map(|arg| arg.text.as_str()).collect::<Vec<_>>().join(" ");
        statements.push(&joined);
    }
    if call.says(":memory:") {
        return;
    }
    let passing = is_passing(call);
    if call.fed.is_some() && call.operands().any(|word| matches!(word.to_ascii_lowercase().as_str(), "del" | "unlink"))
    {
        let what = format!("`{}` deletes every key that another command names.", call.shown());
        sights.push(Sight::new("database_destruction", Warning, what));
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
        let what = format!("A statement given to {} {what}.", call.program);
        sights.push(Sight::new("database_destruction", severity, what));
    }
}

/// Statements of a text as SQL. Of one that is too long as a whole, those are read that may destroy something.
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

/// What a block of a procedural language executes as a statement: `DO $$ BEGIN EXECUTE 'DROP TABLE x'; END $$`.
fn executed(text: &str) -> Option<String> {
    let at = text.to_ascii_uppercase().find("EXECUTE")?;
    let rest = text.get(at..)?;
    // The first of literals that are joined, or the form of `format(…)`, says what it does.
    let literal = rest.split('\'').nth(1).filter(|literal| literal.contains(' '))?;
    Some(literal.to_owned())
}

/// Whether a script for Redis empties it: `EVAL "redis.call('flushall')"`, or all of `keys('*')` deleted.
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

/// Whether the database that a call names is one to throw away: `test`, `app_test`, `tmp_1`.
fn is_passing(call: &Call) -> bool {
    let passes =
        |word: &str| matches!(word.to_ascii_lowercase().as_str(), "test" | "tests" | "tmp" | "temp" | "scratch");
    call.operands().filter(|name| !name.contains(char::is_whitespace)).any(|name| {
        let name = name.rsplit('/').next().unwrap_or(name);
        name.split(['_', '-', '.']).any(passes)
    })
}

/// Whether a text ends its transaction by taking all back.
fn is_rolled_back(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    let last = upper.trim_end_matches(|c: char| c == ';' || c.is_whitespace());
    (last.ends_with("ROLLBACK") || last.ends_with("ROLLBACK TRANSACTION"))
        && !upper.contains("COMMIT")
        && (upper.contains("BEGIN") || upper.contains("START TRANSACTION"))
}

/// Statement behind the option that it is given with: `--command=…`, `-e…`.
fn behind_option(text: &str) -> &str {
    match text.strip_prefix("--").and_then(|option| option.split_once('=')) {
        Some((name, value)) if name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-') => value,
        _ => text.strip_prefix("-c").or_else(|| text.strip_prefix("-e")).unwrap_or(text),
    }
}

/// What is lost by an act of SQL.
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

/// What a command of Redis, `MongoDB`, Cassandra or another store that speaks no SQL destroys.
fn empties_store(statement: &str) -> Option<(Severity, &'static str)> {
    let upper = statement.to_ascii_uppercase();
    let words: Vec<&str> = upper.split_whitespace().collect();
    // After one of these it is a key's name.
    let reads =
        |word: &str| matches!(word, "GET" | "SET" | "EXISTS" | "TYPE" | "TTL" | "INFO" | "HELP" | "SCAN" | "COMMAND");
    let before = |at: usize| at.checked_sub(1).and_then(|before| words.get(before));
    let flushes = words.iter().position(|word| matches!(*word, "FLUSHALL" | "FLUSHDB"));
    let drops = [".DROPDATABASE(", ".DROP(", "DELETEMANY({})", "REMOVE({})", ".DROP_COLLECTION(", ".DROP_DATABASE("];
    match () {
        // Where a store saves itself to is where a key or a job can be put.
        () if words.windows(3).any(|three| matches!(three, ["CONFIG", "SET", "DIR" | "DBFILENAME"])) => {
            Some((Critical, "has the store save itself elsewhere, as a file of somebody else's"))
        }
        () if flushes.is_some_and(|at| before(at).is_none_or(|word| !reads(word))) => {
            Some((Critical, "empties the whole store"))
        }
        () if words.contains(&"DETACH") && words.iter().any(|word| word.starts_with("DELETE")) => {
            Some((Critical, "deletes what it matches"))
        }
        () if drops.iter().any(|call| upper.contains(call)) => Some((Critical, "drops a collection or a database")),
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
