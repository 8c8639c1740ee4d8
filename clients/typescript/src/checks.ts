/** Checks of parameters, for programs without types: a wrong one would be dropped, or be an error elsewhere. */

import { isRecord } from "./transport.js";

/** Checks that a parameter is an object. `example` is a right one. */
export function checkObject(what: string, value: unknown, example: string): void {
  if (!isRecord(value)) throw new TypeError(`${what} takes an object such as ${example}, not ${describeKind(value)}`);
}

/** Checks that an object has no other members than those of `known`. */
export function checkMembers(what: string, value: unknown, known: readonly string[]): void {
  checkObject(what, value, `{ ${known[0]} }`);
  const other = Object.keys(value as object).find((name) => !known.includes(name));
  if (other !== undefined) throw new TypeError(`${what} takes no ${other}; it takes ${known.join(", ")}`);
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
