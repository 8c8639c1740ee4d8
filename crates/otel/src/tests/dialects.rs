//! Dialects of frameworks and instrumentations of which there is no capture, in spans.

use serde_json::{Value, json};

use super::{
    captures::assembled,
    synthetic::{check, spans},
};

const USER: &str = r#"{"role": "user", "content": "do it"}"#;

/// Spans, and the calls that they become.
type Case = (&'static str, Value, &'static [&'static str]);

/// Asks for a tool, its span, and the answer: the calls of most cases.
const WHOLE: &[&str] = &["model m 5+2 do it >", "model m 9+3 do it > done", "ls#c1({\"path\":\"/\"}) = etc"];

fn openai_call() -> String {
    r#"{"id": "r1", "choices": [{"message": {"role": "assistant", "content": null, "tool_calls":
        [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{\"path\": \"/\"}"}}]}}]}"#
        .to_owned()
}

fn openai_history() -> String {
    format!(
        r#"{{"messages": [{USER}, {{"role": "assistant", "tool_calls":
        [{{"id": "c1", "function": {{"name": "ls", "arguments": "{{\"path\": \"/\"}}"}}}}]}},
        {{"role": "tool", "tool_call_id": "c1", "content": "etc"}}]}}"#
    )
}

fn openai_text() -> &'static str {
    r#"{"id": "r2", "choices": [{"message": {"role": "assistant", "content": "done"}}]}"#
}

fn tracing_platforms() -> Vec<Case> {
    let input = format!(r#"{{"messages": [{USER}]}}"#);
    vec![
        (
            "LangSmith",
            json!([
                {"id": 1, "name": "agent", "is": {"langsmith.span.kind": "chain", "gen_ai.operation.name": "chain",
                    "langsmith.trace.session_id": "project", "langsmith.metadata.thread_id": "t1"}},
                {"id": 2, "in": 1, "name": "ChatOpenAI", "is": {"langsmith.span.kind": "llm", "gen_ai.operation.name": "chat",
                    "gen_ai.request.model": "m", "gen_ai.prompt": input, "gen_ai.completion": openai_call(),
                    "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 2}},
                {"id": 3, "in": 1, "name": "ls", "is": {"langsmith.span.kind": "tool", "gen_ai.operation.name": "execute_tool",
                    "gen_ai.serialized.name": "ls", "gen_ai.prompt": r#"{"input": "{'path': '/'}"}"#,
                    "gen_ai.completion": r#"{"output": "etc"}"#}},
                {"id": 6, "in": 1, "name": "rm", "error": "denied", "is": {"langsmith.span.kind": "tool",
                    "gen_ai.prompt": r#"{"input": "{'path': '/'}"}"#, "gen_ai.completion": "{}"}},
                {"id": 4, "in": 1, "name": "prompt", "is": {"langsmith.span.kind": "prompt", "gen_ai.operation.name": "chat",
                    "gen_ai.prompt": input, "gen_ai.completion": "{}"}},
                {"id": 5, "in": 1, "name": "ChatOpenAI", "is": {"langsmith.span.kind": "llm", "gen_ai.operation.name": "chat",
                    "gen_ai.request.model": "m", "gen_ai.prompt": openai_history(), "gen_ai.completion": openai_text(),
                    "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 3}},
            ]),
            &[
                "model m 5+2 do it >",
                "model m 9+3 do it > done",
                "ls#c1({\"path\":\"/\"}) = etc",
                "rm#({\"path\":\"/\"}) ! denied",
            ],
        ),
        (
            "MLflow",
            json!([
                {"id": 1, "name": "run", "is": {"mlflow.spanType": "\"AGENT\"", "mlflow.spanInputs": "{\"question\": \"do it\"}"}},
                {"id": 2, "in": 1, "name": "Completions", "is": {"mlflow.spanType": "\"CHAT_MODEL\"", "mlflow.llm.model": "\"m\"",
                    "mlflow.spanInputs": input, "mlflow.spanOutputs": openai_call(),
                    "mlflow.chat.tokenUsage": r#"{"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}"#}},
                {"id": 3, "in": 1, "name": "ls", "is": {"mlflow.spanType": "\"TOOL\"",
                    "mlflow.spanInputs": r#"{"path": "/"}"#, "mlflow.spanOutputs": "\"etc\""}},
                {"id": 4, "in": 1, "name": "Completions", "is": {"mlflow.spanType": "\"CHAT_MODEL\"", "mlflow.llm.model": "\"m\"",
                    "mlflow.spanInputs": openai_history(), "mlflow.spanOutputs": openai_text(),
                    "mlflow.chat.tokenUsage": r#"{"input_tokens": 9, "output_tokens": 3}"#}},
            ]),
            WHOLE,
        ),
        (
            "Genkit",
            json!([
                {"id": 1, "name": "flow", "is": {"genkit:type": "action", "genkit:metadata:subtype": "flow"}},
                {"id": 2, "in": 1, "name": "m", "is": {"genkit:metadata:subtype": "model", "genkit:name": "m",
                    "genkit:input": r#"{"messages": [{"role": "user", "content": [{"text": "do it"}]}]}"#,
                    "genkit:output": r#"{"message": {"role": "model", "content": [{"toolRequest": {"name": "ls", "ref": "c1",
                        "input": {"path": "/"}}}]}, "usage": {"inputTokens": 5, "outputTokens": 2}}"#}},
                {"id": 3, "in": 1, "name": "ls", "is": {"genkit:metadata:subtype": "tool", "genkit:name": "ls",
                    "genkit:input": r#"{"path": "/"}"#, "genkit:output": "\"etc\""}},
            ]),
            &["model ? 5+2 do it >", "ls#c1({\"path\":\"/\"}) = etc"],
        ),
    ]
}

fn genai_conventions() -> Vec<Case> {
    let input = r#"[{"role": "user", "parts": [{"type": "text", "content": "do it"}]}]"#;
    let call = r#"[{"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "ls", "arguments": {"path": "/"}}]}]"#;
    let result = r#"[{"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "etc"}]}]"#;
    let text = r#"[{"role": "assistant", "parts": [{"type": "text", "content": "done"}], "finish_reason": "stop"}]"#;
    vec![
        (
            "Agent Framework",
            json!([
                {"id": 1, "name": "invoke_agent helper", "is": {"gen_ai.operation.name": "invoke_agent",
                    "gen_ai.agent.name": "helper", "gen_ai.response.id": "r2", "gen_ai.usage.input_tokens": 14,
                    "gen_ai.usage.output_tokens": 5, "gen_ai.input.messages": input, "gen_ai.output.messages": text}},
                {"id": 2, "in": 1, "name": "chat m", "is": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
                    "gen_ai.input.messages": input, "gen_ai.output.messages": call,
                    "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 2}},
                {"id": 3, "in": 2, "name": "execute_tool ls", "is": {"gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "ls", "gen_ai.tool.call.id": "c1", "gen_ai.tool.call.arguments": r#"{"path": "/"}"#,
                    "gen_ai.tool.call.result": "etc"}},
                {"id": 4, "in": 1, "name": "chat m", "is": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
                    "gen_ai.input.messages": result, "gen_ai.output.messages": text,
                    "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 3}},
            ]),
            WHOLE,
        ),
        (
            "Semantic Kernel for .NET",
            json!([
                {"id": 2, "name": "chat.completions m", "is": {"gen_ai.operation.name": "chat.completions",
                    "gen_ai.request.model": "m", "gen_ai.response.id": "r1",
                    "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 2},
                 "events": [
                    {"name": "gen_ai.user.message", "is": {"gen_ai.event.content": USER}},
                    {"name": "gen_ai.choice", "is": {"gen_ai.event.content": r#"{"message": {"role": "Assistant", "tool_calls":
                        [{"id": "c1", "type": "function", "function": {"name": "fs-ls", "arguments": "{\"path\": \"/\"}"}}]}}"#}}]},
                {"id": 3, "name": "execute_tool fs-ls", "is": {"gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "fs-ls"}},
            ]),
            &["model m 5+2 do it >", "fs-ls#c1({\"path\":\"/\"})"],
        ),
        (
            "AutoGen",
            json!([
                {"id": 1, "name": "create_agent helper", "is": {"gen_ai.operation.name": "create_agent", "gen_ai.agent.name": "helper"}},
                {"id": 2, "name": "invoke_agent helper", "is": {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"}},
                {"id": 3, "in": 2, "name": "execute_tool ls", "is": {"gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "ls", "gen_ai.tool.call.id": "c1"}, "error": "boom"},
            ]),
            &["ls#c1(null) ! boom"],
        ),
        (
            "OpenLIT",
            json!([
                {"id": 1, "name": "chat m", "is": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
                    "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 2, "gen_ai.usage.cost": 0.5,
                    "gen_ai.tool.name": "ls", "gen_ai.tool.call.id": "c1", "gen_ai.tool.args": r#"{"path": "/"}"#,
                    "gen_ai.prompt": "system: Be brief.\nuser: do it\nassistant: hm\n- well\ntool: etc", "gen_ai.completion": ""},
                 "events": [{"name": "gen_ai.content.completion", "is": {"gen_ai.completion": ""}}]},
                {"id": 2, "name": "chat m", "is": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
                    "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 3},
                 "events": [
                    {"name": "gen_ai.content.prompt", "is": {"gen_ai.prompt": "user: [{'role': 'user', 'content': 'do it'}]\ntool: etc"}},
                    {"name": "gen_ai.content.completion", "is": {"gen_ai.completion": "done"}}]},
            ]),
            WHOLE,
        ),
    ]
}

fn repeated_tellings() -> Vec<Case> {
    let input = r#"[{"role": "user", "parts": [{"type": "text", "content": "do it"}]}]"#;
    let call = r#"[{"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "ls", "arguments": {"path": "/"}}]}]"#;
    let result = r#"[{"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "etc"}]}]"#;
    let text = r#"[{"role": "assistant", "parts": [{"type": "text", "content": "done"}], "finish_reason": "stop"}]"#;
    vec![
        (
            "model call around an agent's loop, and a repeated sum",
            json!([
                {"id": 1, "name": "run", "is": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
                    "gen_ai.response.id": "r2", "gen_ai.usage.input_tokens": 14, "gen_ai.usage.output_tokens": 5,
                    "gen_ai.input.messages": input, "gen_ai.output.messages": text}},
                {"id": 2, "in": 1, "scope": "sdk", "name": "chat m", "is": {"gen_ai.operation.name": "chat",
                    "gen_ai.request.model": "m", "gen_ai.input.messages": input, "gen_ai.output.messages": call,
                    "gen_ai.response.id": "r1", "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 2}},
                {"id": 3, "in": 1, "scope": "sdk", "name": "chat m", "is": {"gen_ai.operation.name": "chat",
                    "gen_ai.request.model": "m", "gen_ai.input.messages": result, "gen_ai.output.messages": text,
                    "gen_ai.response.id": "r2", "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 3}},
            ]),
            &["model m 5+2 do it >", "model m 9+3 do it > done", "ls#c1({\"path\":\"/\"}) = etc"],
        ),
        (
            "instrumentations beside each other, one without ids",
            json!([
                {"id": 1, "name": "step", "at": 0, "until": 9, "is": {}},
                {"id": 2, "in": 1, "at": 1, "until": 5, "scope": "a", "name": "llm", "is": {"openinference.span.kind": "LLM",
                    "output.value": "done", "llm.token_count.prompt": 9, "llm.token_count.completion": 3}},
                {"id": 3, "in": 1, "at": 2, "until": 4, "scope": "b", "name": "chat m", "is": {"gen_ai.operation.name": "chat",
                    "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 3}},
                {"id": 4, "in": 1, "at": 6, "until": 7, "scope": "b", "name": "chat m", "is": {"gen_ai.operation.name": "chat",
                    "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 3}},
            ]),
            &["model m 9+3  > done", "model m 9+3  >"],
        ),
        (
            "attempt that failed within a call",
            json!([
                {"id": 1, "name": "chat m", "is": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
                    "gen_ai.input.messages": input, "gen_ai.output.messages": text,
                    "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 3}},
                {"id": 2, "in": 1, "scope": "sdk", "name": "chat m", "error": "429",
                    "is": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}},
                {"id": 3, "in": 1, "scope": "sdk", "name": "chat m", "is": {"gen_ai.operation.name": "chat",
                    "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 3}},
            ]),
            &["model m 9+3 do it > done"],
        ),
    ]
}

fn openinference() -> Vec<Case> {
    vec![
        (
            "CrewAI",
            json!([
                {"id": 1, "name": "Crew.kickoff", "is": {"openinference.span.kind": "CHAIN"}},
                {"id": 2, "in": 1, "name": "Task._execute_core", "is": {"openinference.span.kind": "AGENT",
                    "graph.node.id": "Researcher", "input.value": r#"{"task": "do it"}"#, "output.value": "done"}},
                {"id": 3, "in": 2, "name": "ls.run", "is": {"openinference.span.kind": "TOOL", "tool.name": "ls",
                    "tool.parameters": r#"{"type": "object", "properties": {"path": {"type": "string"}}}"#,
                    "input.value": r#"{"args": [], "kwargs": {"path": "/"}}"#, "output.value": "etc"}},
            ]),
            &["model ? do it > done", "ls#({\"path\":\"/\"}) = etc"],
        ),
        (
            "LlamaIndex",
            json!([
                {"id": 1, "name": "LLM.predict", "is": {"openinference.span.kind": "LLM", "input.value": "do it", "output.value": "done"}},
                {"id": 2, "in": 1, "name": "OpenAI.chat", "is": {"openinference.span.kind": "LLM", "llm.model_name": "m",
                    "llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "do it",
                    "llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "done",
                    "llm.token_count.prompt": 9, "llm.token_count.completion": 3}},
                {"id": 3, "name": "FunctionTool.acall", "is": {"openinference.span.kind": "TOOL", "tool.name": "ls",
                    "tool.parameters": r#"{"properties": {"path": {}}, "type": "object"}"#,
                    "input.value": r#"{"kwargs": {"path": "/"}}"#, "output.value": "etc"}},
                {"id": 4, "in": 3, "name": "FunctionTool.call", "is": {"openinference.span.kind": "TOOL", "tool.name": "ls",
                    "input.value": r#"{"kwargs": {"path": "/"}}"#, "output.value": "etc"}},
            ]),
            &["model m 9+3 do it > done", "ls#({\"path\":\"/\"}) = etc"],
        ),
        (
            "Haystack",
            json!([
                {"id": 1, "name": "Pipeline.run", "is": {"openinference.span.kind": "CHAIN"}},
                {"id": 2, "in": 1, "name": "OpenAIChatGenerator.run", "is": {"openinference.span.kind": "LLM", "llm.model_name": "m",
                    "llm.input_messages.0.message.role": "user",
                    "llm.input_messages.0.message.contents.0.message_content.text": "do it",
                    "llm.output_messages.0.message.role": "assistant",
                    "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "ls",
                    "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": r#"{"path": "/"}"#,
                    "llm.token_count.prompt": 5, "llm.token_count.completion": 2}},
            ]),
            &["model m 5+2 do it >", "ls#({\"path\":\"/\"})"],
        ),
        (
            "Claude Agent SDK: an agent without model calls",
            json!([
                {"id": 1, "name": "ClaudeAgentSDK.query", "is": {"openinference.span.kind": "AGENT", "session.id": "s1",
                    "input.value": "do it", "output.value": "done", "llm.model_name": "m",
                    "llm.token_count.prompt": 9, "llm.token_count.completion": 3}},
                {"id": 2, "in": 1, "name": "ls", "is": {"openinference.span.kind": "TOOL", "tool.name": "ls", "tool.id": "c1",
                    "input.value": r#"{"path": "/"}"#, "output.value": "etc"}},
            ]),
            &["model m 9+3 do it > done", "ls#c1({\"path\":\"/\"}) = etc"],
        ),
    ]
}

fn others() -> Vec<Case> {
    vec![
        (
            "Vercel AI, streamed",
            json!([
                {"id": 1, "name": "ai.streamText", "is": {"ai.operationId": "ai.streamText", "ai.usage.promptTokens": 14,
                    "ai.usage.completionTokens": 5, "ai.prompt": r#"{"prompt": "do it"}"#, "ai.response.text": "done"}},
                {"id": 2, "in": 1, "name": "ai.streamText.doStream", "is": {"ai.operationId": "ai.streamText.doStream",
                    "ai.model.id": "m", "ai.prompt.messages": format!("[{USER}]"),
                    "ai.response.toolCalls": r#"[{"type": "tool-call", "toolCallId": "c1", "toolName": "ls", "args": "{\"path\":\"/\"}"}]"#,
                    "ai.usage.promptTokens": 5, "ai.usage.completionTokens": 2},
                 "events": [{"name": "ai.stream.firstChunk", "is": {"ai.response.msToFirstChunk": 1.5}}]},
                {"id": 3, "in": 1, "name": "ai.toolCall", "is": {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "ls",
                    "ai.toolCall.id": "c1", "ai.toolCall.args": r#"{"path": "/"}"#, "ai.toolCall.result": "\"etc\""}},
                {"id": 4, "in": 1, "name": "ai.streamText.doStream", "is": {"ai.operationId": "ai.streamText.doStream",
                    "ai.model.id": "m", "ai.prompt.messages": format!("[{USER}]"), "ai.response.text": "done",
                    "ai.usage.inputTokens": 9, "ai.usage.outputTokens": 3}},
            ]),
            WHOLE,
        ),
        (
            "Google ADK with content in spans",
            json!([
                {"id": 1, "name": "invoke_agent helper", "is": {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"}},
                {"id": 2, "in": 1, "name": "call_llm", "is": {"gen_ai.system": "gcp.vertex.agent", "gen_ai.request.model": "m",
                    "gcp.vertex.agent.llm_request": r#"{"model": "m", "config": {}, "contents": [{"role": "user", "parts": [{"text": "do it"}]}]}"#,
                    "gcp.vertex.agent.llm_response": r#"{"content": {"role": "model", "parts": [
                        {"function_call": {"id": "adk-1", "name": "ls", "args": {"path": "/"}}}]},
                        "usage_metadata": {"prompt_token_count": 5, "candidates_token_count": 2}}"#}},
                {"id": 3, "in": 2, "name": "execute_tool ls", "is": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ls",
                    "gen_ai.tool.call.id": "adk-1", "gcp.vertex.agent.llm_request": "{}", "gcp.vertex.agent.llm_response": "{}",
                    "gcp.vertex.agent.tool_call_args": r#"{"path": "/"}"#, "gcp.vertex.agent.tool_response": r#"{"result": "etc"}"#}},
                {"id": 4, "in": 2, "name": "execute_tool (merge_nodes tools)", "is": {"gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "(merge_nodes tools)", "gen_ai.tool.call.id": "e1"}},
            ]),
            &["model m 5+2 do it >", "ls#adk-1({\"path\":\"/\"}) = {\"result\":\"etc\"}"],
        ),
        (
            "OpenLLMetry with LangChain's callbacks",
            json!([
                {"id": 1, "name": "execute_tool ls", "is": {"traceloop.span.kind": "tool", "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "ls", "gen_ai.tool.call.arguments": r#"{"input_str": "{'path': '/'}", "tags": [],
                        "metadata": {"langgraph_step": 2}, "inputs": {"path": "/"}, "kwargs": {"color": "green"}}"#,
                    "gen_ai.tool.call.result": r#"{"output": {"lc": 1, "type": "constructor", "id": ["langchain", "ToolMessage"],
                        "kwargs": {"content": "etc", "tool_call_id": "c1", "type": "tool"}}, "kwargs": {}}"#}},
            ]),
            &["ls#c1({\"path\":\"/\"}) = etc"],
        ),
        (
            "Pydantic AI before version 1",
            json!([
                {"id": 1, "name": "agent run", "is": {"agent_name": "helper", "model_name": "m", "final_result": "done",
                    "gen_ai.usage.input_tokens": 14, "gen_ai.usage.output_tokens": 5, "all_messages_events": format!("[{USER}]")}},
                {"id": 2, "in": 1, "name": "chat m", "is": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
                    "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 2, "events": r#"[
                    {"event.name": "gen_ai.user.message", "role": "user", "content": "do it"},
                    {"event.name": "gen_ai.choice", "index": 0, "message": {"role": "assistant", "tool_calls": [
                        {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": {"path": "/"}}}]}}]"#}},
                {"id": 3, "in": 1, "name": "running tool", "is": {"gen_ai.tool.name": "ls", "gen_ai.tool.call.id": "c1",
                    "tool_arguments": r#"{"path": "/"}"#, "tool_response": "etc"}},
                {"id": 4, "in": 1, "name": "chat m", "is": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
                    "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 3, "events": r#"[
                    {"event.name": "gen_ai.user.message", "role": "user", "content": "do it"},
                    {"event.name": "gen_ai.choice", "index": 0, "message": {"role": "assistant", "content": "done"}}]"#}},
            ]),
            WHOLE,
        ),
    ]
}

fn protocols_and_the_unknown() -> Vec<Case> {
    vec![
        (
            "helper of LlamaIndex that returns a request",
            json!([
                {"id": 1, "name": "OpenAI._prepare_chat_with_tools", "is": {"openinference.span.kind": "LLM", "llm.model_name": "m",
                    "input.value": r#"{"chat_history": ["do it"]}"#, "output.value": r#"{"messages": ["do it"], "tools": []}"#}},
                {"id": 2, "name": "OpenAI.astream_chat", "is": {"openinference.span.kind": "LLM", "llm.model_name": "m",
                    "input.value": r#"{"messages": [{"role": "user", "content": "do it"}]}"#, "output.value": "assistant: done",
                    "llm.token_count.prompt": 9, "llm.token_count.completion": 3}},
            ]),
            &["model m 9+3 do it > done"],
        ),
        (
            "result that is the error, and a call whose id comes with its result alone",
            json!([
                {"id": 1, "scope": "a", "name": "ls", "is": {"openinference.span.kind": "TOOL", "tool.name": "ls",
                    "input.value": r#"{"path": "/"}"#, "output.value": "denied"}},
                {"id": 2, "in": 1, "scope": "b", "name": "execute_tool ls", "error": "PermissionError: denied",
                    "is": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ls"}},
                {"id": 3, "name": "chat m", "is": {"llm.request.type": "completion", "gen_ai.request.model": "m",
                    "gen_ai.completion.0.function_call.name": "cat", "gen_ai.completion.0.function_call.arguments": r#"{"path": "/"}"#,
                    "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 2}},
                {"id": 4, "name": "chat m", "is": {"llm.request.type": "completion", "gen_ai.request.model": "m",
                    "gen_ai.input.messages": "[{'role': 'tool', 'parts': [{'type': 'text', 'content': 'etc'}], 'tool_call_id': 'c9'}]",
                    "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "done",
                    "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 3}},
            ]),
            &[
                "model m 5+2  >",
                "model m 9+3  > done",
                "ls#({\"path\":\"/\"}) ! PermissionError: denied",
                "cat#c9({\"path\":\"/\"}) = etc",
            ],
        ),
        (
            "client and server of the Model Context Protocol",
            json!([
                {"id": 1, "scope": "agent", "name": "execute_tool mcp__fs__ls", "is": {"gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "mcp__fs__ls", "gen_ai.tool.call.id": "c1", "gen_ai.tool.call.arguments": r#"{"path": "/"}"#}},
                {"id": 2, "in": 1, "scope": "mcp", "name": "tools/call ls", "is": {"mcp.method.name": "tools/call",
                    "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ls"}},
                {"id": 3, "in": 2, "scope": "server", "name": "ls.tool", "is": {"traceloop.span.kind": "tool",
                    "traceloop.entity.name": "ls", "traceloop.entity.input": r#"{"path": "/"}"#, "traceloop.entity.output": "\"etc\""}},
            ]),
            &["mcp__fs__ls#c1({\"path\":\"/\"}) = etc"],
        ),
        (
            "unknown dialect",
            json!([
                {"id": 1, "name": "think", "is": {"acme.step": "llm", "model": "m", "prompt": "do it",
                    "response": r#"{"answer": "done"}"#, "prompt_token_count": 9, "output_token_count": 3}},
                {"id": 2, "name": "act", "is": {"acme.step": "act", "tool_name": "ls", "tool_input": r#"{"path": "/"}"#,
                    "tool_result": "etc"}},
                {"id": 3, "name": "mention", "is": {"tool_name": "ls", "duration_ms": 3}},
                {"id": 4, "name": "GET", "is": {"http.method": "GET", "http.url": "http://127.0.0.1/"}},
            ]),
            &["model m 9+3 do it > {\"answer\": \"done\"}", "ls#({\"path\":\"/\"}) = etc"],
        ),
    ]
}

/// Ids that count from 0 in each answer, as small servers give them.
fn ids_that_come_back() -> Vec<Case> {
    let asks = |path: &str| {
        json!([{"role": "assistant", "parts": [
            {"type": "tool_call", "id": "functions.ls:0", "name": "ls", "arguments": {"path": path}}]}])
    };
    let told = |results: &[&str]| {
        let told = results.iter().map(|result| {
            json!({"role": "tool", "parts": [{"type": "tool_call_response", "id": "functions.ls:0", "response": result}]})
        });
        Value::Array(told.collect())
    };
    let chat = |id: u8, input: Value, output: Value| {
        json!({"id": id, "name": "chat m", "is": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
            "gen_ai.input.messages": input, "gen_ai.output.messages": output, "gen_ai.response.id": "chatcmpl-7"}})
    };
    let ls = |id: u8, path: &str, result: &str| {
        json!({"id": id, "name": "execute_tool ls", "is": {"gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "ls", "gen_ai.tool.call.id": "functions.ls:0",
            "gen_ai.tool.call.arguments": {"path": path}, "gen_ai.tool.call.result": result}})
    };
    let calls: &[&str] = &[
        "model m  >",
        "model m  >",
        "model m  > done",
        "ls#functions.ls:0({\"path\":\"/\"}) = etc",
        "ls#functions.ls:0({\"path\":\"/etc\"}) = hosts",
    ];
    vec![
        (
            "ids that come back, in spans of tools",
            json!([
                chat(1, json!([]), asks("/")),
                ls(2, "/", "etc"),
                chat(3, json!([]), asks("/etc")),
                ls(4, "/etc", "hosts"),
                chat(5, json!([]), json!("done")),
            ]),
            calls,
        ),
        (
            "answers from a cache, and a stream without content and tokens",
            json!([
                {"id": 1, "name": "chat m", "is": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
                    "gen_ai.output.messages": "hello", "gen_ai.response.id": "chatcmpl-8f3a19c2"}},
                {"id": 2, "name": "chat m", "is": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
                    "gen_ai.output.messages": "hello", "gen_ai.response.id": "chatcmpl-8f3a19c2"}},
                {"id": 3, "name": "chat m", "is": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
                    "gen_ai.response.finish_reasons": ["stop"]}},
            ]),
            &["model m  > hello", "model m  > hello", "model m  >"],
        ),
        (
            "ids that come back, in messages alone",
            json!([
                chat(1, json!([]), asks("/")),
                chat(2, told(&["etc"]), asks("/etc")),
                chat(3, told(&["etc", "hosts"]), json!("done")),
            ]),
            calls,
        ),
    ]
}

fn models_within_models() -> Vec<Case> {
    let chat = |id: u8, parent: Value, output: &str| {
        json!({"id": id, "in": parent, "name": "chat m", "is": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
            "gen_ai.output.messages": output, "gen_ai.usage.input_tokens": id, "gen_ai.usage.output_tokens": id}})
    };
    vec![
        (
            "call of a guardrail within a call",
            json!([chat(1, Value::Null, "all fine"), chat(2, json!(1), "run it")]),
            &["model m 1+1  > all fine", "model m 2+2  > run it"],
        ),
        (
            "several calls within a call with an output of its own",
            json!([chat(1, Value::Null, "all fine"), chat(2, json!(1), "run it"), chat(3, json!(1), "stop it")]),
            &["model m 1+1  > all fine", "model m 2+2  > run it", "model m 3+3  > stop it"],
        ),
        (
            "one call told twice, once in a frame",
            json!([chat(1, Value::Null, "Answer: run it"), chat(2, json!(1), "run it")]),
            &["model m 2+2  > Answer: run it"],
        ),
    ]
}

fn all_cases() -> impl Iterator<Item = Case> {
    let groups = [tracing_platforms(), genai_conventions(), repeated_tellings(), openinference()];
    groups
        .into_iter()
        .chain([others(), protocols_and_the_unknown(), ids_that_come_back(), models_within_models()])
        .flatten()
}

#[test]
fn dialects_without_a_capture_become_calls() {
    for (name, list, expected) in all_cases() {
        check(name, &[spans(&list)], expected);
    }
}

#[test]
fn conversations_are_told_from_projects_and_responses() {
    for (is, conversation) in [
        (json!({"langsmith.trace.session_id": "project", "langsmith.metadata.thread_id": "t1"}), Some("t1")),
        (json!({"langsmith.trace.session_id": "project"}), None),
        (json!({"gen_ai.conversation.id": "resp_1", "ai.telemetry.metadata.threadId": "t1"}), Some("t1")),
        (json!({"gen_ai.conversation.id": "resp_1"}), None),
        (json!({"traceloop.association.properties.chat_id": 7}), Some("7")),
        (json!({"metadata": r#"{"thread_id": "t1"}"#}), Some("t1")),
        (json!({"thread.id": 12, "mcp.session.id": "s"}), None),
    ] {
        let mut is = is;
        is["gen_ai.operation.name"] = json!("execute_tool");
        let traces = assembled(&[spans(&json!([{"id": 1, "name": "execute_tool ls", "is": is}]))]);
        assert_eq!(traces[0].calls[0].conversation.as_deref(), conversation, "{is}");
    }
}
