//! MCP over HTTP: permitted callers, both generations of the protocol, and several servers as one.

use nix::{sys::signal::kill, unistd::Pid};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{client::text, scripted, settings};
use crate::support::{Umbra, server::Answered, until};

/// Returns the JSON-RPC message of an answer, as JSON or from a stream.
pub fn message(answered: &Answered) -> Value {
    assert_eq!(answered.status, 200, "{}", answered.text);
    let mut data = answered
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .filter_map(|data| serde_json::from_str(data).ok());
    data.rfind(|message: &Value| message.get("id").is_some()).unwrap_or_else(|| answered.body.clone())
}

async fn post(umbra: &Umbra, path: &str, more: &[(&str, &str)], message: &Value) -> Answered {
    let mut headers = vec![("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    headers.extend(more);
    umbra.send(Method::POST, path, &headers, Some(message.to_string().into_bytes())).await
}

/// Sends a request of 2026-07-28.
pub async fn modern(umbra: &Umbra, path: &str, more: &[(&str, &str)], method: &str, mut params: Value) -> Answered {
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

pub fn names(listed: &Value) -> Vec<String> {
    let tools = listed["result"]["tools"].as_array().into_iter().flatten();
    tools.filter_map(|tool| tool["name"].as_str().map(ToOwned::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn both_protocol_versions_are_served_and_shadow_writes_nothing() {
    let folder = TempDir::new().expect("a folder");
    let umbra = Umbra::with().settings(&settings(folder.path(), false, "")).env("AGENT_SAFE_MODE", "1").go().await;
    let listed = message(&modern(&umbra, "/mcp/notes", &[], "tools/list", json!({})).await);
    assert_eq!(
        (names(&listed).len(), &listed["result"]["cacheScope"]),
        (scripted::TOOLS, &json!("private")),
        "{listed}"
    );
    let said =
        message(&modern(&umbra, "/mcp/notes", &[], "tools/call", json!({"name": "list_notes", "arguments": {}})).await);
    assert_eq!(said["result"]["structuredContent"], json!({"notes": []}), "{said}");
    assert_eq!(said["result"]["resultType"], "complete", "{said}");
    let write = json!({"name": "write_note", "arguments": {"name": "b"}});
    let said = message(&modern(&umbra, "/mcp/notes?agent=coder&run=r1", &[], "tools/call", write.clone()).await);
    assert_eq!(said["result"]["isError"], true, "{said}");
    // The name in the body counts.
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
async fn merged_servers_are_visible_only_to_keys_of_their_agents() {
    let (one, other) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    let mut settings = settings(one.path(), false, "");
    let second = scripted::upstream(other.path(), true);
    let both =
        ["          agents: [writer]\n        more:\n          ", &second, "          agents: [coder, writer]\n"];
    settings += &both.concat();
    let umbra = Umbra::with().settings(&settings).go().await;
    let key = |name: &str, scope: &str, agent: &str| {
        let made = umbra.cli(&["keys", "create", "--name", name, "--scope", scope, "--agent", agent, "--json"], None);
        let made: Value = serde_json::from_slice(&made.stdout).expect("a key");
        format!("Bearer {}", made["key"].as_str().unwrap_or_default())
    };
    let (coder, writer, poster) =
        (key("c", "decide", "coder"), key("w", "decide", "writer"), key("p", "ingest", "writer"));
    until("keys to be asked for", async || {
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
    assert!(seen.len() == scripted::TOOLS && seen.iter().all(|tool| tool.starts_with("more__")), "{seen:?}");
    let call = json!({"name": "files__write_note", "arguments": {"name": "b"}});
    let said = modern(&umbra, "/mcp/notes?agent=coder", &[(name, &key)], "tools/call", call.clone()).await;
    assert!(said.text.contains("tool not found"), "{}", said.text);
    let [(name, key)] = with(&writer);
    let listed = message(&modern(&umbra, "/mcp/notes", &[(name, &key)], "tools/list", json!({})).await);
    assert_eq!(names(&listed).len(), 2 * scripted::TOOLS);
    let said = message(&modern(&umbra, "/mcp/notes", &[(name, &key)], "tools/call", call).await);
    assert_eq!(text(&said["result"]), "written", "{said}");
    assert_eq!((scripted::notes(one.path()).len(), scripted::notes(other.path()).len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_messages_get_json_rpc_errors() {
    let folder = TempDir::new().expect("a folder");
    let umbra = Umbra::with().settings(&settings(folder.path(), false, "")).go().await;
    let known = session(&umbra).await;
    let headers = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    for (body, code, id) in [
        ("{", -32700, json!(null)),
        ("[]", -32600, json!(null)),
        ("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32600, json!(null)),
        ("{\"jsonrpc\":\"2.0\"}", -32600, json!(null)),
        ("{\"jsonrpc\":\"1.0\",\"id\":7,\"method\":\"ping\"}", -32600, json!(7)),
        ("{\"id\":\"a\",\"method\":\"ping\"}", -32600, json!("a")),
    ] {
        for session in [&[][..], &[("mcp-session-id", known.as_str())]] {
            let headers = [&headers[..], session].concat();
            let refused = umbra.send(Method::POST, "/mcp/notes", &headers, Some(body.as_bytes().to_vec())).await;
            assert_eq!(
                (refused.status.as_u16(), &refused.body["error"]["code"]),
                (400, &json!(code)),
                "{body}: {}",
                refused.text
            );
            assert_eq!(
                (&refused.body["jsonrpc"], &refused.body["id"]),
                (&json!("2.0"), &id),
                "{body}: {}",
                refused.text
            );
        }
    }
    let other = [("content-type", "text/plain"), ("accept", "application/json, text/event-stream")];
    let refused = umbra.send(Method::POST, "/mcp/notes", &other, Some(b"{}".to_vec())).await;
    assert_eq!(refused.status, 415, "another media type stays one: {}", refused.text);
}

/// Opens a session of before 2026-07-28.
async fn session(umbra: &Umbra) -> String {
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params":
        {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}});
    let answered = post(umbra, "/mcp/notes", &[], &hello).await;
    answered.headers["mcp-session-id"].to_str().expect("a session").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_request_with_a_used_id_is_refused() {
    let folder = TempDir::new().expect("a folder");
    let umbra = Umbra::with().settings(&settings(folder.path(), false, "  call_timeout: 3s\n")).go().await;
    let session = session(&umbra).await;
    let ours = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")];
    let call = |name: &str| json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": name}});
    let (first, second) = (call("slow"), call("write_note"));
    let first = post(&umbra, "/mcp/notes", &ours, &first);
    let other = async {
        until("the call to arrive", async || {
            scripted::received(folder.path()).contains(&"slow".to_owned()).then_some(())
        })
        .await;
        post(&umbra, "/mcp/notes", &ours, &second).await
    };
    let (first, other) = tokio::join!(first, other);
    assert!(other.status == 400 && other.text.contains("is still running"), "{} {}", other.status, other.text);
    assert_eq!(other.body["id"], 5, "{}", other.text);
    assert!(text(&message(&first)["result"]).contains("did not answer within 3 s"), "{}", first.text);
    assert!(scripted::notes(folder.path()).is_empty());
    let again = post(&umbra, "/mcp/notes", &ours, &second).await;
    assert_eq!(text(&message(&again)["result"]), "written", "the id is free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_applies_profiles_and_keeps_unchanged_servers() {
    let (one, other) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    let before = settings(one.path(), false, "");
    let umbra = Umbra::with().settings(&before).go().await;
    let listed = async |path: &str| modern(&umbra, path, &[], "tools/list", json!({})).await;
    assert_eq!(names(&message(&listed("/mcp/notes").await)).len(), scripted::TOOLS);
    assert_eq!(listed("/mcp/more").await.status, 404);
    let upstream = scripted::upstream(other.path(), true);
    let more = format!("    more:\n      upstreams:\n        files:\n          {upstream}");
    std::fs::write(umbra.file("umbra.yaml"), before.clone() + &more).expect("the settings");
    assert_eq!(umbra.post("/v1/admin/reload", &json!({})).await.status, 200);
    assert_eq!(names(&message(&listed("/mcp/more").await)).len(), scripted::TOOLS);
    assert_eq!(names(&message(&listed("/mcp/notes").await)).len(), scripted::TOOLS);
    let starts = std::fs::read_to_string(one.path().join("pids")).expect("servers").lines().count();
    assert_eq!(starts, 1, "the server whose profile is the same goes on");

    // Refused as a whole: the previous settings stay in force.
    std::fs::write(umbra.file("umbra.yaml"), before.replace("command:", "comand:")).expect("the settings");
    assert_eq!(umbra.post("/v1/admin/reload", &json!({})).await.status, 409);
    assert_eq!(listed("/mcp/more").await.status, 200);
    std::fs::write(umbra.file("umbra.yaml"), &before).expect("the settings");
    assert_eq!(umbra.post("/v1/admin/reload", &json!({})).await.status, 200);
    assert_eq!(listed("/mcp/more").await.status, 404);
    let pid = std::fs::read_to_string(other.path().join("pids")).expect("servers");
    let pid = Pid::from_raw(pid.trim().parse().expect("a pid, of the one start"));
    until("the server that nobody needs to have ended", async || kill(pid, None).is_err().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_of_a_disconnected_client_is_cancelled() {
    let folder = TempDir::new().expect("a folder");
    let umbra = Umbra::with().settings(&settings(folder.path(), false, "")).go().await;
    let call = modern(&umbra, "/mcp/notes", &[], "tools/call", json!({"name": "slow", "arguments": {}}));
    let told = async |what: &str| {
        until(what, async || scripted::received(folder.path()).iter().any(|said| said == what).then_some(())).await;
    };
    tokio::select! {
        answered = call => panic!("it never answers: {}", answered.text),
        () = told("slow") => {}
    }
    told("notifications/cancelled").await;
    let outcomes = until("the audit to be told", async || {
        Some(umbra.audit("kind=outcome").await).filter(|outcomes| !outcomes.is_empty())
    })
    .await;
    assert!(outcomes[0].to_string().contains("cancelled"), "{outcomes:?}");
}
