//! MCP over standard input and output: calls that run and calls that do not, and servers that fail.

use serde_json::json;

use super::{
    SERVE, SHADOW,
    client::{Client, text},
    folder,
    scripted::{TOOLS, notes, received},
    settings,
};
use crate::support::{Umbra, until};

#[tokio::test(flavor = "multi_thread")]
async fn shadow_runs_reads_but_no_writes_in_all_protocol_versions() {
    for (theirs, ours) in [(false, false), (false, true), (true, false), (true, true)] {
        let folder = folder();
        let case = format!("server modern: {theirs}, client modern: {ours}");
        let umbra = Umbra::with().settings(&settings(folder.path(), theirs, "")).go().await;
        let mut client = Client::start(&umbra, &[SHADOW], &SERVE, ours);
        let listed = client.ask("tools/list", json!({}));
        let names: Vec<&str> = listed["result"]["tools"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|tool| tool["name"].as_str())
            .collect();
        assert!(names.is_sorted() && names.contains(&"write_note") && names.len() == TOOLS, "{case}: {listed}");
        let private = ours.then(|| json!("private"));
        assert_eq!(listed["result"].get("cacheScope"), private.as_ref(), "{case}: {listed}");
        assert_eq!(text(&client.call("read_note", &json!({"name": "a"}))), "hello", "{case}");

        let refused = client.call("write_note", &json!({"name": "b"}));
        assert_eq!(refused["isError"], true, "{case}: {refused}");
        assert!(text(&refused).contains("no_contract"), "{case}: {refused}");
        let asked =
            json!({"name": "write_note", "arguments": {"name": "b"}, "_meta": {"dev.umbra/stub": {"ok": true}}});
        let stub = client.ask("tools/call", asked)["result"].clone();
        assert_eq!(stub["structuredContent"], json!({"ok": true}), "{case}: {stub}");
        assert_eq!(text(&stub), r#"{"ok":true}"#, "{case}: {stub}");
        let decision = stub["_meta"]["dev.umbra/shadow"]["decision_id"].as_str().unwrap_or_default().to_owned();
        assert!(decision.starts_with("dec_"), "{case}: {stub}");
        assert_eq!(
            (notes(folder.path()), received(folder.path()).contains(&"write_note".to_owned())),
            (vec!["a.note".to_owned()], false),
            "{case}"
        );

        assert_eq!(received(folder.path()).contains(&"initialize".to_owned()), !theirs, "{case}");

        let read = client.ask("resources/read", json!({"uri": "note://all"}));
        assert_eq!(read["result"]["contents"][0]["text"], "a.note", "{case}: {read}");
        let prompt = client.ask("prompts/get", json!({"name": "greet"}));
        assert_eq!(prompt["result"]["messages"][0]["content"]["text"], "greet", "{case}: {prompt}");
        assert!(client.leave(), "{case}");

        let audit = umbra.audit("").await;
        let told: Vec<_> = audit.iter().map(|row| row["decision"].as_str().unwrap_or_default()).collect();
        assert_eq!(told, ["execute", "block", "stub"], "{case}: {audit:?}");
        assert!(audit.iter().all(|row| row["agent"] == "writer"), "{audit:?}");
        let outcomes = umbra.audit("kind=outcome").await;
        assert_eq!(outcomes.len(), 1, "of the one that ran: {outcomes:?}");
        let events = umbra.items("/v1/events?agent=writer").await;
        assert_eq!(events.len(), 3, "each call is an event: {events:?}");
        let timed: Vec<bool> = events.iter().map(|event| event["duration_ms"].is_u64()).collect();
        assert_eq!(timed, [true, false, false], "of the one that ran: {events:?}");
        let stubbed =
            umbra.get(&format!("/v1/events/{}", events[2]["id"].as_str().unwrap_or_default())).await.to_string();
        assert!(stubbed.contains(&decision) && stubbed.contains("files.write_note"), "{stubbed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn live_writes_run() {
    let folder = folder();
    let umbra = Umbra::with().settings(&settings(folder.path(), false, "")).go().await;
    let mut client = Client::start(&umbra, &[], &SERVE, true);
    assert_eq!(text(&client.call("write_note", &json!({"name": "b"}))), "written");
    assert_eq!(notes(folder.path()), ["a.note", "b.note"]);
    let purged = client.ask("notes/purge", json!({}));
    assert_eq!((purged["result"]["purged"].as_bool(), notes(folder.path()).len()), (Some(true), 0), "{purged}");
    assert!(client.leave());
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_or_unknown_requests_do_not_bypass_the_boundary() {
    let folder = folder();
    let umbra = Umbra::with().settings(&settings(folder.path(), false, "")).go().await;
    let mut client = Client::start(&umbra, &[SHADOW], &SERVE, false);
    for params in
        [json!({"name": "write_note", "arguments": "b"}), json!({"name": ["write_note"]}), json!({"arguments": {}})]
    {
        let said = client.ask("tools/call", params.clone());
        assert!(said["error"].is_object(), "{params}: {said}");
    }
    let said = client.ask("notes/purge", json!({}));
    assert!(said["error"]["message"].as_str().is_some_and(|words| words.contains("Not executed")), "{said}");
    let said = client.ask("tools/call", json!({"name": "no_such", "arguments": {}}));
    assert_eq!(said["error"]["code"], -32_602, "{said}");
    assert_eq!(notes(folder.path()), ["a.note"]);
    let received = received(folder.path());
    assert!(
        !received.iter().any(|what| what.starts_with("tools/call") || what == "notes/purge" || what == "write_note"),
        "{received:?}"
    );
    assert!(client.leave());
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_server_is_restarted_and_its_open_call_fails() {
    let folder = folder();
    let umbra = Umbra::with().settings(&settings(folder.path(), false, "")).go().await;
    let mut client = Client::start(&umbra, &[], &SERVE, false);
    let died = client.call("get_last_words", &json!({}));
    assert_eq!(died["isError"], true, "{died}");
    assert!(text(&died).contains("ended during the call"), "{died}");
    assert_eq!(text(&client.call("read_note", &json!({"name": "a"}))), "hello", "it is there again");
    let huge = client.call("get_huge_note", &json!({}));
    assert_eq!(huge["isError"], true);
    assert!(text(&huge).contains("65536 bytes"), "{huge}");
    assert_eq!(text(&client.call("read_note", &json!({"name": "a"}))), "hello", "and goes on");
    assert!(client.leave());
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_and_cancel_are_forwarded_and_silence_times_out() {
    let folder = folder();
    let umbra = Umbra::with().settings(&settings(folder.path(), false, "  call_timeout: 2s\n")).go().await;
    let mut client = Client::start(&umbra, &[], &SERVE, false);
    let asked = json!({"name": "get_progress", "arguments": {}, "_meta": {"progressToken": "mine"}});
    assert_eq!(text(&client.ask("tools/call", asked)["result"]), "done");
    for step in [1, 2] {
        let said = client.hear("notifications/progress");
        assert_eq!(
            (&said["params"]["progressToken"], said["params"]["progress"].as_f64()),
            (&json!("mine"), Some(f64::from(step)))
        );
    }
    let slow = client.send("tools/call", json!({"name": "slow", "arguments": {}}));
    until("the call to arrive", async || received(folder.path()).contains(&"slow".to_owned()).then_some(())).await;
    client.tell("notifications/cancelled", &json!({"requestId": slow}));
    let cancelled = "notifications/cancelled".to_owned();
    until("the server to hear of it", async || received(folder.path()).contains(&cancelled).then_some(())).await;
    let late = client.call("slow", &json!({}));
    assert_eq!(late["isError"], true);
    assert!(text(&late).contains("did not answer within 2 s"), "{late}");
    assert!(!client.aside.iter().any(|said| said["id"] == slow), "a cancelled request has no answer");
    assert!(client.leave());
}
