/** Types of the API, by the names of this package. All are generated from the server's OpenAPI document. */

import type { components, paths } from "./schema.js";
import type { CallLike, DefinitionLike, ResultLike } from "./tool_forms.js";

type Schemas = components["schemas"];
type Query<P extends keyof paths> = paths[P] extends { get: { parameters: { query?: infer Q } } }
  ? NonNullable<Q>
  : never;

/** Filters of a list. `limit` is the most items of the whole list, and `cursor` continues an earlier one. */
export type Filters<P extends keyof paths> = Query<P>;

/** Mode of a shadow: `passive`, `review` or `active`. */
export type ShadowMode = Schemas["Mode"];
/** Fault at one place of a request: JSON pointer, code and description. */
export type FieldFault = Schemas["FieldError"];
/** State of the server: its queue, shadows, providers and database. */
export type Status = Schemas["Status"];

/** Event of an agent. One of `output`, `tool` and `input` is required. */
export type NewEvent = Schemas["NewEvent"];
/** Answer to a posted event: its id, and the verdict if it was waited for. */
export type AcceptedEvent = Schemas["AcceptedEvent"];
/** Answer to one event of a batch: its id, or the `error` for which it was not stored. */
export type BatchItem = Schemas["BatchItem"];
/** Answer to a batch, event by event. */
export type BatchResult = Schemas["BatchResult"];
/** Stored event with its dispositions, reviews and findings. */
export type StoredEvent = Schemas["TrajectoryEvent"];
/** Stored event, as a list has it. */
export type EventSummary = Schemas["EventView"];
/** Verdict of active shadows on an event. */
export type Verdict = Schemas["EventVerdict"];
/** Fault that a shadow found in an event. */
export type Finding = Schemas["Finding"];
/** Person's judgement of a finding: `status`, `note`. */
export type FindingChange = Schemas["Feedback"];
/** Task with its events, in order. */
export type Trajectory = Schemas["Trajectory"];
/** Breaker of an agent: a recommendation to hold the agent back, or not. */
export type Breaker = Schemas["Breaker"];
/** Breaker that a person takes care of. */
export type AcknowledgedBreaker = Schemas["Acknowledged"];
/** Author of a change by hand, and a note. */
export type Acknowledgement = Schemas["Acknowledgement"];
/** Recommendation that an agent reconsider a recurring fault. */
export type Reflexion = Schemas["Reflexion"];
/** Filters of `events.list`. */
export type EventFilters = Filters<"/v1/events">;
/** Filters of `findings.list`. */
export type FindingFilters = Omit<Filters<"/v1/findings">, "format">;
/** Filters of `findings.stream`. */
export type FindingStreamFilters = Omit<Query<"/v1/findings/stream">, "last_event_id">;
/** Filters of `breakers.list`. */
export type BreakerFilters = Filters<"/v1/breakers">;
/** Filters of `reflexions.list`. */
export type ReflexionFilters = Filters<"/v1/reflexions">;

/** Effect of a call: `read`, `write` or `destructive`. */
export type Effect = Schemas["Effect"];
/** Body of `POST /v1/decide`. */
export type DecideBody = Schemas["DecideRequest"];
/** Decision about a call. The call may run only if `decision` is `execute`. */
export type Decision = Schemas["DecideAnswer"];
/** Outcome of a call that ran: its status, and its result or error. */
export type CallOutcome = Schemas["OutcomeRequest"];
/** Hints about a tool, by their names in the Model Context Protocol. */
export type ToolAnnotations = Schemas["ToolAnnotations"];
/** Tool of a call: name, server, description, schemas and hints. */
export type ToolDescription = Schemas["Tool"];
/** Call that waits for a person, or that a person has answered. */
export type Approval = Schemas["Approval"];
/** Filters of `approvals.list`. */
export type ApprovalFilters = Query<"/v1/approvals">;
/** Execution that holds for a call, live or shadow, and the sources that decided. */
export type EffectiveExecution = Schemas["Effective"];
/** Call that `execution.effective` asks about. */
export type EffectiveFilters = Query<"/v1/execution/effective">;
/** Run of an agent. */
export type Run = Schemas["Run"];
/** Filters of `runs.list`. */
export type RunFilters = Query<"/v1/runs">;
/** Runs that were ended. */
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
/** Answer to an attachment: a session, or none; then the agent goes on without one. */
export type Attachment = Schemas["Attachment"];
/** Session as the server has it. */
export type SessionState = Schemas["Session"];
/** Answer to the end of a session: the session, and what was kept of it. */
export type SessionSummary = Schemas["SessionSummary"];
/** Step that the agent is about to take: its intent, route, modes and planned calls. */
export type TurnRequest = Omit<Schemas["TurnRequest"], "deadline_ms" | "planned_calls"> & {
  planned_calls?: readonly CallLike[];
};
/** Answer to a turn: verdicts, directives, due documents, tools and patterns. */
export type Turn = Schemas["TurnAnswer"];
/** Step that the agent has taken: its message, calls and results. */
export type MessageRequest = Omit<
  Schemas["MessageRequest"],
  "deadline_ms" | "role" | "tool_calls" | "results"
> & {
  tool_calls?: readonly CallLike[];
  results?: readonly ResultLike[];
  /** `assistant` unless given. */
  role?: "user" | "assistant" | "tool" | "system";
};
/** Answer to a message: a verdict on each part, and the labels of the session. */
export type MessageAnswer = Schemas["MessageAnswer"];
/** Call or message to judge, with route and modes if they are not those of the session. */
export type GuardRequest = Omit<Schemas["GuardRequest"], "agent" | "session" | "deadline_ms" | "call"> & { call?: CallLike };
/** The verdict on one call or message. */
export type GuardAnswer = Schemas["GuardAnswer"] & {
  /** True if the call was so long that the server did not judge it: no rule was asked. */
  unjudged: boolean;
};
/** Ruling of the rules on one call, result or message. */
export type GuardRuling = Schemas["GuardRuling"];
/** Tool: its name as a text (`server.name` where its server is known), or in two parts. */
export type ToolRef = Schemas["ToolRef"];
/** Definition of a tool, as in `tools/list` of the Model Context Protocol, with its server. */
export type ToolDefinition = Schemas["ToolDefinition"];
/** Call of a tool. */
export type SidecarCall = Schemas["SidecarCall"];
/** Result of a call: its tool, `ok` and content. */
export type SidecarResult = Schemas["SidecarResult"];
/** Question for tools: `query`, number, and tools to include always. */
export type SelectRequest = Pick<Schemas["SelectRequest"], "query" | "limit" | "always_include">;
/** Tools that fit, best first, and those that are denied. */
export type Selection = Schemas["Selection"];
/** Document that is not in order, by a rule. */
export type DocumentDue = Schemas["DocumentDue"];
/** Edit of a document. `section` is a slug, or a title that only one section has. */
export type DocumentEdit = Schemas["Edit"];
/** Section of a document, with its items. */
export type DocumentSection = Schemas["Section"];
/** Document as the API shows it. */
export type DocumentView = Schemas["DocumentView"];
/** Syntax of a document: `markdown` or `yaml`. */
export type DocumentFormat = Schemas["Format"];
/** Version of a document, with its author. */
export type DocumentVersion = Schemas["Version"];
/** Way in which tasks were done, with the numbers of successes and failures. */
export type Pattern = Schemas["Pattern"];
/** Pattern that fits a task, with its likeness and success rate. */
export type OfferedPattern = Schemas["OfferedPattern"];
/** Pattern to record; `task` and `task_id` are those of the session unless given. */
export type PatternRecord = Omit<Schemas["NewPattern"], "agent" | "session" | "task" | "tools"> & {
  task?: string;
  tools?: readonly ToolRef[];
};
/** Answer to a recorded pattern: the pattern as it is by now. */
export type RecordedPattern = Schemas["RecordedPattern"];
/** Patterns that fit a task, best first. */
export type FoundPatterns = Schemas["PatternsFound"] & { degraded: boolean; warnings: string[] };
/** Outcome of a session: `succeeded` or `failed`. */
export type SessionOutcome = Schemas["PatternOutcome"];
