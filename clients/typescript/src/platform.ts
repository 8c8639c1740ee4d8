/** Parts of the platform that not every runtime has: variables, files and the asynchronous context. */

interface NodeProcess {
  env: Record<string, string | undefined>;
  pid: number;
  getBuiltinModule?(name: string): unknown;
}

const node = (globalThis as { process?: NodeProcess }).process;

function builtin<T>(name: string): T | undefined {
  try {
    return node?.getBuiltinModule?.(name) as T | undefined;
  } catch {
    return undefined;
  }
}

/** True in Node, Deno and Bun, false in browsers. */
export const hasProcess = node?.getBuiltinModule !== undefined;

/** Name of this process, for the run that its calls belong to. */
export const processName = `process-${randomId().slice(0, 12)}-${node?.pid ?? 0}`;

/** Returns the variables of the environment; none in a browser, and none that the runtime refuses to show. */
export function environment(): Record<string, string | undefined> {
  try {
    return { ...node?.env };
  } catch {
    return {};
  }
}

/** Returns the first line of a file. Throws if it cannot be read. */
export function firstLine(path: string): string {
  const files = builtin<{ readFileSync(path: string, encoding: "utf8"): string }>("node:fs");
  if (files === undefined) throw new Error("this runtime reads no files");
  return (files.readFileSync(path, "utf8").split("\n", 1)[0] ?? "").trim();
}

/** Values that hold for a call and all that it awaits, where the runtime has them (`AsyncLocalStorage`). */
export interface AsyncValue<T> {
  getStore(): T | undefined;
  run<R>(value: T, body: () => R): R;
}

/** Returns a new asynchronous value; undefined in runtimes without it, such as browsers. */
export function asyncValue<T>(): AsyncValue<T> | undefined {
  const hooks = builtin<{ AsyncLocalStorage: new () => AsyncValue<T> }>("node:async_hooks");
  return hooks && new hooks.AsyncLocalStorage();
}

/** Returns 32 random hex digits. */
export function randomId(): string {
  // crypto.randomUUID is missing in pages that are not served over HTTPS.
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
