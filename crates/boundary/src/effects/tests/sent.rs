//! Tests of scanned arguments: statements, methods, commands and flags count, wherever they stand and whatever the
//! tool's name.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{
    EffectOf,
    arguments::{RequestedAction, scan_arguments},
    command,
    statement::{StatementVerdict, judge},
};
use umbra_domain::{
    Effect::{Destructive, Read, Write},
    EffectSource, ToolName,
};

fn asked(tool: (&str, &str), arguments: &Value) -> Option<RequestedAction> {
    scan_arguments(arguments.as_object()?, &ToolName::of(tool.0, tool.1)).gravest
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn statements_are_judged_by_their_grammar() {
    for text in [
        "SELECT * FROM users",
        " ( select 1 ) ",
        "select 1; select 2;",
        "-- all\nSELECT 'DELETE FROM x', \"drop table\" FROM t",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "SHOW TABLES",
        "DESCRIBE users",
        "EXPLAIN DELETE FROM users",
        "EXPLAIN ANALYZE SELECT 1",
        "select $$a text$$, $1 from t",
        "select count(*), lower(name), date_trunc('day', at), jsonb_set(a, b, c), replace(a, b, c), array_append(a, 1) from t",
        "select generate_series(1, 3), coalesce(updated_at, now()), \"delete\" from t",
        "PRAGMA table_info(users)",
        "MATCH (n:User) WHERE n.id = 1 RETURN n",
        "PREFIX a: <http://a> SELECT ?s WHERE { ?s ?p ?o }",
    ] {
        assert_eq!(judge(text), StatementVerdict::Reads, "{text}");
    }
    for text in [
        "DELETE FROM users",
        "/*x*/DeLeTe/**/from u",
        "select 1; drop table x",
        // Quotes in some dialects only.
        "select $$; drop table users; $$",
        "select 1 as [a'] ; drop table t --']",
        "select q'[']'; drop table t --'",
        "select 1 --\r; drop table t",
        "select 1 --\u{2028}; drop table t",
        "WITH x AS (DELETE FROM u RETURNING *) SELECT * FROM x",
        "WITH x AS (SELECT 1) UPDATE u SET a = 1",
        "SELECT * INTO t2 FROM t",
        "SELECT * FROM t FOR UPDATE SKIP LOCKED",
        "select pg_terminate_backend(1)",
        "select pg_catalog.lo_unlink(1)",
        "select \"lo_unlink\"(1)",
        "select nextval('s')",
        "select setval('s', 1)",
        "select * from dblink_exec('delete')",
        "select wipe_all()",
        "select refund_payment(1)",
        "EXPLAIN ANALYZE DELETE FROM u",
        "explain (analyze, buffers) insert into t values (1)",
        "INSERT INTO t VALUES (1)",
        "REPLACE INTO t VALUES (1)",
        "UPDATE a JOIN b ON a.id = b.id SET a.x = 1",
        "MERGE INTO x USING y",
        "TRUNCATE TABLE x",
        "truncate x",
        "ALTER TABLE t ADD c int",
        "CREATE OR REPLACE VIEW v AS SELECT 1",
        "DROP INDEX CONCURRENTLY i",
        "GRANT ALL ON t TO bob",
        "CALL wipe()",
        "exec xp_cmdshell 'dir'",
        "DO $$ begin end $$",
        "COPY t TO PROGRAM 'rm -rf /'",
        "PRAGMA writable_schema=1",
        "LOAD DATA INFILE 'x' INTO TABLE t",
        "SELECT 1 DROP TABLE x",
        "/*!50000 DELETE */ FROM users",
        "select 1 # '\n; delete from users",
        "select '\\'; delete from users; --'",
        "select /* /* */ 1; delete from users; -- */",
        "1; DROP TABLE users",
        "MATCH (n) DETACH DELETE n",
        "CREATE (n:User {id: 1})",
        "INSERT DATA { <a> <b> <c> }",
        "PREFIX a: <http://a> DELETE WHERE { ?s ?p ?o }",
        "mutation { deleteUser(id: 1) }",
        "query { a } mutation Wipe($id: ID!) { b }",
        "db.users.deleteMany({})",
        "g.V().drop()",
    ] {
        assert!(
            matches!(judge(text), StatementVerdict::Writes(..) | StatementVerdict::Unknown),
            "{text}: {:?}",
            judge(text)
        );
    }
    for text in [
        "",
        "how do I delete a file from git?",
        "Delete the old photos",
        "update my phone to the newest system and set it up",
        "drop me a line",
        "a mutation of the gene {BRCA1} is known",
        "merge sort; quick sort",
        "rate(http_requests_total[5m])",
        "{ user { name } }",
        "status:open label:bug",
    ] {
        assert!(
            matches!(judge(text), StatementVerdict::Prose | StatementVerdict::Ambiguous),
            "{text}: {:?}",
            judge(text)
        );
    }
    for text in ["VACUUM", "set role admin", "pragma optimize(1)", "begin", "reset all"] {
        assert!(matches!(judge(text), StatementVerdict::Ambiguous | StatementVerdict::Unknown), "{text}");
    }
}

#[test]
fn command_is_read_only_if_every_program_in_it_is() {
    for text in [
        "ls -la /tmp",
        "cat a | grep -v b | wc -l",
        "git log --oneline",
        "kubectl get pods -A",
        "find . -name x",
        "get users",
    ] {
        assert!(command::is_read_only(text), "{text}");
    }
    for text in [
        "rm -rf /",
        "ls; rm x",
        "ls && touch x",
        "cat a > b",
        "echo $(rm x)",
        "ls `rm x`",
        "find . -delete",
        "git branch -D main",
        "git diff --output=x",
        "kubectl delete pod x",
        "sudo ls",
        "FLUSHALL",
        "python -c 1",
        "format c:",
        "ls\nrm x",
    ] {
        assert!(!command::is_read_only(text), "{text}");
    }
}

#[test]
fn writing_arguments_are_found_with_their_pointer() {
    let any = ("x", "get_items");
    for (tool, arguments, pointer, effect) in [
        (("db", "query"), json!({"sql": "DELETE FROM users"}), "/sql", Destructive),
        (("db", "query"), json!({"sql": "VACUUM"}), "/sql", Destructive),
        (("db", "query"), json!({"sql": "TRUNC\u{0}ATE x"}), "/sql", Destructive),
        (("postgres", "search"), json!({"query": "set role admin"}), "/query", Destructive),
        (any, json!({"q1": {"nested": [1, ["DROP TABLE x"]]}}), "/q1/nested/1/0", Destructive),
        (any, json!({"a/b": {"c~d": "INSERT INTO t VALUES (1)"}}), "/a~1b/c~0d", Write),
        (any, json!({"method": "DELETE", "url": "x"}), "/method", Destructive),
        (any, json!({"url": "u", "options": {"method": "post"}}), "/options/method", Write),
        (any, json!({"url": "u", "http_method": "PUT"}), "/http_method", Write),
        (any, json!({"url": "u", "type": "PATCH"}), "/type", Write),
        (any, json!({"url": "u", "body": {"a": 1}}), "/body", Write),
        (any, json!({"request": "POST /x HTTP/1.1"}), "/request", Destructive),
        (any, json!({"action": "delete_by_query"}), "/action", Destructive),
        (any, json!({"operation": "UPDATE"}), "/operation", Write),
        (any, json!({"op": "zap"}), "/op", Destructive),
        (any, json!({"actions": ["get", "remove"]}), "/actions/1", Destructive),
        (any, json!({"command": {"drop": "users"}}), "/command", Destructive),
        (any, json!({"command": "rm -rf /"}), "/command", Destructive),
        (any, json!({"cmd": "FLUSHALL"}), "/cmd", Destructive),
        (any, json!({"script": "print(1)"}), "/script", Destructive),
        (any, json!({"path": "|rm -rf /"}), "/path", Destructive),
        (any, json!({"mode": "w"}), "/mode", Write),
        (any, json!({"delete": true}), "/delete", Destructive),
        (any, json!({"delete": "true"}), "/delete", Destructive),
        (any, json!({"update": {"a": "b"}}), "/update", Write),
        (any, json!({"flags": ["--delete"]}), "/flags/0", Destructive),
        (any, json!({"dry_run": false}), "/dry_run", Write),
        (any, json!({"output_path": "/tmp/x"}), "/output_path", Write),
        (any, json!({"pipeline": [{"$match": {}}, {"$out": "c"}]}), "/pipeline/1/$out", Write),
        (any, json!({"pipeline": "[{\"$merge\": \"c\"}]"}), "/pipeline/0/$merge", Write),
        (any, json!({"pipeline": "[{$out: 'c'}]"}), "/pipeline", Write),
        (any, json!({"query": "mutation { deleteUser(id: 1) }"}), "/query", Destructive),
        (any, json!({"body": "{\"query\": \"mutation { a }\"}"}), "/body/query", Destructive),
    ] {
        let found = asked(tool, &arguments);
        let found = found.unwrap_or_else(|| panic!("{arguments} asks for nothing"));
        assert_eq!((found.pointer.as_str(), found.effect), (pointer, effect), "{arguments}: {}", found.what);
    }
}

#[test]
fn reading_arguments_raise_no_effect() {
    for arguments in [
        json!({"id": "c1", "page": 2, "include_deleted": true, "sort": "created", "state": "open", "order": "desc"}),
        json!({"query": "how to delete a file from git", "limit": 10}),
        json!({"query": "SELECT name FROM users WHERE action = 'delete'"}),
        json!({"sql": "EXPLAIN SELECT 1"}),
        json!({"url": "https://example.com/how-to-delete-a-file?id=1", "method": "GET", "headers": {"accept": "*/*"}}),
        json!({"action": "created", "mode": "read", "operation": "list", "method": "get_labels"}),
        json!({"operation": "+", "op": "daily"}),
        json!({"command": "git status", "cmd": "get"}),
        json!({"path": "/var/log/delete.log", "delete_after": false, "dry_run": true}),
        json!({"text": "Please update the page and remove the old link; then tell Bob (he knows)."}),
        json!({"pipeline": [{"$match": {"a": 1}}, {"$group": {"_id": "$b"}}]}),
        json!({"query": "query { user { name } }"}),
        json!({"allow_redirects": true, "merge_pages": "true", "resolve_links": true}),
        json!({"python": "3.12", "script": "latin"}),
        json!({"body": "no address beside it"}),
    ] {
        assert_eq!(asked(("crm", "get_items"), &arguments), None, "{arguments}");
    }
}

#[test]
fn oversized_arguments_are_destructive() {
    let large = json!({"text": "a ".repeat(80_000)});
    let found = asked(("x", "get_items"), &large).expect("it is too much");
    assert_eq!((found.pointer.as_str(), found.effect), ("/text", Destructive));
    assert_eq!(asked(("x", "get_items"), &json!({"text": "a ".repeat(30_000)})), None);
}

#[test]
fn reason_names_the_argument_without_secrets() {
    let said = EffectOf {
        effect: Read,
        source: EffectSource::Contract,
        why: "its contract declares it".to_owned(),
        runs: false,
    };
    let key = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let arguments = json!({key: {"sql": "DELETE FROM users WHERE name = 'bob'"}});
    let raised = said.clone().with_arguments(arguments.as_object().expect("an object"), &ToolName::bare("get"));
    assert_eq!((raised.effect, raised.source), (Destructive, EffectSource::Arguments));
    assert!(!raised.why.contains(key) && !raised.why.contains("bob"), "{}", raised.why);
    assert!(
        raised
            .why
            .contains("/sql is a statement that writes (`delete`); otherwise a read, because its contract declares it"),
        "{}",
        raised.why
    );
    let kept = said.clone().with_arguments(json!({"id": 1}).as_object().expect("an object"), &ToolName::bare("get"));
    assert_eq!(kept, said);
}

#[test]
fn hostile_arguments_are_scanned_within_three_seconds() {
    let usual = json!({"owner": "acme", "repo": "site", "query": "is:open label:bug crash on start", "page": 2, "sort": "created"});
    let hostile = [
        "mutation ".repeat(7_000) + "{",
        "(".repeat(60_000),
        "'".repeat(60_000) + ";",
        "$".repeat(60_000) + ";",
        "/*".repeat(30_000) + ";",
        "update a set ".repeat(4_500) + ";",
        "select ".to_owned() + &"a(".repeat(25_000),
        "-- \n".repeat(15_000) + ";",
        "#'\\\n".repeat(15_000) + ";",
        "[".repeat(60_000) + "]",
        "db.".repeat(20_000),
        "$out".repeat(15_000) + "}",
    ];
    let time = |arguments: &Value, rounds: u32| {
        let start = std::time::Instant::now();
        for _ in 0..rounds {
            let _ = asked(("crm", "search_issues"), arguments);
        }
        start.elapsed() / rounds
    };
    let each = time(&usual, 1_000);
    println!("five usual arguments: {each:?}");
    for text in hostile {
        let took = time(&json!({"sql": text}), 1);
        println!("{:?}...: {took:?}", text.get(..8));
        // Unoptimised, this takes some thirty times as long as in a service; quadratic work takes seconds.
        assert!(took.as_millis() < 3_000, "{:?}: {took:?}", text.get(..20));
    }
}

proptest! {
    #[test]
    fn findings_in_arbitrary_arguments_exceed_read(key in any::<String>(), text in any::<String>(), method in any::<String>(), inner in any::<String>()) {
        let arguments = json!({key: {"sql": text.clone(), "deep": [inner]}, "method": method, "command": text, "mode": "x"});
        let found = asked(("crm", "get_items"), &arguments);
        prop_assert!(found.is_none_or(|asked| asked.effect > Read));
    }

    #[test]
    fn writing_statement_is_found_among_others(before in "[a-zA-Z0-9 ,.*=]{0,30}", after in "[a-zA-Z0-9 \
         ,.*='-]{0,30}") {
        let text = format!("select {before}; delete from users; {after}");
        prop_assert!(matches!(judge(&text), StatementVerdict::Writes(..)), "{text}");
    }
}
