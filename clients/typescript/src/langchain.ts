/** Adapter of LangChain (`langchain` 1 and newer): `middleware: [umbraMiddleware(umbra)]`. */

import { getConfig, interrupt, isGraphBubbleUp } from "@langchain/langgraph";
import { type AgentMiddleware, createMiddleware, ToolMessage } from "langchain";

import { ADAPTER_OPTIONS, type AdapterOptions, CallGuard, declineOf } from "./adapter.js";
import { ApprovalRequired, Blocked, StubFault } from "./errors.js";
import { isRecord } from "./transport.js";
import type { Umbra } from "./umbra.js";

export type { AdapterOptions } from "./adapter.js";

/** Value of the interrupt of a call that needs an approval. */
export interface ApprovalInterrupt {
  /** Name of the tool. */
  tool: string;
  /** Arguments that the model gave. */
  arguments: Record<string, unknown>;
  /** Id of the approval in Umbra, for `umbra.approvals.approve` and `deny`. */
  approvalId: string;
  /** Expiry of the approval (RFC 3339). */
  expiresAt: string;
  /** Reason of the rule, and what to do. */
  detail: string;
}

/** Answers that LangGraph keeps for the interrupts of a step. */
interface Scratchpad {
  resume?: unknown[];
  nullResume?: unknown;
}

/**
 * Returns middleware of `createAgent` that puts the boundary around all tools of the agent:
 *
 *     createAgent({ model, tools, middleware: [umbraMiddleware(umbra, { effects: { get_weather: "read" } })] })
 *
 * The reason of a blocked call is a tool message with the status `error`, so the run goes on. A call that needs an
 * approval interrupts the graph with an {@link ApprovalInterrupt}. Resumed with `true`, `{ approved: true }` or
 * LangChain's `{ decisions: [{ type: "approve" }] }`, it runs if it is approved in Umbra; with anything else, such as
 * `{ approved: false, reason }`, it does not run. Without a checkpointer, and for one of several calls that
 * `version: "v1"` makes at once, whose answers LangGraph could mix up, it is a tool message.
 *
 * A failure of the tool is the tool message that LangChain makes of it without middleware. Put it last, so that other
 * middleware does not change the call after the decision; only `toolRetryMiddleware` and `toolErrorMiddleware`, which
 * have to see failures, come after it.
 */
export function umbraMiddleware(umbra: Umbra, options: AdapterOptions = {}): AgentMiddleware {
  const calls = new CallGuard(umbra, options, ADAPTER_OPTIONS);
  return createMiddleware({
    name: "UmbraMiddleware",
    wrapToolCall: async (request, handler) => {
      const { name, args, id = "" } = request.toolCall;
      const { description } = (request.tool ?? {}) as { description?: unknown };
      const call = {
        name,
        description: typeof description === "string" ? description : undefined,
        arguments: args,
        signal: request.runtime.signal,
      };
      const told = (content: string) => new ToolMessage({ content, tool_call_id: id, name, status: "error" });
      // Some models give other things than the type has.
      if (!isRecord(args ?? {})) return told(`${name} was not run: its arguments are no JSON object.`);
      const mayPause = isAlone(request.state);
      let answer: object | undefined;
      let answered: unknown;
      let interruption: unknown;
      let failure: unknown;
      try {
        const run = async () => {
          try {
            answer = await handler(request);
          } catch (error) {
            // An interrupt of the tool itself is no failure.
            if (!isGraphBubbleUp(error)) throw (failure = error);
            interruption = error;
            return undefined;
          }
          return (answered = contentOf(answer));
        };
        // An interrupt within the tool would otherwise take the answer to the pause for its own.
        const declined = (approval?: ApprovalRequired) =>
          approval && mayPause && isResumed() ? pause(approval, args) : undefined;
        const result = await calls.run<unknown>(call, run, declined);
        if (interruption !== undefined) throw interruption;
        if (answer !== undefined && result === answered) return answer;
        // A stub, or a result into which rehearsed changes are merged.
        const content = typeof result === "string" ? result : (JSON.stringify(result) ?? "");
        return new ToolMessage({ content, tool_call_id: id, name });
      } catch (error) {
        if (error instanceof Blocked || error instanceof StubFault) {
          const declined = error instanceof ApprovalRequired && mayPause ? pause(error, args) : undefined;
          return told((declined ?? error).message);
        }
        // LangChain ends the run for an error that leaves middleware. Its own error is that of wrong arguments.
        if (error !== failure || call.signal?.aborted) throw error;
        const { "~brand": brand, message } = Object(error) as { "~brand"?: string; message?: string };
        return told(brand === "ToolInvocationError" && message ? message : `${error}\n Please fix your mistakes.`);
      }
    },
  });
}

// Without the call the agent would have no guard at all.
Object.defineProperty(umbraMiddleware, "wrapToolCall", {
  get: () => {
    throw new TypeError("the middleware is made by a call: middleware: [umbraMiddleware(umbra)]");
  },
});

/** Interrupts the graph, if it can be. If it goes on, returns the block of a call that was answered by a no. */
function pause(approval: ApprovalRequired, args: Record<string, unknown>): Blocked | undefined {
  const { tool, approvalId, expiresAt, detail } = approval;
  const value: ApprovalInterrupt = { tool, arguments: args, approvalId, expiresAt, detail };
  try {
    return declineOf(tool, interrupt(value));
  } catch (error) {
    if (isGraphBubbleUp(error)) throw error;
    return undefined;
  }
}

/**
 * True if no other call is made in the same task of the graph. LangGraph gives the answers to the interrupts of a task by
 * their order, and calls that are made at once have none.
 */
function isAlone(state: unknown): boolean {
  const triggers = getConfig()?.metadata?.["langgraph_triggers"];
  if (Array.isArray(triggers) && triggers.includes("__pregel_push")) return true;
  const messages: unknown = isRecord(state) ? state["messages"] : undefined;
  const last: unknown = Array.isArray(messages) ? messages.at(-1) : undefined;
  const calls = isRecord(last) ? last["tool_calls"] : undefined;
  return Array.isArray(calls) && calls.length === 1;
}

/** True if there is an answer for an interrupt of this step. */
function isResumed(): boolean {
  const { resume = [], nullResume } = (getConfig()?.configurable?.["__pregel_scratchpad"] ?? {}) as Scratchpad;
  return resume.length > 0 || nullResume !== undefined;
}

/** Returns the result of a tool, out of its message if there is one: tools return JSON as text. */
function contentOf(answer: object): unknown {
  if (!ToolMessage.isInstance(answer)) return answer;
  const { content } = answer;
  if (typeof content !== "string" || !/^\s*[[{]/.test(content)) return content;
  try {
    return JSON.parse(content);
  } catch {
    return content;
  }
}
