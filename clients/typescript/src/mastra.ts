/** Adapter of Mastra (`@mastra/core` 1 and newer): `tools: guard(umbra, tools)`. */

import { ADAPTER_OPTIONS, type AdapterOptions, CallGuard, declineOf, outputSchema } from "./adapter.js";
import { checkObject } from "./checks.js";
import { ApprovalRequired, Blocked, StubFault } from "./errors.js";
import { isRecord } from "./transport.js";
import type { ToolAnnotations } from "./types.js";
import type { Umbra } from "./umbra.js";

export type { AdapterOptions } from "./adapter.js";

/** Parts of a tool of Mastra that are used here. */
interface MastraTool {
  id?: string;
  description?: string;
  outputSchema?: unknown;
  suspendSchema?: unknown;
  mcp?: { annotations?: ToolAnnotations };
  execute?: (input: object, context?: MastraContext) => Promise<unknown>;
}

/** Place of a call that can be suspended. */
interface Suspension {
  suspend?: (payload: ApprovalPayload) => Promise<unknown>;
  resumeData?: unknown;
  suspendPayload?: unknown;
}

interface MastraContext extends Suspension {
  agent?: Suspension & { toolCallId?: string };
  workflow?: Suspension;
  abortSignal?: AbortSignal;
}

/** Payload of the suspension of a call that needs an approval. */
export interface ApprovalPayload {
  /** Name of the tool. */
  tool: string;
  /** Arguments that the approval is for, as the tool's schema made them of those of the model. */
  arguments: object;
  /** Id of the approval in Umbra, for `umbra.approvals.approve` and `deny`. */
  approvalId: string;
  /** Expiry of the approval (RFC 3339). */
  expiresAt: string;
  /** Reason of the rule, and what to do. */
  detail: string;
}

/**
 * Returns the tools of Mastra, each with the boundary around its `execute`:
 *
 *     new Agent({ id: "desk", model, tools: guard(umbra, tools, { effects: { getWeather: "read" } }) })
 *
 * Names are those of the record, as the model has them. The result of a blocked call is `{ error: true, message }`,
 * which Mastra gives for wrong arguments too, so the run goes on. A call that needs an approval is suspended with an
 * {@link ApprovalPayload}. Resumed with `{ approved: false }`, as by `agent.declineToolCall`, it does not run. With any
 * other data it is up to the approval in Umbra alone.
 *
 * Calls of one step run one after another, as of all tools that may be suspended: Mastra resumes no others.
 */
export function guard<T extends Record<string, object>>(
  umbra: Umbra,
  tools: T,
  options: AdapterOptions<keyof T & string> = {},
): T {
  checkObject("guard(umbra, tools)", tools, "{ get_weather }");
  const calls = new CallGuard(umbra, options, ADAPTER_OPTIONS, Object.keys(tools));
  return Object.fromEntries(Object.entries(tools).map(([name, tool]) => [name, guarded(calls, name, tool)])) as T;
}

const anyJson = () => ({});
/** Schema that takes every payload. Mastra makes calls of tools with such a schema one after another. */
const ANY_PAYLOAD = {
  "~standard": {
    version: 1,
    vendor: "umbra",
    validate: (value: unknown) => ({ value }),
    jsonSchema: { input: anyJson, output: anyJson },
  },
};

function guarded(calls: CallGuard, name: string, tool: MastraTool): MastraTool {
  const { execute } = tool;
  if (execute === undefined) return tool;
  const schema = outputSchema(tool.outputSchema);
  const copy = Object.assign(Object.create(Object.getPrototypeOf(tool)) as MastraTool, tool);
  copy.suspendSchema ??= ANY_PAYLOAD;
  copy.execute = async (input, context) => {
    const place = context?.agent ?? context?.workflow ?? context;
    const approval = isApproval(place?.suspendPayload) ? place.suspendPayload : undefined;
    const data = place?.resumeData;
    const isNo = isRecord(data) && data["approved"] === false;
    const declined = approval && isNo ? declineOf(approval.tool, data) : undefined;
    const call = {
      name,
      description: tool.description,
      outputSchema: schema,
      annotations: tool.mcp?.annotations,
      // A resumed call has the arguments of the model, without the schema's defaults and conversions.
      arguments: approval?.arguments ?? input ?? {},
      signal: context?.abortSignal,
    };
    try {
      const run = () => execute.call(tool, input, approval ? notResumed(context) : context);
      return await calls.run(call, run, () => declined);
    } catch (error) {
      if (!(error instanceof Blocked || error instanceof StubFault)) throw error;
      if (error instanceof ApprovalRequired && place?.suspend !== undefined && !approval) {
        const { approvalId, expiresAt, detail } = error;
        return await place.suspend({ tool: error.tool, arguments: call.arguments, approvalId, expiresAt, detail });
      }
      return { error: true, message: (declined ?? error).message };
    }
  };
  return copy;
}

function isApproval(payload: unknown): payload is ApprovalPayload {
  return isRecord(payload) && "approvalId" in payload;
}

/** Returns the context without the data that the call was resumed with: the tool itself did not suspend. */
function notResumed(context: MastraContext | undefined): MastraContext | undefined {
  if (context === undefined) return undefined;
  const without = <S extends Suspension>(place: S): S => ({
    ...place,
    resumeData: undefined,
    suspendPayload: undefined,
  });
  const { agent, workflow } = context;
  return {
    ...without(context),
    ...(agent && { agent: without(agent) }),
    ...(workflow && { workflow: without(workflow) }),
  };
}
