//! Logs: coding agents, and instrumentations that tell of messages in logs.

use serde_json::{Value, json};

use super::{
    captures::assembled,
    synthetic::{check, logs, spans},
};

#[test]
fn logs_of_codex_become_calls() {
    let common = |name: &str, more: Value| {
        let mut is = json!({"event.name": name, "conversation.id": "s1", "model": "m", "slug": "m"});
        is.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"scope": "codex_otel", "is": is})
    };
    let list = json!([
        common("codex.conversation_starts", json!({"provider_name": "openai"})),
        common("codex.user_prompt", json!({"prompt_length": "5", "prompt": "do it"})),
        common("codex.api_request", json!({"attempt": 1, "http.response.status_code": 200})),
        common("codex.sse_event", json!({"event.kind": "response.output_item.done", "duration_ms": "3"})),
        common(
            "codex.sse_event",
            json!({"event.kind": "response.completed", "input_token_count": "5", "output_token_count": "2",
                "cached_token_count": 1, "tool_token_count": "7"}),
        ),
        common("codex.tool_decision", json!({"tool_name": "shell", "call_id": "c1", "decision": "approved"})),
        common(
            "codex.tool_result",
            json!({"tool_name": "shell", "call_id": "c1", "arguments": "{\"command\":[\"ls\"]}", "success": "true",
                "output": "etc"}),
        ),
        common(
            "codex.tool_result",
            json!({"tool_name": "shell", "call_id": "c2", "arguments": "{\"command\":[\"rm\"]}", "success": "false",
                "output": "denied"}),
        ),
        common(
            "codex.sse_event",
            json!({"event.kind": "response.completed", "input_token_count": "9", "output_token_count": "3"}),
        ),
    ]);
    let expected = [
        "model m 5+2 do it >",
        "model m 9+3 do it >",
        "shell#c1({\"command\":[\"ls\"]}) = etc",
        "shell#c2({\"command\":[\"rm\"]}) ! denied",
    ];
    check("codex", &[logs(&list)], &expected);
    // Some logs come with a trace, some without.
    let mut mixed = list.clone();
    for at in [1, 6, 7] {
        mixed[at]["in"] = json!(5);
    }
    let span = json!([{"id": 5, "name": "handle_responses", "is": {"tool_name": "shell", "call_id": "c1", "from": "output_item_done"}}]);
    check("codex with traces", &[logs(&mixed), spans(&span)], &expected);
    for call in assembled(&[logs(&list)]).iter().flat_map(|trace| &trace.calls) {
        assert_eq!(call.conversation.as_deref(), Some("s1"));
    }
    let text = list.to_string().replace("\"do it\"", "\"[REDACTED]\"");
    let withheld: Value = serde_json::from_str(&text).unwrap();
    assert!(assembled(&[logs(&withheld)])[0].calls.iter().all(|call| call.prompt.is_none()));
}

#[test]
fn logs_and_spans_of_gemini_cli_become_one_call_each() {
    let user = json!({"role": "user", "parts": [{"type": "text", "content": "do it"}]});
    let details = json!({"session.id": "s1", "event.name": "gen_ai.client.inference.operation.details",
        "gen_ai.request.model": "m", "gen_ai.response.id": "r1", "gen_ai.input.messages": json!([user]).to_string(),
        "gen_ai.output.messages": r#"[{"finish_reason": "stop", "role": "system", "parts": [
            {"type": "tool_call", "name": "ls", "id": "ls-1-abc", "arguments": "{\"path\":\"/\"}"}]}]"#,
        "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 2});
    let mut request = details.clone();
    for name in
        ["gen_ai.response.id", "gen_ai.output.messages", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"]
    {
        request.as_object_mut().unwrap().remove(name);
    }
    let in_span = |span: Value| {
        json!([
            {"in": span, "is": {"session.id": "s1", "event.name": "gemini_cli.user_prompt", "prompt": "do it", "prompt_length": 5}},
            {"in": span, "is": {"session.id": "s1", "event.name": "gemini_cli.api_request", "model": "m", "request_text": "[]"}},
            {"in": span, "is": request, "body": "GenAI operation request details from m."},
            {"in": span, "is": {"session.id": "s1", "event.name": "gemini_cli.api_response", "model": "m",
                "input_token_count": 5, "output_token_count": 2, "response_text": "", "status_code": 200}},
            {"in": span, "is": details, "body": "GenAI operation details from m. Status: 200."},
            {"in": span, "is": {"session.id": "s1", "event.name": "gemini_cli.tool_call", "function_name": "ls",
                "function_args": "{\"path\": \"/\"}", "success": false, "error": "denied", "error_type": "x"}},
        ])
    };
    let expected = ["model m 5+2 do it >", "ls#ls-1-abc({\"path\":\"/\"}) ! denied"];
    check("logs alone", &[logs(&in_span(Value::Null))], &expected);
    let traced = json!([
        {"id": 1, "name": "user_prompt", "is": {"gen_ai.operation.name": "user_prompt", "gen_ai.agent.name": "gemini-cli",
            "gen_ai.input.messages": "do it"}},
        {"id": 2, "in": 1, "scope": "cli", "name": "llm_call", "is": {"gen_ai.operation.name": "llm_call",
            "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 2,
            "gen_ai.input.messages": r#"[{"role": "user", "parts": [{"text": "do it"}]}]"#,
            "gen_ai.output.messages": r#"{"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {"path": "/"}}}]}"#}},
        {"id": 3, "in": 1, "name": "schedule_tool_calls", "is": {"gen_ai.operation.name": "schedule_tool_calls"}},
        {"id": 4, "in": 3, "scope": "cli", "name": "tool_call", "error": "denied", "is": {"gen_ai.operation.name": "tool_call",
            "gen_ai.tool.name": "ls", "gen_ai.tool.call_id": "ls-1-abc",
            "gen_ai.input.messages": r#"{"callId": "ls-1-abc", "name": "ls", "args": {"path": "/"}, "prompt_id": "p"}"#}},
    ]);
    check("logs of a parent, and spans", &[logs(&in_span(json!(1))), spans(&traced)], &expected);
    check("logs of the call's span", &[logs(&in_span(json!(2))), spans(&traced)], &expected);
}

#[test]
fn messages_in_logs_belong_to_the_span_that_they_are_of() {
    let message = |span: u64, name: &str, body: &str| json!({"in": span, "is": {"event.name": name}, "body": serde_json::from_str::<Value>(body).unwrap()});
    // Semantic Kernel for Python writes bodies as JSON; Agent Framework logs the messages of agents as well.
    let list = json!([
        message(1, "gen_ai.user.message", r#"{"role": "user", "parts": [{"type": "text", "content": "do it"}]}"#),
        {"in": 2, "is": {"event.name": "gen_ai.user.message"}, "body": r#"{"role": "user", "content": "do it"}"#},
        {"in": 2, "is": {"event.name": "gen_ai.choice"}, "body": r#"{"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": "done"}}"#},
        message(1, "gen_ai.choice", r#"{"role": "assistant", "parts": [{"type": "text", "content": "done"}]}"#),
    ]);
    let traced = json!([
        {"id": 1, "name": "invoke_agent helper", "is": {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"}},
        {"id": 2, "in": 1, "name": "chat m", "is": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
            "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 3}},
    ]);
    check("messages in logs", &[logs(&list), spans(&traced)], &["model m 9+3 do it > done"]);
    let choices = json!([
        message(2, "gen_ai.choice", r#"{"index": 0, "message": {"role": "assistant", "content": "yes"}}"#),
        message(2, "gen_ai.choice", r#"{"index": 1, "message": {"role": "assistant", "content": "no"}}"#),
    ]);
    check("choices in logs", &[logs(&choices)], &["model ?  > yes\nno"]);
}

#[test]
fn logs_that_tell_of_no_call_are_dropped() {
    let list = json!([
        {"body": "Processing order 17"},
        {"body": {"message": "hello"}},
        {"is": {"event.name": "gen_ai.evaluation.result", "gen_ai.response.id": "r1", "gen_ai.evaluation.name": "quality"}},
        {"is": {"event.name": "codex.sse_event", "event.kind": "response.created", "model": "m"}},
        {"is": {"event.name": "tool_decision", "tool_name": "ls", "tool_use_id": "c1"}},
        {"in": 1, "name": "gen_ai.user.message", "is": {"gen_ai.system": "openai"}},
    ]);
    assert_eq!(crate::normalise(&logs(&list)).records, []);
}
