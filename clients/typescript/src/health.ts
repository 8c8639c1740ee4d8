/** Care for a server that does not answer, and for one that is asked too much at a time. */

/** Circuit breaker: after faults in a row no request is sent for a while, then one request tries the server. */
export class ServerHealth {
  static readonly MOST_FAULTS = 3;
  static readonly PASSIVE_MS = 15_000;
  #faults = 0;
  #until = 0;

  /** `rests` is false for a server that is never left alone. */
  constructor(readonly rests: boolean) {}

  /** True if a request may be sent. After a pause, one that tries the server holds others back for `ms`. */
  mayAsk(ms: number, tries: boolean): boolean {
    if (!this.rests || this.#faults < ServerHealth.MOST_FAULTS) return true;
    const now = performance.now();
    if (now < this.#until) return false;
    if (tries) this.#until = now + ms;
    return true;
  }

  answered(): void {
    this.#faults = 0;
  }

  /** Notes a fault, and returns the number of faults in a row. */
  failed(): number {
    this.#faults += 1;
    if (this.#faults >= ServerHealth.MOST_FAULTS) this.#until = performance.now() + ServerHealth.PASSIVE_MS;
    return this.#faults;
  }
}

/** Semaphore: bounds the pieces of work that run at a time. */
export class Semaphore {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(places: number) {
    this.#free = places;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}
