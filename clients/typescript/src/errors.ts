/** Errors of the package. No error's text holds a credential. */

import type { Decision, FieldFault, GuardRuling } from "./types.js";

/** Base of all errors of this package. */
export class UmbraError extends Error {
  override name = "UmbraError";
}

/** The server refused the request, and would refuse it again: a wrong key, or a request that breaks the API's rules. */
export class APIError extends UmbraError {
  override name = "APIError";
  /** Stable code of the problem, such as `not_found`: branch on this. */
  readonly code: string;
  /** Description of the fault and its remedy. */
  readonly detail: string;
  /** Faults by place: JSON pointers into the body, `?name` for a parameter. */
  readonly errors: readonly FieldFault[];
  /** Id of the request, as in `x-request-id` and in the server's log. */
  readonly requestId: string | undefined;

  constructor(
    request: string,
    /** HTTP status. */
    readonly status: number,
    problem: Record<string, unknown>,
  ) {
    super(`${request} was refused (${status}): ${problemText(problem)}${HINTS[status] ?? ""}`);
    this.code = String(problem["code"] ?? `http_${status}`);
    this.detail = String(problem["detail"] ?? problem["title"] ?? "no reason given");
    this.errors = fieldFaults(problem);
    this.requestId = String(problem["instance"] ?? "").replace("urn:umbra:request:", "") || undefined;
  }
}

const HINTS: Record<number, string> = {
  401: "; is apiKey or UMBRA_API_KEY a key of this server?",
  403: "; does the key permit this, and this agent?",
};

/** There is no usable answer: the server is away, late, overloaded or faulty, or what answers is no Umbra server. */
export class Unavailable extends UmbraError {
  override name = "Unavailable";
  /** @internal Text for the model, without addresses and errors of sockets. */
  readonly told: string;
  /** @internal True if no repetition helps. */
  readonly isLasting: boolean;

  constructor(
    message: string,
    /** HTTP status of the answer; undefined without an answer. */
    readonly status?: number,
    options?: { cause?: unknown; told?: string; isLasting?: boolean },
  ) {
    super(message, options);
    this.told = options?.told ?? "Umbra did not answer";
    this.isLasting = options?.isLasting ?? false;
  }
}

/** The call of a tool may not run, and did not run. */
export class Blocked extends UmbraError {
  override name = "Blocked";

  constructor(
    /** Name of the tool, `server.name` where it has a server. */
    readonly tool: string,
    /** Stable code, such as `policy`, `no_contract` or `unavailable`. */
    readonly reason: string,
    /** The reason in words, with what to do; written for the agent to read. */
    readonly detail: string,
    /** The server's whole answer; undefined without one. */
    readonly decision?: Decision | GuardRuling,
    options?: { cause?: unknown; message?: string },
  ) {
    super(options?.message ?? `${tool} was not run (${reason}): ${detail}`, options);
  }

  /** Name of the deciding rule; undefined if no rule decided. */
  get rule(): string | undefined {
    const decision = this.decision;
    if (decision === undefined) return undefined;
    return ("guard" in decision ? decision.guard.rule : "rule" in decision ? decision.rule : undefined) ?? undefined;
  }
}

/** A person must approve this call first. Once approved, a call with the same arguments runs, once. */
export class ApprovalRequired extends Blocked {
  override name = "ApprovalRequired";
  /** Id for `umbra.approvals.wait`, `approve` and `deny`. */
  readonly approvalId: string;
  /** Expiry of the approval (RFC 3339). */
  readonly expiresAt: string;

  constructor(tool: string, decision: Decision) {
    const { id, expires_at } = decision.approval ?? { id: "", expires_at: "" };
    const asked = decision.detail || "A rule asks for it.";
    super(tool, "approval_required", `${asked} A person must approve ${id}; then call again.`, decision);
    this.approvalId = id;
    this.expiresAt = expires_at;
  }
}

/** The call was not run: the server could not be asked, see `cause`, and the tool may change something. */
export class UndecidedCall extends Blocked {
  override name = "UndecidedCall";

  constructor(tool: string, detail: string, cause: Unavailable) {
    super(tool, "unavailable", detail, undefined, { cause });
  }
}

/** A tool ran, and a rule of the sidecar forbids the agent to see the result. */
export class ResultWithheld extends Blocked {
  override name = "ResultWithheld";

  constructor(tool: string, detail: string, decision: GuardRuling) {
    super(tool, "policy", detail, decision, { message: `${tool} ran, and its result is withheld: ${detail}` });
  }
}

/** The rehearsed call failed, at a rate of its contract. */
export class StubFault extends UmbraError {
  override name = "StubFault";

  constructor(
    /** Name of the tool. */
    readonly tool: string,
    /** Name of the error. */
    readonly fault: string,
    /** The error as the tool would have returned it. */
    readonly result: unknown,
  ) {
    super(`${tool} failed in rehearsal: ${fault}`);
  }
}

/** Place at which two changes of a document contradict each other. */
export interface Contradiction {
  /** Section and item, joined by ` / `. */
  place: string;
  /** Kind of the contradiction, as a stable word. */
  kind: string;
  /** Text that is there now, and text that was to replace it. */
  detail: string;
}

/**
 * The document has changed meanwhile, and both changes contradict each other; nothing was changed. Read the document
 * again, and decide.
 */
export class Conflict extends UmbraError {
  override name = "Conflict";

  constructor(
    /** Name of the document. */
    readonly document: string,
    /** Description of the conflict. */
    readonly detail: string,
    /** Places of the contradictions. Empty if the change was made to a state that the document never had. */
    readonly conflicts: readonly Contradiction[],
  ) {
    const places = conflicts.slice(0, 3).map((one) => `; ${one.place}: ${one.detail}`);
    super(`${document}: ${detail}${places.join("")}`);
  }
}

/** A document, or a section of it, was not updated. */
export class NotUpdated extends UmbraError {
  override name = "NotUpdated";

  constructor(
    /** Name of the document. */
    readonly document: string,
    /** Section that was to change; undefined for the whole document. */
    readonly section: string | undefined,
    /** Time since which it has not changed, such as `the last turn`. */
    readonly since: string,
    /** Advice for the agent to read. */
    readonly directives: readonly string[],
  ) {
    super(directives[0] ?? `${document} has not changed`);
  }
}

/** A session was used after its end. */
export class SessionOver extends UmbraError {
  override name = "SessionOver";
}

/** Returns the detail of a problem, with its first faults by place. */
export function problemText(problem: Record<string, unknown>): string {
  const text = String(problem["detail"] ?? problem["title"] ?? "no reason given");
  const faults = fieldFaults(problem).slice(0, 3);
  return faults.length ? `${text} (${faults.map((one) => `${one.pointer} ${one.detail}`.trim()).join("; ")})` : text;
}

function fieldFaults(problem: Record<string, unknown>): FieldFault[] {
  const errors = Array.isArray(problem["errors"]) ? problem["errors"] : [];
  return errors.flatMap((one: unknown) => {
    if (typeof one !== "object" || one === null) return [];
    const { pointer = "", code = "", detail = "" } = one as Record<string, unknown>;
    return [{ pointer: String(pointer), code: String(code), detail: String(detail) }];
  });
}
