/** Checks of parameters, for programs without types: a wrong one would be dropped, or be an error elsewhere. */

import { isRecord, type RequestOptions } from "./transport.js";

/** Checks that a parameter is an object. `example` is a right one. */
export function checkObject(what: string, value: unknown, example: string): void {
  if (!isRecord(value)) throw new TypeError(`${what} takes an object such as ${example}, not ${describeKind(value)}`);
}

/** Checks that an object has no other members than those of `known`. */
export function checkMembers(what: string, value: unknown, known: readonly string[]): void {
  checkObject(what, value, `{ ${known[0]} }`);
  const other = Object.keys(value as object).find((name) => !known.includes(name));
  if (other === undefined) return;
  const near = closest(other, known);
  throw new TypeError(`${what} takes no ${other}; it takes ${known.join(", ")}${near ? `: is it ${near}?` : ""}`);
}

/** Returns the signal of options that have nothing else. */
export function signalOf(what: string, options: { signal?: AbortSignal | undefined }): AbortSignal | undefined {
  checkMembers(what, options, ["signal"]);
  return options.signal;
}

/** Returns the name that a misspelt one resembles most, if it resembles any: two thirds of both are the same. */
export function closest(name: string, names: Iterable<string> = []): string | undefined {
  const likeness = (other: string) => (2 * commonLength(name, other)) / (name.length + other.length);
  const [best] = [...names].sort((a, b) => likeness(b) - likeness(a));
  return best !== undefined && best !== name && likeness(best) > 0.66 ? best : undefined;
}

/** Returns the length of the longest sequence of signs that both texts have, in any case. */
function commonLength(one: string, other: string): number {
  let row = new Array<number>(other.length + 1).fill(0);
  for (const sign of one.toLowerCase()) {
    const next = [0];
    for (let at = 0; at < other.length; at++) {
      const isSame = other[at]?.toLowerCase() === sign;
      next.push(isSame ? (row[at] ?? 0) + 1 : Math.max(next[at] ?? 0, row[at + 1] ?? 0));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}

/** Checks the options of a request, which has those of `more` as well. */
export function checkOptions(what: string, options: RequestOptions, ...more: readonly string[]): void {
  checkMembers(what, options, [...more, "timeoutMs", "signal"]);
  // Without time some look once.
  if (options.timeoutMs !== undefined && options.timeoutMs !== 0) positive("timeoutMs", options.timeoutMs);
}

/** Returns a duration. Throws {@link TypeError} if it is none. */
export function positive(name: string, ms: number): number {
  if (typeof ms !== "number" || !(ms > 0)) throw new TypeError(`${name} is in milliseconds and above 0`);
  return ms;
}

/** Checks that members of an object are texts, unless they are missing. */
export function checkTexts(value: object, names: readonly string[]): void {
  for (const name of names) {
    const one = (value as Record<string, unknown>)[name] ?? "";
    if (typeof one !== "string") throw new TypeError(`${name} is a text, not ${describeKind(one)}`);
  }
}

/** Checks that a member is a list, unless it is missing. */
export function checkList(name: string, value: unknown): void {
  if (value !== undefined && value !== null && !Array.isArray(value)) throw new TypeError(`${name} is a list`);
}

/** Checks that a parameter is a function that is no generator, which has not run when it returns. */
export function checkFunction(what: string, value: unknown): void {
  if (typeof value !== "function") throw new TypeError(`${what} takes a function, not ${describeKind(value)}`);
  if (value.constructor.name.endsWith("GeneratorFunction")) {
    throw new TypeError(`${value.name || "the tool"} is a generator: a tool returns its result, so collect it first`);
  }
}

/** Returns the kind of a value, with its article. */
export function describeKind(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  if (value === null || value === undefined) return String(value);
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

/** Returns the arguments of a tool, which are none at all or an object. */
export function argumentsOf(name: string, given: unknown): Record<string, unknown> {
  if (given === undefined || given === null) return {};
  if (!isRecord(given)) throw new TypeError(`${name} takes one object of named arguments, not ${describeKind(given)}`);
  return given;
}

/** Returns a part of a path. An empty one would ask another operation. */
export function segment(value: string): string {
  if (typeof value !== "string" || value === "")
    throw new TypeError(`an id is a text, not ${JSON.stringify(value) ?? "undefined"}`);
  return encodeURIComponent(value).replace(/^\.+$/, (dots) => "%2E".repeat(dots.length));
}
