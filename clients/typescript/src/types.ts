/** Types of the API, by the names of this package. All are generated from the server's OpenAPI document. */

import type { components, paths } from "./schema.js";
import type { CallLike, DefinitionLike, ResultLike } from "./tool_forms.js";

type Schemas = components["schemas"];
type Query<P extends keyof paths> = paths[P] extends { get: { parameters: { query?: infer Q } } }
  ? NonNullable<Q>
  : never;

/** Filters of a list. `limit` is the most items of the whole list, and `cursor` continues an earlier one. */
export type Filters<P extends keyof paths> = Query<P>;

export type ShadowMode = Schemas["Mode"];
export type FieldFault = Schemas["FieldError"];
export type Status = Schemas["Status"];

export type NewEvent = Schemas["NewEvent"];
export type AcceptedEvent = Schemas["AcceptedEvent"];
export type BatchItem = Schemas["BatchItem"];
export type BatchResult = Schemas["BatchResult"];
export type StoredEvent = Schemas["TrajectoryEvent"];
export type EventSummary = Schemas["EventView"];
export type Verdict = Schemas["VerdictItem"];
export type Finding = Schemas["Finding"];
export type FindingChange = Schemas["Feedback"];
export type Trajectory = Schemas["Trajectory"];
export type Breaker = Schemas["Breaker"];
export type AcknowledgedBreaker = Schemas["Acknowledged"];
export type Acknowledgement = Schemas["Acknowledgement"];
export type Reflexion = Schemas["Reflexion"];
export type EventFilters = Filters<"/v1/events">;
export type FindingFilters = Omit<Filters<"/v1/findings">, "format">;
export type FindingStreamFilters = Omit<Query<"/v1/findings/stream">, "last_event_id">;
export type BreakerFilters = Filters<"/v1/breakers">;
export type ReflexionFilters = Filters<"/v1/reflexions">;

export type Effect = Schemas["Effect"];
export type DecideBody = Schemas["DecideRequest"];
export type Decision = Schemas["Answer"];
export type CallOutcome = Schemas["OutcomeRequest"];
export type ToolAnnotations = Schemas["ToolAnnotations"];
export type ToolDescription = Schemas["Tool"];
export type Approval = Schemas["Approval"];
export type ApprovalFilters = Query<"/v1/approvals">;
export type EffectiveExecution = Schemas["Effective"];
export type EffectiveFilters = Query<"/v1/execution/effective">;
export type Run = Schemas["Run"];
export type RunFilters = Query<"/v1/runs">;
export type EndedRuns = Schemas["RunsEnded"];

/** Session to begin; `agent`, `route` and `modes` default to those of the client and the context. */
export type SessionAttachment = Omit<
  Schemas["SessionRequest"],
  "agent" | "deadline_ms" | "documents" | "modes" | "tools"
> & {
  agent?: string;
  modes?: readonly string[];
  tools?: readonly DefinitionLike[];
  /** Documents by name. */
  documents?: Record<string, string | { text: string; format?: Schemas["Format"] }>;
};
export type Attachment = Schemas["Attachment"];
export type SessionState = Schemas["Session"];
export type SessionSummary = Schemas["Summary"];
export type TurnRequest = Omit<Schemas["TurnRequest"], "deadline_ms" | "planned_calls"> & {
  planned_calls?: readonly CallLike[];
};
export type Turn = Schemas["TurnAnswer"];
export type MessageRequest = Omit<
  Schemas["MessageRequest"],
  "deadline_ms" | "role" | "tool_calls" | "results"
> & {
  tool_calls?: readonly CallLike[];
  results?: readonly ResultLike[];
  /** `assistant` unless given. */
  role?: "user" | "assistant" | "tool" | "system";
};
export type MessageAnswer = Schemas["MessageAnswer"];
export type GuardRequest = Omit<Schemas["GuardRequest"], "agent" | "session" | "deadline_ms" | "call"> & { call?: CallLike };
/** The verdict on one call or message. */
export type GuardAnswer = Schemas["GuardAnswer"] & {
  /** True if the call was so long that the server did not judge it: no rule was asked. */
  unjudged: boolean;
};
export type Judged = Schemas["Judged"];
export type ToolRef = Schemas["ToolRef"];
export type ToolDefinition = Schemas["ToolDefinition"];
export type SidecarCall = Schemas["SidecarCall"];
export type SidecarResult = Schemas["SidecarResult"];
export type SelectRequest = Pick<Schemas["SelectRequest"], "query" | "limit" | "always_include">;
export type Selection = Schemas["Selected"];
export type DocumentDue = Schemas["DocumentDue"];
export type DocumentEdit = Schemas["Edit"];
export type DocumentSection = Schemas["Section"];
export type DocumentView = Schemas["DocumentView"];
export type DocumentFormat = Schemas["Format"];
export type DocumentVersion = Schemas["Version"];
export type Pattern = Schemas["Pattern"];
export type OfferedPattern = Schemas["Offered"];
/** Pattern to record; `task` and `task_id` are those of the session unless given. */
export type PatternRecord = Omit<Schemas["NewPattern"], "agent" | "session" | "task" | "tools"> & {
  task?: string;
  tools?: readonly ToolRef[];
};
export type RecordedPattern = Schemas["Told"];
/** Patterns that fit a task, best first. */
export type FoundPatterns = Schemas["PatternsFound"] & { degraded: boolean; warnings: string[] };
export type SessionOutcome = Schemas["PatternOutcome"];
