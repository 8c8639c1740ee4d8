/** Parts that the adapters of frameworks share: their options, and the way of one call of the model. */

import { describedTool, errorText, type GuardNote, guardNotes, toolName, type ToolSettings } from "./boundary.js";
import { checkFunction, checkMembers, closest } from "./checks.js";
import { currentContext, type DecidedCall, isDecided, runDecided } from "./context.js";
import { ApprovalRequired, Blocked, UmbraError, Unavailable } from "./errors.js";
import { randomId } from "./platform.js";
import type { GuardrailsWrapper, Sidecar } from "./sidecar.js";
import { isRecord } from "./transport.js";
import type { Effect } from "./types.js";
import type { Umbra } from "./umbra.js";
import { argumentsJson } from "./values.js";

/** Options of every adapter. */
export interface AdapterOptions<Name extends string = string> {
  /** Effects of tools by name. Tools that are declared `read` run while the server is away, others do not. */
  effects?: { [N in Name]?: Effect };
  /** Server of the tools, for rules about `server.name`. */
  server?: string;
  /** Session whose rules are enforced as well, and which gets a report of each call. */
  sidecar?: Sidecar;
}

/** Options of the adapters whose framework pauses for a yes or no, without room for the approval's id. */
export interface ApprovalOptions {
  /**
   * Receives each call that waits for a person: `approvalId`, and the framework's id of the call. The pause waits for
   * it. An error of it is logged as a warning, and the run pauses all the same.
   */
  onApproval?: (approval: ApprovalRequired, toolCallId: string | undefined) => void | Promise<void>;
}

/** Names of the options of every adapter. */
export const ADAPTER_OPTIONS: readonly string[] = ["effects", "server", "sidecar"];
/** Names of the options of the adapters whose framework has no room for the approval's id. */
export const APPROVAL_OPTIONS: readonly string[] = [...ADAPTER_OPTIONS, "onApproval"];

/** One call of the model. */
export interface ModelCall extends Pick<ToolSettings, "description" | "outputSchema" | "annotations"> {
  name: string;
  /** Arguments by name, and nothing else of the framework. */
  arguments: object;
  /** The framework's id of the call. */
  id?: string | undefined;
  signal?: AbortSignal | undefined;
}

/** Call that was asked about and did not run yet. */
interface PendingCall {
  id: string;
  /** Failure of the question, and the time of it. */
  missed?: { error: Unavailable; at: number };
  /** Id of the approval that `onApproval` was told of. */
  approvalId?: string;
}

/** Most pending calls. */
const MOST_PENDING = 1_000;
/** Time in which a failed question is not asked again, in milliseconds. */
const MISSED_MS = 10_000;

/** Decides and runs the calls of one set of tools. */
export class CallGuard {
  readonly #guardrails: GuardrailsWrapper | undefined;
  readonly #pending = new Map<string, PendingCall>();
  /** Names of tools that were called, and names in `effects` that the log called misspelt. */
  readonly #called = new Set<string>();

  constructor(
    private readonly umbra: Umbra,
    private readonly options: AdapterOptions & ApprovalOptions,
    /** Names of the adapter's options. */
    known: readonly string[],
    /** Names of the tools, where the adapter knows them. */
    names?: readonly string[],
  ) {
    if (typeof umbra?.callTool !== "function") throw new TypeError("the first parameter is a client: new Umbra()");
    checkMembers("the last parameter of an adapter", options, known);
    const { server, sidecar, onApproval } = options;
    if (server !== undefined && typeof server !== "string") throw new TypeError('server is a name, such as "mail"');
    if (sidecar !== undefined && typeof sidecar?.guardrails !== "function")
      throw new TypeError("sidecar is a session: await umbra.sidecar({ task })");
    if (onApproval !== undefined) checkFunction("onApproval", onApproval);
    const unknown = Object.keys(options.effects ?? {}).find((name) => names && !names.includes(name));
    if (unknown !== undefined) throw new TypeError(misspelt(unknown, closest(unknown, names), names));
    for (const [name, effect] of Object.entries(options.effects ?? {})) describedTool({ tool: name, effect });
    this.#guardrails = sidecar?.guardrails("enforce");
  }

  /**
   * Runs one call, or returns a stub, or throws, as `umbra.callTool` does. `declined` returns the block of a call that
   * the framework was told not to make; it receives the approval that the call was decided by. It is called after the
   * question, which uses the approval up: else the next call with these arguments would run.
   */
  async run<R>(
    call: ModelCall,
    body: () => R | Promise<R>,
    declined: (approval: ApprovalRequired | undefined) => Blocked | undefined = () => undefined,
  ): Promise<R> {
    const { signal, arguments: given } = call;
    const { id: callId, missed, approvalId } = this.#takePending(call) ?? {};
    const decided = { ...this.#described(call), arguments: given, callId, signal };
    const isFresh = missed && performance.now() - missed.at < MISSED_MS;
    const note: GuardNote = { guard: this, isFromModel: true, missed: isFresh ? missed.error : undefined };
    guardNotes.set(decided, note);
    let check = () => {
      check = () => {};
      const { decision } = note;
      const isAsked = decision?.guard.verdict === "ask";
      const block = declined(isAsked ? new ApprovalRequired(toolName(decided.tool), decision) : undefined);
      if (block !== undefined) throw block;
    };
    const make = async () => {
      const result = await this.umbra.callTool<R>(decided, () => {
        check();
        return body();
      });
      // A stub is the result of no call.
      check();
      return result;
    };
    try {
      return await (this.#guardrails ? this.#guardrails.run(make) : make());
    } catch (error) {
      // A framework that takes its own yes for the call does not ask before it.
      if (error instanceof ApprovalRequired && error.approvalId !== approvalId) await this.#tell(error, call.id);
      throw error;
    }
  }

  /**
   * Returns true if a person must approve the call first, else what `own` says, for the tool itself. {@link run} asks
   * again with the same id, so that the answer is the same. Without an answer it tells the model why the call may not
   * run.
   */
  async needsApproval(call: ModelCall, own: () => boolean | PromiseLike<boolean>): Promise<boolean> {
    const described = this.#described(call);
    const given = argumentsJson(call.arguments as Record<string, unknown>, true);
    const name = toolName(described.tool);
    const { effect } = described;
    const held: DecidedCall = { owner: this.umbra, name, scope: "", arguments: given, guards: [this], effect };
    if (isDecided(held)) return own();
    const pending = this.#pendingCall(call);
    try {
      const tool = describedTool(described);
      const declared = effect && { declared_effect: effect };
      const question = { call_id: pending.id, tool, arguments: given, ...declared };
      const decision = await this.umbra.decide(question, { signal: call.signal });
      held.effect = decision.effect;
      if (decision.decision === "ask") {
        const approval = new ApprovalRequired(name, decision);
        pending.approvalId = approval.approvalId;
        await this.#tell(approval, call.id);
        return true;
      }
    } catch (error) {
      if (error instanceof Unavailable) pending.missed = { error, at: performance.now() };
      if (!(error instanceof UmbraError)) throw error;
    }
    return runDecided(held, own);
  }

  async #tell(approval: ApprovalRequired, toolCallId: string | undefined): Promise<void> {
    try {
      await this.options.onApproval?.(approval, toolCallId);
    } catch (error) {
      const why = `onApproval failed for ${approval.tool}, which waits for ${approval.approvalId}: ${errorText(error)}`;
      this.umbra.logger.warn(`umbra: ${why}`);
    }
  }

  #described(call: ModelCall): ToolSettings & { tool: { name: string; server: string | undefined } } {
    const { name, description, outputSchema, annotations } = call;
    const { effects = {}, server } = this.options;
    const effect = Object.hasOwn(effects, name) ? effects[name] : undefined;
    this.#called.add(name);
    const near = closest(name, Object.keys(effects).filter((one) => !this.#called.has(one)));
    if (effect === undefined && near !== undefined) {
      this.#called.add(near);
      this.umbra.logger.warn(`umbra: ${misspelt(near, name)}`);
    }
    return { tool: { name, server }, effect, description, outputSchema, annotations };
  }

  /** Returns a call that is asked about before it runs, with the same id until it runs. */
  #pendingCall(call: ModelCall): PendingCall {
    const key = pendingKey(call);
    const pending: PendingCall = { id: this.#pending.get(key)?.id ?? randomId() };
    this.#pending.set(key, pending);
    const [oldest] = this.#pending.keys();
    if (this.#pending.size > MOST_PENDING && oldest !== undefined) this.#pending.delete(oldest);
    return pending;
  }

  #takePending(call: ModelCall): PendingCall | undefined {
    if (this.#pending.size === 0) return undefined;
    const key = pendingKey(call);
    const pending = this.#pending.get(key);
    this.#pending.delete(key);
    return pending;
  }
}

function misspelt(name: string, near: string | undefined, names: readonly string[] = []): string {
  return `effects names ${name}, which is no tool here: ${near ? `is it ${near}?` : `they are ${names.join(", ")}`}`;
}

/** Returns a key of the call. The framework's id alone is none: some models number the calls of each answer. */
function pendingKey(call: ModelCall): string {
  try {
    const given = argumentsJson(call.arguments as Record<string, unknown>, true);
    return JSON.stringify([call.name, call.id, currentContext().context, given]);
  } catch {
    // Arguments that cannot be written: the call will be blocked.
    return randomId();
  }
}

/**
 * Returns the block of a call whose pause was answered by anything but a yes, such as `{ approved: false, reason }`, or
 * in the form of LangChain `{ decisions: [{ type: "reject", message }] }`. Undefined for a yes: `true`,
 * `{ approved: true }`, `{ decisions: [{ type: "approve" }] }`.
 */
export function declineOf(tool: string, answer: unknown): Blocked | undefined {
  const { approved, reason, decisions } = isRecord(answer) ? answer : { approved: answer };
  const given: unknown[] = Array.isArray(decisions) ? decisions : [];
  const rejected = given.filter((one) => !isRecord(one) || one["type"] !== "approve");
  if (approved === true || (given.length > 0 && rejected.length === 0)) return undefined;
  const why = isRecord(rejected[0]) ? rejected[0]["message"] : reason;
  const told = typeof why === "string" && why ? `: ${why}` : "";
  return new Blocked(tool, "declined", `it was declined${told}; do not call it again`);
}

/** Returns the JSON Schema of a tool's output from the forms that frameworks have; undefined for another form. */
export function outputSchema(schema: unknown): Record<string, unknown> | undefined {
  try {
    if (!isRecord(schema)) return undefined;
    const { "~standard": standard, jsonSchema = schema } = schema as {
      "~standard"?: { jsonSchema?: { output(options: { target: string }): unknown } };
      jsonSchema?: unknown;
    };
    const found = standard ? standard.jsonSchema?.output({ target: "draft-2020-12" }) : jsonSchema;
    return isRecord(found) && !("then" in found) ? found : undefined;
  } catch {
    // Not every type has a JSON Schema.
    return undefined;
  }
}
