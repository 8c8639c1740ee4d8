/** Context of calls: agent, session, run, route and modes, and the guardrails that apply. */

import type { Guardrails } from "./guardrails.js";
import { checkTexts } from "./checks.js";
import { asyncValue } from "./platform.js";

/** Agent, session, run, route and modes of a call. */
export interface CallContext {
  /** Name of the agent. */
  agent?: string | undefined;
  /** Session that the call belongs to. */
  session?: string | undefined;
  /** Run that the call belongs to: rehearsed calls of a run remember each other. */
  run?: string | undefined;
  /** Run that started this one; it inherits its execution. */
  parentRun?: string | undefined;
  /** Seed that makes the stubs of a run repeatable. */
  seed?: string | undefined;
  /** Route of the agent, such as `plan`. */
  route?: string | undefined;
  /** Modes of the agent; nested contexts add to them. */
  modes?: readonly string[] | undefined;
}

/** Names of the members of a context. */
export const CONTEXT: readonly string[] = ["agent", "session", "run", "parentRun", "seed", "route", "modes"];
const TEXTS = CONTEXT.slice(0, -1);

interface Ambient {
  context: CallContext;
  guardrails: Guardrails | undefined;
}

const ambient = asyncValue<Ambient>();

/** Returns the context that holds here, and the guardrails. */
export function currentContext(): Ambient {
  return ambient?.getStore() ?? { context: {}, guardrails: undefined };
}

/** Runs `body` and all that it awaits with other values of the context, or other guardrails. */
export function withContext<R>(change: Partial<Ambient>, body: () => R): R {
  if (ambient === undefined) {
    throw new Error("this runtime has no AsyncLocalStorage: give run, session, route and modes to each call");
  }
  return ambient.run({ ...currentContext(), ...change }, body);
}

/** Returns the inner context over the outer one. Modes stack: inner ones are added to outer ones. */
export function overlaid(inner: CallContext, outer: CallContext): CallContext {
  checkTexts(inner, TEXTS);
  const { modes = [] } = inner;
  if (!Array.isArray(modes)) throw new TypeError("modes is a list of names");
  const parentRun =
    inner.parentRun ?? (inner.run && outer.run !== inner.run ? outer.run : undefined) ?? outer.parentRun;
  return {
    agent: inner.agent || outer.agent,
    session: inner.session || outer.session,
    run: inner.run || outer.run,
    parentRun: parentRun || undefined,
    seed: inner.seed || outer.seed,
    route: inner.route || outer.route,
    modes: [...(outer.modes ?? []), ...modes],
  };
}
