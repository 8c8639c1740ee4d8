//! Payloads of real agents, recorded by `umbra-bench hooks` and its like: what becomes of each session.

#![expect(clippy::expect_used, reason = "a test that meets an error fails")]

use serde_json::{Value, json};

use crate::support::Umbra;

/// Sessions: host, session, and its tools in order, each with `+` for a result, `!` for an error, `?` for neither.
#[rustfmt::skip]
const SESSIONS: [(&str, &str, &[&str]); 14] = [
    ("claude-code", "allow", &["Bash+", "Bash+", "Write+"]),
    ("claude-code", "mcp", &["shop.get_order+", "shop.fail!"]),
    ("claude-code", "agent", &["Bash+", "Agent+"]),
    ("codex", "direct-none", &["Bash+", "Bash+", "apply_patch+"]),
    ("codex", "code-none", &["Bash+", "Bash+", "apply_patch+"]),
    ("codex", "direct-mcp", &["shop.get_order+", "shop.delete_order?", "shop.get_order?"]),
    ("codex", "direct-subagent", &["spawn_agent+", "Bash+", "multi_agent_v1wait_agent+"]),
    ("gemini-cli", "allow", &["run_shell_command+", "run_shell_command+", "write_file+"]),
    ("qwen-code", "allow", &["run_shell_command+", "run_shell_command+", "write_file+"]),
    ("qwen-code", "mcp", &["shop.get_order+", "shop.fail!"]),
    ("qwen-code", "agent", &["run_shell_command+", "agent+"]),
    ("copilot", "allow", &["Bash+", "Bash+", "Write+"]),
    ("droid", "allow", &["Execute+", "Execute+", "Create+"]),
    ("cline", "allow", &["run_commands+", "run_commands+", "editor+"]),
];

/// Returns the payloads of a session, each with its event.
fn payloads(host: &str, session: &str) -> Vec<(String, Value)> {
    let path = format!("{}/tests/data/hooks/{host}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("recorded payloads");
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let of_session = rows.filter(|row| row["session"] == session);
    of_session.map(|row| (row["event"].as_str().unwrap_or_default().to_owned(), row["payload"].clone())).collect()
}

#[tokio::test]
async fn recorded_session_becomes_one_event_a_call_and_one_answer_in_order() {
    for (host, session, tools) in SESSIONS {
        let umbra = Umbra::with().go().await;
        // Each payload arrives twice, as it does where two settings files have the hook.
        let has_ids = matches!(host, "claude-code" | "codex" | "qwen-code" | "cline");
        for (event, payload) in payloads(host, session) {
            for _ in 0..if has_ids { 2 } else { 1 } {
                let path = format!("/v1/hooks/{host}?mode=observe&event={event}");
                let told = umbra.post(&path, &payload).await;
                assert_eq!(told.status, 200, "{host} {session} {event}: {}", told.text);
            }
        }
        let mut events = Vec::new();
        for item in umbra.items("/v1/events?order=asc&limit=50").await {
            let id = item["id"].as_str().unwrap_or_default();
            events.push(umbra.get(&format!("/v1/events/{id}")).await);
        }
        let called: Vec<String> = events
            .iter()
            .filter_map(|event| {
                let tool = event.get("tool").filter(|tool| tool.is_object())?;
                let end = match (tool.get("error"), tool.get("result")) {
                    (Some(_), _) => '!',
                    (None, Some(_)) => '+',
                    (None, None) => '?',
                };
                Some(format!("{}{end}", tool["name"].as_str()?))
            })
            .collect();
        assert_eq!(called, tools, "{host} {session}");
        let ids: Vec<&Value> = events.iter().map(|event| &event["task_id"]).collect();
        assert!(ids.windows(2).all(|pair| pair[0] == pair[1]), "{host} {session}: one turn, {ids:?}");
        if !matches!(host, "droid" | "cline") {
            assert!(events.iter().all(|event| event["task"] == "Add the notes file and check it."), "{host} {session}");
        }
        let ends = events.iter().filter(|event| event["triggers"][0]["name"] == "task_complete").count();
        assert_eq!(ends, 1, "{host} {session}: one end of the turn");
    }
}

#[tokio::test]
async fn damaged_call_is_denied_in_enforce_wherever_it_is_cut() {
    let umbra = Umbra::with().go().await;
    let calls = SESSIONS.into_iter().filter_map(|(host, session, _)| {
        let is_call = |event: &str| matches!(event, "PreToolUse" | "BeforeTool");
        let (event, payload) = payloads(host, session).into_iter().find(|(event, _)| is_call(event))?;
        Some((host, event, payload.to_string()))
    });
    for (host, event, text) in calls {
        let path = format!("/v1/hooks/{host}?mode=enforce&event={event}");
        for end in (0..text.len() - 1).step_by(97).filter(|end| text.is_char_boundary(*end)) {
            let header = [("content-type", "application/json")];
            let answered = umbra.send(reqwest::Method::POST, &path, &header, Some(text[..end].into())).await;
            let said = answered.body.to_string();
            let is_denied = said.contains(r#""deny""#) || said.contains(r#""cancel":true"#);
            assert!(answered.status == 200 && is_denied, "{host}, cut at {end}: {said}");
        }
    }
    assert_eq!(umbra.items("/v1/events").await, Vec::<Value>::new());
}

#[tokio::test]
async fn same_call_id_in_another_session_is_another_call() {
    let umbra = Umbra::with().go().await;
    for (session, command) in [("s1", "echo a > a"), ("s2", "echo b > b"), ("s3", "echo a > a")] {
        let call = json!({"session_id": session, "hook_event_name": "PreToolUse", "tool_name": "Bash",
            "tool_use_id": "call_0", "tool_input": {"command": command}});
        assert_eq!(umbra.post("/v1/hooks/codex?mode=enforce", &call).await.body, json!({}), "{session}");
        let mut done = call.clone();
        done["hook_event_name"] = json!("PostToolUse");
        done["tool_response"] = json!("");
        umbra.post("/v1/hooks/codex?mode=enforce", &done).await;
    }
    assert_eq!(umbra.audit("kind=outcome").await.len(), 3);
}
