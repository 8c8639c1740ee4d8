"""Agent on the OpenAI SDK, with a loop of its own; its telemetry comes from `opentelemetry-instrument` alone.

Usage: openai_agent.py. OPENAI_BASE_URL names the model server.
"""

import json

import tools
from openai import OpenAI

model = OpenAI()
messages = [
    {"role": "system", "content": tools.scenario["system"]},
    {"role": "user", "content": tools.scenario["prompt"]},
]
while True:
    answered = model.chat.completions.create(model="gpt-4.1-mini", messages=messages, tools=tools.schemas)
    message = answered.choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    if not message.tool_calls:
        break
    for call in message.tool_calls:
        try:
            result = getattr(tools, call.function.name)(**json.loads(call.function.arguments))
        except PermissionError as error:
            result = f"Error: {error}"
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
tools.report("answer")
