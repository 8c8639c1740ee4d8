//! Over HTTP: who may call, both generations, and several servers as one.

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{client::text, scripted, settings};
use crate::support::{Umbra, server::Answered};

/// The JSON-RPC message of an answer, be it JSON or a stream.
fn message(answered: &Answered) -> Value {
    assert_eq!(answered.status, 200, "{}", answered.text);
    let data = answered
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .filter_map(|data| serde_json::from_str(data).ok());
    data.filter(|message: &Value| message.get("id").is_some()).last().unwrap_or_else(|| answered.body.clone())
}

async fn post(umbra: &Umbra, path: &str, more: &[(&str, &str)], message: &Value) -> Answered {
    let mut headers = vec![("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    headers.extend(more);
    umbra.send(Method::POST, path, &headers, Some(message.to_string().into_bytes())).await
}

/// A request of 2026-07-28.
async fn modern(umbra: &Umbra, path: &str, more: &[(&str, &str)], method: &str, mut params: Value) -> Answered {
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let name = params["name"].as_str().unwrap_or_default().to_owned();
    let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    if !name.is_empty() {
        headers.push(("mcp-name", &name));
    }
    headers.extend(more);
    post(umbra, path, &headers, &json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).await
}

fn names(listed: &Value) -> Vec<String> {
    let tools = listed["result"]["tools"].as_array().into_iter().flatten();
    tools.filter_map(|tool| tool["name"].as_str().map(ToOwned::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn both_generations_are_served_and_nothing_is_written_in_shadow() {
    let folder = TempDir::new().expect("a folder");
    let umbra = Umbra::with().settings(&settings(folder.path(), false, "")).env("AGENT_SAFE_MODE", "1").go().await;
    let listed = message(&modern(&umbra, "/mcp/notes", &[], "tools/list", json!({})).await);
    assert_eq!((names(&listed).len(), &listed["result"]["cacheScope"]), (7, &json!("private")), "{listed}");
    let said =
        message(&modern(&umbra, "/mcp/notes", &[], "tools/call", json!({"name": "list_notes", "arguments": {}})).await);
    assert_eq!(said["result"]["structuredContent"], json!({"notes": []}), "{said}");
    assert_eq!(said["result"]["resultType"], "complete", "{said}");
    let write = json!({"name": "write_note", "arguments": {"name": "b"}});
    let said = message(&modern(&umbra, "/mcp/notes?agent=coder&run=r1", &[], "tools/call", write.clone()).await);
    assert_eq!(said["result"]["isError"], true, "{said}");
    // The name counts that the body says.
    let lying = [("mcp-name", "list_notes")];
    let answered = modern(&umbra, "/mcp/notes", &lying, "tools/call", write.clone()).await;
    assert!(!answered.text.contains("written"), "{}", answered.text);

    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params":
        {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}});
    let answered = post(&umbra, "/mcp/notes", &[], &hello).await;
    let session = answered.headers["mcp-session-id"].to_str().expect("a session").to_owned();
    assert_eq!(message(&answered)["result"]["protocolVersion"], "2025-11-25");
    let ours = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")];
    let done =
        post(&umbra, "/mcp/notes", &ours, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    assert_eq!(done.status, 202);
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": write});
    let said = message(&post(&umbra, "/mcp/notes", &ours, &call).await);
    assert!(text(&said["result"]).contains("no_contract"), "{said}");
    assert_eq!(said["result"].get("resultType"), None, "{said}");
    let ended = umbra.send(Method::DELETE, "/mcp/notes", &ours, None).await;
    assert!(ended.status.is_success(), "{}", ended.text);

    assert!(scripted::notes(folder.path()).is_empty());
    assert!(!scripted::received(folder.path()).contains(&"write_note".to_owned()));
    let audit = umbra.audit("").await;
    assert!(audit.iter().any(|row| row["agent"] == "coder" && row["run"] == "r1"), "{audit:?}");
    assert!(audit.iter().any(|row| row["run"] == json!(session)), "a session is a run: {audit:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_servers_are_one_and_each_key_sees_its_own() {
    let (one, other) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    let mut settings = settings(one.path(), false, "");
    let second = scripted::upstream(other.path(), true);
    settings +=
        &format!("          agents: [writer]\n        more:\n          {second}          agents: [coder, writer]\n");
    let umbra = Umbra::with().settings(&settings).go().await;
    let key = |name: &str, scope: &str, agent: &str| {
        let made = umbra.cli(&["keys", "create", "--name", name, "--scope", scope, "--agent", agent, "--json"], None);
        let made: Value = serde_json::from_slice(&made.stdout).expect("a key");
        format!("Bearer {}", made["key"].as_str().unwrap_or_default())
    };
    let (coder, writer, poster) =
        (key("c", "decide", "coder"), key("w", "decide", "writer"), key("p", "ingest", "writer"));
    crate::support::until("keys to be asked for", async || {
        (modern(&umbra, "/mcp/notes", &[], "tools/list", json!({})).await.status == 401).then_some(())
    })
    .await;
    let with = |key: &'_ String| [("authorization", key.clone())];
    for (key, path, status) in [
        (&poster, "/mcp/notes", 403),
        (&coder, "/mcp/notes", 403),
        (&coder, "/mcp/notes?agent=writer", 403),
        (&writer, "/mcp/nothing", 404),
        (&writer, "/mcp/notes?agnet=writer", 400),
    ] {
        let [(name, key)] = with(key);
        let answered = modern(&umbra, path, &[(name, &key)], "tools/list", json!({})).await;
        assert_eq!(answered.status, status, "{path}: {}", answered.text);
    }
    let [(name, key)] = with(&coder);
    let listed = message(&modern(&umbra, "/mcp/notes?agent=coder", &[(name, &key)], "tools/list", json!({})).await);
    let seen = names(&listed);
    assert!(seen.len() == 7 && seen.iter().all(|tool| tool.starts_with("more__")), "{seen:?}");
    let call = json!({"name": "files__write_note", "arguments": {"name": "b"}});
    let said = modern(&umbra, "/mcp/notes?agent=coder", &[(name, &key)], "tools/call", call.clone()).await;
    assert!(said.text.contains("no tool of this name"), "{}", said.text);
    let [(name, key)] = with(&writer);
    let listed = message(&modern(&umbra, "/mcp/notes", &[(name, &key)], "tools/list", json!({})).await);
    assert_eq!(names(&listed).len(), 14);
    let said = message(&modern(&umbra, "/mcp/notes", &[(name, &key)], "tools/call", call).await);
    assert_eq!(text(&said["result"]), "written", "{said}");
    assert_eq!((scripted::notes(one.path()).len(), scripted::notes(other.path()).len()), (1, 0));
}
