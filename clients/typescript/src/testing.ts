/** Sidecar without a server, for tests of programs that use one. */

import { checkFunction, checkMembers } from "./checks.js";
import type { FakeRule } from "./fake_rules.js";
import { checkStep, type FakeRequest, FakeServer, type FakeStep } from "./fake_server.js";
import { empty } from "./sidecar_answers.js";
import type { Logger } from "./transport.js";
import type { Decision, GuardAnswer } from "./types.js";
import { Umbra } from "./umbra.js";

export type { FakeRule, FakeVerdict, Moment } from "./fake_rules.js";
export type { FakeRequest, FakeStep } from "./fake_server.js";

/** Settings of a {@link FakeSidecar}. */
export interface FakeSettings {
  /** Functions that judge every step. The gravest verdict holds, under the name of its function. */
  rules?: readonly FakeRule[];
  /** Name of the agent; `UMBRA_AGENT`, or `typescript`. */
  agent?: string;
  /** Receiver of warnings; the console's `warn` unless given. */
  logger?: Logger;
}

const RULING = ["rule", "reason", "checked_by", "taints", "due", "tool", "effect"] satisfies (keyof GuardAnswer)[];
/** Members of answers, by step. Answers of the other steps have any. */
const MEMBERS: Partial<Record<FakeStep, readonly string[]>> = {
  attach: Object.keys(empty.attachment()),
  turn: Object.keys(empty.turn()),
  message: Object.keys(empty.message()),
  guard: [...Object.keys(empty.guard()), ...RULING],
  select: Object.keys(empty.selection()),
  close: Object.keys(empty.summary()),
  decide: [
    ...(["decision", "reason", "detail", "approval", "stub", "merge", "warning", "execution", "effect"] as const),
    ...(["effect_source", "guard", "explain", "contract", "sandbox", "replayed", "call_id", "decision_id"] as const),
    "audit_seq",
  ] satisfies (keyof Decision)[],
};

/**
 * Sidecar without a server: the sessions of its client {@link umbra} are answered in this process.
 *
 *     const noMail: FakeRule = (at) => at.calls("send_*") && ["block", "mail is off"];
 *
 *     const fake = new FakeSidecar({ rules: [noMail] });
 *     await fake.umbra.sidecar({ task: "find it" }, (s) => agent(s));
 *     assert.equal(fake.asked("message").at(-1)?.["content"], "I could not send it.");
 *
 * Names of tools are compared as the server compares them, and a wrong request is refused as the server refuses it.
 * Tools are ranked, and patterns found, by the words that they share with the query. Supported edits are those of
 * items, states and whole sections in markdown. Nothing is merged: a change to a document that has changed meanwhile is
 * a conflict. Each call of the boundary (`umbra.tool`, `umbra.callTool`, adapters) runs, unless the answer is scripted.
 * Any session can be resumed, any approval is pending until `umbra.approvals` answers it, and events are accepted.
 * Other requests, such as those for findings, throw {@link TypeError}.
 */
export class FakeSidecar {
  /** Client whose sessions the fake answers. */
  readonly umbra: Umbra;
  readonly #server: FakeServer;

  constructor(settings: FakeSettings = {}) {
    checkMembers("new FakeSidecar", settings, ["rules", "agent", "logger"]);
    const { rules = [], ...own } = settings;
    if (!Array.isArray(rules)) throw new TypeError("rules is a list of functions");
    for (const rule of rules) checkFunction("rules", rule);
    const logger = own.logger ?? { info: () => {}, warn: (message) => console.warn(message) };
    this.#server = new FakeServer(rules, logger);
    this.umbra = new Umbra({ ...own, url: this.#server.url, apiKey: "fake", transport: this.#server });
  }

  /** True if the server does not answer. Set it to degrade every answer. */
  get isAway(): boolean {
    return this.#server.isAway;
  }

  set isAway(away: boolean) {
    this.#server.isAway = away;
  }

  /** All requests in order, answered or not. */
  get requests(): readonly FakeRequest[] {
    return this.#server.requests;
  }

  /** Returns the bodies of a step's requests, oldest first. */
  asked(step: FakeStep): FakeRequest["body"][] {
    checkStep(step);
    return this.requests.filter((one) => one.step === step).map(({ body }) => body);
  }

  /** Sets members of the answer to the next such step; repeated calls set those of the steps after it. */
  script(step: FakeStep, members: object): void {
    checkStep(step);
    checkMembers(`script("${step}", members)`, members, MEMBERS[step] ?? Object.keys(Object(members)));
    this.#server.script(step, members);
  }
}
