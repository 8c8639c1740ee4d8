/** Adapter of the OpenAI Agents SDK (`@openai/agents`): `tools: guard(umbra, tools)`. */

import { type AdapterOptions, APPROVAL_OPTIONS, type ApprovalOptions, CallGuard, type ModelCall } from "./adapter.js";
import { Blocked, StubFault } from "./errors.js";
import { isRecord } from "./transport.js";
import type { Umbra } from "./umbra.js";

export type { AdapterOptions, ApprovalOptions } from "./adapter.js";

/** Parts of a function tool of the Agents SDK that are used here. */
interface FunctionTool {
  type: "function";
  name: string;
  description?: string;
  outputSchema?: unknown;
  invoke: (runContext: unknown, input: string, details?: CallDetails) => Promise<unknown>;
  needsApproval: (runContext: unknown, input: object, callId?: string) => Promise<boolean>;
}

interface CallDetails {
  toolCall?: { callId?: string };
  signal?: AbortSignal;
}

/** Beginning of the text that the SDK returns in place of an error of a tool. The error itself is kept from callers. */
const FAILURE = "An error occurred while running the tool.";

/** Failure of a tool that the SDK made a text of. */
class ToolFailure extends Error {}

/**
 * Returns the tools of an agent, each function tool with the boundary around it:
 *
 *     new Agent({ name: "desk", tools: guard(umbra, tools, { effects: { get_weather: "read" } }) })
 *
 * The reason of a blocked call is the result of the tool, so the run goes on. A call that needs an approval becomes an
 * interruption of the run. What runs after `state.approve` is up to the approval in Umbra alone: unless it is approved
 * there, the result of the tool says so. Arguments that are no JSON object are an interruption too, as for every tool
 * that decides about approvals itself: once it is approved, the model is told.
 *
 * Hosted tools (`hosted_tool`) are returned unchanged, for they run at OpenAI, and tools of `mcpServers` are not among
 * `tools`. Throws {@link TypeError} for others, such as `shellTool`, `applyPatchTool` and `computerTool`: the SDK calls
 * their executors without the boundary.
 */
export function guard<T extends { type: string; name: string }>(
  umbra: Umbra,
  tools: readonly T[],
  options: AdapterOptions & ApprovalOptions = {},
): T[] {
  if (!Array.isArray(tools)) throw new TypeError("guard(umbra, tools) takes the list of an agent's tools");
  for (const tool of tools) checkKind(tool);
  const calls = new CallGuard(
    umbra,
    options,
    APPROVAL_OPTIONS,
    tools.map((tool) => tool.name),
  );
  return tools.map((tool) =>
    tool.type === "function" ? (guarded(calls, tool as unknown as FunctionTool) as unknown as T) : tool,
  );
}

function checkKind(tool: { type?: unknown; name?: unknown } | null | undefined): void {
  if (tool?.type === "function" || tool?.type === "hosted_tool") return;
  if (typeof tool?.type !== "string") throw new TypeError("a tool of the Agents SDK is made by tool({ name, ... })");
  const advice = "make it a function tool by tool({ ... }), or leave it out of guard";
  throw new TypeError(`${tool.name} (${tool.type}) is no function tool, so its calls cannot be decided: ${advice}`);
}

function guarded(calls: CallGuard, tool: FunctionTool): FunctionTool {
  const call = (given: object, id: string | undefined, signal?: AbortSignal): ModelCall => ({
    name: tool.name,
    description: tool.description,
    outputSchema: isRecord(tool.outputSchema) ? tool.outputSchema : undefined,
    arguments: given,
    id,
    signal,
  });
  return {
    ...tool,
    invoke: async (runContext, input, details) => {
      const given = argumentsOf(input);
      if (given === undefined) return `${tool.name} was not run: its arguments are no JSON object.`;
      try {
        return await calls.run(call(given, details?.toolCall?.callId, details?.signal), async () => {
          const output = await tool.invoke(runContext, input, details);
          if (typeof output === "string" && output.startsWith(FAILURE)) throw new ToolFailure(output);
          return output;
        });
      } catch (error) {
        // An error ends the run, unless the tool's own error function made a text of it.
        const isTold = error instanceof Blocked || error instanceof StubFault || error instanceof ToolFailure;
        if (isTold) return error.message;
        throw error;
      }
    },
    needsApproval: (runContext, input, callId) =>
      calls.needsApproval(call(input ?? {}, callId), () => tool.needsApproval(runContext, input, callId)),
  };
}

function argumentsOf(input: string): Record<string, unknown> | undefined {
  try {
    const given: unknown = JSON.parse(input || "{}");
    return isRecord(given) ? given : undefined;
  } catch {
    return undefined;
  }
}
