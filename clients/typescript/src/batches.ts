/** Batches of events, within the limits of one request. */

/** Limits of one request to `POST /v1/events/batch`: number of events, and bytes of JSON, below the server's 2 MiB. */
const MOST_BATCH = 1_000;
const MOST_BATCH_BYTES = 1_500_000;

/** Groups texts of events into batches within the limits of one request. */
export function* batches(events: readonly string[]): Generator<string[]> {
  let batch: string[] = [];
  let bytes = 0;
  for (const event of events) {
    // An upper bound without encoding the text: a unit of UTF-16 has three bytes of UTF-8 at most.
    const size = event.length < 1_000 ? event.length * 3 : new TextEncoder().encode(event).length;
    if (batch.length === MOST_BATCH || (batch.length > 0 && bytes + size > MOST_BATCH_BYTES)) {
      yield batch;
      [batch, bytes] = [[], 0];
    }
    batch.push(event);
    bytes += size + 1;
  }
  if (batch.length > 0) yield batch;
}
