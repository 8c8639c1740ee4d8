//! Tests of the SQL reader: statements with their facts; texts that nest too deep are reported, not parsed.

use super::{Act, read};

/// Returns the acts of a text by every dialect that reads it, without duplicates.
fn acts(text: &str) -> Vec<Vec<Act>> {
    let readings = read(text).parsed.into_iter();
    let mut all: Vec<Vec<Act>> = readings.map(|all| all.into_iter().flat_map(|one| one.acts).collect()).collect();
    all.dedup();
    all
}

#[test]
fn statements_are_classified_by_their_acts() {
    for (text, expected) in [
        ("select 1", vec![Act::Reads]),
        ("show tables", vec![Act::Reads]),
        ("explain delete from t", vec![Act::Reads]),
        ("explain analyze delete from t", vec![Act::Reads, Act::Deletes(true)]),
        ("with x as (select 1) select * from x where a in (1, 2)", vec![Act::Reads]),
        ("delete from t where 1", vec![Act::Deletes(true)]),
        ("delete from t where 1 = 1 or a = 2", vec![Act::Deletes(true)]),
        ("delete from t where 1 = 1 and a = 2", vec![Act::Deletes(false)]),
        ("delete from t where id = 3", vec![Act::Deletes(false)]),
        ("update t set a = 1", vec![Act::Updates(true)]),
        ("update t set a = 1 where b > 2", vec![Act::Updates(false)]),
        ("drop table a; drop view b", vec![Act::Drops(true), Act::Drops(false)]),
        ("alter table t drop column c", vec![Act::Drops(false)]),
        ("alter table t add c int", vec![Act::Builds]),
        ("truncate table t", vec![Act::Empties]),
        ("grant all on t to bob", vec![Act::Grants]),
        ("insert into t values (1)", vec![Act::Inserts]),
    ] {
        assert_eq!(acts(text), [expected], "{text}");
    }
}

#[test]
fn ambiguous_string_ends_are_read_in_each_dialect() {
    let escaped = acts(r"select '\'; delete from users; --'");
    assert!(
        escaped.contains(&vec![Act::Reads]) && escaped.contains(&vec![Act::Reads, Act::Deletes(true)]),
        "{escaped:?}"
    );
    let bracketed = read("select 1 as [a'] ; drop table t --']");
    assert!(bracketed.parsed.iter().flatten().any(|one| one.acts == [Act::Drops(true)]));
}

#[test]
fn functions_columns_and_aliases_are_listed() {
    let readings = read("select a.purge, lower(b) as c from app.sweep(1) join t on pg_catalog.f(t.x)");
    let statement = readings.parsed.first().and_then(|all| all.first()).expect("a statement");
    let calls: Vec<String> = statement.calls.iter().map(|call| call.parts.join(".")).collect();
    assert_eq!(calls, ["lower", "app.sweep", "pg_catalog.f"]);
    assert!(statement.columns.iter().any(|column| column.parts == ["a", "purge"]));
    assert_eq!(statement.aliases, ["c"]);
}

#[test]
fn overlong_and_deep_statements_are_reported_as_over_limit() {
    for text in [
        format!("select {}1{}", "(".repeat(40), ")".repeat(40)),
        format!("select {} 1", "not ".repeat(5_000)),
        format!("select 1 {}", "+ 1".repeat(5_000)),
        format!("select 1 {}", "union select 1 ".repeat(5_000)),
        format!("select '{}'", "x".repeat(40_000)),
    ] {
        assert!(read(&text).over, "{}", text.get(..20).unwrap_or_default());
    }
}

#[test]
fn hostile_statements_are_read_within_five_seconds() {
    for text in [
        format!("select * from {}t{}", "(".repeat(12), ")".repeat(12)),
        format!("select * from {}t", "(".repeat(12)),
        format!("select {}1{}", "(".repeat(12), ")".repeat(12)),
        format!("select {}1", "(".repeat(12)),
        format!("select {}1", "case when ".repeat(250)),
        format!("select {}1", "- ".repeat(480)),
        format!("select {}1", "not ".repeat(480)),
        format!("select 1 {}", "+ 1".repeat(480)),
        format!("select 1 {}", "and 1".repeat(480)),
        format!("select {}1", "cast(".repeat(12)),
        format!("select {}", "array<".repeat(230)),
        format!("select 1 where a in ({}1)", "1, ".repeat(9_000)),
        format!("select 1 {}", "union select 1 ".repeat(230)),
        format!("select * from t {}", "join t ".repeat(480)),
        "explain ".repeat(240),
        "begin ".repeat(240),
        "if a then ".repeat(230),
        "with a as (".repeat(12),
        "create table t (a ".to_owned() + &"default ".repeat(240),
        "select {'a': ".repeat(12),
        "select x -> ".repeat(250),
        "a.".repeat(15_000),
        "select a[".to_owned() + &"1:".repeat(500),
        "select interval ".to_owned() + &"interval ".repeat(240),
    ] {
        let started = std::time::Instant::now();
        let _ = read(&text);
        let took = started.elapsed();
        assert!(took.as_secs() < 5, "{}: {took:?}", text.get(..30).unwrap_or_default());
    }
}
