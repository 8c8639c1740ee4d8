/** Refusals of the fake sidecar. */

/** Refusal of a request, as the server words it. */
export class Refusal {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    readonly errors: { pointer: string; code: string; detail: string }[] = [],
  ) {}
}

/** Refuses a request whose value at `pointer` is none of those that are known. */
export function checkOneOf(pointer: string, known: readonly string[], value: unknown): void {
  if (known.includes(value as string)) return;
  const detail = `expected one of ${known.join(", ")}, found ${JSON.stringify(value)}`;
  const errors = [{ pointer, code: "value", detail }];
  throw new Refusal(400, "invalid_request", "the request has invalid values; errors lists them", errors);
}
