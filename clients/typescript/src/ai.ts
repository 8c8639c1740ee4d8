/** Adapter of the AI SDK (`ai` 6 and newer): `tools: guard(umbra, tools)`. */

import {
  type AdapterOptions,
  APPROVAL_OPTIONS,
  type ApprovalOptions,
  CallGuard,
  type ModelCall,
  outputSchema,
} from "./adapter.js";
import { checkObject } from "./checks.js";
import type { Umbra } from "./umbra.js";

export type { AdapterOptions, ApprovalOptions } from "./adapter.js";

/** Parts of a tool of the AI SDK that are used here. */
interface AiTool {
  description?: unknown;
  outputSchema?: unknown;
  execute?: (input: object, options: AiCallOptions) => unknown;
  needsApproval?: boolean | ((input: object, options: AiCallOptions) => boolean | PromiseLike<boolean>);
}

interface AiCallOptions {
  toolCallId?: string;
  abortSignal?: AbortSignal;
  messages?: readonly { content: unknown }[];
}

interface MessagePart {
  type?: string;
  approvalId?: string;
  toolCallId?: string;
}

/**
 * Returns the tools of the AI SDK, each with the boundary around its `execute`:
 *
 *     generateText({ model, prompt, tools: guard(umbra, tools, { effects: { get_weather: "read" } }) })
 *
 * A blocked call becomes a tool error with the reason, which the model reads. A call that needs an approval becomes a
 * `tool-approval-request`. What runs after the response to it is up to the approval in Umbra alone: unless it is
 * approved there, the call becomes a tool error. Tools without `execute`, such as those that the provider executes,
 * are returned unchanged. Of an `execute` that yields preliminary results, the last one is the result.
 */
export function guard<T extends Record<string, object>>(
  umbra: Umbra,
  tools: T,
  options: AdapterOptions<keyof T & string> & ApprovalOptions = {},
): T {
  checkObject("guard(umbra, tools)", tools, "{ get_weather }");
  const calls = new CallGuard(umbra, options, APPROVAL_OPTIONS, Object.keys(tools));
  return Object.fromEntries(Object.entries(tools).map(([name, tool]) => [name, guarded(calls, name, tool)])) as T;
}

function guarded(calls: CallGuard, name: string, tool: AiTool): AiTool {
  const { execute, needsApproval } = tool;
  if (execute === undefined) return tool;
  const schema = outputSchema(tool.outputSchema);
  const call = (input: object, options: AiCallOptions): ModelCall => ({
    name,
    description: typeof tool.description === "string" ? tool.description : undefined,
    outputSchema: schema,
    arguments: input ?? {},
    id: options.toolCallId,
    signal: options.abortSignal,
  });
  return {
    ...tool,
    execute: (input, options) => calls.run(call(input, options), () => lastOf(execute.call(tool, input, options))),
    needsApproval: async (input, options) => {
      if (isAnswered(options)) return true;
      const own = () =>
        typeof needsApproval === "function" ? needsApproval.call(tool, input, options) : needsApproval === true;
      return calls.needsApproval(call(input, options), own);
    },
  };
}

/** Returns true if the last message answers the call's request for an approval: version 6 then asks once more. */
function isAnswered({ toolCallId, messages = [] }: AiCallOptions): boolean {
  const partsOf = (content: unknown) => (Array.isArray(content) ? (content as MessagePart[]) : []);
  const answered = partsOf(messages.at(-1)?.content)
    .filter((part) => part.type === "tool-approval-response")
    .map((part) => part.approvalId);
  const isRequest = (part: MessagePart) =>
    part.type === "tool-approval-request" && part.toolCallId === toolCallId && answered.includes(part.approvalId);
  return answered.length > 0 && messages.some(({ content }) => partsOf(content).some(isRequest));
}

async function lastOf(result: unknown): Promise<unknown> {
  if (typeof result !== "object" || result === null || !(Symbol.asyncIterator in result)) return result;
  let last: unknown;
  for await (const part of result as AsyncIterable<unknown>) last = part;
  return last;
}
