//! Failing servers: each call has an answer that says what happened, and the next one finds a server again.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    SERVE, SHADOW,
    client::{Client, text},
    folder,
    scripted::{notes, received},
    settings,
};
use crate::support::{Umbra, until};

/// Returns the text of a failed result.
fn failure(result: &Value) -> String {
    assert_eq!(result["isError"], true, "{result}");
    text(result)
}

#[tokio::test(flavor = "multi_thread")]
async fn misbehaving_server_output_still_gives_each_call_an_answer() {
    let folder = folder();
    let umbra = Umbra::with().settings(&settings(folder.path(), false, "  call_timeout: 20s\n")).go().await;
    let mut client = Client::start(&umbra, &[], &SERVE, false);
    let began = Instant::now();
    for tool in ["get_garbage", "get_nonsense"] {
        assert!(failure(&client.call(tool, &json!({}))).contains("not a result of this request"), "{tool}");
    }
    let huge = failure(&client.call("get_huge_note", &json!({"name": "50000000"})));
    assert!(huge.contains("more than 65536 bytes"), "{huge}");
    let asked = client.call("get_asked", &json!({}));
    assert!(text(&asked).contains("sampling is not available"), "{asked}");
    let asked = json!({"name": "get_storm", "arguments": {}, "_meta": {"progressToken": 7}});
    assert_eq!(text(&client.ask("tools/call", asked)["result"]), "calm");
    assert!(began.elapsed() < Duration::from_secs(20), "one of them waited for the time to be over");
    let told = |method: &str| client.aside.iter().filter(|said| said["method"] == method).count();
    assert!((1..=3_000).contains(&told("notifications/progress")), "{}", told("notifications/progress"));
    assert!(told("notifications/tools/list_changed") < 200, "{}", told("notifications/tools/list_changed"));
    assert_eq!(text(&client.call("read_note", &json!({"name": "a"}))), "hello", "and it goes on");
    client.hear("notifications/tools/list_changed");
    assert!(client.leave());
}

#[tokio::test(flavor = "multi_thread")]
async fn unresponsive_server_is_abandoned_in_time_and_restarted() {
    let folder = folder();
    let times = "  call_timeout: 1s\n  start_timeout: 2s\n";
    let settings = settings(folder.path(), false, times) + "boundary: {max_arguments_bytes: 1MiB}\n";
    let umbra = Umbra::with().settings(&settings).go().await;
    let mut client = Client::start(&umbra, &[], &SERVE, false);
    // More than its pipe holds, and then too little to be noticed by that.
    for (bytes, times) in [(300_000, 1), (3, 2)] {
        assert!(failure(&client.call("get_deaf", &json!({}))).contains("did not answer within 1 s"));
        for _ in 0..times {
            failure(&client.call("read_note", &json!({"name": "x".repeat(bytes)})));
        }
        until("it to be started again", async || {
            (text(&client.call("read_note", &json!({"name": "a"}))) == "hello").then_some(())
        })
        .await;
    }
    // A server that never completes the handshake.
    std::fs::write(folder.path().join("mute"), "").expect("a file");
    failure(&client.call("get_last_words", &json!({})));
    let began = Instant::now();
    let away = until("it to be found away", async || {
        let words = text(&client.call("read_note", &json!({"name": "a"})));
        words.contains("did not answer in time").then_some(words)
    })
    .await;
    assert!(away.contains("`files` is not available") && began.elapsed() < Duration::from_secs(15), "{away}");
    std::fs::remove_file(folder.path().join("mute")).expect("it was there");
    until("it to be back", async || (text(&client.call("read_note", &json!({"name": "a"}))) == "hello").then_some(()))
        .await;
    assert!(client.leave());
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_that_changes_from_read_to_write_is_blocked_in_shadow() {
    for modern in [false, true] {
        let folder = folder();
        let mut settings = settings(folder.path(), modern, "");
        settings += "          trusted: true\n";
        let umbra = Umbra::with().settings(&settings).go().await;
        let mut client = Client::start(&umbra, &[SHADOW], &SERVE, modern);
        assert_eq!(text(&client.call("read_note", &json!({"name": "a"}))), "hello", "modern: {modern}");
        assert_eq!(text(&client.call("get_turned", &json!({}))), "turned", "modern: {modern}");
        let refused = failure(&client.call("read_note", &json!({"name": "a"})));
        assert!(refused.contains("no_contract"), "modern: {modern}: {refused}");
        assert_eq!(notes(folder.path()), ["a.note"], "modern: {modern}");
        assert!(client.leave());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unavailable_boundary_lets_only_reads_run() {
    let folder = folder();
    let settings = settings(folder.path(), false, "") + "boundary: {deadline: 300ms}\n";
    let umbra = Umbra::with().settings(&settings).go().await;
    let mut client = Client::start(&umbra, &[], &SERVE, true);
    assert_eq!(text(&client.call("write_note", &json!({"name": "b"}))), "written");
    let mut blocker = umbra.schema.connect().await;
    sqlx::raw_sql("BEGIN; LOCK TABLE audit").execute(&mut blocker).await.expect("a lock");
    let read = client.call("read_note", &json!({"name": "a"}));
    assert_eq!(text(&read), "hello");
    assert!(read["_meta"]["dev.umbra/decision"]["warning"].is_string(), "{read}");
    let refused = failure(&client.call("write_note", &json!({"name": "c"})));
    assert!(["deadline", "unavailable"].iter().any(|reason| refused.contains(reason)), "{refused}");
    let unknown = client.ask("notes/purge", json!({}));
    assert!(unknown["error"]["message"].as_str().is_some_and(|words| words.contains("Not executed")), "{unknown}");
    assert_eq!(unknown["error"]["code"], -32601, "to a client it is a method that is not there: {unknown}");
    assert_eq!(notes(folder.path()), ["a.note", "b.note"]);
    let writes = received(folder.path()).into_iter().filter(|what| what == "write_note").count();
    assert_eq!(writes, 1, "the one of before");
    sqlx::raw_sql("ROLLBACK").execute(&mut blocker).await.expect("the lock goes");
    assert!(client.leave());
}

#[tokio::test(flavor = "multi_thread")]
async fn url_upstream_behaves_like_a_command_upstream() {
    let folder = folder();
    let mut far = Umbra::with().settings(&settings(folder.path(), false, "")).go().await;
    let upstream = format!("url: {}/mcp/notes", far.base);
    let near = format!(
        "mcp:\n  call_timeout: 3s\n  max_result_bytes: 32KiB\n  profiles:\n    notes:\n      agent: near\n      upstreams:\n        far:\n          {upstream}\n"
    );
    let umbra = Umbra::with().settings(&near).go().await;
    for modern in [false, true] {
        let mut client = Client::start(&umbra, &[], &SERVE, modern);
        assert_eq!(text(&client.call("read_note", &json!({"name": "a"}))), "hello", "modern: {modern}");
        assert_eq!(text(&client.call("write_note", &json!({"name": "b"}))), "written", "modern: {modern}");
        let asked = json!({"name": "get_progress", "arguments": {}, "_meta": {"progressToken": "mine"}});
        assert_eq!(text(&client.ask("tools/call", asked)["result"]), "done", "modern: {modern}");
        assert_eq!(client.hear("notifications/progress")["params"]["progress"].as_f64(), Some(1.0), "modern: {modern}");
        let huge = failure(&client.call("get_huge_note", &json!({"name": "50000"})));
        assert!(huge.contains("32768 bytes"), "modern: {modern}: {huge}");
        let asked = client.call("get_asked", &json!({}));
        assert!(text(&asked).contains("sampling is not available"), "modern: {modern}: {asked}");
        let before = received(folder.path()).len();
        let slow = failure(&client.call("slow", &json!({})));
        assert!(slow.contains("did not answer within 3 s"), "modern: {modern}: {slow}");
        until("the server behind to hear that it is over", async || {
            received(folder.path())[before..].contains(&"notifications/cancelled".to_owned()).then_some(())
        })
        .await;
        assert_eq!(text(&client.call("read_note", &json!({"name": "a"}))), "hello", "modern: {modern}");
        assert!(client.leave(), "modern: {modern}");
    }
    let mut client = Client::start(&umbra, &[SHADOW], &SERVE, true);
    assert!(failure(&client.call("write_note", &json!({"name": "c"}))).contains("no_contract"));
    assert_eq!(notes(folder.path()), ["a.note", "b.note"]);
    far.unchecked();
    far.kill();
    let gone = failure(&client.call("read_note", &json!({"name": "a"})));
    assert!(gone.contains("`far`"), "{gone}");
    assert!(client.leave());
}
