/** The execution boundary around tools: each call is decided by the server before it runs. */

import { describeKind } from "./checks.js";
import {
  type CallContext,
  CONTEXT,
  currentContext,
  type DecidedCall,
  isDecided,
  overlaid,
  runDecided,
} from "./context.js";
import { APIError, ApprovalRequired, Blocked, StubFault, Unavailable, UndecidedCall } from "./errors.js";
import { OutcomeReporter } from "./outcomes.js";
import { environment, processName, randomId } from "./platform.js";
import { isRecord, type RequestOptions, type Transport } from "./transport.js";
import type { CallOutcome, DecideBody, Decision, Effect, GuardRuling, ToolAnnotations, ToolDescription } from "./types.js";
import {
  argumentsJson,
  jsonText,
  MOST_MERGED,
  MOST_VALUES,
  mergeRehearsed,
  type RehearsedChanges,
  toJson,
} from "./values.js";

/** Description of a tool, for the server and for calls while the server is away. */
export interface ToolSettings {
  /** Effect of the tool. It decides about calls while the server cannot be asked; without it, none runs then. */
  effect?: Effect | undefined;
  /** Description of the tool, as the model has it. */
  description?: string | undefined;
  /** JSON Schema of the arguments. */
  inputSchema?: Record<string, unknown> | undefined;
  /** JSON Schema of the result, from which the server makes a stub if there is no contract and no stub. */
  outputSchema?: Record<string, unknown> | undefined;
  /** Hints about the tool, such as `readOnlyHint`; they never lower an effect. */
  annotations?: ToolAnnotations | undefined;
}

const TOOL_SETTINGS = ["effect", "description", "inputSchema", "outputSchema", "annotations", "stub"];
/** Names of the members of {@link ToolOptions}. */
export const TOOL_OPTIONS: readonly string[] = ["name", "server", ...TOOL_SETTINGS];
/** Names of the members of {@link ToolCall}. */
export const TOOL_CALL: readonly string[] = [
  ...["tool", "arguments", ...TOOL_SETTINGS, "stubOverride", "callId", "signal"],
  ...CONTEXT,
];

/** Settings of {@link Umbra.tool}. */
export interface ToolOptions<P extends unknown[], R> extends ToolSettings {
  /** Name of the tool. */
  name: string;
  /** Server of the tool: rules and contracts name it `server.name`. */
  server?: string | undefined;
  /** Result in rehearsal where the server has no contract: a value, or a function of the same parameters. */
  stub?: R | ((...parameters: P) => R | Promise<R>);
}

/** One call, for {@link Umbra.callTool}. */
export interface ToolCall<R> extends ToolSettings, CallContext {
  /** The tool, as `server.name` or in two parts. */
  tool: string | { name: string; server?: string | undefined };
  /**
   * Arguments by name, as the model gave them. An instance of a class is sent as `<ClassName>`, and an approval does
   * not cover its content, unless it has a `toJSON`.
   */
  arguments?: object | undefined;
  /** Result in rehearsal where the server has no contract: a value, or a function that returns one. */
  stub?: R | (() => R | Promise<R>);
  /** Result in rehearsal, whatever the contract says. */
  stubOverride?: R;
  /**
   * Own id of the call, a new one unless given. A repeated id gets the same decision, also that of an approved call:
   * each attempt that is to be asked about anew needs its own.
   */
  callId?: string | undefined;
  /** Aborts the question. The running tool is the caller's to abort. */
  signal?: AbortSignal | undefined;
}

/** A call to decide: the body of `POST /v1/decide`; what is missing is filled in. */
export type DecideCall = Omit<DecideBody, "agent" | "call_id"> & { agent?: string; call_id?: string };

/** Notes of a guard about its call. */
export interface GuardNote {
  /** Guard that makes the call, the same for each call of its tool. */
  guard: object;
  /** True if all arguments are what a model gave and its schema made of it. */
  isFromModel?: boolean;
  /** Failure of the question that was asked just before; it is not asked again. */
  missed?: Unavailable | undefined;
  /** Decision about the call; undefined before it, and without one. */
  decision?: Decision;
}

/** Notes about calls; a call without one is guarded by {@link Umbra.callTool} itself. */
export const guardNotes = new WeakMap<object, GuardNote>();

const AWAY = "away";
const EFFECTS: readonly string[] = ["read", "write", "destructive"];
const DECISIONS: readonly unknown[] = ["execute", "stub", "ask", "block"];
/** Most tools that are remembered as no reads; beyond them, no tool runs while the server is away. */
const MOST_TOOLS = 10_000;
const MOST_DESCRIPTION = 8_000;
const MOST_ERROR = 4_000;
/** Most characters of JSON of a result that is reported; of a larger result only the fact that the tool returned. */
const MOST_RESULT = 256 * 1024;

export class Boundary {
  readonly reporter: OutcomeReporter;
  /** Tools that the server has called a write, or destructive. */
  readonly #noReads = new Set<string>();
  /** Kinds of warnings that are logged once: statuses of refusals, and the server's absence until it answers. */
  readonly #warned = new Set<number | string>();

  constructor(
    readonly transport: Transport,
    /** Context of calls that have no other. */
    readonly base: CallContext & { agent: string },
    /** Longest wait for a decision, in milliseconds. */
    readonly decisionTimeoutMs: number,
  ) {
    this.reporter = new OutcomeReporter(transport, Math.max(decisionTimeoutMs, 5_000));
  }

  /** Asks for a decision. Throws {@link Unavailable} and {@link APIError}. */
  decide(call: DecideCall, options: RequestOptions = {}): Promise<Decision> {
    const context = overlaid(currentContext().context, this.base);
    const given = Object.fromEntries(Object.entries(call).filter(([, value]) => value !== undefined)) as DecideCall;
    return this.#ask({ call_id: randomId(), ...this.#fields(context, call), ...given }, options);
  }

  /** Decides one call, and runs `body`, returns a stub, or throws. */
  async callTool<R>(call: ToolCall<R>, body: () => R | Promise<R>): Promise<R> {
    const tool = describedTool(call);
    const name = toolName(tool);
    const given = call.arguments ?? {};
    if (!isRecord(given)) {
      throw new TypeError(`arguments of ${name} are one object of named values, not ${describeKind(given)}`);
    }
    const fields = this.#fields(overlaid(call, overlaid(currentContext().context, this.base)), {});
    const note: GuardNote = guardNotes.get(call) ?? { guard: this };
    const readArguments = () => this.#arguments(name, given, note.isFromModel);
    const held: DecidedCall = {
      owner: this,
      name,
      scope: JSON.stringify(fields),
      arguments: readArguments(),
      guards: [note.guard],
      effect: call.effect,
    };
    if (isDecided(held, (outer) => this.#warnOfGuards(tool.name, outer, name))) return await body();
    const runBody = () => runDecided(held, body);
    const question: DecideBody = {
      call_id: call.callId ?? randomId(),
      ...fields,
      tool,
      arguments: held.arguments,
    };
    if (call.effect !== undefined) question.declared_effect = call.effect;
    const decided = JSON.stringify(question.arguments);
    const own = await this.#stub(call, question);

    let decision: Decision;
    try {
      if (note.missed !== undefined) throw note.missed;
      decision = note.decision = await this.#ask(question, { signal: call.signal });
    } catch (error) {
      if (error instanceof APIError) throw this.#refused(name, error);
      if (!(error instanceof Unavailable)) throw error;
      this.#mayRunUndecided(name, call.effect, error);
      this.transport.logger.warn(`umbra: ${error.message}; ${name} reads, so it runs all the same`);
      return await runBody();
    }
    held.effect = decision.effect;
    switch (decision.decision) {
      case "execute":
        if (decision.execution === "live" && decision.effect !== "read" && isSafeMode()) {
          const detail = "AGENT_SAFE_MODE is set here, but the server runs calls live: set it for the server as well";
          throw new Blocked(name, "safe_mode_mismatch", detail, decision);
        }
        if (JSON.stringify(readArguments()) !== decided) throw argumentsChanged(name, decision);
        return await this.#execute(question, decision, runBody);
      case "stub":
        if (decision.stub?.fault) throw new StubFault(name, decision.stub.fault, decision.stub.result);
        if (call.stubOverride !== undefined) return call.stubOverride;
        return decision.stub?.is_fallback ? (own.value as R) : (decision.stub?.result as R);
      case "ask":
        throw new ApprovalRequired(name, decision);
      default:
        if (decision.reason === "no_contract" && own.error !== undefined) throw own.error;
        throw new Blocked(name, decision.reason ?? "policy", decision.detail ?? "no reason given", decision);
    }
  }

  async #ask(body: DecideBody, options: RequestOptions): Promise<Decision> {
    const timeoutMs = options.timeoutMs ?? this.decisionTimeoutMs;
    const text = jsonText("the call", { deadline_ms: Math.max(1, Math.floor(timeoutMs)), ...body });
    const request = { method: "POST", path: "/v1/decide", body: text, repetition: "once" } as const;
    const answer = await this.transport.request(request, timeoutMs, options.signal);
    if (!isRecord(answer) || !DECISIONS.includes(answer["decision"])) {
      throw new Unavailable(`what answers at ${this.transport.url} is no server of Umbra: it gives no decision`);
    }
    // The server puts a marker, [secret:...], in place of an id that has the form of a secret.
    const told = String(answer["call_id"]);
    if (told !== body.call_id && !told.includes("[")) {
      const about = `it answered about call ${told.slice(0, 80)}, not ${body.call_id}`;
      const what = `what answers at ${this.transport.url} is no server of Umbra: ${about}`;
      throw new Unavailable(what, undefined, { told: `Umbra did not answer: ${about}` });
    }
    this.#warned.delete(AWAY);
    const decision = answer as Decision;
    if (decision.effect !== "read" && this.#noReads.size < MOST_TOOLS) {
      const name = toolName(body.tool);
      this.#noReads.add(name);
      if (body.declared_effect === "read") {
        const why = `is declared a read, and counts as none: it will not run while the server is away`;
        this.#warnOnce(`effect of ${name}`, `${name} ${why} (${decision.explain?.[0]})`);
      }
    }
    return decision;
  }

  /** Returns the block of a call about which the server refuses to decide. */
  #refused(name: string, error: APIError): Blocked {
    const faults = error.errors.slice(0, 3).map(({ pointer, detail }) => (pointer ? `${pointer}: ${detail}` : detail));
    let detail = ["Umbra refused the question", error.detail, faults.join("; ")].filter(Boolean).join(": ");
    if (error.status === 401 || error.status === 403) {
      // The model can do nothing about keys: the log tells the operator.
      this.#warnOnce(error.status, `no call is decided, so none runs: ${error.message}`);
      detail = "no decision about this agent's calls can be had; its operator must mend that, so go on without it";
    }
    return new Blocked(name, error.code, detail, undefined, { cause: error });
  }

  #warnOnce(kind: number | string, text: string): void {
    if (this.#warned.has(kind)) return;
    this.#warned.add(kind);
    this.transport.logger.warn(`umbra: ${text}`);
  }

  #warnOfGuards(tool: string, outer: string, inner: string): void {
    const text = `is guarded twice, as ${outer} and as ${inner}: it is decided twice, and may need two approvals`;
    const advice = "give both guards the same server, effect and arguments, or drop one";
    this.#warnOnce(`guards of ${inner}`, `${tool} ${text}; ${advice}`);
  }

  #mayRunUndecided(name: string, effect: Effect | undefined, error: Unavailable): void {
    if (effect !== "read") {
      this.#warnOnce(AWAY, `${error.message}; calls that may change something do not run, such as that of ${name}`);
      throw new UndecidedCall(name, error.told, error);
    }
    if (this.#noReads.has(name) || this.#noReads.size >= MOST_TOOLS) {
      const why = "it is declared a read, but the server has said that it is none";
      this.#warnOnce(AWAY, `${error.message}; ${name} does not run: ${why}`);
      const detail = `${error.told}; ${why}`;
      throw new UndecidedCall(name, detail, error);
    }
  }

  async #execute<R>(
    question: { call_id: string; agent: string },
    decision: Decision,
    body: () => R | Promise<R>,
  ): Promise<R> {
    const began = performance.now();
    const report = (outcome: Pick<CallOutcome, "status" | "result" | "error">) => {
      const duration_ms = Math.max(0, Math.floor(performance.now() - began));
      this.reporter.report(question.call_id, { agent: question.agent, duration_ms, ...outcome });
    };
    let result: R;
    try {
      result = await body();
    } catch (error) {
      report({ status: "error", error: errorText(error) });
      throw error;
    }
    report({ status: "ok", ...reportedResult(result) });
    if (!decision.merge) return result;
    try {
      return mergeRehearsed(toJson(result, MOST_MERGED), decision.merge as RehearsedChanges) as R;
    } catch (error) {
      // The tool has run: its caller must get the result.
      const why = errorText(error);
      this.transport.logger.warn(
        `umbra: what the run has rehearsed is not in the result of ${question.call_id}: ${why}`,
      );
      return result;
    }
  }

  #arguments(name: string, given: Record<string, unknown>, isFromModel?: boolean): Record<string, unknown> {
    try {
      return argumentsJson(given, isFromModel);
    } catch (error) {
      const detail = `its arguments cannot be written as JSON: ${errorText(error)}`;
      throw new Blocked(name, "unreadable", detail, undefined, { cause: error });
    }
  }

  /** Puts the call's stub into the question. An error of it matters only if the stub is needed. */
  async #stub<R>(call: ToolCall<R>, question: DecideBody): Promise<{ value?: R; error?: unknown }> {
    if (call.stubOverride !== undefined) {
      question.stub_override = toJson(call.stubOverride);
    } else if (call.stub !== undefined) {
      try {
        const value = await (typeof call.stub === "function" ? (call.stub as () => R | Promise<R>)() : call.stub);
        question.stub_fallback = { result: toJson(value) };
        return { value };
      } catch (error) {
        return { error };
      }
    }
    return {};
  }

  /** Returns the members of the body that tell the context. */
  #fields(context: CallContext, given: Pick<DecideCall, "run" | "session">): Partial<DecideBody> & { agent: string } {
    const fields: Partial<DecideBody> & { agent: string } = { agent: context.agent ?? this.base.agent };
    const { session, run, parentRun, seed, route, modes } = context;
    if (session) fields.session = session;
    if (run) fields.run = run;
    if (parentRun) fields.parent_run = parentRun;
    if (seed) fields.seed = seed;
    if (route) fields.route = route;
    if (modes?.length) fields.modes = [...modes];
    if (!run && !session && !given.run && !given.session)
      Object.assign(fields, { run: processName, default_run: true });
    return fields;
  }
}

/** Returns the description of a tool, as the server takes it. */
export function describedTool(call: ToolSettings & { tool: ToolCall<unknown>["tool"] }): ToolDescription {
  const { effect, description, inputSchema, outputSchema, annotations } = call;
  if (effect !== undefined && !EFFECTS.includes(effect)) {
    throw new TypeError(`effect is one of ${EFFECTS.join(", ")}, not ${JSON.stringify(effect)}`);
  }
  const given = typeof call.tool === "string" ? { name: call.tool } : call.tool;
  const { name, server } = given ?? {};
  if (typeof name !== "string" || name === "") {
    throw new TypeError('a tool needs its name: umbra.tool({ name: "send" }, fn), callTool({ tool: "mail.send" }, fn)');
  }
  const tool: ToolDescription = { name };
  if (server) tool.server = server;
  if (description) tool.description = description.slice(0, MOST_DESCRIPTION);
  if (inputSchema) tool.input_schema = inputSchema;
  if (outputSchema) tool.output_schema = outputSchema;
  const hints = effect && { readOnlyHint: effect === "read", destructiveHint: effect === "destructive" };
  if (annotations ?? hints) tool.annotations = { ...annotations, ...hints };
  return tool;
}

/** Returns the block of a call that would run with other arguments than those that were decided. */
export function argumentsChanged(name: string, decision: Decision | GuardRuling): Blocked {
  const detail = "the arguments changed while the call was decided; call again, and leave them as they are";
  return new Blocked(name, "arguments_changed", detail, decision);
}

/** Returns a tool's name as rules have it: `server.name`, or the name alone. */
export function toolName(tool: { name: string; server?: string | null | undefined }): string {
  return tool.server ? `${tool.server}.${tool.name}` : tool.name;
}

/** True if AGENT_SAFE_MODE is set, as the server reads it: its name in any case, any value except "off". */
function isSafeMode(): boolean {
  return Object.entries(environment()).some(
    ([name, value = ""]) =>
      name.toUpperCase() === "AGENT_SAFE_MODE" && !["", "0", "false", "no", "off"].includes(value.trim().toLowerCase()),
  );
}

function reportedResult(result: unknown): { result?: unknown } {
  // The tool has run: its caller gets the result, even if reading the result for the report fails.
  try {
    const plain = toJson(result, MOST_VALUES);
    return plain !== null && JSON.stringify(plain).length <= MOST_RESULT ? { result: plain } : {};
  } catch {
    return {};
  }
}

/** Returns name and message of an error, even of one that cannot be read. */
export function errorText(error: unknown): string {
  try {
    return String(error).slice(0, MOST_ERROR);
  } catch {
    return "an error that cannot be read";
  }
}
