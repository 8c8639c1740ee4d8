//! Overrides and approvals that were not written by a server are ignored, and found. A database that refuses rows of
//! the audit is distinguished from one that is away.

use serde_json::{Value, json};

use crate::support::{
    Umbra,
    boundary::{with, write},
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

/// Returns the faults of `umbra audit verify`.
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
async fn forged_override_is_ignored_and_a_deleted_one_reported() {
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
        // An override that was genuine once, and was lifted.
        "INSERT INTO execution_override SELECT * FROM kept WHERE scope = 'tool'",
        "DELETE FROM execution_override",
    ]
    .into_iter()
    .enumerate()
    {
        umbra.schema.run(sql).await;
        if sql.starts_with("DELETE") {
            assert!(problems(&umbra).contains("is missing"), "{sql}: {}", problems(&umbra));
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
    // A changed row gives way to a new override, and to its end.
    umbra.schema.run("UPDATE execution_override SET reason = 'other'").await;
    set(&umbra, "global", None, Some("live")).await;
    assert_eq!((decided("set").await, problems(&umbra)), (json!("live"), "[]".to_owned()));
    let counted = metrics(&umbra).await;
    assert!(counted.contains("umbra_unauthentic_rows_total{table=\"execution_override\"}"), "{counted}");
    assert!(umbra.log().contains("an override fails authentication by this server's key"));
}

#[tokio::test]
async fn forged_or_restored_approval_runs_no_call() {
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
    // A person's answer counts only for the call that was asked about.
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
async fn transaction_that_failed_to_begin_is_not_reused() {
    let umbra = Umbra::with().settings("boundary: {deadline: 300ms}").go().await;
    umbra.decide(&write("before", "a")).await;
    let held = "pg_advisory_lock(7817, hashtext(current_schema()))";
    let mut other = umbra.schema.connect().await;
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("SELECT {held}"))).execute(&mut other).await.expect("the lock");
    for n in 0..3 {
        let refused = umbra.decide(&with(write(&format!("held-{n}"), "a"), &json!({"deadline_ms": 100}))).await;
        assert_eq!(refused["decision"], "block", "{refused}");
    }
    // Longer than the wait for the lock.
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
async fn audit_row_ahead_of_the_counter_blocks_writes_until_repaired() {
    let umbra = Umbra::with().go().await;
    umbra.decide(&write("before", "a")).await;
    // As after the table was restored without its counter, or after a forged row.
    umbra
        .schema
        .run(
            "INSERT INTO audit (seq, id, at, kind, agent, body) SELECT last + 1, gen_random_uuid(), clock(), 'decision', 'a', '{}'
             FROM feed WHERE name = 'audit'",
        )
        .await;
    let refused = umbra.decide(&write("ahead", "a")).await;
    assert_eq!((&refused["decision"], &refused["reason"]), (&json!("block"), &json!("unavailable")), "{refused}");
    assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains("refuses")), "{refused}");
    let degraded = ready(&umbra).await;
    assert!(degraded["status"] == "degraded" && degraded["detail"].to_string().contains("constraint"), "{degraded}");
    assert!(umbra.log().contains("audit_pkey"), "{}", umbra.log());
    let doctor = umbra.cli(&["doctor"], None);
    assert!(!doctor.status.success() && String::from_utf8_lossy(&doctor.stdout).contains("audit_has_no_gap"));
    umbra.schema.run("UPDATE feed SET last = (SELECT max(seq) FROM audit) WHERE name = 'audit'").await;
    // Refused in the meantime, and not merged yet or merged by now.
    let answer = umbra.decide(&write("behind", "a")).await;
    assert!(answer["decision"] == "execute" && answer["audit_seq"].as_i64() > Some(2), "{answer}");
    until("the refusal to be merged", async || umbra.audit("kind=merged").await.pop()).await;
    until("the rows to be sealed", async || {
        (umbra.schema.one::<i64>("SELECT coalesce(max(last), 0) FROM audit_seal").await == 4).then_some(())
    })
    .await;
    assert!(problems(&umbra).contains("row 2 has no signature"), "{}", problems(&umbra));
}

#[tokio::test]
async fn database_that_refuses_audit_rows_is_reported_as_such() {
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
