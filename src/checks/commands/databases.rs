//! Statements that destroy data, given to a database's client. In: one call. Out: what its statement destroys. It finds
//! statements in arguments, here-documents and what is piped in, and reads their first words, no more of the language.

use super::{Sight, resolve::Call};
use crate::domain::Severity::{self, Critical, Warning};

/// What the call destroys.
pub(super) fn look(call: &Call, sights: &mut Vec<Sight>) {
    match call.program.as_str() {
        "psql" | "mysql" | "mariadb" | "sqlite3" | "sqlcmd" | "mongosh" | "mongo" | "clickhouse-client"
        | "cockroach" | "cqlsh" | "snowsql" | "sqlplus" | "bq" | "duckdb" | "mssql-cli" | "trino" | "redis-cli"
        | "valkey-cli" => database(call, sights),
        "dropdb" | "dropuser" => {
            sights.push(Sight::new("database_destruction", Critical, format!("`{}` drops a database.", call.shown())));
        }
        _ => {}
    }
}

fn database(call: &Call, sights: &mut Vec<Sight>) {
    let mut statements: Vec<&str> =
        call.args.iter().map(|arg| arg.text.as_str()).filter(|arg| arg.contains(' ') || arg.contains('(')).collect();
    statements.extend(call.given.as_deref());
    let joined;
    if call.program.ends_with("-cli") || call.program == "bq" {
        joined = call.args.iter().map(|arg| arg.text.as_str()).collect::<Vec<_>>().join(" ");
        statements.push(&joined);
    }
    for statement in statements.iter().flat_map(|text| text.split(';')) {
        if let Some((severity, what)) = destroys_data(statement) {
            sights.push(Sight::new(
                "database_destruction",
                severity,
                format!("A statement given to {} {what}.", call.program),
            ));
            return;
        }
    }
}

/// What a statement of SQL, Redis or `MongoDB` destroys.
fn destroys_data(statement: &str) -> Option<(Severity, &'static str)> {
    let upper = statement.split_whitespace().map(str::to_ascii_uppercase).collect::<Vec<_>>();
    let words: Vec<&str> = upper.iter().map(String::as_str).collect();
    let begins = words.iter().position(|word| matches!(*word, "DROP" | "TRUNCATE" | "DELETE" | "UPDATE" | "ALTER"));
    let lower = statement.to_ascii_lowercase();
    if words.iter().any(|word| matches!(*word, "FLUSHALL" | "FLUSHDB")) {
        return Some((Critical, "empties the whole store"));
    }
    if [".dropdatabase(", ".drop(", "deletemany({})", "remove({})"].iter().any(|call| lower.contains(call)) {
        return Some((Critical, "drops a collection or a database"));
    }
    let tail = words.get(begins?..)?;
    match tail {
        [
            "DROP",
            "DATABASE" | "SCHEMA" | "TABLE" | "KEYSPACE" | "TABLESPACE" | "USER" | "ROLE" | "VIEW" | "INDEX" | "COLUMN",
            ..,
        ] => Some((Critical, "drops data")),
        ["TRUNCATE", _, ..] => Some((Critical, "empties a table")),
        ["DELETE", "FROM", ..] if !tail.contains(&"WHERE") => Some((Critical, "deletes every row of a table")),
        ["UPDATE", ..] if tail.contains(&"SET") && !tail.contains(&"WHERE") => {
            Some((Warning, "changes every row of a table"))
        }
        ["ALTER", "TABLE", .., "DROP", _, _] | ["ALTER", "TABLE", .., "DROP", _] => Some((Warning, "drops a column")),
        _ => None,
    }
}
