/** Types of the requests to operations of the API, and of their answers. */

import type { paths } from "./schema.js";
import type { RequestOptions } from "./transport.js";

export type Method = "get" | "put" | "post" | "patch" | "delete";
export type PathOf<M extends Method> = {
  [P in keyof paths]: paths[P] extends Record<M, { responses: unknown }> ? P : never;
}[keyof paths];
type Json<C> = C extends { content: { "application/json": infer J } }
  ? J
  : C extends { content: { "application/x-ndjson": unknown } }
    ? unknown[]
    : C extends { content: { "text/plain": infer T } }
      ? T
      : undefined;
export type AnswerOf<O> = O extends { responses: infer R } ? Json<R[keyof R & (200 | 201 | 202 | 204)]> : never;
type QueryOf<O> = O extends { parameters: { query?: infer Q } } ? { query?: NonNullable<Q> } : object;
type PathParametersOf<O> = O extends { parameters: { path: infer P extends object } } ? { path: P } : object;
type BodyOf<O> = O extends { requestBody: { content: { "application/json": infer B } } }
  ? { body: B }
  : O extends { requestBody?: { content: { "application/json": infer B } } }
    ? { body?: B }
    : object;
/** Parts of a request to an operation of the API. */
export type OperationRequest<O> = QueryOf<O> &
  PathParametersOf<O> &
  BodyOf<O> &
  RequestOptions & { headers?: Record<string, string> };
