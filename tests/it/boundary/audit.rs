//! The audit in a real database: sealed, signed, verified, tampered with, erased, exported, followed.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    Umbra,
    boundary::{read, with, write},
    until,
};

/// Runs `umbra audit verify`; returns whether the audit is intact, and the report.
fn verify(umbra: &Umbra, more: &[&str]) -> (bool, Value) {
    let output = umbra.cli(&[&["audit", "verify", "--json"], more].concat(), None);
    let said = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.success(), said)
}

/// Returns the faults of a report.
fn problems(said: &Value) -> Vec<String> {
    let faults = said["faults"].as_array().into_iter().flatten();
    faults.filter_map(|fault| Some(fault["problem"].as_str()?.to_owned())).collect()
}

/// Setting of the audit's folder.
const DIR: &str = "UMBRA__BOUNDARY__AUDIT__DIR";

/// Waits until so many lines are in the file.
async fn lines(umbra: &Umbra, count: usize) {
    until("the files to be written", async || {
        let text = std::fs::read_to_string(umbra.file("audit/audit.jsonl")).unwrap_or_default();
        (text.lines().count() == count).then_some(())
    })
    .await;
}

/// Makes so many decisions, and waits until all are signed.
async fn audited(umbra: &Umbra, calls: i64) {
    for n in 0..calls {
        umbra
            .decide(&with(write(&format!("c{n}"), if n % 2 == 0 { "even" } else { "odd" }), &json!({"run": "r1"})))
            .await;
    }
    signed(umbra, calls).await;
}

async fn signed(umbra: &Umbra, seq: i64) {
    until("a checkpoint", async || {
        let text = std::fs::read_to_string(umbra.file("audit/checkpoints.jsonl")).unwrap_or_default();
        let last: Value = serde_json::from_str(text.lines().last()?).ok()?;
        (last["seq"] == seq).then_some(())
    })
    .await;
}

/// Changes the database like its owner could.
async fn tamper(umbra: &Umbra, sql: &str) {
    umbra
        .schema
        .run(&format!(
            "ALTER TABLE audit DISABLE TRIGGER append_only; ALTER TABLE audit_seal DISABLE TRIGGER append_only; {sql};
             ALTER TABLE audit ENABLE TRIGGER append_only; ALTER TABLE audit_seal ENABLE TRIGGER append_only"
        ))
        .await;
}

#[tokio::test]
async fn tampering_with_the_database_is_found() {
    let mut umbra = Umbra::with().go().await;
    umbra.unchecked();
    audited(&umbra, 9).await;
    let (intact, said) = verify(&umbra, &[]);
    assert!(intact && said["rows"] == 9 && said["unsealed"] == 0, "{said}");
    // The checkpoint was kept elsewhere, where access to the database does not reach.
    let kept = umbra.file("kept.jsonl");
    std::fs::copy(umbra.file("audit/checkpoints.jsonl"), &kept).expect("a copy");
    umbra.stop();
    let kept = kept.display().to_string();
    for sql in
        ["UPDATE audit SET agent = 'x' WHERE seq = 4", "DELETE FROM audit WHERE seq = 4", "TRUNCATE audit CASCADE"]
    {
        let refused = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut umbra.schema.connect().await).await;
        assert!(refused.is_err_and(|error| error.to_string().contains("append-only")), "{sql}");
    }
    umbra.schema.run("CREATE TABLE kept AS TABLE audit; CREATE TABLE kept_payload AS TABLE audit_payload; CREATE TABLE kept_seal AS TABLE audit_seal;
             ALTER TABLE audit_payload DROP CONSTRAINT audit_payload_seq_fkey").await;
    for sql in [
        "UPDATE audit SET body = replace(body, 'execute', 'block') WHERE seq = 4",
        "UPDATE audit SET at = at + interval '1 second' WHERE seq = 1",
        "DELETE FROM audit_payload WHERE seq = 5; DELETE FROM audit WHERE seq = 5",
        "UPDATE audit SET seq = -1 WHERE seq = 2; UPDATE audit SET seq = 2 WHERE seq = 3; UPDATE audit SET seq = 3 WHERE seq = -1",
        "UPDATE audit_payload SET body = '{}' WHERE seq = 6",
        "DELETE FROM audit_payload WHERE seq = 6",
        "DELETE FROM audit_payload WHERE seq > 7; DELETE FROM audit WHERE seq > 7; UPDATE feed SET last = 7 WHERE name = 'audit'",
        "DELETE FROM audit_payload; DELETE FROM audit; DELETE FROM audit_seal; UPDATE feed SET last = 0 WHERE name = 'audit'",
    ] {
        tamper(&umbra, sql).await;
        let (intact, said) = verify(&umbra, &["--checkpoint", &kept]);
        assert!(!intact && said["faults_total"].as_u64() > Some(0), "{sql}: {said}");
        tamper(
            &umbra,
            "DELETE FROM audit_payload; DELETE FROM audit; DELETE FROM audit_seal;
            INSERT INTO audit SELECT * FROM kept; INSERT INTO audit_payload SELECT * FROM kept_payload;
            INSERT INTO audit_seal SELECT * FROM kept_seal; UPDATE feed SET last = 9 WHERE name = 'audit'",
        )
        .await;
        assert!(verify(&umbra, &["--checkpoint", &kept]).0, "the control after {sql}");
    }
    // Everything sealed again by our own program, with another order of time: only the checkpoint shows it, not the
    // signatures of rows.
    tamper(&umbra, "UPDATE audit SET at = at - interval '1 hour' WHERE seq = 4; DELETE FROM audit_seal").await;
    let again = Umbra::with().on(&umbra.schema).go().await;
    signed(&again, 9).await;
    let (intact, said) = verify(&again, &["--checkpoint", &kept]);
    assert!(!intact && problems(&said).iter().any(|what| what.contains("signed a different block")), "{said}");
}

#[tokio::test]
async fn forged_rows_are_found_although_sealed() {
    let mut umbra = Umbra::with().go().await;
    umbra.unchecked();
    audited(&umbra, 6).await;
    let add = |kind: &str, body: &str, payload: &str| {
        format!(
            "WITH f AS (UPDATE feed SET last = last + 1 WHERE name = 'audit' RETURNING last)
             INSERT INTO audit (seq, id, at, kind, agent, session, run, call_id, tool, body, payload_mac)
             SELECT last, gen_random_uuid(), clock(), '{kind}', agent, session, run, call_id, tool, {body}, {payload}
             FROM f, audit WHERE seq = 2"
        )
    };
    // Two payloads go, and an erasure is made up for one of them; a late call; a decision; and a copy.
    let erasure = add("erasure", "'{\"payloads\": [[2, 3]]}'", "NULL");
    let (late, decision) =
        (add("merged", "body", "NULL"), add("decision", "replace(body, 'block', 'execute')", "NULL"));
    tamper(&umbra, &format!("DELETE FROM audit_payload WHERE seq IN (2, 3); {erasure}; {late}; {decision}")).await;
    signed(&umbra, 9).await;
    let (intact, said) = verify(&umbra, &[]);
    let told = problems(&said);
    assert!(!intact && told.iter().filter(|what| what.contains("has no signature")).count() == 3, "{told:?}");
    for seq in [2, 3] {
        assert!(told.iter().any(|what| what.contains(&format!("the payload of row {seq} is missing"))), "{told:?}");
    }
    // Later rows of the server are valid.
    umbra.decide(&write("later", "even")).await;
    signed(&umbra, 10).await;
    assert_eq!(problems(&verify(&umbra, &[]).1), told);
}

#[tokio::test]
async fn audit_files_that_differ_from_the_database_are_found() {
    let mut umbra = Umbra::with().go().await;
    audited(&umbra, 6).await;
    lines(&umbra, 6).await;
    umbra.stop();
    let path = umbra.file("audit/audit.jsonl");
    let whole = std::fs::read_to_string(&path).expect("the file");
    let (intact, said) = verify(&umbra, &[]);
    assert!(intact && said["lines"] == 6 && said["warnings"] == json!([]), "{said}");
    let all: Vec<&str> = whole.split_inclusive('\n').collect();
    for (how, text) in [
        ("edited", whole.replacen("a@example.com", "b@example.com", 1)),
        ("cut", all[..4].concat()),
        ("emptied", String::new()),
        ("without a line", [&all[..2], &all[3..]].concat().concat()),
        ("with a line twice", [&all[..3], &all[2..]].concat().concat()),
        ("out of order", [all[1], all[0], all[2], all[3], all[4], all[5]].concat()),
        ("with a forged line", format!("{whole}{}", all[5].replace("\"seq\":6", "\"seq\":7"))),
    ] {
        std::fs::write(&path, text).expect("the file");
        let (intact, said) = verify(&umbra, &[]);
        assert!(!intact && problems(&said).iter().any(|what| what.contains("row")), "{how}: {said}");
    }
    std::fs::remove_file(&path).expect("it is there");
    assert!(!verify(&umbra, &[]).0, "removed");
    // A crash tears a line that was not reported yet: it is named, and no fault.
    std::fs::write(&path, &whole[..whole.len() - 9]).expect("the file");
    umbra.schema.run("UPDATE audit_folder SET written = 5").await;
    let (intact, said) = verify(&umbra, &[]);
    assert!(intact && said["warnings"].to_string().contains("audit.jsonl:6: this line is incomplete"), "{said}");
    // The next server writes it again.
    let again = Umbra::with().on(&umbra.schema).env(DIR, umbra.file("audit").display().to_string()).go().await;
    until("the line again", async || (std::fs::read_to_string(&path).ok()? == whole).then_some(())).await;
    let (intact, said) = verify(&again, &[]);
    assert!(intact && said["lines"] == 6, "{said}");
}

#[tokio::test]
async fn missing_or_repeated_checkpoints_are_found() {
    let mut umbra = Umbra::with().go().await;
    let (intact, said) = verify(&umbra, &[]);
    assert!(intact && said["rows"] == 0, "nothing is signed where there is nothing: {said}");
    for n in 1..=3 {
        umbra.decide(&write(&format!("c{n}"), "a")).await;
        signed(&umbra, n).await;
    }
    lines(&umbra, 3).await;
    umbra.stop();
    let (path, kept) = (umbra.file("audit/checkpoints.jsonl"), umbra.file("kept.jsonl"));
    let whole = std::fs::read_to_string(&path).expect("the file");
    std::fs::write(&kept, whole.lines().last().expect("a line")).expect("a copy of the last line");
    let kept = kept.display().to_string();
    assert!(verify(&umbra, &[]).0);
    let all: Vec<&str> = whole.split_inclusive('\n').collect();
    std::fs::write(&path, [all[0], all[1], all[1], all[2]].concat()).expect("the file");
    let (intact, said) = verify(&umbra, &[]);
    assert!(!intact && problems(&said).iter().any(|what| what.contains("occurs twice")), "{said}");
    std::fs::write(&path, &whole).expect("the file");
    // Another server's key.
    let other = Umbra::with().go().await;
    let own = std::fs::read(umbra.file("audit/checkpoint-key")).expect("the key");
    std::fs::copy(other.file("audit/checkpoint-key"), umbra.file("audit/checkpoint-key")).expect("a copy");
    let (intact, said) = verify(&umbra, &[]);
    assert!(!intact && problems(&said).iter().any(|what| what.contains("has replaced another key")), "{said}");
    std::fs::write(umbra.file("audit/checkpoint-key"), own).expect("the key");
    for text in [String::new(), all[0].to_owned(), all[..2].concat(), all[1..].concat(), [all[0], all[2]].concat()] {
        std::fs::write(&path, &text).expect("the file");
        let (intact, said) = verify(&umbra, &[]);
        assert!(!intact && problems(&said).iter().any(|what| what.contains("--checkpoint")), "{text}: {said}");
        let (intact, said) = verify(&umbra, &["--checkpoint", &kept]);
        assert!(intact && said["warnings"] != json!([]), "the last one is known from elsewhere: {said}");
    }
    std::fs::remove_file(&path).expect("it is there");
    assert!(!verify(&umbra, &[]).0, "removed");
    std::fs::remove_file(umbra.file("audit/checkpoint-key")).expect("it is there");
    assert!(!verify(&umbra, &[]).0, "removed with its key");
    let (intact, said) = verify(&umbra, &["--checkpoint", &kept]);
    assert!(intact && said["checkpoints"] == 1, "the copy suffices: {said}");
}

#[tokio::test]
async fn rows_of_several_servers_need_the_checkpoints_of_all() {
    let one = Umbra::with().go().await;
    let other = Umbra::with().on(&one.schema).go().await;
    one.decide(&write("c1", "a")).await;
    other.decide(&write("c2", "a")).await;
    signed(&one, 2).await;
    signed(&other, 2).await;
    let (intact, said) = verify(&one, &[]);
    assert!(!intact && problems(&said)[0].contains("another server's"), "{said}");
    let (intact, said) = verify(&one, &["--checkpoint", &other.file("audit/checkpoints.jsonl").display().to_string()]);
    assert!(intact, "{said}");
}

#[tokio::test]
async fn erasure_without_the_audit_key_is_refused() {
    let umbra = Umbra::with().go().await;
    umbra.decide(&write("c1", "a")).await;
    signed(&umbra, 1).await;
    let elsewhere = umbra.file("elsewhere").display().to_string();
    let refused = umbra.cli_in(&[(DIR, &elsewhere)], &["erase", "--agent", "a", "--yes"], None);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("has no key"), "{said}");
    assert_eq!(umbra.audit("kind=all").await[0]["args"]["to"], "a@example.com");
}

#[tokio::test]
async fn erasure_of_an_agent_leaves_an_audit_that_verifies() {
    let umbra = Umbra::with().go().await;
    audited(&umbra, 6).await;
    umbra
        .post("/v1/calls/c1/outcome", &json!({"agent": "odd", "status": "ok", "result": {"said": "a word of odd's"}}))
        .await;
    signed(&umbra, 7).await;
    lines(&umbra, 7).await;
    let counted = umbra.cli(&["erase", "--agent", "odd", "--dry-run", "--json"], None);
    let counted: Value = serde_json::from_slice(&counted.stdout).expect("JSON");
    assert_eq!((&counted["erased"]["audit"], &counted["erased"]["audit_lines"]), (&json!(4), &json!(4)), "{counted}");
    let erased = umbra.cli(&["erase", "--agent", "odd", "--yes"], None);
    assert!(erased.status.success(), "{}", String::from_utf8_lossy(&erased.stderr));
    let (intact, said) = verify(&umbra, &[]);
    assert!(intact && said["erased"] == 4, "{said}");
    let rows = umbra.audit("kind=all").await;
    let odd: Vec<&Value> = rows.iter().filter(|row| row["agent"] == "odd" && row["kind"] != "erasure").collect();
    assert!(
        odd.len() == 4
            && odd.iter().all(|row| row["erased"] == true && row["args"].is_null() && row["outcome"].is_null()),
        "{odd:?}"
    );
    let said = rows.iter().find(|row| row["kind"] == "erasure").expect("a row that says so");
    assert_eq!(said["payloads"], json!([[2, 2], [4, 4], [6, 7]]), "{said}");
    assert!(rows.iter().any(|row| row["agent"] == "even" && row["args"]["to"] == "a@example.com"));
    let files = std::fs::read_to_string(umbra.file("audit/audit.jsonl")).expect("the file");
    assert!(!files.contains("a word of odd's") && files.matches("\"erased\":true").count() == 4, "{files}");
    let again = umbra.post("/v1/decide", &with(write("c1", "odd"), &json!({"run": "r1"}))).await;
    assert_eq!((again.status.as_u16(), &again.body["code"]), (409, &json!("conflict")), "{}", again.text);
    // An erasure without a signed record is found.
    tamper(&umbra, "DELETE FROM audit_payload WHERE seq = 1").await;
    assert!(!verify(&umbra, &[]).0);
}

#[tokio::test]
async fn export_file_and_api_give_the_same_audit_rows() {
    let umbra = Umbra::with().env("UMBRA__BOUNDARY__AUDIT__READS", "none").go().await;
    let read_alone = umbra.decide(&read("r1", "a")).await;
    assert!(read_alone["decision"] == "execute" && read_alone.get("audit_seq").is_none(), "{read_alone}");
    umbra.decide(&with(write("c1", "a"), &json!({"session": "s1"}))).await;
    umbra.put("/v1/execution", &json!({"scope": "tool", "value": "crm.*", "execution": "shadow", "reason": "r"})).await;
    umbra.decide(&with(write("c2", "b"), &json!({"run": "r1"}))).await;
    let all = umbra.audit("kind=all").await;
    assert_eq!(all.iter().map(|row| &row["kind"]).collect::<Vec<_>>(), ["decision", "execution", "decision"]);
    let exported = umbra.cli(&["audit", "export"], None);
    let exported = String::from_utf8_lossy(&exported.stdout).into_owned();
    let lines: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines, all);
    let written = until("the file", async || {
        let text = std::fs::read_to_string(umbra.file("audit/audit.jsonl")).ok()?;
        (text.lines().count() == 3).then_some(text)
    })
    .await;
    assert_eq!(written, exported);
    for (query, expected) in [
        ("session=s1", vec!["c1"]),
        ("run=r1", vec!["c2"]),
        ("agent=b", vec!["c2"]),
        ("tool=mail.send_email", vec!["c1", "c2"]),
        ("since=2999-01-01T00:00:00Z", vec![]),
        ("until=2999-01-01T00:00:00Z", vec!["c1", "c2"]),
        ("after=1", vec!["c2"]),
        ("kind=outcome", vec![]),
    ] {
        let found = umbra.audit(query).await;
        assert_eq!(found.iter().filter_map(|row| row["call_id"].as_str()).collect::<Vec<_>>(), expected, "{query}");
    }
    for query in ["kind=all2", "follow=perhaps", "after=-1", "rnu=1", "run=%FF", "r%FFn=1"] {
        let refused = umbra.send(reqwest::Method::GET, &format!("/v1/audit?{query}"), &[], None).await;
        assert_eq!((refused.status.as_u16(), &refused.body["code"]), (400, &json!("bad_query")), "{}", refused.text);
        let pointer = refused.body["errors"][0]["pointer"].as_str();
        assert!(pointer.is_some_and(|pointer| pointer.starts_with('?')), "{}", refused.text);
    }
}

#[tokio::test]
async fn follow_streams_each_new_row_of_the_agent() {
    let umbra = Umbra::with().go().await;
    umbra.decide(&write("c0", "a")).await;
    let mut stream = reqwest::Client::builder()
        .no_proxy()
        .timeout(Duration::from_mins(1))
        .build()
        .expect("a client")
        .get(format!("{}/v1/audit?follow=true&agent=a", umbra.base))
        .send()
        .await
        .expect("it answers");
    assert_eq!(stream.headers()["content-type"], "application/x-ndjson");
    let mut text = Vec::new();
    for n in 1..=3 {
        umbra.decide(&write(&format!("c{n}"), "a")).await;
        umbra.decide(&write(&format!("c{n}"), "b")).await;
        while String::from_utf8_lossy(&text).matches('\n').count() <= n {
            text.extend(stream.chunk().await.expect("it goes on").expect("it goes on"));
        }
    }
    let ids: Vec<String> = String::from_utf8_lossy(&text)
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).expect("JSON")["call_id"].as_str().unwrap_or_default().to_owned()
        })
        .collect();
    assert_eq!(ids, ["c0", "c1", "c2", "c3"]);
}
