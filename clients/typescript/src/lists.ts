/** Lists of the API, page by page. */

/** Page of a list. */
export interface Page<T> {
  items: T[];
  /** Cursor of the next page; null if there is none now. */
  next_cursor?: string | null;
  /** Cursor behind the last item. */
  resume_cursor?: string;
}

/** List that is read page by page while it is iterated: `for await (const item of list)`. */
export class Listing<T> implements AsyncIterable<T> {
  readonly #readPage: (cursor: string | undefined) => Promise<Page<T>>;
  readonly #first: string | undefined;
  #resumeCursor: string | undefined;

  /** @internal */
  constructor(readPage: (cursor: string | undefined) => Promise<Page<T>>, cursor?: string) {
    this.#readPage = readPage;
    this.#first = cursor;
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
    for (;;) {
      const page = await this.#readPage(cursor);
      yield* page.items;
      this.#resumeCursor = page.resume_cursor ?? this.#resumeCursor;
      if (page.next_cursor == null) return;
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

/** Stream of items that are new, resumed after interruptions: `for await (const item of stream)`. */
export class ItemStream<T> implements AsyncIterable<T> {
  readonly #open: (after: string | undefined, note: (id: string) => void) => AsyncGenerator<T, void, void>;
  #resumeCursor: string | undefined;

  /** @internal */
  constructor(
    open: (after: string | undefined, note: (id: string) => void) => AsyncGenerator<T, void, void>,
    after: string | undefined,
  ) {
    this.#open = open;
    this.#resumeCursor = after;
  }

  /** Cursor behind the last item: as `after` of another stream it continues there. */
  get resumeCursor(): string | undefined {
    return this.#resumeCursor;
  }

  [Symbol.asyncIterator](): AsyncGenerator<T, void, void> {
    return this.#open(this.#resumeCursor, (id) => {
      this.#resumeCursor = id;
    });
  }
}
