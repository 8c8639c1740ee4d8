//! Misbehaving clients: every message is answered, and none is a way around the boundary.

use nix::{sys::signal::kill, unistd::Pid};
use serde_json::json;

use super::{
    SERVE, SHADOW,
    client::{Client, text},
    folder,
    scripted::{notes, received},
    settings,
};
use crate::support::{Umbra, until};

#[tokio::test(flavor = "multi_thread")]
async fn malformed_requests_are_refused_with_a_reason() {
    let folder = folder();
    let umbra = Umbra::with().settings(&settings(folder.path(), false, "")).go().await;
    let mut client = Client::start(&umbra, &[], &SERVE, false);
    client.write("{\"jsonrpc\": \"2.0\", \"id\":");
    assert_eq!(client.complaint()["code"], -32_700);
    let write = json!({"name": "write_note", "arguments": {"name": "b"}});
    let one = json!({"jsonrpc": "2.0", "id": 90, "method": "tools/call", "params": write});
    client.write(&json!([one]).to_string());
    let batch = client.complaint();
    assert!(batch["message"].as_str().is_some_and(|words| words.contains("batches")), "{batch}");
    client.write(&json!({"jsonrpc": "1.0", "id": 91, "method": "tools/call", "params": write}).to_string());
    assert!(client.answer(91)["error"].is_object());
    // Without an id its outcome could not be answered.
    client.write(&json!({"jsonrpc": "2.0", "method": "tools/call", "params": write}).to_string());
    let much = "x".repeat(17 * 1024 * 1024);
    let huge = json!({"jsonrpc": "2.0", "id": "huge", "method": "tools/call", "params": {"name": much}});
    client.write(&huge.to_string());
    let huge = client.until(&json!("huge"));
    assert!(huge["error"]["message"].as_str().is_some_and(|words| words.contains("16 MiB")), "{huge}");
    let large = client.call("read_note", &json!({"name": "x".repeat(2 * 1024 * 1024)}));
    assert!(text(&large).contains("send less"), "{large}");

    let slow = client.send("tools/call", json!({"name": "slow", "arguments": {}}));
    until("the call to arrive", async || received(folder.path()).contains(&"slow".to_owned()).then_some(())).await;
    client.write(&json!({"jsonrpc": "2.0", "id": slow, "method": "tools/call", "params": write}).to_string());
    let second = client.answer(slow);
    assert!(second["error"]["message"].as_str().is_some_and(|words| words.contains("is still running")), "{second}");
    client.tell("notifications/cancelled", &json!({"requestId": slow}));
    let cancelled = "notifications/cancelled".to_owned();
    until("the server to hear of it", async || received(folder.path()).contains(&cancelled).then_some(())).await;
    assert_eq!(text(&client.call("read_note", &json!({"name": "a"}))), "hello", "and it goes on");
    assert_eq!(notes(folder.path()), ["a.note"]);
    assert!(client.leave());
}

#[tokio::test(flavor = "multi_thread")]
async fn near_miss_tool_or_method_name_reaches_no_server_in_shadow() {
    let folder = folder();
    let umbra = Umbra::with().settings(&settings(folder.path(), false, "")).go().await;
    let mut client = Client::start(&umbra, &[SHADOW], &SERVE, false);
    client.ask("tools/list", json!({}));
    let arguments = json!({"name": "b"});
    for name in [
        "Write_Note",
        "WRITE_NOTE",
        "write_note ",
        " write_note",
        "write_note\n",
        "write\u{200b}_note",
        "ｗrite_note",
        "write_note\u{0}",
        "files.write_note",
        "files__write_note",
        "",
    ] {
        let said = client.ask("tools/call", json!({"name": name, "arguments": arguments}));
        assert_eq!(said["error"]["code"], -32_602, "{name:?}: {said}");
    }
    for method in
        ["Tools/Call", "TOOLS/CALL", "tools/call ", " tools/call", "tools/\u{200b}call", "ｔools/call", "tools/callx"]
    {
        let said = client.ask(method, json!({"name": "write_note", "arguments": arguments}));
        assert!(said["error"].is_object(), "{method:?}: {said}");
    }
    let received = received(folder.path());
    let known = ["server/discover", "initialize", "notifications/initialized", "tools/list"];
    assert!(received.iter().all(|what| known.contains(&what.as_str())), "{received:?}");
    assert!(client.leave());
}

#[tokio::test(flavor = "multi_thread")]
async fn departed_client_leaves_no_call_or_server_running() {
    let folder = folder();
    let umbra = Umbra::with().settings(&settings(folder.path(), false, "")).go().await;
    for stopped in [false, true] {
        let mut client = Client::start(&umbra, &[], &SERVE, false);
        let before = received(folder.path()).len();
        client.send("tools/call", json!({"name": "slow", "arguments": {}}));
        until("the call to arrive", async || {
            received(folder.path())[before..].contains(&"slow".to_owned()).then_some(())
        })
        .await;
        assert!(if stopped { client.stop() } else { client.leave() }, "stopped: {stopped}");
        let told = received(folder.path());
        assert!(told[before..].contains(&"notifications/cancelled".to_owned()), "stopped: {stopped}: {told:?}");
    }
    let outcomes = umbra.audit("kind=outcome").await;
    assert_eq!(outcomes.len(), 2, "{outcomes:?}");
    for pid in std::fs::read_to_string(folder.path().join("pids")).expect("servers").lines() {
        let pid = Pid::from_raw(pid.parse().expect("a pid"));
        until("the server to have ended", async || kill(pid, None).is_err().then_some(())).await;
    }
}
