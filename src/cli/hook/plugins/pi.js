function textOf(content) {
  return (content ?? []).map((block) => block.text ?? "").join("\n");
}

export default function (pi) {
  const place = (context) => ({ session_id: context.sessionManager.getSessionId() });
  pi.on("session_start", async (_, context) => {
    tell({ ...place(context), hook_event_name: "SessionStart" });
  });
  pi.on("before_agent_start", async (event, context) => {
    const prompt = { ...place(context), hook_event_name: "UserPromptSubmit", prompt: event.prompt };
    const answer = await within(deadline, tell(prompt));
    if (answer.context) return { message: { customType: "umbra", content: answer.context, display: false } };
  });
  pi.on("tool_call", async (event, context) => {
    const call = { tool_name: event.toolName, tool_use_id: event.toolCallId, tool_input: event.input };
    const answer = await decide({ ...place(context), hook_event_name: "PreToolUse", ...call });
    if (answer.decision === "deny") return { block: true, reason: answer.reason };
    settle(event.input, answer.input);
  });
  pi.on("tool_result", async (event, context) => {
    const call = { tool_name: event.toolName, tool_use_id: event.toolCallId, tool_input: event.input };
    const text = textOf(event.content);
    const end = event.isError
      ? { hook_event_name: "PostToolUseFailure", error: text }
      : { hook_event_name: "PostToolUse", tool_response: text };
    tell({ ...place(context), ...call, ...end });
  });
  pi.on("agent_end", async (event, context) => {
    const last = event.messages.findLast((message) => message.role === "assistant");
    tell({ ...place(context), hook_event_name: "Stop", last_assistant_message: textOf(last?.content) });
  });
  pi.on("session_shutdown", async (_, context) => {
    tell({ ...place(context), hook_event_name: "SessionEnd" });
    await flush();
  });
}
