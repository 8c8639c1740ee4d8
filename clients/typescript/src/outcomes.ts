/** Reports of outcomes, sent in the background. */

import { isRecord, type Transport } from "./transport.js";
import type { CallOutcome } from "./types.js";

/** Outcomes that wait for a slow server; further ones are dropped, and the log says so. */
const MOST_WAITING = 1_000;
const MOST_AT_ONCE = 8;

export class OutcomeReporter {
  readonly #waiting: { callId: string; outcome: CallOutcome }[] = [];
  #sending = 0;
  #idle: (() => void)[] = [];

  constructor(
    readonly transport: Transport,
    readonly timeoutMs: number,
  ) {}

  /** Number of outcomes that are not reported yet. */
  get pending(): number {
    return this.#waiting.length + this.#sending;
  }

  report(callId: string, outcome: CallOutcome): void {
    if (this.#waiting.length >= MOST_WAITING) {
      const { url, logger } = this.transport;
      logger.warn(`umbra: ${MOST_WAITING} outcomes wait for ${url}; that of call ${callId} is dropped`);
      return;
    }
    this.#waiting.push({ callId, outcome });
    if (this.#sending === MOST_AT_ONCE) return;
    this.#sending += 1;
    // The caller gets the tool's result first.
    setTimeout(() => void this.#send());
  }

  /** Waits until all outcomes are reported or dropped, `timeoutMs` at most. Returns true if none is left. */
  async flush(timeoutMs: number): Promise<boolean> {
    if (this.pending === 0) return true;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      this.#idle.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
    return this.pending === 0;
  }

  async #send(): Promise<void> {
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      await this.#tell(next.callId, next.outcome);
    }
    this.#sending -= 1;
    if (this.pending === 0) for (const done of this.#idle.splice(0)) done();
  }

  async #tell(callId: string, outcome: CallOutcome): Promise<void> {
    try {
      const path = `/v1/calls/${encodeURIComponent(callId)}/outcome`;
      const request = { method: "POST", path, body: JSON.stringify(outcome), repetition: "retry" } as const;
      await this.transport.request(request, this.timeoutMs, undefined);
    } catch (error) {
      const why = isRecord(error) ? error["message"] : error;
      this.transport.logger.warn(`umbra: the outcome of call ${callId} is not reported: ${why}`);
    }
  }
}
