"""Scripted model server: the Chat Completions, Responses and generateContent APIs, whole or streamed.

Usage: model_server.py. Prints its address. The number of tool results in a request tells the step of the scenario: the
shell tool, then the file, then the answer with the planted key. A prompt that begins with "echo " is answered with its
own text, as one call without tools. Other programs start `ModelServer` with steps of their own.
"""

import json
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

scenario = json.loads((Path(__file__).parent / "scenario.json").read_text())


def content_text(content):
    """Returns the text of a message, which some clients send in parts."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or [])


def scenario_step(messages):
    """Returns the tool to call or `None`, the text, and the tokens of the call."""
    last = content_text(messages[-1].get("content")) if messages else ""
    if last.startswith("echo "):
        return None, last.removeprefix("echo "), (7, 3)
    results = sum(message.get("role") == "tool" for message in messages)
    usage = scenario["usage"][min(results, 2)]
    if results == 0:
        return scenario["shell"], "", usage
    if results == 1:
        return scenario["read"], "", usage
    return None, scenario["answer"] + "".join(scenario["key"]), usage


def chat_completion(asked, next_step):
    """Returns the answer of the Chat Completions API."""
    tool, text, (read, written) = next_step(asked["messages"])
    message = {"role": "assistant", "content": text or None}
    if tool:
        function = {"name": tool["name"], "arguments": json.dumps(tool["arguments"])}
        message["tool_calls"] = [{"id": "call_" + uuid.uuid4().hex, "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if tool else "stop"}
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    identity = {"id": "chatcmpl-" + uuid.uuid4().hex, "created": 1_790_000_000, "model": asked["model"]}
    return {**identity, "object": "chat.completion", "choices": [choice], "usage": usage}


def chat_chunks(whole):
    """Yields a completion as the chunks of a stream."""
    message, finish = whole["choices"][0]["message"], whole["choices"][0]["finish_reason"]
    deltas = [{"role": "assistant", "content": ""}]
    for at, call in enumerate(message.get("tool_calls", [])):
        arguments = call["function"]["arguments"]
        first = {**call, "index": at, "function": {**call["function"], "arguments": ""}}
        deltas.append({"tool_calls": [first]})
        for part in (arguments[:9], arguments[9:]):
            deltas.append({"tool_calls": [{"index": at, "function": {"arguments": part}}]})
    text = message["content"] or ""
    deltas += [{"content": text[start : start + 20]} for start in range(0, len(text), 20)]
    frame = {key: whole[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    for delta in deltas:
        yield {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    yield {**frame, "choices": [], "usage": whole["usage"]}


def response(asked, next_step):
    """Returns the answer of the Responses API."""
    given = asked["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    messages = [
        {"role": "tool", "content": item["output"]} if item.get("type") == "function_call_output" else item
        for item in items
    ]
    tool, text, (read, written) = next_step(messages)
    if tool:
        output = {"type": "function_call", "id": "fc_" + uuid.uuid4().hex, "call_id": "call_" + uuid.uuid4().hex}
        output |= {"name": tool["name"], "arguments": json.dumps(tool["arguments"]), "status": "completed"}
    else:
        parts = [{"type": "output_text", "text": text, "annotations": []}]
        output = {"type": "message", "id": "msg_" + uuid.uuid4().hex, "role": "assistant", "status": "completed"}
        output["content"] = parts
    usage = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    whole = {"id": "resp_" + uuid.uuid4().hex, "object": "response", "created_at": 1_790_000_000, "status": "completed"}
    whole |= {"model": asked["model"], "output": [output], "usage": usage, "error": None, "incomplete_details": None}
    whole |= {"instructions": None, "metadata": {}, "parallel_tool_calls": False, "temperature": 1.0, "top_p": 1.0}
    return {**whole, "tool_choice": "auto", "tools": asked.get("tools", [])}


def response_events(whole):
    """Yields a response as the events of a stream."""
    item = whole["output"][0]
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    events = [{"type": "response.created", "response": begun}]
    at = {"output_index": 0, "item_id": item["id"]}
    if item["type"] == "function_call":
        added = {**item, "arguments": "", "status": "in_progress"}
        events += [
            {"type": "response.output_item.added", "output_index": 0, "item": added},
            {"type": "response.function_call_arguments.delta", **at, "delta": item["arguments"]},
            {"type": "response.function_call_arguments.done", **at, "arguments": item["arguments"]},
        ]
    else:
        part, added = item["content"][0], {**item, "content": [], "status": "in_progress"}
        at["content_index"] = 0
        events += [
            {"type": "response.output_item.added", "output_index": 0, "item": added},
            {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
            {"type": "response.output_text.delta", **at, "delta": part["text"], "logprobs": []},
            {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []},
            {"type": "response.content_part.done", **at, "part": part},
        ]
    events += [{"type": "response.output_item.done", "output_index": 0, "item": item}]
    events += [{"type": "response.completed", "response": whole}]
    for number, event in enumerate(events):
        yield {**event, "sequence_number": number}


def generated_content(asked, model, next_step):
    """Returns the answer of Gemini's API."""
    parts = [part for content in asked["contents"] for part in content["parts"]]
    messages = [{"role": "tool"} if "functionResponse" in part else {"content": part.get("text")} for part in parts]
    tool, text, (read, written) = next_step(messages)
    part = {"functionCall": {"name": tool["name"], "args": tool["arguments"]}} if tool else {"text": text}
    candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
    usage = {"promptTokenCount": read, "candidatesTokenCount": written, "totalTokenCount": read + written}
    return {"responseId": uuid.uuid4().hex, "modelVersion": model, "candidates": [candidate], "usageMetadata": usage}


class Model(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        """Requests are not logged."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        next_step = self.server.next_step
        stream = asked.get("stream", False)
        if self.path.endswith("/responses"):
            whole = response(asked, next_step)
            parts = response_events(whole) if stream else None
        elif self.path.endswith("/chat/completions"):
            whole = chat_completion(asked, next_step)
            parts = chat_chunks(whole) if stream else None
        elif ":generateContent" in self.path or ":streamGenerateContent" in self.path:
            whole = generated_content(asked, self.path.rsplit("/", 1)[1].split(":")[0], next_step)
            parts = [whole] if ":streamGenerateContent" in self.path else None
        else:
            return self.answer("text/plain", b"unknown path", 404)
        if parts is None:
            return self.answer("application/json", json.dumps(whole).encode())
        lines = []
        for part in parts:
            name = f"event: {part['type']}\n" if "type" in part else ""
            lines.append(f"{name}data: {json.dumps(part)}\n\n")
        if self.path.endswith("/chat/completions"):
            lines.append("data: [DONE]\n\n")
        return self.answer("text/event-stream", "".join(lines).encode())

    def answer(self, media, body, status=200):
        self.send_response(status)
        self.send_header("content-type", media)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class ModelServer(ThreadingHTTPServer):
    """Server on a free port of this machine. `next_step` is a function of the messages, as `scenario_step` is."""

    daemon_threads = True

    def __init__(self, next_step=scenario_step):
        super().__init__(("127.0.0.1", 0), Model)
        self.next_step = next_step
        self.url = f"http://127.0.0.1:{self.server_port}"


if __name__ == "__main__":
    server = ModelServer()
    print(server.url, flush=True)
    server.serve_forever()
