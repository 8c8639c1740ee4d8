//! Exports in any order, twice, over two servers of which one is killed: the same calls.

#![expect(clippy::expect_used, reason = "a test that meets an error fails")]

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::Executor;

use super::{ExportedBody, assembled, calls, capture, names};
use crate::support::{Schema, Umbra, until};

/// Returns the identity of each call with the number of its events: kind, texts, tool, and id.
fn identities(events: &[Value]) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for event in events {
        let (tool, otel) = (&event["tool"], &event["metadata"]["otel"]);
        let id = if otel["call_id"].is_null() { &otel["response_id"] } else { &otel["call_id"] };
        let parts =
            [&otel["kind"], &event["output"], &tool["name"], &tool["args"], &tool["result"], &tool["error"], id];
        let whole = parts.map(ToString::to_string).join(" | ");
        // Each installation has tags of its own.
        let texts: Vec<&str> = whole.split("[secret:aws_access_key:").collect();
        let untagged = texts.iter().enumerate().map(|(at, text)| if at == 0 { *text } else { &text[2..] });
        *found.entry(untagged.collect::<Vec<_>>().join("[key")).or_default() += 1;
    }
    found
}

/// Puts items into an order that depends on the seed alone.
fn shuffle<T>(items: &mut [T], mut seed: u64) {
    for last in (1..items.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        items.swap(last, usize::try_from(seed >> 33).expect("31 bits") % (last + 1));
    }
}

fn bodies() -> Vec<ExportedBody> {
    names().iter().flat_map(|name| capture(name).bodies).collect()
}

async fn in_order() -> BTreeMap<String, usize> {
    let schema = Schema::fresh().await;
    let umbra = Umbra::with().on(&schema).go().await;
    for body in bodies() {
        assert_eq!(umbra.export(&body).await.0, 200);
    }
    assembled(&schema).await;
    identities(&calls(&umbra).await)
}

#[tokio::test]
async fn order_repetition_and_a_killed_server_change_no_call() {
    let wanted = in_order().await;
    for seed in [7, 77, 777] {
        let schema = Schema::fresh().await;
        let mut first = Umbra::with().on(&schema).go().await;
        let second = Umbra::with().on(&schema).go().await;
        let mut sent = [bodies(), bodies()].concat();
        shuffle(&mut sent, seed);
        let half = sent.len() / 2;
        for (at, body) in sent.iter().enumerate() {
            if at == half {
                first.unchecked();
                first.kill();
            }
            let to = if at < half && at % 2 == 0 { &first } else { &second };
            assert_eq!(to.export(body).await.0, 200);
        }
        assembled(&schema).await;
        let found = identities(&calls(&second).await);
        let differs = |one: &BTreeMap<String, usize>, other: &BTreeMap<String, usize>| {
            let differs = one.iter().filter(|(call, count)| other.get(*call) != Some(count));
            differs.map(|(call, count)| format!("{count} x {call}")).collect::<Vec<_>>().join("\n")
        };
        assert!(
            found == wanted,
            "seed {seed}\nmissing:\n{}\nmore:\n{}",
            differs(&wanted, &found),
            differs(&found, &wanted)
        );
    }
}

#[tokio::test]
async fn trace_of_a_server_that_dies_while_it_files_it_is_filed_by_another() {
    let schema = Schema::fresh().await;
    let mut first = Umbra::with().on(&schema).go().await;
    // The server takes the trace and waits for the table in the middle of its work.
    let mut holder = schema.connect().await;
    holder.execute("BEGIN; LOCK TABLE event IN EXCLUSIVE MODE").await.expect("a lock");
    for body in &capture("pydantic-ai").bodies {
        assert_eq!(first.export(body).await.0, 200);
    }
    until("a lease", async || {
        let leased: i64 = schema.one("SELECT count(*) FROM otel_trace WHERE lease_until IS NOT NULL").await;
        (leased == 1).then_some(())
    })
    .await;
    first.unchecked();
    first.kill();
    holder.execute("ROLLBACK").await.expect("an end");
    schema.run(&format!("UPDATE {}.otel_trace SET lease_until = now() - interval '1 s'", schema.name)).await;
    let second = Umbra::with().on(&schema).go().await;
    until("the calls", async || (calls(&second).await.len() == 5).then_some(())).await;
}

/// Returns a span as the body of an export.
fn span(service: &str, trace: u8, id: u8, attributes: &[(&str, &str)]) -> Value {
    let text = |name: &str, value: &str| json!({"key": name, "value": {"stringValue": value}});
    let attributes: Vec<Value> = attributes.iter().map(|(name, value)| text(name, value)).collect();
    let span = json!({"traceId": format!("{trace:032x}"), "spanId": format!("{id:016x}"), "name": "step",
        "startTimeUnixNano": format!("17{trace:02}00000000000000{id:02}"),
        "endTimeUnixNano": format!("17{trace:02}00000000000001{id:02}"), "attributes": attributes});
    json!({"resourceSpans": [{"resource": {"attributes": [text("service.name", service)]},
        "scopeSpans": [{"spans": [span]}]}]})
}

#[tokio::test]
async fn result_in_another_trace_is_given_to_its_call_even_if_it_comes_first() {
    let schema = Schema::fresh().await;
    let umbra = Umbra::with().on(&schema).go().await;
    let asked = r#"[{"role": "assistant", "parts": [{"type": "tool_call", "id": "call_u8d1f3k9", "name": "ls",
        "arguments": {"path": "/"}}]}]"#;
    let given = r#"[{"role": "user", "parts": [{"type": "text", "content": "look"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "call_u8d1f3k9", "name": "ls", "arguments": {}}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_u8d1f3k9", "response": "etc"}]}]"#;
    let said = r#"[{"role": "assistant", "parts": [{"type": "text", "content": "one folder"}]}]"#;
    let chat = ("gen_ai.operation.name", "chat");
    let second = span("s", 2, 2, &[chat, ("gen_ai.input.messages", given), ("gen_ai.output.messages", said)]);
    let first = span("s", 1, 1, &[chat, ("gen_ai.output.messages", asked)]);
    // A history from which old results were cleared, in a turn of the same conversation.
    let later = given.replace("\"etc\"", "\"(cleared)\"");
    let third = span("s", 3, 3, &[chat, ("gen_ai.input.messages", &later), ("gen_ai.output.messages", said)]);
    for body in [second, first, third] {
        assert_eq!(umbra.post("/v1/traces", &body).await.status, 200);
        assembled(&schema).await;
    }
    let events = calls(&umbra).await;
    let tool = events.iter().find(|event| !event["tool"].is_null()).expect("a call of a tool");
    let kept: i64 = schema.one("SELECT count(*) FROM otel_result WHERE result IS NOT NULL").await;
    assert_eq!(kept, 0, "a result that its call has is not kept twice");
    assert_eq!((&tool["tool"]["name"], &tool["tool"]["result"]), (&json!("ls"), &json!("etc")), "{events:#?}");
    let asking = events.iter().filter(|event| event["metadata"]["otel"]["trace_id"] != format!("{:032x}", 2));
    assert!(asking.into_iter().all(|event| event["task_id"] == tool["task_id"]), "one task: {events:#?}");
}

#[tokio::test]
async fn what_a_later_trace_says_of_a_result_does_not_replace_it() {
    let schema = Schema::fresh().await;
    let umbra = Umbra::with().on(&schema).go().await;
    let ran = [
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "cat"),
        ("gen_ai.tool.call.id", "call_u8d1f3k9"),
        ("gen_ai.tool.call.result", "the whole text"),
    ];
    let given = json!([{"role": "assistant", "parts": [{"type": "tool_call", "id": "call_u8d1f3k9", "name": "cat", "arguments": {}}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_u8d1f3k9", "response": "(cleared)"}]}]);
    let said = json!([{"role": "assistant", "parts": [{"type": "text", "content": "done"}]}]);
    let (given, said) = (given.to_string(), said.to_string());
    let later = [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.input.messages", given.as_str()),
        ("gen_ai.output.messages", said.as_str()),
    ];
    for body in [span("s", 1, 1, &ran), span("s", 2, 2, &later)] {
        assert_eq!(umbra.post("/v1/traces", &body).await.status, 200);
        assembled(&schema).await;
    }
    let events = calls(&umbra).await;
    let tool = events.iter().find(|event| !event["tool"].is_null()).expect("a call of a tool");
    assert_eq!((events.len(), &tool["tool"]["result"]), (2, &json!("the whole text")), "{events:#?}");
}

#[tokio::test]
async fn ids_that_come_back_in_each_conversation_mix_nothing() {
    let schema = Schema::fresh().await;
    let umbra = Umbra::with().on(&schema).go().await;
    let tool =
        [("gen_ai.operation.name", "execute_tool"), ("gen_ai.tool.name", "cat"), ("gen_ai.tool.call.id", "call_0")];
    // Two conversations of one service, with two turns each; the second turns come after the first are filed.
    for turn in [1, 2] {
        for trace in [1, 2] {
            let (path, text) = (format!(r#"{{"path": "{trace}{turn}"}}"#), format!("text of {trace}{turn}"));
            let own = [("gen_ai.tool.call.arguments", path.as_str()), ("gen_ai.tool.call.result", text.as_str())];
            let body = span("s", trace, turn, &[&tool[..], &own].concat());
            assert_eq!(umbra.post("/v1/traces", &body).await.status, 200);
        }
        assembled(&schema).await;
    }
    let events = calls(&umbra).await;
    let found: BTreeMap<&str, &str> = events
        .iter()
        .map(|event| (&event["tool"]["args"]["path"], &event["tool"]["result"]))
        .map(|(path, result)| (path.as_str().expect("a path"), result.as_str().expect("a result")))
        .collect();
    let wanted = ["11", "12", "21", "22"].map(|path| (path, format!("text of {path}")));
    assert!(found.iter().map(|(path, text)| (*path, (*text).to_owned())).eq(wanted), "{found:?}");
    assert_eq!(events.len(), 4, "{events:#?}");
    assert!(events.iter().all(|event| event["task_id"] == event["metadata"]["otel"]["trace_id"]), "{events:#?}");
}

#[tokio::test]
async fn calls_that_seemed_one_become_two() {
    let schema = Schema::fresh().await;
    let umbra = Umbra::with().on(&schema).go().await;
    let tool = [("gen_ai.operation.name", "execute_tool"), ("gen_ai.tool.name", "cat")];
    let chat = |id: u8, call: &str| {
        let asked = json!([{"role": "assistant", "parts": [{"type": "tool_call", "id": call, "name": "cat", "arguments": {"n": 1}}]}]);
        span("s", 1, id, &[("gen_ai.operation.name", "chat"), ("gen_ai.output.messages", &asked.to_string())])
    };
    let ran = |id: u8, result: &str| span("s", 1, id, &[&tool[..], &[("gen_ai.tool.call.result", result)]].concat());
    // Of two equal requests the later span arrives first, and is put to the first request.
    for bodies in [[chat(1, "call_1"), ran(4, "second")], [chat(3, "call_2"), ran(2, "first")]] {
        for body in bodies {
            assert_eq!(umbra.post("/v1/traces", &body).await.status, 200);
        }
        assembled(&schema).await;
    }
    let events = calls(&umbra).await;
    let mut results: Vec<&str> = events.iter().filter_map(|event| event["tool"]["result"].as_str()).collect();
    results.sort_unstable();
    assert_eq!((events.len(), results), (4, vec!["first", "second"]), "{events:#?}");
}

#[tokio::test]
async fn sender_with_a_key_of_its_own_changes_no_call_of_another() {
    let schema = Schema::fresh().await;
    let umbra = Umbra::with().on(&schema).go().await;
    let key = |agent: &str, scope: &str| {
        let made = umbra.cli(&["keys", "create", "--name", agent, "--scope", scope, "--agent", agent, "--json"], None);
        let made: Value = serde_json::from_slice(&made.stdout).expect("a key");
        format!("Bearer {}", made["key"].as_str().expect("a key"))
    };
    let (alice, bob, reader) = (key("alice", "ingest"), key("bob", "ingest"), key("*", "read"));
    let send = async |key: &str, service: &str, arguments: &str| {
        let tool = [("gen_ai.operation.name", "execute_tool"), ("gen_ai.tool.name", "bash")];
        let body = span(service, 1, 1, &[&tool[..], &[("gen_ai.tool.call.arguments", arguments)]].concat());
        let headers = [("content-type", "application/json"), ("authorization", key)];
        umbra.send(Method::POST, "/v1/traces", &headers, Some(body.to_string().into_bytes())).await.status.as_u16()
    };
    // Until the server knows that there are keys, it takes everything as it comes.
    until("keys to be asked for", async || {
        (umbra.send(Method::GET, "/v1/status", &[], None).await.status == 401).then_some(())
    })
    .await;
    assert_eq!(send(&alice, "alice", r#"{"command": "id"}"#).await, 200);
    assert_eq!(send(&bob, "bob", r#"{"command": "ls"}"#).await, 200);
    assembled(&schema).await;
    let read = [("authorization", reader.as_str())];
    let events = umbra.send(Method::GET, "/v1/events", &read, None).await.body;
    let shown: BTreeMap<&str, &Value> = events["items"]
        .as_array()
        .expect("events")
        .iter()
        .map(|event| (event["agent"].as_str().expect("an agent"), &event["tool"]["args"]["command"]))
        .collect();
    assert_eq!(shown, BTreeMap::from([("alice", &json!("id")), ("bob", &json!("ls"))]));
}
