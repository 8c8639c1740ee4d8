//! Shapes of chat messages, each read to the same facts.

use serde_json::{Value, json};

use crate::message::{Message, Role, messages, read_result};

/// Shows a message as `role text name#id(arguments) =id:result`.
fn shown(message: &Message) -> String {
    let mut words = vec![format!("{:?}", message.role).to_lowercase()];
    words.extend(Some(message.text.clone()).filter(|text| !text.is_empty()));
    let id = |id: &Option<String>| id.clone().unwrap_or_default();
    words.extend(message.uses.iter().map(|call| format!("{}#{}({})", call.name, id(&call.id), call.arguments)));
    words.extend(message.returns.iter().map(|given| {
        let name = given.name.clone().filter(|_| given.id.is_none()).unwrap_or_default();
        format!("{}{}{}:{}", if given.is_error { "!" } else { "=" }, id(&given.id), name, given.text)
    }));
    words.join(" ")
}

fn check(name: &str, value: &Value, role: Role, expected: &[&str]) {
    let found: Vec<String> = messages(value, role).iter().map(shown).collect();
    assert_eq!(found, expected, "{name}");
    // Most senders write JSON as a text.
    let found: Vec<String> = messages(&Value::String(value.to_string()), role).iter().map(shown).collect();
    assert_eq!(found, expected, "{name} as text");
}

fn inputs_of_providers() -> Vec<(&'static str, Value)> {
    vec![
        (
            "openai chat",
            json!({"model": "m", "messages": [
                {"role": "system", "content": ""},
                {"role": "user", "content": "do it"},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{\"path\": \"/\"}"}}]},
                {"role": "tool", "tool_call_id": "c1", "content": "etc"},
            ]}),
        ),
        (
            "openai responses",
            json!({"instructions": "Be brief.", "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "do it"}]},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
                {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "ls", "arguments": "{\"path\":\"/\"}"},
                {"type": "function_call_output", "call_id": "c1", "output": "etc"},
            ]}),
        ),
        (
            "anthropic",
            json!({"system": "Be brief.", "messages": [
                {"role": "user", "content": "do it"},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": "/"}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "etc"}]}]},
            ]}),
        ),
        (
            "bedrock converse",
            json!({"system": [{"text": "Be brief."}], "messages": [
                {"role": "user", "content": [{"text": "do it"}]},
                {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "ls", "input": {"path": "/"}}}]},
                {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "etc"}]}}]},
            ]}),
        ),
        (
            "genai conventions",
            json!([
                {"role": "user", "parts": [{"type": "text", "content": "do it"}, {"type": "blob", "content": "AAAA"}]},
                {"role": "assistant", "parts": [
                    {"type": "reasoning", "content": "hm"},
                    {"type": "tool_call", "id": "c1", "name": "ls", "arguments": {"path": "/"}}]},
                {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "etc"}]},
            ]),
        ),
    ]
}

fn inputs_of_frameworks() -> Vec<(&'static str, Value)> {
    vec![
        (
            "openinference",
            json!([
                {"message": {"role": "user", "contents": [{"message_content": {"type": "text", "text": "do it"}}]}},
                {"message": {"role": "assistant", "contents": [
                    {"message_content": {"type": "tool_use"},
                     "tool_call": {"id": "c1", "function": {"name": "ls", "arguments": "{\"path\": \"/\"}"}}}],
                    "tool_calls": [
                    {"tool_call": {"id": "c1", "function": {"name": "ls", "arguments": "{\"path\": \"/\"}"}}}]}},
                {"message": {"role": "tool", "tool_call_id": "c1", "content": "etc"}},
            ]),
        ),
        (
            "vercel ai",
            json!([
                {"role": "user", "content": [{"type": "text", "text": "do it"}]},
                {"role": "assistant", "content": [
                    {"type": "tool-call", "toolCallId": "c1", "toolName": "ls", "input": {"path": "/"}}]},
                {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "ls",
                    "output": {"type": "text", "value": "etc"}}]},
            ]),
        ),
        (
            "langchain serialised",
            json!({"messages": [[
                {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"],
                 "kwargs": {"content": "do it"}},
                {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessage"],
                 "kwargs": {"content": "", "tool_calls": [
                    {"name": "ls", "args": {"path": "/"}, "id": "c1", "type": "tool_call"}]}},
                {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "ToolMessage"],
                 "kwargs": {"content": "etc", "tool_call_id": "c1", "status": "success"}},
            ]]}),
        ),
        (
            "langchain dictionaries",
            json!([
                {"type": "human", "data": {"content": "do it", "type": "human"}},
                {"type": "ai", "data": {"content": "", "additional_kwargs": {"tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{\"path\":\"/\"}"}}]}}},
                {"type": "tool", "data": {"content": "etc", "tool_call_id": "c1"}},
            ]),
        ),
        (
            "langgraph tuples",
            json!({"messages": [["user", "do it"],
                {"type": "ai", "content": "", "tool_calls": [{"name": "ls", "args": {"path": "/"}, "id": "c1"}]},
                {"type": "tool", "content": "etc", "tool_call_id": "c1"}]}),
        ),
        (
            "strands blocks as text",
            json!([
                {"role": "user", "content": "[{\"text\": \"do it\"}]"},
                {"role": "assistant",
                 "content": "[{\"toolUse\": {\"toolUseId\": \"c1\", \"name\": \"ls\", \"input\": {\"path\": \"/\"}}}]"},
                {"role": "tool", "content": "[{\"toolResult\": {\"toolUseId\": \"c1\", \"content\": [{\"text\": \"etc\"}]}}]"},
            ]),
        ),
        (
            "model called system",
            json!([
                {"role": "user", "parts": [{"type": "text", "content": "do it"}]},
                {"role": "system", "parts": [{"type": "tool_call", "id": "c1", "name": "ls", "arguments": "{\"path\":\"/\"}"}]},
                {"role": "user", "parts": [{"type": "tool_call_response", "id": "c1", "response": "etc"}]},
            ]),
        ),
    ]
}

#[test]
fn inputs_are_read_alike() {
    let expected = ["user do it", "assistant ls#c1({\"path\":\"/\"})", "tool =c1:etc"];
    for (name, value) in inputs_of_providers().into_iter().chain(inputs_of_frameworks()) {
        check(name, &value, Role::User, &expected);
    }
}

#[test]
fn results_without_ids_keep_the_name_of_their_tool() {
    let gemini = json!({"contents": [
        {"role": "user", "parts": [{"text": "do it"}]},
        {"role": "model", "parts": [{"thought": true, "text": "hm"}, {"functionCall": {"name": "ls", "args": {"path": "/"}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {"result": "etc"}}}]},
    ], "config": {"system_instruction": "Be brief."}});
    let expected = ["user do it", "assistant ls#({\"path\":\"/\"})", "tool =ls:{\"result\":\"etc\"}"];
    check("gemini", &gemini, Role::User, &expected);
    let python =
        gemini.to_string().replace("functionCall", "function_call").replace("functionResponse", "function_response");
    check("gemini in Python", &serde_json::from_str(&python).unwrap(), Role::User, &expected);
}

#[test]
fn outputs_of_providers_are_read_alike() {
    let call = "ls#c1({\"path\":\"/\"})";
    let whole = [format!("assistant ok {call}")];
    let whole: Vec<&str> = whole.iter().map(String::as_str).collect();
    for (name, value) in [
        (
            "openai chat",
            json!({"id": "chatcmpl-1", "choices": [{"finish_reason": "tool_calls", "message": {"role": "assistant",
                "content": "ok", "tool_calls": [{"id": "c1", "function": {"name": "ls", "arguments": "{\"path\":\"/\"}"}}]}}]}),
        ),
        (
            "anthropic",
            json!({"id": "msg_1", "type": "message", "role": "assistant", "content": [
                {"type": "text", "text": "ok"}, {"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": "/"}}]}),
        ),
        (
            "gemini",
            json!({"candidates": [{"finishReason": "STOP", "content": {"role": "model", "parts": [
                {"text": "ok"}, {"functionCall": {"id": "c1", "name": "ls", "args": {"path": "/"}}}]}}]}),
        ),
        (
            "bedrock converse",
            json!({"stopReason": "tool_use", "output": {"message": {"role": "assistant", "content": [
                {"text": "ok"}, {"toolUse": {"toolUseId": "c1", "name": "ls", "input": {"path": "/"}}}]}}}),
        ),
        (
            "langchain",
            json!({"generations": [[{"text": "", "type": "ChatGeneration", "message": {"lc": 1, "type": "constructor",
                "id": ["langchain", "schema", "messages", "AIMessageChunk"], "kwargs": {"content": "ok", "tool_calls": [
                    {"name": "ls", "args": {"path": "/"}, "id": "c1", "type": "tool_call"}]}}}]], "llm_output": null}),
        ),
        (
            "ollama",
            json!({"message": {"role": "assistant", "content": "ok",
                "tool_calls": [{"id": "c1", "function": {"name": "ls", "arguments": {"path": "/"}}}]}, "done": true}),
        ),
        (
            "cohere",
            json!({"message": {"role": "assistant", "content": [{"type": "text", "text": "ok"}],
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{\"path\":\"/\"}"}}]}}),
        ),
    ] {
        check(name, &value, Role::Assistant, &whole);
    }
    let response = json!({"id": "resp_1", "object": "response", "output": [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "ls", "arguments": "{\"path\":\"/\"}"},
        {"type": "local_shell_call", "call_id": "c2", "action": {"command": ["ls"]}},
        {"type": "mcp_call", "id": "mcp_1", "name": "ask", "arguments": "{}", "output": "yes"},
    ]});
    let expected = [
        "assistant ok",
        &*format!("assistant {call}"),
        "assistant local_shell#c2({\"command\":[\"ls\"]})",
        "assistant ask#mcp_1({}) =mcp_1:yes",
    ];
    check("openai responses", &response, Role::Assistant, &expected);
}

#[test]
fn results_of_tools_are_read_in_any_wrapping() {
    for (value, id, text, is_error) in [
        (json!("etc"), None, "etc", false),
        (json!("\"etc\""), None, "etc", false),
        (json!({"a": 1}), None, "{\"a\":1}", false),
        (json!("[{\"text\": \"etc\"}]"), None, "etc", false),
        (
            json!({"blocks": [{"block_type": "text", "text": "etc"}], "tool_name": "ls", "is_error": false}),
            None,
            "etc",
            false,
        ),
        (
            json!("{\"type\": \"tool\", \"data\": {\"content\": \"etc\", \"tool_call_id\": \"c1\"}}"),
            Some("c1"),
            "etc",
            false,
        ),
        (json!({"content": "no", "tool_call_id": "c1", "type": "tool", "status": "error"}), Some("c1"), "no", true),
        (json!({"content": [{"type": "text", "text": "no"}], "isError": true}), None, "no", true),
        (
            json!({"toolResult": {"toolUseId": "c1", "content": [{"text": "etc"}], "status": "success"}}),
            Some("c1"),
            "etc",
            false,
        ),
        (
            json!({"output": {"lc": 1, "type": "constructor", "id": ["ToolMessage"],
                "kwargs": {"content": "etc", "tool_call_id": "c1"}}, "kwargs": {"name": "ls"}}),
            Some("c1"),
            "etc",
            false,
        ),
        (
            json!({"update": {"messages": [{"type": "tool", "content": "etc", "tool_call_id": "c1"}]}}),
            Some("c1"),
            "etc",
            false,
        ),
    ] {
        let found = read_result(&value);
        assert_eq!((found.id.as_deref(), &*found.text, found.is_error), (id, text, is_error), "{value}");
    }
}
