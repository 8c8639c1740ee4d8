/** The client: server, key and identity of the caller, and all that the API offers to programs. */

import { batches } from "./batches.js";
import type { DecideCall, ToolCall, ToolOptions } from "./boundary.js";
import { Boundary, describedTool, guardNotes, TOOL_CALL, TOOL_OPTIONS } from "./boundary.js";
import { argumentsOf, checkFunction, checkMembers, checkObject, checkTexts, describeKind } from "./checks.js";
import { checkOptions, positive, segment } from "./checks.js";
import { type CallContext, CONTEXT, currentContext, overlaid, withContext } from "./context.js";
import { pause } from "./deadline.js";
import { Unavailable } from "./errors.js";
import { type GuardedTool, wrappedTools } from "./guardrails.js";
import { FindingStream, Listing, MOST_ITEMS, type Page } from "./lists.js";
import type { AnswerOf, Method, OperationRequest, PathOf } from "./operations.js";
import { environment, randomId } from "./platform.js";
import type { paths } from "./schema.js";
import { credential, serverAddress, SETTINGS, TEXT_SETTINGS, type UmbraSettings } from "./settings.js";
import { Sidecar, type SidecarSettings } from "./sidecar.js";
import { isRecord, type Logger, type Repetition, type RequestOptions, Transport } from "./transport.js";
import type {
  AcceptedEvent,
  Acknowledgement,
  AcknowledgedBreaker,
  Approval,
  ApprovalFilters,
  BatchItem,
  BatchResult,
  Breaker,
  BreakerFilters,
  CallOutcome,
  Decision,
  EffectiveExecution,
  EffectiveFilters,
  EndedRuns,
  EventFilters,
  EventSummary,
  Finding,
  FindingChange,
  FindingFilters,
  FindingStreamFilters,
  NewEvent,
  Reflexion,
  ReflexionFilters,
  Run,
  RunFilters,
  SessionAttachment,
  ShadowMode,
  Status,
  StoredEvent,
  Trajectory,
  Verdict,
} from "./types.js";
import { jsonText, toJson } from "./values.js";

/** An event to post; `agent` is the client's unless given. */
export type EventToPost = Omit<NewEvent, "agent"> & { agent?: string };

/** First pause before events that a busy server refused are posted again, in milliseconds. */
const FIRST_PAUSE_MS = 100;
/** Longest wait of one request for a verdict, in seconds. */
const MOST_WAIT = 60;
/** Longest pause between two looks at an approval, and least time for the last look, in milliseconds. */
const MOST_LOOK_MS = 2_000;
const LAST_LOOK_MS = 1_000;

/**
 * Client of a server of Umbra.
 *
 *     const umbra = new Umbra({ agent: "writer" });
 *     await umbra.events.post({ task_id: "t-1", output: "The report is written." });
 *
 * Bodies, filters and answers have the API's own names (`task_id`); options of this package are in camelCase. Each
 * request has one deadline, `timeoutMs`, and accepts a `signal`. Requests throw {@link APIError} if the server refuses
 * them, and {@link Unavailable} without a usable answer; those that may be repeated are, until the deadline.
 */
export class Umbra {
  /** Address of the server. */
  readonly url: string;
  /** Name of the agent. */
  readonly agent: string;
  readonly #transport: Transport;
  readonly #boundary: Boundary;
  readonly #timeoutMs: number;

  /** Throws {@link TypeError} if a setting is wrong, and the file's error if the file with the key cannot be read. */
  constructor(settings: UmbraSettings = {}) {
    const { transport, ...given } = Object(settings) as UmbraSettings;
    checkMembers("new Umbra", given, SETTINGS);
    checkTexts(given, TEXT_SETTINGS);
    // Rules for the agent that is meant would not hold for another.
    if (settings.agent === "") throw new TypeError('agent is a name, such as "writer"');
    const variables = environment();
    this.url = serverAddress(settings.url ?? (variables["UMBRA_URL"] || "http://127.0.0.1:7817"));
    this.agent = settings.agent || variables["UMBRA_AGENT"] || "typescript";
    this.#timeoutMs = positive("timeoutMs", settings.timeoutMs ?? 30_000);
    const connection = {
      url: this.url,
      apiKey: credential(settings.apiKey, variables),
      fetch: settings.fetch,
      logger: settings.logger ?? { info: () => {}, warn: (message) => console.warn(message) },
    };
    this.#transport = transport ?? new Transport(connection);
    const context = {
      agent: this.agent,
      session: settings.session || variables["UMBRA_SESSION"],
      run: settings.run || variables["UMBRA_RUN"],
      seed: settings.seed || variables["UMBRA_SEED"],
    };
    const decisionTimeoutMs = positive("decisionTimeoutMs", settings.decisionTimeoutMs ?? 2_000);
    this.#boundary = new Boundary(this.#transport, context, decisionTimeoutMs);
  }

  /** Events: copies of what agents do. */
  readonly events = {
    /**
     * Posts an event, once even if the request is repeated: its `id`, made up unless given, is the idempotency key.
     * With `wait` the answer comes with the verdict of active shadows, after `wait` seconds at most.
     */
    post: async (event: EventToPost, options: RequestOptions & { wait?: number } = {}): Promise<AcceptedEvent> => {
      checkOptions("events.post(event, options)", options, "wait");
      const { wait } = options;
      if (wait !== undefined && !(Number.isInteger(wait) && wait >= 0 && wait <= MOST_WAIT))
        throw new TypeError(`wait is a whole number of seconds, ${MOST_WAIT} at most`);
      const body = this.#event(event);
      const limits = { ...options, timeoutMs: (options.timeoutMs ?? this.#timeoutMs) + 1_000 * (wait ?? 0) };
      const headers = wait === undefined ? {} : { prefer: `wait=${wait}` };
      return this.#post("/v1/events", body, limits, "retry", "id", headers);
    },

    /**
     * Posts many events, in as many requests as the limits of the server ask for. Each event is accepted or refused for
     * itself: see `results`, in the order of the events. Give events an `id` of your own, then repeating the whole call
     * after an error stores none of them twice.
     */
    postMany: async (events: Iterable<EventToPost>, options: RequestOptions = {}): Promise<BatchResult> => {
      if (typeof events !== "object" || !(Symbol.iterator in Object(events))) {
        throw new TypeError(`postMany takes a list of events, not ${describeKind(events)}`);
      }
      const total: BatchResult = { accepted: 0, replayed: 0, rejected: 0, results: [] };
      const until = performance.now() + (options.timeoutMs ?? this.#timeoutMs);
      for (const batch of batches(Array.from(events, (event) => JSON.stringify(this.#event(event))))) {
        const first = total.results.length;
        // Places of the events that are still to be stored; a busy server refuses some of a batch.
        let places = batch.map((_, place) => place);
        const results: BatchItem[] = [];
        for (let wait = FIRST_PAUSE_MS; places.length > 0; wait *= 2) {
          let answer: BatchResult;
          try {
            const request = {
              method: "POST",
              path: "/v1/events/batch",
              body: `{"events":[${places.map((place) => batch[place]).join()}]}`,
              repetition: "retry",
            } as const;
            answer = await this.#send<BatchResult>(request, options, "results");
          } catch (error) {
            if (first > 0 && error instanceof Error) error.message += `; the first ${first} events were posted`;
            throw error;
          }
          const busy: number[] = [];
          const mayRepeat = performance.now() + wait < until;
          for (const item of answer.results) {
            const place = places[item.index] ?? item.index;
            if (mayRepeat && (item.error?.status === 503 || item.error?.status === 429)) busy.push(place);
            else results[place] = { ...item, index: first + place };
          }
          total.accepted += answer.accepted;
          total.replayed += answer.replayed;
          total.rejected += answer.rejected - busy.length;
          places = busy;
          if (busy.length > 0) await pause(wait, options.signal);
        }
        total.results.push(...results);
      }
      return total;
    },

    /** Returns an event with its dispositions, reviews and findings. */
    get: (eventId: string, options: RequestOptions = {}): Promise<StoredEvent> =>
      this.#get(`/v1/events/${segment(eventId)}`, {}, options, "findings"),

    /** Lists events in the order of their receipt. */
    list: (filters: EventFilters = {}, options: RequestOptions = {}): Listing<EventSummary> =>
      this.#list("/v1/events", filters, options),

    /**
     * Returns the verdict of active shadows on an event. With `wait` it waits for the verdict, that many seconds at
     * most; then the verdict may still be `pending`.
     */
    verdict: async (eventId: string, options: RequestOptions & { wait?: number } = {}): Promise<Verdict> => {
      const { wait = 0 } = options;
      if (typeof wait !== "number" || !(wait >= 0)) throw new TypeError("wait is a number of seconds, 0 or more");
      const until = performance.now() + 1_000 * wait;
      for (;;) {
        const seconds = Math.min(MOST_WAIT, Math.max(0, Math.ceil((until - performance.now()) / 1_000)));
        const limits = { ...options, timeoutMs: (options.timeoutMs ?? this.#timeoutMs) + 1_000 * seconds };
        const path = `/v1/events/${segment(eventId)}/verdict`;
        const verdict = await this.#get<Verdict>(path, { wait: seconds }, limits, "verdict");
        if (verdict.verdict !== "pending" || performance.now() >= until) return verdict;
        // A server that ends its own wait earlier is not asked without a pause.
        await pause(100, options.signal);
      }
    },
  };

  /** Findings: faults that shadows found in events. */
  readonly findings = {
    /** Lists findings, oldest first. */
    list: (filters: FindingFilters = {}, options: RequestOptions = {}): Listing<Finding> =>
      this.#list("/v1/findings", filters, options),

    /** Returns a finding. */
    get: (findingId: string, options: RequestOptions = {}): Promise<Finding> =>
      this.#get(`/v1/findings/${segment(findingId)}`, {}, options, "id"),

    /** Sets a person's judgement: `status`, `note`. Needs the scope `admin`. */
    update: (findingId: string, change: FindingChange, options: RequestOptions = {}): Promise<Finding> => {
      const body = jsonText("the change", change);
      const request = { method: "PATCH", path: `/v1/findings/${segment(findingId)}`, body, repetition: "retry" } as const;
      return this.#send<Finding>(request, options, "id");
    },

    /**
     * Streams findings as they become visible, from now on, or behind the cursor `after` (the `resumeCursor` of a
     * stream or of a list). It ends when its loop is left or `signal` aborts; an interrupted stream is resumed without
     * a gap. Throws {@link Unavailable} if it cannot be opened within `timeoutMs`.
     */
    stream: (
      filters: FindingStreamFilters = {},
      options: RequestOptions & { after?: string } = {},
    ): FindingStream => {
      checkOptions("findings.stream(filters, options)", options, "after");
      const events = (after: string | undefined) => {
        const { timeoutMs = this.#timeoutMs, signal } = options;
        return this.#transport.events({ path: "/v1/findings/stream", query: filters, after }, { timeoutMs, signal });
      };
      async function* findings(
        after: string | undefined,
        note: (id: string) => void,
      ): AsyncGenerator<Finding, void, void> {
        for await (const { id, event, data } of events(after)) {
          if (id) note(id);
          if (event === "finding") yield JSON.parse(data) as Finding;
        }
      }
      return new FindingStream(findings, options.after);
    },
  };

  /** Approvals: calls of tools that wait for a person. */
  readonly approvals = {
    /** Lists the newest approvals, `limit` at most: 1 to 500, 500 unless given. */
    list: (filters: ApprovalFilters = {}, options: RequestOptions = {}): Listing<Approval> =>
      this.#list("/v1/approvals", { limit: MOST_ITEMS, ...filters }, options),

    /** Returns an approval. */
    get: (approvalId: string, options: RequestOptions = {}): Promise<Approval> =>
      this.#get(`/v1/approvals/${segment(approvalId)}`, {}, options, "state"),

    /** Approves the call: a call with the same arguments runs, once. Needs the scope `admin`. */
    approve: (approvalId: string, reason?: string, options: RequestOptions = {}): Promise<Approval> =>
      this.#answerApproval(approvalId, "approve", reason, options),

    /** Denies the call: the agent reads the reason. Needs the scope `admin`. */
    deny: (approvalId: string, reason?: string, options: RequestOptions = {}): Promise<Approval> =>
      this.#answerApproval(approvalId, "deny", reason, options),

    /**
     * Waits for a person's answer, until the approval expires or `timeoutMs` (no limit unless given) have passed; then
     * the state may still be `pending`. Outages of the server are waited out.
     */
    wait: async (approvalId: string, options: RequestOptions = {}): Promise<Approval> => {
      checkOptions("approvals.wait(id, options)", options);
      const { signal, timeoutMs = Infinity } = options;
      const until = performance.now() + timeoutMs;
      let look = 100;
      for (;;) {
        const left = until - performance.now();
        try {
          const limit = Math.min(Math.max(left, LAST_LOOK_MS), this.#timeoutMs);
          const approval = await this.approvals.get(approvalId, { signal, timeoutMs: limit });
          if (approval.state !== "pending" || performance.now() >= until) return approval;
        } catch (error) {
          if (!(error instanceof Unavailable) || error.isLasting || performance.now() >= until) throw error;
        }
        await pause(Math.max(1, Math.min(look, until - performance.now())), signal);
        signal?.throwIfAborted();
        look = Math.min(MOST_LOOK_MS, look * 1.5);
      }
    },
  };

  /** Execution of calls: live or shadow. */
  readonly execution = {
    /** Returns the execution that holds for a call, live or shadow, and the source that decided. */
    effective: (filters: EffectiveFilters = {}, options: RequestOptions = {}): Promise<EffectiveExecution> =>
      this.#get("/v1/execution/effective", filters, options, "execution"),
  };

  /** Runs of agents, and whether their calls run. */
  readonly runs = {
    /** Lists the runs with the newest calls, `limit` at most: 1 to 500, 500 unless given. */
    list: (filters: RunFilters = {}, options: RequestOptions = {}): Listing<Run> =>
      this.#list("/v1/runs", { limit: MOST_ITEMS, ...filters }, options),

    /** Ends a run: the next call with its name begins a new one. Needs the scope `admin`. */
    end: (run: string, request: { reason: string; agent?: string }, options: RequestOptions = {}): Promise<EndedRuns> =>
      this.#post(`/v1/runs/${segment(run)}/end`, request, options, "never", "ended"),
  };

  /** Trajectories: tasks with their events and findings. */
  readonly trajectories = {
    /** Returns a task with all its events, in order, each with its findings. */
    get: async (taskId: string, options: RequestOptions & { mode?: ShadowMode } = {}): Promise<Trajectory> => {
      const path = `/v1/trajectories/${segment(taskId)}`;
      const asked = { limit: MOST_ITEMS, mode: options.mode };
      const whole = await this.#get<Trajectory>(path, asked, options, "events");
      while (whole.next_cursor != null) {
        const query = { ...asked, cursor: whole.next_cursor };
        const next = await this.#get<Trajectory>(path, query, options, "events");
        whole.events.push(...next.events);
        whole.next_cursor = next.next_cursor ?? null;
        whole.resume_cursor = next.resume_cursor;
      }
      return whole;
    },
  };

  /** Breakers: recommendations to hold an agent back. */
  readonly breakers = {
    /** Lists the breakers of all agents. */
    list: (filters: BreakerFilters = {}, options: RequestOptions = {}): Listing<Breaker> =>
      this.#list("/v1/breakers", filters, options),

    /** Returns the breaker of an agent. */
    get: (agent: string, options: RequestOptions = {}): Promise<Breaker> =>
      this.#get(`/v1/breakers/${segment(agent)}`, {}, options, "recommendation"),

    /** Notes that a person takes care of an open breaker. Needs the scope `admin`. */
    acknowledge: (
      agent: string,
      request: Acknowledgement = {},
      options: RequestOptions = {},
    ): Promise<AcknowledgedBreaker> =>
      this.#post(`/v1/breakers/${segment(agent)}/acknowledge`, request, options, "retry", "recommendation"),

    /** Closes the breaker by hand. Needs the scope `admin`. */
    reset: (agent: string, request: Acknowledgement = {}, options: RequestOptions = {}): Promise<Breaker> =>
      this.#post(`/v1/breakers/${segment(agent)}/reset`, request, options, "retry", "recommendation"),
  };

  /** Reflexions: recommendations that an agent reconsider a recurring fault. */
  readonly reflexions = {
    /** Lists reflexions, oldest first. */
    list: (filters: ReflexionFilters = {}, options: RequestOptions = {}): Listing<Reflexion> =>
      this.#list("/v1/reflexions", filters, options),
  };

  /** @internal */
  get logger(): Logger {
    return this.#transport.logger;
  }

  /** Returns the state of the server: its queue, shadows, providers and database. */
  status(options: RequestOptions = {}): Promise<Status> {
    return this.#get("/v1/status", {}, options, "version");
  }

  /**
   * Puts the execution boundary around a function that an agent calls as a tool, and returns a function of the same
   * parameters. The first parameter is the object of the tool's arguments, and all that the server is told; others,
   * such as a framework's context, stay here. An instance of a class within is sent as `<ClassName>`, and an approval
   * does not cover its content, unless it has a `toJSON`.
   *
   * Each call is decided by the server: the function runs, or its stub is returned, or {@link Blocked},
   * {@link ApprovalRequired} or {@link StubFault} is thrown. Without a decision (`reason` is `unavailable`) only a tool
   * with `effect: "read"` runs, unless the server once called it no read. The outcome is reported in the background.
   */
  tool<P extends unknown[], R>(
    options: ToolOptions<P, R>,
    body: (...parameters: P) => R | Promise<R>,
  ): (...parameters: P) => Promise<Awaited<R>> {
    checkFunction("umbra.tool(options, fn)", body);
    checkMembers("umbra.tool(options, fn)", options, TOOL_OPTIONS);
    const { name, server, stub, ...settings } = options;
    const tool: GuardedTool = { name, server };
    describedTool({ ...settings, tool });
    const call = async (parameters: P): Promise<Awaited<R>> => {
      const made = typeof stub === "function" ? () => (stub as (...parameters: P) => R)(...parameters) : stub;
      const given = argumentsOf(name, parameters[0]);
      const decided = { ...settings, tool, arguments: given, ...(made === undefined ? {} : { stub: made }) };
      guardNotes.set(decided, { guard: tool });
      return (await this.#boundary.callTool<R>(decided as ToolCall<R>, () => body(...parameters))) as Awaited<R>;
    };
    const wrapped = (...parameters: P): Promise<Awaited<R>> => {
      const { guardrails } = currentContext();
      return guardrails ? guardrails.call(tool, parameters[0], () => call(parameters)) : call(parameters);
    };
    Object.defineProperty(wrapped, "name", { value: name });
    wrappedTools.set(wrapped, { tool, call: (parameters) => call(parameters as P) });
    return wrapped;
  }

  /**
   * Decides one call of a tool, then runs `body`, returns a stub, or throws, as {@link tool} does. Adapters of
   * frameworks call this with the name and the arguments that the model gave.
   */
  async callTool<R>(call: ToolCall<R>, body: () => R | Promise<R>): Promise<R> {
    checkFunction("umbra.callTool(call, fn)", body);
    checkMembers("umbra.callTool(call, fn)", call, TOOL_CALL);
    const { guardrails } = currentContext();
    if (guardrails === undefined) return this.#boundary.callTool(call, body);
    const { name, server } = describedTool(call);
    const { guard = this.#boundary, isFromModel } = guardNotes.get(call) ?? {};
    const tool = { name, server: server ?? undefined, guard, isFromModel };
    return guardrails.call(tool, call.arguments, () => this.#boundary.callTool(call, body), call.signal);
  }

  /** Asks for a decision about a call, and leaves it to the caller to follow it. */
  decide(call: DecideCall, options: RequestOptions = {}): Promise<Decision> {
    checkObject("decide", call, '{ tool: { name: "send" }, arguments: {} }');
    checkOptions("decide(call, options)", options);
    return this.#boundary.decide(call, options);
  }

  /** Reports the outcome of a call that ran by {@link decide}, in the background; `agent` is the client's. */
  report(callId: string, outcome: Omit<CallOutcome, "agent"> & { agent?: string }): void {
    checkObject("report(callId, outcome)", outcome, '{ status: "ok", result }');
    if (!["ok", "error"].includes(outcome.status)) throw new TypeError("the status of an outcome is ok or error");
    segment(callId);
    this.#boundary.reporter.report(callId, { agent: this.agent, ...outcome });
  }

  /** Waits until all outcomes are reported, `timeoutMs` at most (2,000 unless given). Returns true if none is left. */
  async flush(timeoutMs = 2_000): Promise<boolean> {
    checkOptions("flush", { timeoutMs });
    return this.#boundary.reporter.flush(timeoutMs);
  }

  /**
   * Runs `body` with another agent, session, run, route or modes for all calls of tools in it. Contexts nest: modes are
   * added, and a run within a run inherits the outer one's execution. Needs `AsyncLocalStorage` (Node, Deno, Bun).
   */
  context<R>(context: CallContext, body: () => R): R {
    checkFunction("umbra.context(context, fn)", body);
    checkMembers("umbra.context(context, fn)", context, CONTEXT);
    const outer = currentContext().context;
    const base = outer.run ? {} : { run: this.#boundary.base.run };
    const inner = overlaid(context, { ...outer, ...base });
    return withContext({ context: inner }, body);
  }

  /**
   * Attaches the sidecar to a session of an agent.
   *
   *     await using s = await umbra.sidecar({ task: "fix the date bug", documents: { todo: "# Todo\n" } });
   *
   * The end of the block closes the session with `s.outcome`, which is to be set. With a function the session is closed
   * as `succeeded` when it returns, and as `failed` when it throws, unless `s.outcome` was set:
   *
   *     await umbra.sidecar({ task: "fix the date bug" }, async (s) => { ... });
   *
   * `id` among the settings resumes a session, and `close: false` leaves it open at the end.
   */
  sidecar<R>(
    attachment: SessionAttachment,
    body: (session: Sidecar) => R | Promise<R>,
    settings?: SidecarSettings,
  ): Promise<R>;
  sidecar(attachment?: SessionAttachment, settings?: SidecarSettings): Promise<Sidecar>;
  async sidecar<R>(
    attachment: SessionAttachment = {},
    bodyOrSettings?: SidecarSettings | ((session: Sidecar) => R | Promise<R>),
    more?: SidecarSettings,
  ): Promise<Sidecar | R> {
    checkObject("umbra.sidecar", attachment, '{ task: "fix the date bug" }');
    if ("id" in attachment) throw new TypeError("id is a setting: umbra.sidecar({}, { id })");
    checkTexts(attachment, ["agent", "task", "task_id", "route", "folder", "model"]);
    const body = typeof bodyOrSettings === "function" ? bodyOrSettings : undefined;
    const settings = (typeof bodyOrSettings === "function" ? more : bodyOrSettings) ?? {};
    checkMembers("settings of a sidecar", settings, ["id", "close", "deadlineMs", "strict", "signal"]);
    const kept = ["task_id", "objectives", "tools", "documents", "folder", "model"].find(
      (name) => Reflect.get(attachment, name) != null,
    );
    if (settings.id !== undefined && kept) throw new TypeError(`a resumed session keeps its ${kept}: leave that out`);
    const { base, decisionTimeoutMs } = this.#boundary;
    const context = { agent: this.agent, ...overlaid(currentContext().context, base) };
    const limits = { ...settings, deadlineMs: settings.deadlineMs ?? decisionTimeoutMs };
    const session = new Sidecar(
      this.#transport,
      { ...context, agent: context.agent ?? this.agent },
      attachment,
      limits,
    );
    await session.begin(settings.id, settings.signal);
    if (body === undefined) return session;
    let result: R;
    try {
      result = await body(session);
    } catch (error) {
      session.outcome ??= "failed";
      await session[Symbol.asyncDispose]();
      throw error;
    }
    session.outcome ??= "succeeded";
    await session.end();
    return result;
  }

  /**
   * Sends a request to any operation of the API, typed by its OpenAPI document:
   *
   *     const { items } = await umbra.request("get", "/v1/sessions", { query: { state: "open" } });
   *
   * An answer of lines of JSON, as of `/v1/audit`, is a list of their values, and plain text is a text.
   */
  async request<M extends Method, P extends PathOf<M>>(
    method: M,
    path: P,
    request: OperationRequest<paths[P][M]> = {} as OperationRequest<paths[P][M]>,
  ): Promise<AnswerOf<paths[P][M]>> {
    const parts: RequestOptions & { path?: object; query?: object; body?: unknown; headers?: Record<string, string> } =
      request;
    checkOptions("umbra.request(method, path, request)", parts, "path", "query", "body", "headers");
    const values = Object.entries(parts.path ?? {}).map(
      ([name, value]) => [`{${name}}`, segment(String(value))] as const,
    );
    const filled = values.reduce<string>((text, [name, value]) => text.replace(name, () => value), path);
    const missing = /\{(\w+)\}/.exec(filled)?.[1];
    if (missing !== undefined) throw new TypeError(`${path} needs { path: { ${missing} } }`);
    const wire = {
      method: method.toUpperCase(),
      path: filled,
      query: { ...parts.query },
      headers: parts.headers,
      body: parts.body === undefined ? undefined : jsonText("the body", parts.body),
      repetition: method === "get" ? "retry" : "never",
    } as const;
    return this.#send(wire, { timeoutMs: parts.timeoutMs, signal: parts.signal });
  }

  /** Sends a request, whose answer has `member`. */
  async #send<T>(
    request: Parameters<Transport["request"]>[0],
    options: RequestOptions,
    member?: keyof T & string,
  ): Promise<T> {
    const asked = `${request.method} ${request.path}`;
    checkOptions(asked, options, "wait", "mode");
    const timeoutMs = positive("timeoutMs", options.timeoutMs ?? this.#timeoutMs);
    const answer = await this.#transport.request(request, timeoutMs, options.signal);
    if (member !== undefined && !(isRecord(answer) && member in answer)) {
      const what = `what answers at ${this.url} is no server of Umbra: its answer to ${asked} has no ${member}`;
      throw new Unavailable(what, undefined, { isLasting: true });
    }
    return answer as T;
  }

  #get<T>(path: string, query: object, options: RequestOptions, member: keyof T & string): Promise<T> {
    return this.#send<T>({ method: "GET", path, query: { ...query }, repetition: "retry" }, options, member);
  }

  #post<T>(
    path: string,
    body: object,
    options: RequestOptions,
    repetition: Repetition,
    member: keyof T & string,
    headers: Record<string, string> = {},
  ): Promise<T> {
    checkObject(`POST ${path}`, body, '{ reason: "done" }');
    const text = jsonText(`the body of POST ${path}`, body);
    return this.#send<T>({ method: "POST", path, body: text, headers, repetition }, options, member);
  }

  #list<T>(path: string, filters: { limit?: number; cursor?: string }, options: RequestOptions): Listing<T> {
    const readPage = async (cursor: string | undefined, limit: number): Promise<Page<T>> => {
      const page = await this.#get<Page<T>>(path, { ...filters, limit, cursor }, options, "items");
      return page;
    };
    return new Listing(readPage, filters.cursor, filters.limit);
  }

  #answerApproval(
    id: string,
    decision: "approve" | "deny",
    reason: string | undefined,
    options: RequestOptions,
  ): Promise<Approval> {
    const body = { decision, ...(reason === undefined ? {} : { reason }) };
    return this.#post(`/v1/approvals/${segment(id)}`, body, options, "never", "state");
  }

  #event(event: EventToPost): NewEvent {
    if (!isRecord(event)) throw new TypeError(`an event is an object, not ${describeKind(event)}`);
    return toJson({ agent: this.agent, id: randomId(), ...event }) as NewEvent;
  }
}
