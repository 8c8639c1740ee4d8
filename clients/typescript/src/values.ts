/** Conversion of values to JSON, and rehearsed changes in results. */

/** Most values in the arguments or the result of a call. */
export const MOST_VALUES = 250_000;
/** Most values in a result that rehearsed changes are merged into. */
export const MOST_MERGED = 2_000_000;
const MOST_DEPTH = 32;

/**
 * Converts a value to JSON. A value without a form in JSON becomes its text, so that rules can still read it. Throws if
 * the value has more than `most` parts, or cannot be read.
 */
export function toJson(value: unknown, most = Infinity, clean = wellFormed): unknown {
  return converted(value, most, clean, false);
}

/**
 * Converts the arguments of a call to JSON, as {@link toJson} does. Instances of a program's classes may hold keys and
 * connections: `<ClassName>` takes their place, unless all arguments are what a model gave and its schema made of it.
 */
export function argumentsJson(given: Record<string, unknown>, isFromModel = false): Record<string, unknown> {
  return converted(given, MOST_VALUES, wellFormed, !isFromModel) as Record<string, unknown>;
}

/** Returns the body of a request as text. Throws {@link TypeError} with its name if it has no form in JSON. */
export function jsonText(what: string, body: unknown): string {
  try {
    return JSON.stringify(body);
  } catch (error) {
    const [why] = (error as Error).message.split("\n");
    throw new TypeError(`${what} cannot be written as JSON: ${why}`, { cause: error });
  }
}

function converted(value: unknown, most: number, clean: (text: string) => string, hidesInstances: boolean): unknown {
  let left = most;

  function convert(one: unknown, depth: number): unknown {
    left -= 1;
    if (left < 0) throw new RangeError("it has too many values");
    switch (typeof one) {
      case "string":
        return clean(one);
      case "boolean":
        return one;
      case "number":
        return Number.isFinite(one) ? one : `<number ${one}>`;
      case "undefined":
        return null;
      case "object":
        break;
      case "bigint":
        return String(one);
      default:
        // A function, whose source may hold anything, or a symbol.
        return `<${typeof one}>`;
    }
    if (one === null) return null;
    if (depth === MOST_DEPTH) return clean(JSON.stringify(convert(one, depth + 1)));
    if (Array.isArray(one)) return Array.from(one, (item) => convert(item, depth + 1));
    // Buffers have a toJSON, which makes numbers of their text.
    if (ArrayBuffer.isView(one)) return bytesText(new Uint8Array(one.buffer, one.byteOffset, one.byteLength));
    if (one instanceof ArrayBuffer) return bytesText(new Uint8Array(one));
    const { toJSON } = one as { toJSON?: unknown };
    if (one instanceof Date) return Number.isNaN(one.getTime()) ? String(one) : one.toISOString();
    // Bun's has a toJSON, which other runtimes' have not.
    if (one instanceof URLSearchParams) return clean(String(one));
    if (typeof toJSON === "function") return convert(toJSON.call(one), depth + 1);
    if (one instanceof String || one instanceof Number || one instanceof Boolean) return convert(one.valueOf(), depth);
    if (one instanceof Map) return keyed([...one].map(([key, item]) => [clean(String(key)), convert(item, depth + 1)]));
    if (one instanceof Set) return Array.from(one, (item) => convert(item, depth + 1));
    if (one instanceof Error) return clean(`${one.name}: ${one.message}`);
    const members = Object.entries(one).filter(([, item]) => item !== undefined);
    const isText = members.length === 0 && one.toString !== Object.prototype.toString;
    if (hidesInstances && depth > 0 && !isPlain(one) && !isText) {
      return clean(`<${className(one)}>`);
    }
    // Objects without members of their own show their content as text alone.
    if (members.length === 0 && !isPlain(one)) return clean(String(one));
    return keyed(members.map(([key, item]) => [clean(key), convert(item, depth + 1)]));
  }

  try {
    return convert(value, 0);
  } catch (error) {
    if (!/call stack/.test(String(error))) throw error;
    throw new TypeError("it contains itself, or is nested too deeply", { cause: error });
  }
}

/** True for an object of no class, also of another realm. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function className(instance: object): string {
  const { name } = Object((Object.getPrototypeOf(instance) as object).constructor) as { name?: unknown };
  return typeof name === "string" && name ? name : "object";
}

/**
 * Returns UTF-8 as text, of other bytes those that are no ASCII as `\xNN`, and zero as `\x00`. A backslash before an
 * `x` is `\x5c`, so that unequal bytes have unequal texts.
 */
function bytesText(bytes: Uint8Array): string {
  const escaped = (text: string) => text.replaceAll("\\x", "\\x5cx").replaceAll("\0", "\\x00");
  try {
    return escaped(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    const signs = escaped(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
    return signs.replace(/[^\0-\x7f]/g, (sign) => `\\x${sign.charCodeAt(0).toString(16)}`);
  }
}

/** Replaces halves of characters, which UTF-8 cannot hold. */
export function wellFormed(text: string): string {
  return text.replace(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g, "\uFFFD");
}

/** Replaces U+0000 as well: the sidecar cannot store it, and results of tools may hold it. */
export function withoutNul(text: string): string {
  return wellFormed(text).replaceAll("\0", "\uFFFD");
}

/** Builds an object of all pairs. A repeated name gets another name, so that no value is hidden. */
function keyed(pairs: [string, unknown][]): Record<string, unknown> {
  const named = new Map<string, unknown>();
  for (const [key, item] of pairs) {
    let name = key;
    while (named.has(name)) name += "~";
    named.set(name, item);
  }
  return Object.fromEntries(named);
}

/** Changes that a run has rehearsed, in the form of `merge` of a decision. */
export interface RehearsedChanges {
  items?: string | null;
  key?: string | null;
  put?: Record<string, unknown>[] | null;
  remove?: string[] | null;
  patch?: Record<string, Record<string, unknown>> | null;
  more?: string | null;
  text?: TextChanges | null;
}

interface TextChanges {
  edits?: { oldText: string; newText: string }[] | null;
  remove?: string[] | null;
  add?: string[] | null;
}

type Members = Record<string, unknown>;

/** Merges the run's rehearsed changes into the result of a read that ran: a run reads its own writes. */
export function mergeRehearsed(result: unknown, merge: RehearsedChanges): unknown {
  const { key } = merge;
  const patch = new Map(Object.entries(merge.patch ?? {}));
  const at = (path: string | null | undefined): unknown =>
    (path ?? "")
      .split(".")
      .filter(Boolean)
      .reduce<unknown>((found, step) => (isMembers(found) ? own(found, step) : undefined), result);
  const keyOf = (item: unknown): string | undefined => {
    const value = key && isMembers(item) ? own(item, key) : undefined;
    if (typeof value !== "string" && typeof value !== "number") return undefined;
    return String(value) || undefined;
  };

  const items = at(merge.items);
  if (typeof items === "string" && merge.text) {
    const text = mergeText(items, merge.text);
    const steps = (merge.items ?? "").split(".");
    const name = steps.pop();
    if (!name) return text;
    (at(steps.join(".")) as Members)[name] = text;
    return result;
  }
  if (isMembers(items) && !key && (items["error"] ?? null) === null) {
    // A result that is an error is no record, and has no fields to change.
    for (const fields of patch.values()) layOver(items, fields);
  }
  if (!Array.isArray(items)) return result;
  const removed = new Set(merge.remove ?? []);
  const kept: unknown[] = [];
  for (const item of items) {
    const name = keyOf(item);
    if (name !== undefined && removed.has(name)) continue;
    const fields = name === undefined ? undefined : patch.get(name);
    if (fields !== undefined) layOver(item as Members, fields);
    kept.push(item);
  }
  items.length = 0;
  for (const item of kept) items.push(item);
  const isLast = !merge.more || [null, undefined, false, "", 0].includes(at(merge.more) as null);
  for (const record of merge.put ?? []) {
    const wanted = keyOf(record);
    const place = wanted === undefined ? -1 : items.findIndex((item) => keyOf(item) === wanted);
    if (place >= 0) items[place] = record;
    else if (isLast) items.push(record);
  }
  return result;
}

function mergeText(text: string, changes: TextChanges): string {
  for (const { oldText, newText } of changes.edits ?? []) text = text.replace(oldText, () => newText);
  const [remove, add] = [changes.remove ?? [], changes.add ?? []];
  if (remove.length === 0 && add.length === 0) return text;
  const all = text === "" ? [] : text.replace(/\r?\n$/, "").split(/\r?\n/);
  const lines = all.filter((line) => !remove.includes(line));
  for (const line of add) if (!lines.includes(line)) lines.push(line);
  return lines.join("\n");
}

/** Lays fields over those of a record, members of members as well; null counts as a value. */
function layOver(record: Members, fields: Members): void {
  for (const [name, value] of Object.entries(fields)) {
    const present = own(record, name);
    if (isMembers(present) && isMembers(value)) layOver(present, value);
    else Object.defineProperty(record, name, { value, configurable: true, enumerable: true, writable: true });
  }
}

function own(record: Members, name: string): unknown {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}

function isMembers(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
