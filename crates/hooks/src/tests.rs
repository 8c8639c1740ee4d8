//! Payloads of real agents, and what becomes of them when they are damaged.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

fn read(name: &str, payload: &Value) -> HookMessage {
    HookMessage::read(host(name).expect("a host"), None, payload)
}

#[test]
fn call_of_claude_code_is_read_whole() {
    let message = read(
        "claude-code",
        &json!({"session_id": "s", "prompt_id": "p", "hook_event_name": "PreToolUse", "tool_name": "mcp__shop__get_order",
            "tool_input": {"id": 1}, "tool_use_id": "toolu_1", "mcp_server": {"name": "shop"}, "agent_id": "a1",
            "agent_type": "explorer"}),
    );
    let call = message.call.expect("a call");
    assert_eq!((call.server.as_deref(), &*call.tool, call.id.as_deref()), (Some("shop"), "get_order", Some("toolu_1")));
    assert_eq!((message.kind, message.turn.as_deref()), (Some(EventKind::Call), Some("p")));
    assert_eq!(message.subagent, Some(Subagent { id: "a1".to_owned(), kind: Some("explorer".to_owned()) }));
}

#[test]
fn names_of_mcp_tools_are_split_as_each_host_writes_them() {
    let split = |name: &str, payload: Value| {
        let call = read(name, &payload).call.expect("a call");
        (call.server, call.tool)
    };
    let of = |server: &str, tool: &str| (Some(server.to_owned()), tool.to_owned());
    assert_eq!(split("codex", json!({"tool_name": "mcp__shop__get_order"})), of("shop", "get_order"));
    let gemini =
        json!({"tool_name": "mcp_shop_get_order", "mcp_context": {"server_name": "shop", "tool_name": "get_order"}});
    assert_eq!(split("gemini-cli", gemini), of("shop", "get_order"));
    // Where the server ends cannot be told, so the whole name stands for all that it may be.
    assert_eq!(split("copilot", json!({"tool_name": "shop-get_order"})), (None, "shop-get_order".to_owned()));
    assert_eq!(split("droid", json!({"tool_name": "shop___get_order"})), of("shop", "get_order"));
    assert_eq!(split("droid", json!({"tool_name": "Execute"})), (None, "Execute".to_owned()));
}

#[test]
fn exit_codes_are_found_where_hosts_write_them() {
    let code = |payload: Value| read("claude-code", &payload).exit_code;
    assert_eq!(code(json!({"error": "Exit code 2\nls: no such file"})), Some(2));
    assert_eq!(code(json!({"tool_response": "Exit code: 0\nWall time: 0 seconds"})), Some(0));
    let framed = "<untrusted_context>\nOutput: x\nExit Code: 3\nProcess Group PGID: 1\n</untrusted_context>";
    assert_eq!(code(json!({"tool_response": {"llmContent": framed}})), Some(3));
    assert_eq!(code(json!({"tool_response": "a log says:\nExit code: 7"})), None);
}

#[test]
fn message_of_the_host_is_no_prompt() {
    let prompt =
        |text: &str| read("claude-code", &json!({"hook_event_name": "UserPromptSubmit", "prompt": text})).prompt;
    assert_eq!(prompt("Fix it"), Some("Fix it".to_owned()));
    assert_eq!(prompt("<task-notification>\n<task-id>1"), None);
    assert_eq!(prompt("  "), None);
}

#[test]
fn payload_of_cursor_is_told_from_that_of_claude_code() {
    let payload = json!({"hook_event_name": "PreToolUse", "cursor_version": "2.1", "tool_name": "Bash"});
    assert_eq!(read("claude-code", &payload).shown_host, host("cursor"));
}

#[test]
fn hook_that_was_installed_for_calls_takes_an_unknown_event_for_a_call() {
    let payload = json!({"hook_event_name": "PreToolUseV2", "tool_name": "Bash"});
    let message = HookMessage::read(&HOSTS[0], Some("PreToolUse"), &payload);
    assert_eq!(message.kind, Some(EventKind::Call));
    assert_eq!(HookMessage::read(&HOSTS[0], None, &payload).kind, None);
    let stop = json!({"hook_event_name": "Stop", "tool_name": "Bash"});
    assert_eq!(HookMessage::read(&HOSTS[0], Some("PreToolUse"), &stop).kind, Some(EventKind::Call));
}

#[test]
fn arguments_that_are_no_object_are_told_from_none() {
    let readable = |input: Value| {
        let payload = json!({"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": input});
        read("claude-code", &payload).call.expect("a call").is_readable
    };
    assert!(readable(json!({})) && readable(json!(r#"{"command": "ls"}"#)));
    assert!(!readable(Value::Null) && !readable(json!(5)) && !readable(json!("x")) && !readable(json!([1])));
}

#[test]
fn prompt_and_turn_of_a_subagent_are_not_those_of_its_session() {
    let payload = json!({"hook_event_name": "UserPromptSubmit", "prompt": "Do a part", "agent_id": "a1"});
    assert_eq!(read("codex", &payload).prompt, None);
    let main = json!({"hook_event_name": "PreToolUse", "tool_name": "x", "agent_id": "a1", "parent_agent_id": null});
    assert_eq!(read("cline", &main).subagent, None);
}

#[test]
fn patch_of_codex_is_no_command() {
    let payload =
        json!({"hook_event_name": "PreToolUse", "tool_name": "apply_patch", "tool_input": {"command": "*** Begin"}});
    let call = read("codex", &payload).call.expect("a call");
    assert_eq!(call.arguments.get("patch"), Some(&json!("*** Begin")));
    assert_eq!(call.arguments.get("command"), None);
}

#[test]
fn each_host_reads_its_own_denial() {
    let denied = HookAnswer::Deny("no".to_owned());
    let said = |name: &str, event: &str| {
        denied.render(host(name).expect("a host"), &read(name, &json!({"hook_event_name": event})))
    };
    let claude = json!({"hookSpecificOutput":
        {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "no"}});
    for name in ["claude-code", "codex", "qwen-code", "copilot", "droid"] {
        assert_eq!(said(name, "PreToolUse"), claude, "{name}");
    }
    assert_eq!(said("gemini-cli", "BeforeTool"), json!({"decision": "deny", "reason": "no"}));
    assert_eq!(said("cursor", "preToolUse")["permission"], "deny");
    assert_eq!(said("cline", "PreToolUse"), json!({"cancel": true, "errorMessage": "no"}));
    assert_eq!(said("pi", "PreToolUse"), json!({"decision": "deny", "reason": "no"}));
}

#[test]
fn cline_goes_on_after_the_denial_of_a_command() {
    let call = |tool: &str| {
        json!({"hookName": "tool_call", "tool_call": {"id": "c", "name": tool, "input": {}},
        "preToolUse": {"toolName": tool}})
    };
    let said = |tool: &str| {
        HookAnswer::Deny("no".to_owned()).render(host("cline").expect("a host"), &read("cline", &call(tool)))
    };
    assert_eq!(said("run_commands"), json!({"cancel": false, "overrideInput": {}, "contextModification": "no"}));
    assert_eq!(said("shop__get_order"), json!({"cancel": true, "errorMessage": "no"}));
}

#[test]
fn long_reason_is_cut_at_a_character() {
    let denied = HookAnswer::Deny("ä".repeat(2_000)).render(&HOSTS[0], &HookMessage::default());
    let reason = denied["hookSpecificOutput"]["permissionDecisionReason"].as_str().expect("a reason");
    assert_eq!(reason.len(), answer::REASON_BYTES);
}

#[test]
fn printed_stub_is_one_quoted_word() {
    assert_eq!(answer::printing("it's $(x)"), r"printf '%s\n' 'it'\''s $(x)'");
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-z_]{1,12}", inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #[test]
    fn call_keeps_its_kind_and_is_denied_whatever_else_its_payload_holds(
        at in 0..HOSTS.len(),
        member in prop::sample::select(vec![
            "session_id", "tool_name", "tool_input", "tool_use_id", "tool_response", "error", "prompt", "mcp_server",
            "agent_id", "duration_ms", "timestamp", "cursor_version", "made_up",
        ]),
        value in json_value(),
    ) {
        let mut payload = json!({"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash",
            "tool_input": {"command": "ls"}, "tool_use_id": "c"});
        payload[member] = value;
        let message = HookMessage::read(&HOSTS[at], None, &payload);
        prop_assert_eq!(message.kind, Some(EventKind::Call));
        let denied = HookAnswer::Deny("no".to_owned()).render(&HOSTS[at], &message);
        prop_assert!(denied.as_object().is_some_and(|members| !members.is_empty()));
        prop_assert!(denied != HookAnswer::Pass.render(&HOSTS[at], &message));
    }
}
