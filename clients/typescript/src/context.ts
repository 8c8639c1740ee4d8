/** Context of calls: agent, session, run, route and modes, the guardrails that apply, and the calls that run. */

import type { Guardrails } from "./guardrails.js";
import { checkTexts } from "./checks.js";
import { asyncValue } from "./platform.js";
import { isRecord } from "./transport.js";
import type { Effect } from "./types.js";

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

/** A decided call: while it runs, its decision holds for the same call of other guards around the same tool. */
export interface DecidedCall {
  /** Boundary, session or client that decides. */
  owner: object;
  /** Name of the tool, `server.name` where it has a server. */
  name: string;
  /** Context of the call, or force and place of the rules. */
  scope: string;
  arguments: Record<string, unknown>;
  /** Guard that asks, and those that the decision let pass. Each passes once: a tool may call itself. */
  guards: object[];
  /** Effect of the tool, if the decision is for calls of no stricter one. */
  effect?: Effect | undefined;
  isOver?: boolean;
}

const GRAVITY: readonly (Effect | undefined)[] = [undefined, "read", "write", "destructive"];

interface Ambient {
  context: CallContext;
  guardrails: Guardrails | undefined;
  /** Decided calls of one tool that run here, outermost first. */
  decided: readonly DecidedCall[];
}

const ambient = asyncValue<Ambient>();

/** Returns the context that holds here, and the guardrails. */
export function currentContext(): Ambient {
  return ambient?.getStore() ?? { context: {}, guardrails: undefined, decided: [] };
}

/** Runs `body` and all that it awaits with other values of the context, or other guardrails. */
export function withContext<R>(change: Partial<Ambient>, body: () => R): R {
  if (ambient === undefined) {
    throw new Error("this runtime has no AsyncLocalStorage: give run, session, route and modes to each call");
  }
  return ambient.run({ ...currentContext(), ...change }, body);
}

/** Runs the body of a decided call. */
export async function runDecided<R>(call: DecidedCall, body: () => R | PromiseLike<R>): Promise<R> {
  if (ambient === undefined) return await body();
  const outer = currentContext();
  const decided = [...outer.decided.filter((one) => ownName(one) === ownName(call)), call];
  try {
    return await ambient.run({ ...outer, decided }, body);
  } finally {
    call.isOver = true;
  }
}

/**
 * Returns true if the call runs by the decision about the one whose body makes it. `warn` receives the name of that one
 * if the call differs in its server, has more arguments or a stricter effect: then it is to be decided.
 */
export function isDecided(call: DecidedCall, warn: (outer: string) => void = () => {}): boolean {
  const [guard] = call.guards as [object];
  const twins = currentContext().decided.filter(
    (one) =>
      !one.isOver &&
      one.owner === call.owner &&
      one.scope === call.scope &&
      ownName(one) === ownName(call) &&
      !one.guards.includes(guard) &&
      sortedJson(Object.keys(one.arguments).map((name) => call.arguments[name])) ===
        sortedJson(Object.values(one.arguments)),
  );
  const same = twins.find(
    (one) =>
      one.name === call.name &&
      sortedJson(one.arguments) === sortedJson(call.arguments) &&
      GRAVITY.indexOf(call.effect) <= GRAVITY.indexOf(one.effect),
  );
  same?.guards.push(guard);
  if (same === undefined && twins[0]) warn(twins[0].name);
  return same !== undefined;
}

/** Returns a tool's name without its server. */
function ownName({ name }: DecidedCall): string {
  return name.slice(name.lastIndexOf(".") + 1);
}

/** Returns JSON with the members of objects in order: a framework's schema puts them in another one than the model. */
function sortedJson(value: unknown): string {
  const sorted = (one: Record<string, unknown>) => Object.keys(one).sort().map((key) => [key, one[key]]);
  return JSON.stringify(value, (_, one: unknown) => (isRecord(one) ? Object.fromEntries(sorted(one)) : one));
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
