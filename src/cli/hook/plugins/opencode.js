const parents = new Map(); // A subagent has a session of its own, below that of its parent.
const texts = new Map(); // The last text of the agent in each session.

function place(session) {
  const parent = parents.get(session);
  return parent ? { session_id: parent.root, agent_id: session, agent_type: parent.agent } : { session_id: session };
}

function textOf(output) {
  if (Array.isArray(output?.content)) return output.content.map((block) => block.text ?? "").join("\n");
  return output?.output;
}

export const Umbra = async () => ({
  event: async ({ event }) => {
    const { info, part, sessionID } = event.properties ?? {};
    if (event.type === "session.created" && info) {
      if (info.parentID) parents.set(info.id, { root: place(info.parentID).session_id, agent: info.agent ?? "subagent" });
      else tell({ hook_event_name: "SessionStart", session_id: info.id });
    } else if (event.type === "message.part.updated" && part?.type === "tool" && part.state?.status === "error") {
      tell({
        ...place(part.sessionID),
        hook_event_name: "PostToolUseFailure",
        tool_name: part.tool,
        tool_use_id: part.callID,
        tool_input: part.state.input,
        error: String(part.state.error),
      });
    } else if (event.type === "session.idle" && sessionID) {
      const event_name = parents.has(sessionID) ? "SubagentStop" : "Stop";
      tell({ ...place(sessionID), hook_event_name: event_name, last_assistant_message: texts.get(sessionID) });
    }
  },
  "chat.message": async ({ sessionID }, output) => {
    if (parents.has(sessionID)) return;
    const part = output.parts.find((one) => one.type === "text");
    const prompt = { session_id: sessionID, hook_event_name: "UserPromptSubmit", prompt: part?.text };
    const answer = await within(deadline, tell(prompt));
    if (answer.context && part) {
      const id = `prt_${Date.now().toString(16)}umbra`;
      output.parts.push({ ...part, id, text: answer.context, synthetic: true });
    }
  },
  "tool.execute.before": async ({ tool, sessionID, callID }, output) => {
    const call = { hook_event_name: "PreToolUse", tool_name: tool, tool_use_id: callID, tool_input: output.args };
    const answer = await decide({ ...place(sessionID), ...call });
    if (answer.decision === "deny") throw new Error(answer.reason);
    settle(output.args, answer.input);
  },
  "tool.execute.after": async ({ tool, sessionID, callID, args }, output) => {
    const call = { hook_event_name: "PostToolUse", tool_name: tool, tool_use_id: callID, tool_input: args };
    tell({ ...place(sessionID), ...call, tool_response: textOf(output) ?? "" });
  },
  "experimental.text.complete": async ({ sessionID }, output) => {
    texts.set(sessionID, output.text);
  },
  dispose: flush,
});
