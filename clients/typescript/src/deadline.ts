/** Deadlines of requests. */

/** Delay of a timer, in milliseconds, from which the program itself held its event loop up. */
const HELD_UP_MS = 50;

/** One deadline for all attempts of a request, joined with the caller's signal. */
export class Deadline {
  readonly #controller = new AbortController();
  #end: number;
  #ms: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isPast = false;

  constructor(
    ms: number,
    readonly caller: AbortSignal | undefined,
  ) {
    this.#ms = ms;
    this.#end = performance.now() + ms;
    this.#wait(ms);
    caller?.addEventListener("abort", this.#cancel);
    if (caller?.aborted) this.#cancel();
  }

  /** Aborts at the deadline, and when the caller aborts. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Length, in whole milliseconds. */
  get ms(): number {
    return Math.round(this.#ms);
  }

  /** True once the deadline has passed; false if the caller aborted before. */
  get isPast(): boolean {
    return this.#isPast;
  }

  /** Milliseconds that are left, 0 at least. */
  left(): number {
    return Math.max(0, this.#end - performance.now());
  }

  /** Waits, and returns early when the signal aborts. */
  pause(ms: number): Promise<void> {
    return pause(ms, this.signal);
  }

  /** Begins anew, with another length. */
  restart(ms: number): void {
    clearTimeout(this.#timer);
    this.#ms = ms;
    this.#end = performance.now() + ms;
    if (!this.signal.aborted) this.#wait(ms);
  }

  /** Stops the clock until {@link restart}. */
  stop(): void {
    clearTimeout(this.#timer);
  }

  /** Frees the timer, and the caller's signal. */
  end(): void {
    this.stop();
    this.caller?.removeEventListener("abort", this.#cancel);
  }

  #wait(ms: number): void {
    const due = performance.now() + ms;
    this.#timer = setTimeout(
      () => {
        // A program that computed without a pause has not read yet what arrived meanwhile: it gets that time back.
        const late = performance.now() - due;
        if (late >= HELD_UP_MS) return this.#wait(Math.min(late, this.#ms));
        this.#isPast = true;
        this.#controller.abort(new Error(`no answer within ${this.ms} ms`));
      },
      Math.min(ms, 2 ** 31 - 1),
    );
  }

  readonly #cancel = () => {
    this.stop();
    this.#controller.abort(this.caller?.reason);
  };
}

/** Waits, and returns early when the signal aborts. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
    if (signal?.aborted) done();
  });
}

/** Returns the result of some shared work, unless the signal aborts first: then throws its reason. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  signal.throwIfAborted();
  let stop!: () => void;
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop);
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
