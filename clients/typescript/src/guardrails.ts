/** Guardrails, which apply a session's rules to calls of tools: a question before each call, and a report after it. */

import { argumentsChanged, errorText, toolName } from "./boundary.js";
import { argumentsOf, checkFunction, checkMembers, checkTexts } from "./checks.js";
import { isDecided, runDecided, withContext } from "./context.js";
import { APIError, Blocked, ResultWithheld, SessionOver, Unavailable, UmbraError } from "./errors.js";
import type { Sidecar } from "./sidecar.js";
import type { GuardAnswer, GuardRuling, MessageAnswer, MessageRequest, SidecarCall, SidecarResult } from "./types.js";
import { argumentsJson, MOST_VALUES, toJson, withoutNul } from "./values.js";

/** Force of the rules: `enforce` throws {@link Blocked} and {@link ResultWithheld}; `warn` and `audit` only log. */
export type Enforcement = "enforce" | "warn" | "audit";

/** Name of the guarded tool, and route and mode of the agent for its calls. */
export interface GuardrailOptions {
  /** Name of the tool; that of the function unless given. */
  name?: string;
  /** Server of the tool: rules name it `server.name`. */
  server?: string;
  /** Route of the agent for the calls. */
  route?: string;
  /** Mode of the agent for the calls, besides those of the session. */
  mode?: string;
}

const GUARDRAIL_OPTIONS = ["name", "server", "route", "mode"];

export interface GuardedTool {
  name: string;
  server?: string | undefined;
  /** True if no boundary decides about its calls once the rules have. */
  isPlain?: boolean;
  /** Guard around the tool, the same for each call; the tool itself unless given. */
  guard?: object | undefined;
  /** True if all arguments of its call are what a model gave and its schema made of it. */
  isFromModel?: boolean | undefined;
}

/** A function that `umbra.tool` made, with its name, and its call without the guardrails of the context. */
export interface WrappedTool {
  tool: GuardedTool;
  call: (parameters: unknown[]) => Promise<unknown>;
}

/** Functions that `umbra.tool` made. */
export const wrappedTools = new WeakMap<object, WrappedTool>();

interface CallReport extends MessageRequest {
  tool_calls: [SidecarCall];
  results: [SidecarResult & { content: string }];
}

/** Most characters of each end of a long result that are reported. */
const MOST_RESULT = 48_000;
/** Most characters in a second report, after the first was too long or too slow: a few suffice for labels. */
const FEW = 4_000;
/** Most characters of the arguments, as JSON, in the report of a call that ran. */
const MOST_ARGUMENTS = 1_000_000;

/** Applies the rules to calls of tools; {@link Sidecar.guardrails} returns one. */
export class Guardrails {
  /** Plain names of the tools whose calls were asked about. */
  readonly #asked = new Set<string>();

  constructor(
    private readonly session: Sidecar,
    readonly enforcement: Enforcement,
    private readonly options: GuardrailOptions,
  ) {
    checkMembers("guardrails(enforcement, options)", options, GUARDRAIL_OPTIONS);
    checkTexts(options, GUARDRAIL_OPTIONS);
    if (!["enforce", "warn", "audit"].includes(enforcement)) {
      const given = JSON.stringify(enforcement);
      throw new TypeError(
        `guardrails take enforce, warn or audit, not ${given}; a mode of the agent is { mode: ${given} }`,
      );
    }
  }

  /**
   * Returns the function under guardrails. Its first parameter is the object of the arguments, and all that rules see.
   */
  wrap<P extends unknown[], R>(body: (...parameters: P) => R | Promise<R>): (...parameters: P) => Promise<R> {
    checkFunction("guardrails(...)", body);
    const wrapped = wrappedTools.get(body);
    if (wrapped !== undefined) {
      if (this.options.name || this.options.server) {
        throw new TypeError(`${toolName(wrapped.tool)} has its name from umbra.tool`);
      }
      return (...parameters) => this.call(wrapped.tool, parameters[0], () => wrapped.call(parameters) as Promise<R>);
    }
    const name = this.options.name ?? body.name;
    if (!name) throw new TypeError("a function without a name needs one: guardrails(enforcement, { name })");
    const named = { name, server: this.options.server, isPlain: true };
    return (...parameters) => this.call(named, parameters[0], () => body(...parameters));
  }

  /**
   * Applies the rules to all tools of `umbra.tool` and `umbra.callTool` that are called within `body`. Functions
   * without them are not seen.
   */
  run<R>(body: () => R): R {
    return withContext({ guardrails: this }, body);
  }

  /** Warns of calls of a session that were made within {@link run}, and that no rule was asked about. */
  warnOfUnguarded(session: Sidecar, calls: readonly SidecarCall[]): void {
    if (session !== this.session) return;
    for (const { tool } of calls) {
      const name = typeof tool === "string" ? tool : toolName(tool);
      if (this.#asked.has(plainToolName(name))) continue;
      this.#warn(`${name} was called under guardrails, but no rule was asked: call it by umbra.tool or umbra.callTool`);
    }
  }

  /** Makes one call under the rules. */
  async call<R>(tool: GuardedTool, given: unknown, body: () => R | Promise<R>, signal?: AbortSignal): Promise<R> {
    const call = this.#call(tool, given);
    if (call === undefined) return await body();
    const name = toolName(tool);
    const scope = JSON.stringify([this.enforcement, this.#place()]);
    const guards = [tool.guard ?? tool];
    const held = { owner: this.session, name, scope, arguments: call.arguments ?? {}, guards };
    if (isDecided(held)) return await body();
    let isObjected = false;
    try {
      const asked = JSON.stringify(call.arguments);
      const answer = await this.session.guard({ call, ...this.#place() }, { signal });
      isObjected = answer.decision === "block";
      this.#before(tool, answer);
      this.session.checkNotClosed();
      // Without an answer, which names the rules by their version, nothing was decided.
      if (answer.policy_version && JSON.stringify(this.#call(tool, given)?.arguments) !== asked) {
        if (this.enforcement === "enforce") throw argumentsChanged(name, answer);
        this.#warn(`${name} is not held to the rules: its arguments changed while they were asked`);
      }
    } catch (error) {
      this.#unasked(tool, error);
    }
    let result: R;
    try {
      result = await runDecided(held, body);
    } catch (error) {
      // The boundary stopped the call: then there was none.
      if (!(error instanceof Blocked && error.tool === name))
        await this.#report(tool, failureReport(call, error));
      throw error;
    }
    const answer = await this.#report(tool, resultReport(call, result));
    if (answer !== undefined) this.#after(tool, answer, isObjected);
    return result;
  }

  /** Returns the call for the question; undefined if it cannot be written and the rules are not enforced. */
  #call(tool: GuardedTool, given: unknown): SidecarCall | undefined {
    const named = argumentsOf(toolName(tool), given);
    const { name, server } = tool;
    this.#asked.add(plainToolName(toolName(tool)));
    const reference = server ? { server, name } : { name };
    try {
      return { tool: reference, arguments: argumentsJson(named, tool.isFromModel) };
    } catch (error) {
      if (this.enforcement === "enforce") {
        const detail = `its arguments cannot be written as JSON: ${errorText(error)}`;
        throw new Blocked(toolName(tool), "unreadable", detail, undefined, { cause: error });
      }
      this.#warn(`${toolName(tool)} is not held to the rules: its arguments cannot be written as JSON`);
      return undefined;
    }
  }

  /** Returns route and modes of the calls, where they are not those of the session. */
  #place(): { route?: string; modes?: string[] } {
    const { route, mode } = this.options;
    return { ...(route && { route }), ...(mode && { modes: [...this.session.modes, mode] }) };
  }

  /** Follows the ruling on a call that is about to run. A call that the boundary decides next is asked for there. */
  #before(tool: GuardedTool, answer: GuardAnswer): void {
    if (answer.needs_approval && !tool.isPlain) return;
    const name = toolName(tool);
    if (answer.unjudged) {
      // Otherwise very long arguments would get past every rule.
      this.#warn(`${name} is not held to the rules: ${answer.warnings.join("; ")}`);
      if (this.enforcement === "enforce") {
        throw new Blocked(name, "too_long", "its arguments are so long that the server did not judge them");
      }
    }
    if (this.#note(tool, answer) && this.enforcement === "enforce") {
      throw new Blocked(name, "policy", answer.reason ?? "a rule says so", answer);
    }
  }

  #after(tool: GuardedTool, answer: MessageAnswer, isObjected: boolean): void {
    // If no rule objected before the call, an objection now comes too late to stop it.
    for (const ruling of isObjected ? [] : answer.calls) {
      if (ruling.decision === "block" && !ruling.needs_approval) this.#note(tool, ruling);
    }
    for (const ruling of answer.results) {
      if (this.#note(tool, ruling) && this.enforcement === "enforce") {
        throw new ResultWithheld(toolName(tool), ruling.reason ?? "a rule says so", ruling);
      }
    }
  }

  /** Keeps and logs a ruling with an objection. Returns true if the ruling forbids its subject. */
  #note(tool: GuardedTool, ruling: GuardRuling): boolean {
    const isBlock = ruling.decision === "block";
    if (ruling.decision !== "allow") {
      this.session.noteIntervention(ruling);
      const verb = !isBlock ? "warns of" : this.enforcement === "enforce" ? "blocks" : "would block";
      const text = `umbra: the rule ${ruling.rule} ${verb} ${toolName(tool)}: ${ruling.reason}`;
      this.session.logger[this.enforcement === "audit" ? "info" : "warn"](text);
    }
    return isBlock;
  }

  /** Handles a failed question. In enforce mode, a call that is not judged is blocked, except without a server. */
  #unasked(tool: GuardedTool, error: unknown): void {
    const isSidecars = error instanceof APIError || error instanceof Unavailable || error instanceof SessionOver;
    if (!isSidecars) throw error;
    if (this.enforcement !== "enforce") {
      this.#warn(`${toolName(tool)} is not held to the rules: ${error.message}`);
    } else if (error instanceof APIError && ![401, 403].includes(error.status)) {
      throw new Blocked(toolName(tool), error.code, error.message, undefined, { cause: error });
    } else if (error instanceof SessionOver) {
      this.#warn(`${toolName(tool)} is blocked: ${error.message}`);
      throw new Blocked(toolName(tool), "session_over", error.message, undefined, { cause: error });
    } else {
      throw error;
    }
  }

  /** Reports a call; if a long report fails, a short one. The author of a long page must not evade its label. */
  async #report(tool: GuardedTool, report: CallReport): Promise<MessageAnswer | undefined> {
    const short = shortened(report);
    try {
      if (short === undefined) return await this.session.report(report, this.#place());
      try {
        const answer = await this.session.report(report, this.#place());
        if (answer.message) return answer;
      } catch (error) {
        if (!(error instanceof Unavailable)) throw error;
      }
      return await this.session.report(short, this.#place());
    } catch (error) {
      // The tool has run: an error would make its caller run it again.
      if (!(error instanceof UmbraError)) throw error;
      this.#warn(`that ${toolName(tool)} ran is not told: ${error.message}`);
      return undefined;
    }
  }

  #warn(text: string): void {
    this.session.logger.warn(`umbra: ${text}`);
  }
}

/** Returns a tool's name without signs and case, in which its spellings differ. */
function plainToolName(name: string): string {
  return name
    .replace(/^mcp__/, "")
    .replace(/[^\p{L}\p{N}]/gu, "")
    .toLowerCase();
}

function failureReport(call: SidecarCall, error: unknown): CallReport {
  return callReport(call, false, errorText(error));
}

function resultReport(call: SidecarCall, result: unknown): CallReport {
  let content: string;
  try {
    // Checks read text.
    const plain = toJson(result, MOST_VALUES, withoutNul);
    content = typeof plain === "string" ? plain : plain === null ? "" : JSON.stringify(plain);
  } catch (error) {
    content = `[a result that cannot be written as JSON: ${errorText(error)}]`;
  }
  return callReport(call, true, content);
}

function callReport(call: SidecarCall, ok: boolean, content: string): CallReport {
  // The arguments were judged before the call; with the result they would exceed the server's limit.
  const isLong = JSON.stringify(call.arguments).length > MOST_ARGUMENTS;
  return {
    role: "assistant",
    tool_calls: [isLong ? { ...call, arguments: {} } : call],
    results: [{ tool: call.tool, ok, content: bothEnds(content, MOST_RESULT) }],
  };
}

/** Returns both ends of a long text, and a short text unchanged. */
function bothEnds(text: string, most: number): string {
  return text.length <= 2 * most ? text : `${text.slice(0, most)}\n[...]\n${text.slice(-most)}`;
}

/** Returns a shortened report; undefined if the report is short already. */
function shortened(report: CallReport): CallReport | undefined {
  const [call] = report.tool_calls;
  const [result] = report.results;
  const content = bothEnds(result.content, FEW);
  const isLong = JSON.stringify(call.arguments).length > 2 * FEW;
  if (!isLong && content === result.content) return undefined;
  return { ...report, tool_calls: [isLong ? { ...call, arguments: {} } : call], results: [{ ...result, content }] };
}
