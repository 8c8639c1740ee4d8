/**
 * Client of Umbra for Node 20.16 or newer, Deno, Bun, and browsers: events and findings, the execution boundary around
 * tools, approvals, and the sidecar of an agent's session. See {@link Umbra}.
 */

export type { DecideCall, ToolCall, ToolOptions, ToolSettings } from "./boundary.js";
export type { CallContext } from "./context.js";
export { Document, type DocumentAnswer, type DocumentHistory, type SidecarOptions } from "./document.js";
export {
  APIError,
  ApprovalRequired,
  Blocked,
  Conflict,
  type Contradiction,
  NotUpdated,
  ResultWithheld,
  SessionOver,
  StubFault,
  UmbraError,
  Unavailable,
  UndecidedCall,
} from "./errors.js";
export type { Enforcement, GuardrailOptions } from "./guardrails.js";
export { FindingStream, Listing } from "./lists.js";
export type { OperationRequest } from "./operations.js";
export type { components, operations, paths } from "./schema.js";
export type { UmbraSettings } from "./settings.js";
export { type GuardrailsWrapper, type SessionStep, Sidecar, type SidecarSettings } from "./sidecar.js";
export { quotePatterns, type SidecarAnswer } from "./sidecar_answers.js";
export type { CallLike, DefinitionLike, ResultLike } from "./tool_forms.js";
export type { Logger, RequestOptions } from "./transport.js";
export type * from "./types.js";
export { type EventToPost, Umbra } from "./umbra.js";
