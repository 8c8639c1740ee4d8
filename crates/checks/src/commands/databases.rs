//! Statements that destroy data, given to a database's client. In: one call. Out: what its statement destroys. It finds
//! statements in arguments, here-documents and what is piped in, takes literals and comments out, and reads their first
//! words, no more of the language.

use super::Sight;
use umbra_analysis::shell::Call;
use umbra_domain::Severity::{self, Critical, Info, Warning};

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
        let text = bare(text);
        let most = match () {
            () if passing => Info,
            () if is_rolled_back(&text) => Warning,
            () => Critical,
        };
        for (severity, what) in text.split([';', '\n']).chain([text.as_str()]).filter_map(destroys_data) {
            // A statement over several lines has its condition further down.
            let whole = text.contains(';') || destroys_data(&text).is_some();
            let severity = severity.min(most);
            if whole && worst.is_none_or(|(known, _)| severity > known) {
                worst = Some((severity, what));
            }
        }
    }
    if let Some((severity, what)) = worst {
        let what = format!("A statement given to {} {what}.", call.program);
        sights.push(Sight::new("database_destruction", severity, what));
    }
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

/// A statement without comments, and with nothing in its literals: `DROP/**/TABLE`, `VALUES ('drop table x')`.
/// Options such as `--command=` before it go as well.
fn bare(text: &str) -> String {
    let text = match text.strip_prefix("--").and_then(|option| option.split_once('=')) {
        Some((name, value)) if name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-') => value,
        _ => text.strip_prefix("-c").or_else(|| text.strip_prefix("-e")).unwrap_or(text),
    };
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['\'', '/', '-']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let end = |open: usize, close: &str| {
            from.get(open..).and_then(|rest| rest.find(close)).map(|end| open + end + close.len())
        };
        let (skip, left) = match from.as_bytes() {
            [b'\'', ..] => (end(1, "'"), "''"),
            // What `/*!…*/` holds is run by MySQL.
            [b'/', b'*', b'!', ..] => (Some(3), " "),
            [b'/', b'*', ..] => (end(2, "*/"), " "),
            [b'-', b'-', b' ', ..] => (end(2, "\n").or(Some(from.len())), "\n"),
            _ => (None, ""),
        };
        let skip = skip.unwrap_or(1);
        out.push_str(if left.is_empty() { from.get(..skip).unwrap_or_default() } else { left });
        rest = from.get(skip..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// What a statement of SQL, Redis or `MongoDB` destroys.
fn destroys_data(statement: &str) -> Option<(Severity, &'static str)> {
    let upper = statement.split_whitespace().map(str::to_ascii_uppercase).collect::<Vec<_>>();
    let words: Vec<&str> = upper.iter().map(String::as_str).collect();
    // `WITH gone AS (DELETE FROM x RETURNING *) …`
    let words: Vec<&str> = words.into_iter().map(|word| word.trim_start_matches('(')).collect();
    let begins = words.iter().position(|word| matches!(*word, "DROP" | "TRUNCATE" | "DELETE" | "UPDATE" | "ALTER"));
    let lower = statement.to_ascii_lowercase();
    // After one of these it is a key's name.
    let reads =
        |word: &str| matches!(word, "GET" | "SET" | "EXISTS" | "TYPE" | "TTL" | "INFO" | "HELP" | "SCAN" | "COMMAND");
    // Where a store saves itself to is where a key or a job can be put.
    if matches!(words.windows(3).find(|three| three.first() == Some(&"CONFIG")), Some([_, "SET", "DIR" | "DBFILENAME"]))
    {
        return Some((Critical, "has the store save itself elsewhere, as a file of somebody else's"));
    }
    let flushes = words.iter().position(|word| matches!(*word, "FLUSHALL" | "FLUSHDB"));
    if flushes.is_some_and(|at| at.checked_sub(1).and_then(|before| words.get(before)).is_none_or(|word| !reads(word)))
    {
        return Some((Critical, "empties the whole store"));
    }
    if words.first() == Some(&"EXPLAIN") && words.get(1) != Some(&"ANALYZE") {
        return None;
    }
    if upper.iter().any(|word| word == "DETACH") && upper.iter().any(|word| word.starts_with("DELETE")) {
        return Some((Critical, "deletes what it matches"));
    }
    if [".dropdatabase(", ".drop(", "deletemany({})", "remove({})", ".drop_collection(", ".drop_database("]
        .iter()
        .any(|call| lower.contains(call))
    {
        return Some((Critical, "drops a collection or a database"));
    }
    let tail = words.get(begins?..)?;
    match tail {
        [
            "DROP",
            "DATABASE" | "SCHEMA" | "TABLE" | "KEYSPACE" | "TABLESPACE" | "USER" | "ROLE" | "COLLECTION" | "CATALOG"
            | "OWNED" | "COLUMNFAMILY" | "MEASUREMENT" | "BUCKET",
            ..,
        ] => Some((Critical, "drops data")),
        [
            "DROP",
            "VIEW" | "INDEX" | "COLUMN" | "MATERIALIZED" | "FUNCTION" | "PROCEDURE" | "TRIGGER" | "TYPE" | "SEQUENCE"
            | "EXTENSION",
            ..,
        ] => Some((Warning, "drops a part of a database")),
        ["TRUNCATE", _, ..] => Some((Critical, "empties a table")),
        ["ALTER", "TABLE", _, rest @ ..]
            if rest.first() == Some(&"DELETE") && rest.contains(&"WHERE") && !is_limited(rest) =>
        {
            Some((Critical, "deletes every row of a table"))
        }
        ["DELETE", "FROM", ..] if !is_limited(tail) => Some((Critical, "deletes every row of a table")),
        ["UPDATE", ..] if tail.contains(&"SET") && !is_limited(tail) => Some((Warning, "changes every row of a table")),
        ["ALTER", "TABLE", .., "DROP", _, _]
        | ["ALTER", "TABLE", .., "DROP", _]
        | ["ALTER", "TABLE", _, "DELETE", ..] => Some((Warning, "drops a column")),
        _ => None,
    }
}

/// Whether a statement has a condition that does not hold for every row.
fn is_limited(words: &[&str]) -> bool {
    let Some(at) = words.iter().position(|word| *word == "WHERE") else {
        return words.contains(&"LIMIT") || words.contains(&"USING");
    };
    let condition = words.get(at + 1..).unwrap_or_default();
    // One part of `a OR b` is enough, `a AND b` needs both.
    !condition
        .split(|word| *word == "OR")
        .any(|part| part.split(|word| *word == "AND").all(|part| always_holds(&part.concat())))
}

/// Whether a condition says nothing: `1=1`, `TRUE`, `id = id`.
fn always_holds(condition: &str) -> bool {
    let condition =
        condition.split("RETURNING").next().unwrap_or_default().trim_matches(|c| matches!(c, ';' | '(' | ')'));
    matches!(condition, "TRUE" | "1" | "NOTFALSE")
        || condition.split_once('=').is_some_and(|(left, right)| {
            left.trim_end_matches('=') == right.trim_start_matches('=')
                && !left.is_empty()
                && !left.ends_with(['<', '>', '!'])
        })
}
