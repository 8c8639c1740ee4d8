/** Lists of the API, page by page, and the stream of findings. */

import type { Finding } from "./types.js";

/** Page of a list. */
export interface Page<T> {
  items: T[];
  /** Cursor of the next page; null if there is none now. */
  next_cursor?: string | null;
  /** Cursor behind the last item. */
  resume_cursor?: string;
}

/** Most items of one page. */
export const MOST_ITEMS = 500;
/** Items of a page of a list without a limit. */
const USUAL_ITEMS = 200;

/** List that is read page by page while it is iterated: `for await (const item of list)`. */
export class Listing<T> implements AsyncIterable<T> {
  readonly #readPage: (cursor: string | undefined, size: number) => Promise<Page<T>>;
  readonly #first: string | undefined;
  readonly #limit: number;
  #resumeCursor: string | undefined;

  /** @internal */
  constructor(
    readPage: (cursor: string | undefined, size: number) => Promise<Page<T>>,
    cursor: string | undefined,
    limit: number | undefined,
  ) {
    this.#readPage = readPage;
    this.#first = cursor;
    this.#limit = limit ?? Infinity;
    this.#resumeCursor = cursor;
  }

  /**
   * Cursor behind the last page that was read: as `cursor` of another list with the same filters it returns what came
   * later, without a gap or a repetition.
   */
  get resumeCursor(): string | undefined {
    return this.#resumeCursor;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, void> {
    let cursor = this.#first;
    let left = this.#limit;
    for (;;) {
      const page = await this.#readPage(cursor, left === Infinity ? USUAL_ITEMS : Math.min(left, MOST_ITEMS));
      yield* page.items;
      left -= page.items.length;
      this.#resumeCursor = page.resume_cursor ?? this.#resumeCursor;
      if (page.next_cursor == null || left <= 0) return;
      cursor = page.next_cursor;
    }
  }

  /** Returns all items. */
  async all(): Promise<T[]> {
    const items: T[] = [];
    for await (const item of this) items.push(item);
    return items;
  }
}

/** Stream of new findings, resumed after interruptions: `for await (const finding of stream)`. */
export class FindingStream implements AsyncIterable<Finding> {
  readonly #open: (after: string | undefined, note: (id: string) => void) => AsyncGenerator<Finding, void, void>;
  #resumeCursor: string | undefined;

  /** @internal */
  constructor(
    open: (after: string | undefined, note: (id: string) => void) => AsyncGenerator<Finding, void, void>,
    after: string | undefined,
  ) {
    this.#open = open;
    this.#resumeCursor = after;
  }

  /** Cursor behind the last finding: as `after` of another stream it continues there. */
  get resumeCursor(): string | undefined {
    return this.#resumeCursor;
  }

  [Symbol.asyncIterator](): AsyncGenerator<Finding, void, void> {
    return this.#open(this.#resumeCursor, (id) => {
      this.#resumeCursor = id;
    });
  }
}
