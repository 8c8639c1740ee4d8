/** Settings of a client, their checks, and the variables that stand in for them. */

import { errorText } from "./boundary.js";
import { firstLine } from "./platform.js";
import type { Logger, Transport } from "./transport.js";

/** Settings of a client. What is left out is taken from the variables `UMBRA_...`, where the runtime has variables. */
export interface UmbraSettings {
  /** Address of the server; `UMBRA_URL`, or `http://127.0.0.1:7817`. */
  url?: string | undefined;
  /** Key; `UMBRA_API_KEY`, or the first line of the file `UMBRA_API_KEY_FILE`. */
  apiKey?: string | undefined;
  /** Name of the agent; `UMBRA_AGENT`, or `typescript`. */
  agent?: string | undefined;
  /** Session of calls of tools; `UMBRA_SESSION`. */
  session?: string | undefined;
  /** Run of calls of tools; `UMBRA_RUN`; without run and session, calls of tools belong to a run of the process. */
  run?: string | undefined;
  /** Seed that makes the stubs of a run repeatable; `UMBRA_SEED`. */
  seed?: string | undefined;
  /** Longest time of a request with all its attempts, in milliseconds; 30,000 unless given. */
  timeoutMs?: number | undefined;
  /** Longest wait for a decision, and for an answer of the sidecar, in milliseconds; 2,000 unless given. */
  decisionTimeoutMs?: number | undefined;
  /** Receiver of warnings and notes (`warn`, `info`); the console's `warn` for warnings alone unless given. */
  logger?: Logger | undefined;
  /** `fetch` to send requests with; that of the runtime unless given. */
  fetch?: typeof fetch | undefined;
  /** @internal Connection in place of one to `url`. */
  transport?: Transport | undefined;
}

/** Names of the settings that are texts. */
export const TEXT_SETTINGS: readonly string[] = ["url", "apiKey", "agent", "session", "run", "seed"];
/** Names of all settings. */
export const SETTINGS: readonly string[] = [
  ...TEXT_SETTINGS,
  ...["timeoutMs", "decisionTimeoutMs", "logger", "fetch"],
];

/** Returns an address without its last slash. A wrong one is not repeated in the error: it may hold a password. */
export function serverAddress(url: string): string {
  const wanted = "write http://HOST:PORT or https://HOST";
  if (typeof url !== "string" || !/^https?:\/\//i.test(url))
    throw new TypeError(`url (or UMBRA_URL) begins with neither http:// nor https://: ${wanted}`);
  let parts: URL;
  try {
    parts = new URL(url);
  } catch {
    throw new TypeError(`url (or UMBRA_URL) is no address of a server: ${wanted}`);
  }
  if (parts.username || parts.password)
    throw new TypeError(`url (or UMBRA_URL) has a user or a password: ${wanted}, and set apiKey`);
  if (parts.search || parts.hash) throw new TypeError(`url (or UMBRA_URL) has a query or a fragment: ${wanted}`);
  const address = `${parts.origin}${parts.pathname}`.replace(/\/+$/, "");
  if (address.endsWith("/v1")) throw new TypeError(`url (or UMBRA_URL) ends in /v1: leave that out`);
  return address;
}

function keyIn(file: string): string {
  try {
    return firstLine(file);
  } catch (error) {
    throw new Error(`UMBRA_API_KEY_FILE cannot be read: ${errorText(error)}`, { cause: error });
  }
}

/** Returns the key. A wrong one is not repeated in the error. */
export function credential(
  given: string | undefined,
  variables: Record<string, string | undefined>,
): string | undefined {
  const file = variables["UMBRA_API_KEY_FILE"];
  const key = given || variables["UMBRA_API_KEY"] || (file ? keyIn(file) : undefined);
  if (key && !/^[\x21-\x7e]+$/.test(key))
    throw new TypeError("the key has characters that no key has, such as a blank or a line end");
  return key || undefined;
}
