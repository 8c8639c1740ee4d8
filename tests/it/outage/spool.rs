//! Events that wait on the local disk: filed once, in order, after any kill; bounded, redacted, erasable, reported.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::Row;

use super::{event, external, filed, outputs, spooled_text, spooling};
use crate::support::{
    model_server::{Answer, ModelServer},
    outage::{Relay, on},
    sabotage, until,
};

#[tokio::test]
async fn spool_of_a_killed_server_is_filed_by_another_on_its_disk() {
    let (mut database, data) = external().await;
    let mut gone = spooling(&database.url(), &data).go().await;
    let stays = spooling(&database.url(), &data).go().await;
    database.stop().await;
    for n in 0..5 {
        assert_eq!(gone.event(&event("gone", n)).await["spooled"], true);
        assert_eq!(stays.event(&event("stays", n)).await["spooled"], true);
    }
    gone.kill();
    gone.unchecked();
    database.resume().await;
    filed(&stays).await;
    for agent in ["gone", "stays"] {
        let outputs = until("its events", async || {
            let outputs = outputs(&stays, agent).await;
            (outputs.len() >= 5).then_some(outputs)
        })
        .await;
        assert_eq!(outputs, (0..5).map(|n| format!("step {n} failed")).collect::<Vec<_>>(), "{agent}");
    }
    assert_eq!(spooled_text(data.path()), "");
}

#[tokio::test]
async fn spooled_repeat_is_replayed_and_a_reused_id_refused() {
    let (mut database, data) = external().await;
    let umbra = spooling(&database.url(), &data).go().await;
    database.stop().await;
    let first = json!({"id": "mine", "agent": "a", "triggers": ["error"], "output": "x"});
    let told = umbra.post("/v1/events", &first).await;
    assert_eq!(told.status, 202, "{}", told.text);
    let again = umbra.post("/v1/events", &first).await;
    assert_eq!((again.status.as_u16(), &again.body["id"]), (202, &told.body["id"]), "{}", again.text);
    assert_eq!(again.headers["idempotent-replayed"], "true");
    let batch = umbra.post("/v1/events/batch", &json!({"events": [first, event("a", 1)]})).await;
    let results = &batch.body["results"];
    assert_eq!((&batch.body["accepted"], &batch.body["replayed"]), (&json!(1), &json!(1)), "{}", batch.text);
    assert_eq!((&results[0]["id"], &results[1]["spooled"]), (&told.body["id"], &json!(true)), "{}", batch.text);
    let other = umbra.post("/v1/events", &json!({"id": "mine", "agent": "a", "output": "y"})).await;
    assert_eq!((other.status.as_u16(), &other.body["code"]), (422, &json!("idempotency_mismatch")), "{}", other.text);
    database.resume().await;
    filed(&umbra).await;
    let later = umbra.post("/v1/events", &first).await;
    assert_eq!((later.status.as_u16(), &later.body["id"]), (202, &told.body["id"]), "{}", later.text);
    assert_eq!(umbra.items("/v1/events?agent=a").await.len(), 2);
}

#[tokio::test]
async fn duplicate_ids_on_two_servers_are_reported_after_filing() {
    let (mut database, data) = external().await;
    let other_data = tempfile::TempDir::new().expect("a directory");
    let (one, two) = (spooling(&database.url(), &data).go().await, spooling(&database.url(), &other_data).go().await);
    let id = |answer: &Value| answer["id"].as_str().unwrap_or_default().to_owned();
    // One id was used before the outage.
    let before = id(&one.event(&json!({"id": "before", "agent": "a", "output": "0"})).await);
    database.stop().await;
    let repeated = id(&two.event(&json!({"id": "before", "agent": "a", "output": "0"})).await);
    let conflicting = id(&two.event(&json!({"id": "before-2", "agent": "a", "output": "1"})).await);
    let first = id(&one.event(&json!({"id": "before-2", "agent": "a", "output": "another"})).await);
    assert_ne!(first, conflicting);
    database.resume().await;
    filed(&one).await;
    filed(&two).await;
    let asked = two.send(Method::GET, &format!("/v1/events/{repeated}"), &[], None).await;
    assert_eq!((asked.status.as_u16(), &asked.body["code"]), (404, &json!("duplicate_of_spooled")), "{}", asked.text);
    assert!(asked.body["detail"].as_str().is_some_and(|text| text.contains(&before)), "{}", asked.text);
    let verdict = two.send(Method::GET, &format!("/v1/events/{repeated}/verdict"), &[], None).await;
    assert_eq!(verdict.body["code"], "duplicate_of_spooled", "{}", verdict.text);
    // The first filed one has the id; the other one says so. Both are stored.
    let [a, b] = [one.get(&format!("/v1/events/{first}")).await, one.get(&format!("/v1/events/{conflicting}")).await];
    let conflicts = [&a["conflicts_with"], &b["conflicts_with"]];
    assert!(
        conflicts == [&json!(conflicting), &Value::Null] || conflicts == [&Value::Null, &json!(first)],
        "{conflicts:?}"
    );
    assert!([&one, &two].iter().any(|server| server.log().contains("has the same caller's id as another")));
    assert_eq!(one.items("/v1/events?agent=a").await.len(), 3);
}

#[tokio::test]
async fn a_full_spool_refuses_new_events_and_drops_none() {
    let (mut database, data) = external().await;
    let full = if sabotage() { "64MiB" } else { "1MiB" };
    let umbra = on(&database.url(), data.path()).env("UMBRA__INGEST__SPOOL__MAX_BYTES", full).go().await;
    database.stop().await;
    let long = "word ".repeat(20_000);
    let mut taken = 0;
    let refused = loop {
        let answered = umbra.post("/v1/events", &json!({"agent": "a", "output": long})).await;
        if answered.status != 202 || taken > 15 {
            break answered;
        }
        taken += 1;
    };
    assert_eq!(
        (refused.status.as_u16(), &refused.body["code"]),
        (503, &json!("database_unavailable")),
        "{}",
        refused.text
    );
    assert!(refused.body["detail"].as_str().is_some_and(|text| text.contains("ingest.spool")), "{}", refused.text);
    assert!(refused.headers.contains_key("retry-after"));
    database.resume().await;
    filed(&umbra).await;
    assert_eq!(umbra.items("/v1/events?agent=a").await.len(), taken);
    umbra.event(&event("a", 0)).await;
}

#[tokio::test]
async fn spool_past_its_max_age_refuses_events_and_drops_none() {
    let (mut database, data) = external().await;
    let age = if sabotage() { "1d" } else { "2s" };
    let umbra = on(&database.url(), data.path()).env("UMBRA__INGEST__SPOOL__MAX_AGE", age).go().await;
    database.stop().await;
    assert_eq!(umbra.event(&event("a", 0)).await["spooled"], true);
    let began = std::time::Instant::now();
    until("the oldest to be too old", async || {
        assert!(began.elapsed() < Duration::from_secs(10), "a spool that is too old goes on");
        (umbra.post("/v1/events", &event("b", 0)).await.status == 503).then_some(())
    })
    .await;
    assert_eq!(umbra.send(Method::GET, "/readyz", &[], None).await.status, 503);
    database.resume().await;
    filed(&umbra).await;
    assert_eq!(outputs(&umbra, "a").await, ["step 0 failed"]);
}

#[tokio::test]
async fn spool_is_redacted_and_reached_by_erasure() {
    let (mut database, data) = external().await;
    let mut umbra = spooling(&database.url(), &data).go().await;
    database.stop().await;
    let secret = "ghp_R7x2KqLm9ZtB4vWc8NsY1dHf6PjA3uGe5QoX";
    let said = json!({"agent": "anna", "output": format!("the token is {secret} and the word is walrus")});
    assert_eq!(umbra.event(&said).await["spooled"], true);
    assert_eq!(umbra.event(&event("bert", 0)).await["spooled"], true);
    let text = spooled_text(data.path());
    assert!(text.contains("walrus") && text.contains("[secret:") && !text.contains(secret), "{text}");
    // Events left by a dead server are erased as well.
    umbra.kill();
    let seen = umbra.cli(&["doctor"], None);
    assert_eq!(seen.status.code(), Some(1));
    let said = String::from_utf8_lossy(&seen.stderr).into_owned();
    assert!(said.contains("2 events") && said.contains("spool") && said.contains("a stopped server left"), "{said}");
    database.resume().await;
    let counted = umbra.cli(&["erase", "--agent", "anna", "--dry-run", "--json"], None);
    let counted: Value = serde_json::from_slice(&counted.stdout).expect("JSON");
    assert_eq!(counted["erased"]["spooled_events"], 1, "{counted}");
    assert!(spooled_text(data.path()).contains("walrus"));
    if !sabotage() {
        let erased = umbra.cli(&["erase", "--agent", "anna", "--yes"], None);
        let words = String::from_utf8_lossy(&erased.stdout).into_owned();
        assert!(erased.status.success() && words.contains("of 1 events in the spool"), "{words}");
    }
    assert!(!spooled_text(data.path()).contains("walrus"));
    let report = umbra.cli(&["doctor", "--json"], None);
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert_eq!((&report["ok"], &report["spools"][0]["abandoned_by"]), (&json!(true), &json!(1)), "{report}");
    umbra.restart().await;
    filed(&umbra).await;
    assert_eq!((outputs(&umbra, "anna").await.len(), outputs(&umbra, "bert").await.len()), (0, 1));
    // The spool is empty once it is filed.
    assert_eq!(spooled_text(data.path()), "");
}

#[tokio::test]
async fn known_key_stays_valid_until_its_revocation_is_seen() {
    let (database, data) = external().await;
    let relay = Relay::to(&database.socket());
    let umbra = spooling(&relay.url(), &data).go().await;
    // Another server, which still reaches the database.
    let other = on(&database.url(), data.path()).go().await;
    let made = other.cli(&["keys", "create", "--name", "k", "--scope", "ingest", "--json"], None);
    let made: Value = serde_json::from_slice(&made.stdout).expect("a key");
    let (id, key) = (made["id"].as_str().unwrap_or_default(), made["key"].as_str().unwrap_or_default());
    let authorization = format!("Bearer {key}");
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    let post = async |n: usize| {
        let body = event("a", n).to_string().into_bytes();
        umbra.send(Method::POST, "/v1/events", &headers, Some(body)).await
    };
    until("the key to be known", async || (post(0).await.status == 202).then_some(())).await;
    relay.cut(true);
    assert_eq!(post(1).await.body["spooled"], true);
    let revoked = other.cli(&["keys", "revoke", id], None);
    assert!(revoked.status.success(), "{}", String::from_utf8_lossy(&revoked.stderr));
    let spooled = post(2).await;
    assert_eq!((spooled.status.as_u16(), &spooled.body["spooled"]), (202, &json!(true)), "{}", spooled.text);
    relay.cut(false);
    until("the revocation to be seen", async || (post(3).await.status == 401).then_some(())).await;
    until("it to be told", async || umbra.log().contains("with a revoked key").then_some(())).await;
    let mut connection = database.connect().await;
    let stored = sqlx::query("SELECT count(*) FROM event WHERE agent = 'a'").fetch_one(&mut connection).await;
    assert!(stored.expect("a count").get::<i64, _>(0) >= 3, "what was acknowledged stays");
}

#[tokio::test]
async fn verdict_on_a_spooled_event_is_pending_and_due_from_receipt() {
    let (mut database, data) = external().await;
    let model = ModelServer::start(|_| Answer::Hang).await;
    let shadows = "
shadow_agents:
  - {name: guard, model: judge, mode: active, verdict_within: 3s, on_timeout: reject, watch: [{agent: '*', triggers: [error]}],
     cost_control: {cooldown: 0s}}
";
    let settings = format!("models:\n  judge: {{provider: openai, name: j, base_url: '{}'}}\n", model.openai_url());
    let umbra = spooling(&database.url(), &data).shadows(shadows).settings(&settings).go().await;
    database.stop().await;
    let headers = [("content-type", "application/json"), ("prefer", "wait=10")];
    let body = event("a", 0).to_string().into_bytes();
    let told = umbra.send(Method::POST, "/v1/events", &headers, Some(body)).await;
    assert_eq!((told.status.as_u16(), &told.body["spooled"]), (202, &json!(true)), "{}", told.text);
    let verdict = &told.body["verdict"];
    assert_eq!(verdict["verdict"], "pending", "{}", told.text);
    let by: jiff::Timestamp = verdict["verdict_by"].as_str().and_then(|text| text.parse().ok()).expect("a time");
    let received: jiff::Timestamp =
        told.body["received_at"].as_str().and_then(|text| text.parse().ok()).expect("a time");
    assert_eq!(by.duration_since(received), jiff::SignedDuration::from_secs(3));
    let id = told.body["id"].as_str().unwrap_or_default().to_owned();
    database.resume().await;
    // The time was over when it was filed: no model is waited for.
    let decided = until("the verdict", async || {
        let answered = umbra.send(Method::GET, &format!("/v1/events/{id}/verdict"), &[], None).await;
        matches!(answered.body["verdict"].as_str(), Some("accepted" | "rejected")).then_some(answered.body)
    })
    .await;
    assert_eq!(
        (&decided["verdict"], &decided["verdict_by"]),
        (&json!("rejected"), &verdict["verdict_by"]),
        "{decided}"
    );
    drop(umbra);
}

#[tokio::test]
async fn damaged_spool_record_is_set_aside_and_blocks_no_other() {
    let (mut database, data) = external().await;
    let mut umbra = spooling(&database.url(), &data).go().await;
    database.stop().await;
    for n in 0..3 {
        assert_eq!(umbra.event(&event("a", n)).await["spooled"], true);
    }
    umbra.kill();
    let folder = std::fs::read_dir(data.path().join("spool")).expect("a spool").flatten().next().expect("one").path();
    let segment = umbra::spool::segments_in(&folder).expect("a folder").remove(0);
    let text = std::fs::read_to_string(&segment).expect("text");
    if !sabotage() {
        std::fs::write(&segment, text.replace("step 1", "step X")).expect("it is damaged");
    }
    database.resume().await;
    umbra.restart().await;
    let degraded = until("it to be told", async || {
        let ready = umbra.get("/readyz").await;
        (ready["status"] == "degraded" || sabotage()).then_some(ready)
    })
    .await;
    assert!(degraded["detail"].as_str().is_some_and(|text| text.contains("refused")), "{degraded}");
    until("the others to be filed", async || (outputs(&umbra, "a").await.len() == 2).then_some(())).await;
    assert_eq!(outputs(&umbra, "a").await, ["step 0 failed", "step 2 failed"]);
    let report = umbra.cli(&["doctor"], None);
    assert_eq!(report.status.code(), Some(1), "{}", String::from_utf8_lossy(&report.stdout));
    std::fs::remove_file(folder.join("refused")).expect("it is moved away");
    until("it to be well", async || (umbra.get("/readyz").await["status"] == "ok").then_some(())).await;
}
