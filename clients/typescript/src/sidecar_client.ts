/** Requests to the sidecar that never hold an agent up: each has a deadline, and after a fault the agent goes on. */

import { positive } from "./checks.js";
import { APIError, Unavailable } from "./errors.js";
import { Semaphore, ServerHealth } from "./health.js";
import { readAnswer, type SidecarAnswer } from "./sidecar_answers.js";
import type { Transport } from "./transport.js";
import { toJson, wellFormed, withoutNul } from "./values.js";

/** There is no answer, and the agent goes on. The message tells what is missing. */
export class MissedAnswer extends Error {
  constructor(
    message: string,
    /** True if the length of the request may be the cause, or the request cannot be written as JSON at all. */
    readonly isTooLong = false,
  ) {
    super(message);
  }
}

export interface SidecarRequest {
  method: "GET" | "POST" | "PUT" | "PATCH";
  path: string;
  body?: object | undefined;
  headers?: Record<string, string> | undefined;
  /** True if the request may be sent again when the connection fails. */
  repeatable?: boolean;
  /** True if its body has a call to be judged, which is sent as it is: U+0000 is for the server to refuse. */
  isExact?: boolean;
}

/** Form of the answer to a request. */
export interface AnswerForm<A> {
  /** Answer without content. */
  missing: A;
  /** Members without which the answer is none. */
  required?: readonly string[];
  /** Members of the answer in place of a missing one, if the length of the request may be the cause. */
  tooLong?: Partial<A>;
}

/** End of a request's time. */
export interface RequestTime {
  until: number;
  signal: AbortSignal | undefined;
}

/**
 * Bytes of JSON from which a request counts as long. The agent decides about the length of a call: a long call must not
 * get past the rules because it is slow, refused or cut off. Nor is its failure a sign that the server is in trouble.
 */
const LONG = 64 * 1024;
/** Requests of one session at a time. */
const MOST_AT_ONCE = 32;
/** Share of the deadline that the server gets, so that even a partial answer arrives in time. */
const SERVER_SHARE = 0.9;

const MOST_UNREPORTED_ENDS = 100;
/** Ends of sessions that could not be reported, oldest first; they are reported when the next session is attached. */
export const unreportedEnds = new WeakMap<Transport, SidecarRequest[]>();

/** Keeps the end of a session that could not be reported. */
export function keepEnd(transport: Transport, request: SidecarRequest): void {
  const ends = unreportedEnds.get(transport) ?? [];
  ends.push(request);
  unreportedEnds.set(transport, ends.slice(-MOST_UNREPORTED_ENDS));
}

export class SidecarClient {
  readonly #places = new Semaphore(MOST_AT_ONCE);

  constructor(
    readonly transport: Transport,
    /** Longest time of a request, in milliseconds. */
    public deadlineMs: number,
    /** True to throw {@link Unavailable} if there is no answer. */
    readonly strict: boolean,
  ) {
    positive("deadlineMs", deadlineMs);
  }

  time(signal: AbortSignal | undefined): RequestTime {
    return { until: performance.now() + this.deadlineMs, signal };
  }

  /** Time of the server for an answer, in milliseconds. */
  serverMs(): number {
    return Math.max(1, Math.floor(this.deadlineMs * SERVER_SHARE));
  }

  /** Returns the answer. Throws {@link MissedAnswer} without one, and {@link APIError} for a wrong request. */
  async ask<A extends object>(form: AnswerForm<A>, request: SidecarRequest, time: RequestTime): Promise<A> {
    const began = performance.now();
    const { body, bytes } = written(request);
    // The deadline does not run while a request waits for its place: else some of many calls would go unasked.
    return this.#places.run(async () => {
      const isLong = bytes > LONG;
      const ms = time.until - began;
      if (ms <= 0) throw new MissedAnswer("no time was left to ask", isLong);
      // The outcome of a long request says nothing about the server: short requests do not wait for it.
      if (!this.transport.health.mayAsk(ms, !isLong)) {
        throw new MissedAnswer("the server did not answer before, and is left alone for a while", isLong);
      }
      const unanswered = (what: string) =>
        isLong ? new MissedAnswer(`${what}; ${bytes} bytes were sent`, true) : this.#failed(what);
      const wire = { ...request, body, repetition: request.repeatable ? "once" : "never" } as const;
      let answer;
      try {
        answer = await this.transport.exchange(wire, ms, time.signal);
      } catch (error) {
        if (error instanceof Unavailable) throw unanswered(error.message);
        throw error;
      }
      const { status } = answer;
      if (status < 200 || status >= 300) {
        const refusal = this.transport.refusal(request, answer);
        // A document that is too long, which is put or patched, is the program's to mend: no later attempt helps.
        if ((status === 413 && request.method === "POST") || status === 429) {
          this.transport.health.answered();
          throw new MissedAnswer(refusal.message, status === 413 || isLong);
        }
        if (refusal instanceof Unavailable) throw unanswered(refusal.message);
        this.transport.health.answered();
        throw refusal;
      }
      this.transport.health.answered();
      try {
        return readAnswer(form.missing, answer.body, form.required);
      } catch (error) {
        throw unanswered(`what answers at ${this.transport.url} is no server of Umbra: ${(error as Error).message}`);
      }
    });
  }

  /** Returns the answer in place of a missing one, or throws in a strict session. */
  without<A extends SidecarAnswer>(missing: A, missed: MissedAnswer): A {
    if (this.strict) throw new Unavailable(missed.message);
    return { ...missing, degraded: true, warnings: [missed.message] };
  }

  #failed(what: string): MissedAnswer {
    const faults = this.transport.health.failed();
    const { logger } = this.transport;
    if (faults === ServerHealth.MOST_FAULTS) {
      const seconds = ServerHealth.PASSIVE_MS / 1_000;
      logger.warn(`umbra: ${what}; after ${faults} faults in a row the server is left alone for ${seconds} s`);
    } else if (faults === 1) {
      logger.warn(`umbra: ${what}; the agent goes on without the sidecar`);
    }
    return new MissedAnswer(what);
  }
}

function written({ body, isExact }: SidecarRequest): { body: string | undefined; bytes: number } {
  if (body === undefined) return { body, bytes: 0 };
  try {
    const text = JSON.stringify(toJson(body, Infinity, isExact ? wellFormed : withoutNul));
    return { body: text, bytes: text.length > LONG / 3 ? new TextEncoder().encode(text).length : text.length };
  } catch (error) {
    throw new MissedAnswer(`the request cannot be written as JSON: ${String(error)}`, true);
  }
}
