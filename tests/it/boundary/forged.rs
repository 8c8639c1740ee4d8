//! Overrides, approvals and answers that somebody wrote into the database who has nothing else: they are not obeyed, and found.

use serde_json::{Value, json};

use crate::support::{
    Umbra,
    boundary::{read, with, write},
    until,
};

const TOOLS: &str = "
policies:
  - {name: large-refund, tools: ['stripe.*'], effects: [write, destructive], verdict: ask, reason: money}
effects:
  - {tool: stripe.refund, effect: destructive}
";

fn refund(call_id: &str) -> Value {
    json!({"call_id": call_id, "agent": "billing", "tool": {"server": "stripe", "name": "refund"},
        "arguments": {"charge": "ch_1", "amount": 7}})
}

async fn set(umbra: &Umbra, scope: &str, value: Option<&str>, execution: Option<&str>) {
    let body = json!({"scope": scope, "value": value, "execution": execution, "reason": "drill"});
    let answered = umbra.put("/v1/execution", &body).await;
    assert_eq!(answered.status, 200, "{}", answered.text);
}

/// What `umbra audit verify` says that does not fit.
pub(super) fn problems(umbra: &Umbra) -> String {
    let output = umbra.cli(&["audit", "verify", "--json"], None);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert_eq!(said["intact"], output.status.success(), "{said}");
    said["faults"].to_string()
}

pub(super) async fn ready(umbra: &Umbra) -> Value {
    umbra.get("/readyz").await
}

pub(super) async fn metrics(umbra: &Umbra) -> String {
    umbra.send(reqwest::Method::GET, "/metrics", &[], None).await.text
}

#[tokio::test]
async fn an_override_that_no_server_wrote_lets_nothing_run_and_one_that_went_is_missed() {
    let umbra = Umbra::with().settings("boundary: {execution: live}").go().await;
    let decided = async |id: &str| umbra.decide(&write(id, "writer")).await["execution"].clone();
    set(&umbra, "global", None, Some("shadow")).await;
    set(&umbra, "tool", Some("mail.*"), Some("live")).await;
    assert_eq!(decided("before").await, "live", "what was set is obeyed");
    assert_eq!(problems(&umbra), "[]");
    umbra.schema.run("CREATE TABLE kept AS TABLE execution_override").await;
    set(&umbra, "tool", Some("mail.*"), None).await;
    assert_eq!((decided("shadow").await, ready(&umbra).await["status"].clone()), (json!("shadow"), json!("ok")));
    for (n, sql) in [
        "UPDATE execution_override SET execution = 'live'",
        "INSERT INTO execution_override (scope, value, id, execution, reason, set_at)
             VALUES ('tool', 'mail.*', gen_random_uuid(), 'live', 'r', '2020-01-01')",
        "INSERT INTO execution_override (scope, value, id, execution, reason, set_at, mac)
             SELECT 'tool', 'mail.*', id, 'live', reason, set_at, mac FROM kept WHERE scope = 'global'",
        // What was genuine once, and was lifted.
        "INSERT INTO execution_override SELECT * FROM kept WHERE scope = 'tool'",
        "DELETE FROM execution_override",
    ]
    .into_iter()
    .enumerate()
    {
        umbra.schema.run(sql).await;
        if sql.starts_with("DELETE") {
            assert!(problems(&umbra).contains("is gone"), "{sql}: {}", problems(&umbra));
        } else {
            assert_eq!(decided(&format!("forged-{n}")).await, "shadow", "{sql}");
            let ready = ready(&umbra).await;
            assert!(ready["status"] == "degraded" && ready["detail"].to_string().contains("override"), "{ready}");
            assert!(problems(&umbra).contains("override"), "{sql}");
        }
        umbra
            .schema
            .run(
                "DELETE FROM execution_override; INSERT INTO execution_override SELECT * FROM kept WHERE scope = 'global'",
            )
            .await;
        assert_eq!((decided(&format!("control-{n}")).await, problems(&umbra)), (json!("shadow"), "[]".to_owned()));
        assert_eq!(ready(&umbra).await["status"], "ok");
    }
    // A changed row gives way to a new word, and to its end.
    umbra.schema.run("UPDATE execution_override SET reason = 'other'").await;
    set(&umbra, "global", None, Some("live")).await;
    assert_eq!((decided("set").await, problems(&umbra)), (json!("live"), "[]".to_owned()));
    let counted = metrics(&umbra).await;
    assert!(counted.contains("umbra_unauthentic_rows_total{table=\"execution_override\"}"), "{counted}");
    assert!(umbra.log().contains("an override was not written by a server that holds our key"));
}

#[tokio::test]
async fn an_approval_that_no_server_wrote_approves_nothing_and_one_that_was_used_is_used() {
    let umbra = Umbra::with().tools(TOOLS).go().await;
    let approve = async |id: &Value| {
        let path = format!("/v1/approvals/{}", id.as_str().unwrap_or_default());
        umbra.post(&path, &json!({"decision": "approve"})).await.status.as_u16()
    };
    let asked = umbra.decide(&refund("c1")).await;
    umbra.schema.run("CREATE TABLE kept AS TABLE approval; UPDATE approval SET state = 'approved'").await;
    assert_eq!(umbra.decide(&refund("c1")).await["decision"], "ask", "nobody has approved it");
    assert!(problems(&umbra).contains("and the audit says: pending"), "{}", problems(&umbra));
    let ready = ready(&umbra).await;
    assert!(ready["status"] == "degraded" && ready["detail"].to_string().contains("approval"), "{ready}");
    // A person is not asked about one call and answers for another.
    let restore = "DELETE FROM approval; INSERT INTO approval SELECT * FROM kept";
    umbra.schema.run(&format!("{restore}; UPDATE approval SET digest = sha256('x')")).await;
    assert_eq!(approve(&asked["approval"]["id"]).await, 409);
    umbra.schema.run(restore).await;
    assert_eq!(approve(&asked["approval"]["id"]).await, 200);
    umbra.schema.run("DROP TABLE kept; CREATE TABLE kept AS TABLE approval").await;
    assert_eq!(umbra.decide(&refund("c1")).await["decision"], "execute");
    // All of it is put back as it was before it was used.
    umbra.schema.run(restore).await;
    let again = umbra.decide(&refund("c2")).await;
    assert!(again["decision"] == "ask" && again["approval"]["id"] != asked["approval"]["id"], "{again}");
    assert!(problems(&umbra).contains("is approved, and the audit says: used"), "{}", problems(&umbra));
    umbra.schema.run("UPDATE approval SET state = 'used' WHERE state = 'approved'").await;
    assert!(metrics(&umbra).await.contains("umbra_unauthentic_rows_total{table=\"approval\"}"));
}

#[tokio::test]
async fn an_answer_that_somebody_changed_is_not_given() {
    for execution in ["shadow", "live"] {
        let settings = format!("boundary: {{execution: {execution}}}");
        let rules = "policies: [{name: no-mail, tools: mail.send_email, verdict: block, reason: no mail}]";
        let umbra = Umbra::with().settings(&settings).tools(rules).go().await;
        let blocked = umbra.decide(&write("w", "a")).await;
        assert_eq!(blocked["decision"], "block");
        assert_eq!(umbra.decide(&read("r", "a")).await["decision"], "execute");
        umbra.decide(&read("lost", "a")).await;
        assert_eq!((problems(&umbra), ready(&umbra).await["status"].clone()), ("[]".to_owned(), json!("ok")));
        umbra.schema.run("CREATE TABLE kept AS TABLE call").await;
        for sql in [
            r#"UPDATE call SET decision = 'execute', answer = replace(answer, '"decision":"block"', '"decision":"execute"')"#,
            "UPDATE call SET decision = 'execute', answer = (SELECT answer FROM call WHERE call_id = 'r')",
            "UPDATE call c SET (decision, answer, mac) = (SELECT decision, answer, mac FROM call WHERE call_id = 'r')",
            "UPDATE call SET decision = 'execute', mac = NULL",
        ] {
            umbra.schema.run(&format!("{sql} WHERE call_id IN ('w', 'lost')")).await;
            assert!(
                sql.ends_with("NULL") || problems(&umbra).contains(r#"the call \"w\" of \"a\""#),
                "{}",
                problems(&umbra)
            );
            let again = umbra.decide(&write("w", "a")).await;
            let said = (&again["decision"], &again["reason"], &again["replayed"]);
            assert_eq!(said, (&json!("block"), &json!("unauthentic_answer"), &json!(true)), "{sql}: {again}");
            assert!(again["detail"].as_str().is_some_and(|detail| detail.contains("new call_id")), "{again}");
            // What was not touched is believed.
            assert_eq!(umbra.decide(&read("r", "a")).await["decision"], "execute");
            let ready = ready(&umbra).await;
            assert!(
                ready["status"] == "degraded" && ready["detail"].to_string().contains("the answer to a call"),
                "{ready}"
            );
            umbra.schema.run("DELETE FROM call; INSERT INTO call SELECT * FROM kept").await;
            let again = umbra.decide(&write("w", "a")).await;
            assert_eq!((&again["reason"], problems(&umbra)), (&blocked["reason"], "[]".to_owned()), "{sql}");
        }
        assert!(metrics(&umbra).await.contains("umbra_unauthentic_rows_total{table=\"call\"}"));
    }
}

#[tokio::test]
async fn a_transaction_that_could_not_begin_is_not_gone_on_with() {
    let umbra = Umbra::with().settings("boundary: {deadline: 300ms}").go().await;
    umbra.decide(&write("before", "a")).await;
    let held = "pg_advisory_lock(7817, hashtext(current_schema()))";
    let mut other = umbra.schema.connect().await;
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("SELECT {held}"))).execute(&mut other).await.expect("the lock");
    for n in 0..3 {
        let refused = umbra.decide(&with(write(&format!("held-{n}"), "a"), &json!({"deadline_ms": 100}))).await;
        assert_eq!(refused["decision"], "block", "{refused}");
    }
    // Longer than the lock is waited for.
    tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    drop(other);
    until("a decision", async || {
        umbra.decide(&write(&umbra.log().len().to_string(), "a")).await["audit_seq"].is_i64().then_some(())
    })
    .await;
    let open =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'umbra' AND state LIKE 'idle in transaction%'
        AND query LIKE '%7817%'";
    until("no transaction to be left open", async || (umbra.schema.one::<i64>(open).await == 0).then_some(())).await;
    let log = umbra.log();
    assert!(!log.contains("transaction in progress") && !log.contains("transaction is aborted"), "{log}");
}

#[tokio::test]
async fn a_row_that_stands_where_the_next_one_is_to_be_wedges_nothing_and_is_told() {
    let mut umbra = Umbra::with().go().await;
    // The doctor finds them, too.
    umbra.unchecked();
    umbra.decide(&write("before", "a")).await;
    let forge = async |behind: i64| {
        let sql = format!(
            "INSERT INTO audit (seq, id, at, kind, agent, body) SELECT last + {behind}, gen_random_uuid(), clock(), 'decision', 'a', '{{}}'
             FROM feed WHERE name = 'audit'"
        );
        umbra.schema.run(&sql).await;
    };
    forge(1).await;
    let answer = umbra.decide(&write("behind", "a")).await;
    assert_eq!((&answer["decision"], &answer["audit_seq"]), (&json!("execute"), &json!(3)), "{answer}");
    let ready = ready(&umbra).await;
    assert!(ready["status"] == "degraded" && ready["detail"].to_string().contains("no server wrote"), "{ready}");
    forge(1).await;
    set(&umbra, "tool", Some("crm.*"), Some("shadow")).await;
    assert_eq!(umbra.audit("kind=execution").await[0]["seq"], 5);
    // One that stands far ahead is not taken for the last.
    umbra.schema.run("INSERT INTO audit (seq, id, at, kind, body) VALUES (9223372036854775807, gen_random_uuid(), clock(), 'decision', '{}')").await;
    assert_eq!(umbra.decide(&write("later", "a")).await["audit_seq"], 6);
    until("the rows to be sealed", async || {
        (umbra.schema.one::<i64>("SELECT coalesce(max(last), 0) FROM audit_seal").await == 6).then_some(())
    })
    .await;
    let told = problems(&umbra);
    assert!(told.contains("row 2 was signed by nobody") && told.contains("row 4 was signed by nobody"), "{told}");
    assert!(metrics(&umbra).await.contains("umbra_unauthentic_rows_total{table=\"audit\"} 2"));
}

#[tokio::test]
async fn a_database_that_refuses_rows_is_told_apart_from_one_that_is_away() {
    let umbra = Umbra::with().go().await;
    umbra.decide(&write("before", "a")).await;
    umbra.schema.run("ALTER TABLE audit ADD CONSTRAINT foreign_rule CHECK (agent <> 'b')").await;
    let refused = umbra.decide(&write("refused", "b")).await;
    assert_eq!((&refused["decision"], &refused["reason"]), (&json!("block"), &json!("unavailable")), "{refused}");
    assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains("refuses")), "{refused}");
    let degraded = ready(&umbra).await;
    assert!(degraded["status"] == "degraded" && degraded["detail"].to_string().contains("constraint"), "{degraded}");
    umbra.schema.run("ALTER TABLE audit DROP CONSTRAINT foreign_rule").await;
    assert_eq!(umbra.decide(&write("again", "b")).await["decision"], "execute");
    until("it to be well", async || (ready(&umbra).await["status"] == "ok").then_some(())).await;
}
