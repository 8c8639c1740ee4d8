/** Requests over `fetch`: one deadline for all attempts, safe repetition, problem details, and server-sent events. */

import { Deadline, pause } from "./deadline.js";
import { APIError, problemText, Unavailable } from "./errors.js";
import { ServerHealth } from "./health.js";
import { hasProcess } from "./platform.js";
import { VERSION } from "./version.js";

/** Options of every request. */
export interface RequestOptions {
  /** Aborts the request; its `reason` is thrown. */
  signal?: AbortSignal | undefined;
  /** Longest time of the whole request with all its attempts, in milliseconds. */
  timeoutMs?: number | undefined;
}

/** Receiver of messages; `console` is one. */
export interface Logger {
  /** Receives what is no trouble. */
  info(message: string): void;
  /** Receives warnings. */
  warn(message: string): void;
}

/**
 * Repetition of a request that has no answer. `never`: it is sent once. `once`: it is sent a second time at once if the
 * connection fails. `retry`: it is sent until the deadline, with growing pauses, also after 408, 425, 429 and 5xx.
 */
export type Repetition = "never" | "once" | "retry";

export interface WireRequest {
  method: string;
  path: string;
  query?: Record<string, unknown> | undefined;
  headers?: Record<string, string> | undefined;
  /** Body as JSON text. */
  body?: string | undefined;
  repetition: Repetition;
}

export interface WireAnswer {
  status: number;
  /**
   * JSON value of the body, a list of the values of lines of JSON, or plain text; of a refusal that is no JSON, a
   * problem with the text. Undefined without a body.
   */
  body: unknown;
}

/** One server-sent event. */
export interface ServerSentEvent {
  id: string;
  event: string;
  data: string;
}

/** Pauses between attempts, in milliseconds: they double up to the greatest, and half of each is random. */
const FIRST_PAUSE_MS = 100;
const MOST_PAUSE_MS = 3_000;
/** Silence after which a stream is dead, in milliseconds; the server sends a comment every 15 s. */
const SILENCE_MS = 60_000;
const MOST_EVENT_CHARS = 16 * 1024 * 1024;

const TRY_AGAIN = new Set([408, 425, 429]);
const NO_TLS = "it speaks no TLS: write http:// in place of https://";

export interface TransportSettings {
  url: string;
  apiKey: string | undefined;
  fetch: typeof fetch | undefined;
  logger: Logger;
  /** False for a fake, which a test lets come back: it is never left alone. */
  rests?: boolean;
}

export class Transport {
  readonly url: string;
  readonly logger: Logger;
  /** Faults of the server in a row. Only requests of sidecars count; an answer to any request ends their pause. */
  readonly health: ServerHealth;
  // Private names: neither a log of this object nor JSON shows the key.
  readonly #apiKey: string | undefined;
  readonly #fetch: typeof fetch;

  constructor(settings: TransportSettings) {
    this.url = settings.url;
    this.logger = settings.logger;
    this.health = new ServerHealth(settings.rests ?? true);
    this.#apiKey = settings.apiKey;
    this.#fetch = settings.fetch ?? ((input, init) => globalThis.fetch(input, init));
  }

  /** Sends a request and returns the JSON of its answer. Throws {@link APIError} and {@link Unavailable}. */
  async request(request: WireRequest, timeoutMs: number, signal: AbortSignal | undefined): Promise<unknown> {
    const { status, body } = await this.exchange(request, timeoutMs, signal);
    if (status < 200 || status >= 300) throw this.refusal(request, { status, body });
    this.health.answered();
    return body;
  }

  /** Returns the error of an answer other than 2xx. */
  refusal(request: Pick<WireRequest, "method" | "path">, { status, body }: WireAnswer): APIError | Unavailable {
    const problem = isRecord(body) ? body : {};
    const said = `${request.method} ${request.path}`;
    const isStranger = status < 400 || ((status === 404 || status === 405) && typeof problem["code"] !== "string");
    if (isStranger) return this.#stranger(`it answered ${status} to ${said}`);
    if (!TRY_AGAIN.has(status) && status < 500) return new APIError(said, status, problem);
    return new Unavailable(`${this.url} answered ${status} to ${said}: ${problemText(problem)}`, status);
  }

  /** Sends a request and returns its answer, of any status. Throws {@link Unavailable} if there is none. */
  async exchange(request: WireRequest, timeoutMs: number, signal: AbortSignal | undefined): Promise<WireAnswer> {
    signal?.throwIfAborted();
    const deadline = new Deadline(timeoutMs, signal);
    try {
      for (let attempt = 1; ; attempt++) {
        const outcome = await this.#attempt(request, deadline);
        signal?.throwIfAborted();
        const answered = !(outcome instanceof Unavailable);
        const isDone = answered && outcome.status < 500 && !TRY_AGAIN.has(outcome.status);
        const mayRepeat =
          request.repetition === "retry" || (request.repetition === "once" && attempt === 1 && !answered);
        const wait =
          request.repetition === "retry" ? pauseBefore(attempt, answered ? outcome.retryAfterMs : undefined) : 0;
        if (isDone || !mayRepeat || deadline.isPast || wait >= deadline.left()) {
          if (answered) return outcome;
          throw outcome;
        }
        if (wait > 0) await deadline.pause(wait);
        signal?.throwIfAborted();
      }
    } finally {
      deadline.end();
    }
  }

  /**
   * Yields server-sent events, and continues behind the last one after each interruption. Throws {@link Unavailable} if
   * the stream cannot be opened within `timeoutMs`; a stream that was open once is resumed until the caller aborts or
   * `giveUpMs` have passed without a connection. Throws {@link APIError} if the server refuses the stream.
   */
  async *events(
    request: { path: string; query?: Record<string, unknown> | undefined; after?: string | undefined },
    options: { timeoutMs: number; giveUpMs?: number | undefined; signal?: AbortSignal | undefined },
  ): AsyncGenerator<ServerSentEvent, void, void> {
    let last = request.after;
    let lost: number | undefined;
    let failures = 0;
    const opened = performance.now();
    let wasOpen = false;
    for (;;) {
      options.signal?.throwIfAborted();
      let failure: Unavailable;
      try {
        for await (const event of this.#stream({ ...request, after: last }, options.timeoutMs, options.signal)) {
          wasOpen = true;
          failures = 0;
          lost = undefined;
          if (event.id) last = event.id;
          yield event;
        }
        failure = new Unavailable(`the stream ${request.path} was interrupted`);
      } catch (error) {
        options.signal?.throwIfAborted();
        if (!(error instanceof Unavailable)) throw error;
        failure = error;
      }
      failures += 1;
      if (failures === 1) lost = performance.now();
      const wait = pauseBefore(failures, undefined);
      const limit = wasOpen ? (options.giveUpMs ?? Infinity) : options.timeoutMs;
      const since = wasOpen ? (lost ?? performance.now()) : opened;
      if ((failure.isLasting && !wasOpen) || performance.now() + wait - since > limit) throw failure;
      if (wasOpen && failures === 1) this.logger.warn(`umbra: ${failure.message}; it is resumed`);
      await pause(wait, options.signal);
    }
  }

  async #attempt(
    request: WireRequest,
    deadline: Deadline,
  ): Promise<Unavailable | (WireAnswer & { retryAfterMs?: number })> {
    let response: Response;
    let text: string;
    try {
      response = await this.#fetch(this.#address(request), {
        method: request.method,
        headers: this.#headers(request),
        redirect: "manual",
        signal: deadline.signal,
        ...(request.body === undefined ? {} : { body: request.body }),
      });
      text = await response.text();
    } catch (error) {
      const why = deadline.isPast ? `no answer within ${deadline.ms} ms` : failureText(error);
      const told = `Umbra did not answer${deadline.isPast ? ` within ${deadline.ms} ms` : ""}`;
      const options = { cause: error, told, isLasting: isLasting(why) };
      const failure = new Unavailable(`${this.url} did not answer: ${why}`, undefined, options);
      if (failure.isLasting) throw failure;
      return failure;
    }
    const answer = { status: response.status, ...retryAfter(response) };
    const [kind] = (response.headers.get("content-type") ?? "").split(";");
    try {
      if (response.ok && kind === "text/plain") return { ...answer, body: text };
      if (kind === "application/x-ndjson")
        return { ...answer, body: text.split("\n").filter(Boolean).map((line): unknown => JSON.parse(line)) };
      return { ...answer, body: text === "" ? undefined : JSON.parse(text) };
    } catch {
      // A proxy may have written the refusal, in any form.
      if (!response.ok) return { ...answer, body: { detail: text.slice(0, 200) } };
      throw this.#stranger(`its answer to ${request.method} ${request.path} is no JSON`);
    }
  }

  async *#stream(
    request: { path: string; query?: Record<string, unknown> | undefined; after: string | undefined },
    timeoutMs: number,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<ServerSentEvent, void, void> {
    // To open the stream, and later each silence, has its own time.
    const deadline = new Deadline(timeoutMs, signal);
    try {
      const headers: Record<string, string> = { accept: "text/event-stream" };
      if (request.after !== undefined) headers["last-event-id"] = request.after;
      const wire: WireRequest = {
        method: "GET",
        path: request.path,
        query: request.query,
        headers,
        repetition: "never",
      };
      const response = await this.#fetch(this.#address(wire), {
        headers: this.#headers(wire),
        redirect: "manual",
        signal: deadline.signal,
      });
      if (!response.ok) {
        const text = await response.text();
        throw this.refusal(wire, { status: response.status, body: parsed(text) ?? { detail: text.slice(0, 200) } });
      }
      const kind = response.headers.get("content-type") ?? "no type";
      if (!kind.startsWith("text/event-stream") || response.body === null) {
        throw this.#stranger(`GET ${request.path} has ${kind}, and is no stream of events`);
      }
      this.health.answered();
      const reader = response.body.getReader();
      const parser = new EventParser();
      try {
        for (;;) {
          deadline.restart(SILENCE_MS);
          const { done, value } = await reader.read();
          // A reader that takes its time with an event is no silence of the server.
          deadline.stop();
          if (done) return;
          yield* parser.push(value);
        }
      } finally {
        await reader.cancel().catch(() => {});
      }
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof APIError || error instanceof Unavailable) throw error;
      const why = deadline.isPast ? `nothing came within ${deadline.ms} ms` : failureText(error);
      const options = { cause: error, isLasting: isLasting(why) };
      throw new Unavailable(`the stream ${request.path} of ${this.url} was interrupted: ${why}`, undefined, options);
    } finally {
      deadline.end();
    }
  }

  #stranger(what: string): Unavailable {
    const text = `what answers at ${this.url} is no server of Umbra: ${what}`;
    return new Unavailable(text, undefined, { isLasting: true });
  }

  #address(request: WireRequest): string {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(request.query ?? {})) {
      if (value !== undefined && value !== null) query.append(name, String(value));
    }
    const text = query.toString();
    return `${this.url}${request.path}${text && `?${text}`}`;
  }

  #headers(request: WireRequest): Record<string, string> {
    return {
      accept: "application/json",
      ...(request.body === undefined ? {} : { "content-type": "application/json" }),
      ...(this.#apiKey === undefined ? {} : { authorization: `Bearer ${this.#apiKey}` }),
      ...(hasProcess ? { "user-agent": `umbra-typescript/${VERSION}` } : {}),
      ...request.headers,
    };
  }
}

/** Parser of a stream of server-sent events, as the HTML standard has it. */
export class EventParser {
  readonly #decoder = new TextDecoder();
  #rest = "";
  #id = "";
  #event = "";
  #data: string[] = [];
  #hasId = false;

  /** Takes the next bytes, and yields the events that are complete. An id without data is an event as well. */
  *push(bytes: Uint8Array): Generator<ServerSentEvent> {
    this.#rest += this.#decoder.decode(bytes, { stream: true });
    if (this.#rest.length > MOST_EVENT_CHARS) throw new Error("a line of the stream is too long");
    // A CR at the end may be half of a CRLF.
    const lines = this.#rest.split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        if (this.#data.length > 0 || this.#hasId) {
          yield { id: this.#id, event: this.#event, data: this.#data.join("\n") };
        }
        this.#event = "";
        this.#data = [];
        this.#hasId = false;
        continue;
      }
      const colon = line.indexOf(":");
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (name === "data") this.#data.push(value);
      else if (name === "event") this.#event = value;
      else if (name === "id" && !value.includes("\0")) {
        this.#id = value;
        this.#hasId = true;
      }
    }
  }
}

/** Returns the pause before the next attempt, in milliseconds: what the server asks for, else it grows. */
function pauseBefore(attempt: number, asked: number | undefined): number {
  if (asked !== undefined) return asked;
  const most = Math.min(MOST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(attempt - 1, 10));
  return most * (0.5 + Math.random() / 2);
}

function retryAfter(response: Response): { retryAfterMs?: number } {
  const asked = response.headers.get("retry-after");
  if (asked === null) return {};
  const ms = /^\d+$/.test(asked) ? Number(asked) * 1_000 : Date.parse(asked) - Date.now();
  return Number.isNaN(ms) ? {} : { retryAfterMs: Math.max(0, ms) };
}

function failureText(error: unknown): string {
  // fetch hides its reason in `cause`, and that may be a list of reasons.
  let deepest: unknown = error;
  for (let depth = 0; depth < 4 && isRecord(deepest); depth++) {
    const inner: unknown = (deepest["errors"] as unknown[] | undefined)?.[0] ?? deepest["cause"];
    if (!isRecord(inner)) break;
    deepest = inner;
  }
  if (!isRecord(deepest)) return String(deepest);
  const text = String(deepest["message"] || deepest["code"] || deepest["name"] || "the connection failed");
  // Reasons of Node (by its OpenSSL), Deno and Bun for an answer that is no TLS.
  return /wrong.version.number|packet length too long|InvalidContentType|speak TLS/i.test(text) ? NO_TLS : text;
}

/** True for a failure that no repetition mends: of TLS, or of a certificate. */
function isLasting(why: string): boolean {
  return why === NO_TLS || /certificate/i.test(why);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** True for an object that is no list. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
