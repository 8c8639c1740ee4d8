/// <reference lib="esnext.disposable" preserve="true" />
/** A session of the sidecar: from attaching to closing, one step at a time. */

import { checkList, checkMembers, checkObject, closest, segment, signalOf } from "./checks.js";
import { type CallContext, currentContext } from "./context.js";
import { checkUpdated, Document, plainName, SeenDocuments } from "./document.js";
import type { DocumentAnswer, SidecarOptions } from "./document.js";
import { APIError, SessionOver, Unavailable, UmbraError } from "./errors.js";
import { type Enforcement, type GuardrailOptions, Guardrails } from "./guardrails.js";
import { SessionConnection } from "./session_connection.js";
import { empty, padded, type SidecarAnswer, TOO_LONG } from "./sidecar_answers.js";
import {
  type AnswerForm,
  keepEnd,
  MissedAnswer,
  type RequestTime,
  SidecarClient,
  type SidecarRequest,
} from "./sidecar_client.js";
import { sidecarCall, sidecarResult, toolDefinition } from "./tool_forms.js";
import { isRecord, type Logger, type Transport } from "./transport.js";
import type {
  DocumentDue,
  FoundPatterns,
  GuardAnswer,
  GuardRequest,
  GuardRuling,
  MessageAnswer,
  MessageRequest,
  PatternRecord,
  RecordedPattern,
  Selection,
  SelectRequest,
  SessionAttachment,
  SessionOutcome,
  SessionState,
  SessionSummary,
  Turn,
  TurnRequest,
} from "./types.js";

/** Settings of a session on the client's side. */
export interface SidecarSettings extends SidecarOptions {
  /** Session to resume, in place of a new one. */
  id?: string;
  /** False to leave the session open at the end of its block, to be resumed by its id. */
  close?: boolean;
  /** Longest time of a request, in milliseconds; the client's `decisionTimeoutMs` unless given. */
  deadlineMs?: number;
  /** True to throw {@link Unavailable} where the agent would go on without an answer. */
  strict?: boolean;
}

/** Answer of the sidecar at one step, in {@link Sidecar.stream}. */
export interface SessionStep {
  /** Number of the session's step; as `after` it continues a stream behind this step. */
  id: number;
  /** `turn`, `message`, `guard` or `close`. */
  event: string;
  /** Answer to the step. */
  data: Record<string, unknown>;
}

/** Route and modes of a step. */
interface Place {
  route?: string | undefined;
  modes?: string[];
}

/** Most kept rulings with objections to calls; older rulings are dropped. */
const MOST_INTERVENTIONS = 1_000;
/** Time after which a stream without a connection ends, in milliseconds. */
const GIVE_UP_STREAM_MS = 10_000;

/**
 * Companion of one agent's session: fitting tools, verdicts of the rules, due documents, and successful patterns.
 *
 * **A sidecar never stops the agent.** A request takes `deadlineMs` at most. If the server is away, late or faulty, or
 * has lost the session, nothing is thrown: the answer is `degraded` and allows the step, and its `warnings` tell what
 * is missing. After three faults in a row no request is sent for 15 s, or until the server answers another request of
 * the client. With `strict`, such faults throw {@link Unavailable}. Faults of the program throw {@link APIError}: a
 * wrong key, or a request that breaks the API's rules.
 *
 * Several tasks may use a session at the same time.
 */
export class Sidecar implements AsyncDisposable {
  /** Name of the agent. */
  readonly agent: string;
  /** Rulings with objections to calls under guardrails, oldest first. */
  readonly interventions: GuardRuling[] = [];
  /** Outcome for the end of the session; undefined to let the reviews of `task_id` decide. */
  outcome: SessionOutcome | undefined;

  readonly #client: SidecarClient;
  readonly #connection: SessionConnection;
  readonly #attachment: SessionAttachment;
  readonly #seen: SeenDocuments;
  #task: string | undefined;
  #route: string | undefined;
  #modes: string[];
  /** True if the server has another route or other modes than the session: a step that moved it got no answer. */
  #isElsewhere = false;
  #taints: readonly string[] = [];
  #summary: SessionSummary | undefined;
  #isOver = false;
  readonly #staysOpen: boolean;
  #due: readonly DocumentDue[] = [];
  /** True if a change of a document was not stored, since the last answer of the session. */
  #losesChanges = false;

  /** @internal Use `umbra.sidecar(...)`. */
  constructor(
    transport: Transport,
    context: CallContext & { agent: string },
    attachment: SessionAttachment,
    settings: SidecarSettings & { deadlineMs: number },
  ) {
    for (const name of ["modes", "objectives", "tools"] as const) checkList(name, attachment[name]);
    this.#client = new SidecarClient(transport, settings.deadlineMs, settings.strict ?? false);
    this.#connection = new SessionConnection(this.#client, () => ({ ...this.#attachment, ...this.#standing() }));
    this.#staysOpen = settings.close === false;
    this.agent = attachment.agent ?? context.agent;
    this.#attachment = { ...attachment, ...(attachment.tools && { tools: attachment.tools.map(toolDefinition) }) };
    this.#task = attachment.task ?? undefined;
    this.#route = attachment.route ?? context.route;
    this.#modes = [...(attachment.modes ?? context.modes ?? [])];
    this.#seen = new SeenDocuments(attachment.documents ?? {});
  }

  /** @internal Attaches the session, or resumes the one of `id`. */
  async begin(id: string | undefined, signal: AbortSignal | undefined): Promise<void> {
    const time = this.#client.time(signal);
    try {
      if (id === undefined) await this.#connection.attached(time);
      else await this.#resume(id, time);
    } catch (error) {
      this.#connection.warnings = this.#connection.without(empty.guard(), error).warnings;
    }
  }

  /** Id of the session; undefined if the server has no such session. */
  get id(): string | undefined {
    return this.#connection.id;
  }

  /** The task, in words. */
  get task(): string | undefined {
    return this.#task;
  }

  /** Route of the agent, such as `plan`; turns and messages change it. */
  get route(): string | undefined {
    return this.#route;
  }

  /** Modes of the agent; turns and messages change them. */
  get modes(): readonly string[] {
    return this.#modes;
  }

  /** Folder of the documents as files, in the server's workspace; undefined without files. */
  get files(): string | undefined {
    return this.#connection.files;
  }

  /** Missing parts at the last attachment. */
  get warnings(): readonly string[] {
    return this.#connection.warnings;
  }

  /** Labels that rules have put on the session. */
  get taints(): readonly string[] {
    return this.#taints;
  }

  /** Result of the session; undefined before it is closed. */
  get summary(): SessionSummary | undefined {
    return this.#summary;
  }

  /** True if the agent is without a session. */
  get degraded(): boolean {
    return this.id === undefined || this.#connection.lost !== undefined;
  }

  /** @internal */
  get logger(): Logger {
    return this.#client.transport.logger;
  }

  /**
   * Begins a step, and returns everything for it in one answer: verdicts on the planned calls, due documents, tools and
   * patterns. `intent` describes the next step, the task unless given.
   */
  async turn(request: TurnRequest = {}, options: SidecarOptions = {}): Promise<Turn> {
    checkObject("turn", request, '{ intent: "edit the file" }');
    const signal = signalOf("turn(request, options)", options);
    checkList("planned_calls", request.planned_calls);
    const place = this.#place(request);
    const planned = request.planned_calls?.map(sidecarCall);
    const texts = this.#seen.texts();
    const body = { ...request, ...place, planned_calls: planned, deadline_ms: this.#client.serverMs() };
    const form = { missing: empty.turn(), required: ["turn", "decision"] };
    const turn = await this.askSession(form, { method: "POST", path: "/turns", body }, signal);
    this.#move(place, turn.turn > 0);
    if (turn.turn > 0) {
      this.#due = turn.documents_due;
      this.#seen.beginTurn(texts);
    }
    return { ...turn, decisions: padded(turn.decisions, planned) };
  }

  /**
   * Reports the message, calls and results of a step. The rules judge them, and patterns are made of them. Calls under
   * {@link guardrails} are reported already.
   */
  async message(request: MessageRequest, options: SidecarOptions = {}): Promise<MessageAnswer> {
    checkObject("message", request, '{ content: "Done." }');
    const signal = signalOf("message(request, options)", options);
    checkList("tool_calls", request.tool_calls);
    checkList("results", request.results);
    const place = this.#place(request);
    const answer = await this.#tell(request, place, signal);
    this.#move(place, answer.message > 0);
    return answer;
  }

  /** @internal Reports a call under guardrails, at another place than the session's if the guardrails have one. */
  async report(request: MessageRequest, elsewhere: Place): Promise<MessageAnswer> {
    const hasPlace = Object.keys(elsewhere).length > 0;
    const place = this.#place(elsewhere);
    this.#isElsewhere ||= hasPlace;
    const answer = await this.#tell(request, place);
    if (answer.message > 0 && !hasPlace) this.#isElsewhere = false;
    return answer;
  }

  async #tell(request: MessageRequest, place: Place, signal?: AbortSignal): Promise<MessageAnswer> {
    const calls = request.tool_calls?.map(sidecarCall);
    const results = request.results?.map((result) => sidecarResult(result, request.tool_calls ?? []));
    currentContext().guardrails?.warnOfUnguarded(this, calls ?? []);
    const told = { tool_calls: calls, results, deadline_ms: this.#client.serverMs() };
    const body = { role: "assistant", ...request, ...place, ...told };
    // Otherwise padding would carry a text past every rule.
    const tooLong = request.content ? { decision: TOO_LONG.decision, said: TOO_LONG } : {};
    const form = { missing: empty.message(), required: ["message", "decision"], tooLong };
    const answer = await this.askSession(form, { method: "POST", path: "/messages", body }, signal);
    if (answer.message > 0) {
      this.#due = answer.documents_due;
      this.#taints = answer.taints;
    }
    return { ...answer, calls: padded(answer.calls, calls), results: padded(answer.results, results) };
  }

  /**
   * Returns the verdict of the rules on one planned call or message, and leaves the session as it is. Without a session
   * the rules are asked nevertheless; the answer is `degraded` then.
   */
  async guard(request: GuardRequest, options: SidecarOptions = {}): Promise<GuardAnswer> {
    this.#checkInUse();
    checkObject("guard", request, '{ call: { tool: "mail.send" } }');
    const signal = signalOf("guard(request, options)", options);
    if ((request.call == null) === (request.message == null))
      throw new TypeError("guard takes a call or a message: { call: { tool } }");
    const asked = request.call == null ? request : { ...request, call: sidecarCall(request.call) };
    const question = (session: string | undefined): SidecarRequest => {
      const who = session === undefined ? this.#standing() : { session };
      const body = { ...who, ...asked, deadline_ms: this.#client.serverMs() };
      return { method: "POST", path: "/v1/guard", body, repeatable: true, isExact: request.call != null };
    };
    const tooLong = { ...(request.message != null && TOO_LONG), unjudged: true };
    const form = { missing: empty.guard(), required: ["decision"], tooLong };
    return this.#connection.askWithOptionalSession(form, question, signal);
  }

  /** Returns the tools of the session that fit `query` or the task, best first, as far as they may be offered. */
  async select(request: SelectRequest = {}, options: SidecarOptions = {}): Promise<Selection> {
    this.#checkInUse();
    checkObject("select", request, '{ query: "edit a file" }');
    const signal = signalOf("select(request, options)", options);
    const query = request.query ?? this.#task;
    const { tools } = this.#attachment;
    const question = (session: string | undefined): SidecarRequest => {
      if (session === undefined && !(tools?.length && query)) {
        throw new MissedAnswer("there is no session to select tools for, and neither tools nor a task without it");
      }
      const who = session === undefined ? { tools, ...this.#standing() } : { session };
      const body = { ...request, query, ...who, deadline_ms: this.#client.serverMs() };
      return { method: "POST", path: "/v1/tools/select", body, repeatable: true };
    };
    const form = { missing: empty.selection(), required: ["ranked"] };
    return this.#connection.askWithOptionalSession(form, question, signal);
  }

  /**
   * Applies the rules to calls of tools: a question before each call, and a report with the result after it.
   *
   *     const edit = s.guardrails("enforce", { server: "files" })(async function edit_file({ path }) { ... });
   *
   * The tool is named by `name` and `server`, else by the function. For a warning the call runs, and the warning is
   * logged. {@link interventions} has the objections of the rules. `mode` and `route` are those of the agent for the
   * calls: the mode is added to the session's. To apply the rules to all tools of `umbra.tool` and `umbra.callTool`
   * that are called within a function, use `run`:
   *
   *     await s.guardrails("enforce", { mode: "research" }).run(() => agent());
   */
  guardrails(enforcement: Enforcement = "enforce", options: GuardrailOptions = {}): GuardrailsWrapper {
    const guardrails = new Guardrails(this, enforcement, options);
    return Object.assign(
      <P extends unknown[], R>(body: (...parameters: P) => R | Promise<R>) => guardrails.wrap(body),
      { run: <R>(body: () => R) => guardrails.run(body) },
    );
  }

  /** Returns a document of the session in its present state; {@link Document.put} creates a missing one. */
  async document(name: string, options: SidecarOptions = {}): Promise<Document> {
    this.#checkInUse();
    if (typeof name !== "string" || name === "") throw new TypeError('document takes a name, such as "todo"');
    const signal = signalOf("document(name, options)", options);
    const document = new Document(this, name, this.#seen.known(name).latest);
    await document.read({ signal });
    if (document.exists || document.degraded) return document;
    const near = closest(plainName(name), [...this.#connection.documents, ...this.#seen.names()]);
    const text = `the session has no document ${name}, which is empty until it is put: is ${near} meant?`;
    if (near !== undefined) this.logger.warn(`umbra: ${text}`);
    return document;
  }

  /**
   * Checks that a document, or a section of it by slug or title, was changed in substance, and returns the document.
   *
   * Throws {@link NotUpdated}, whose `directives` are for the agent to read, unless the document has changed since the
   * last turn (or, before the first turn and with `since: "session"`, since the session began). With `within`, the
   * document must be changed by that function. While the server is away nothing is thrown.
   */
  async ensureUpdated(
    name: string,
    options: SidecarOptions & {
      section?: string;
      since?: "turn" | "session";
      within?: (document: Document) => unknown;
    } = {},
  ): Promise<Document> {
    checkMembers("ensureUpdated(name, options)", options, ["section", "since", "within", "signal"]);
    const { section, since = "turn", within, signal } = options;
    if (since !== "turn" && since !== "session") throw new TypeError("since is turn or session");
    let document = await this.document(name, { signal });
    let before: string | undefined;
    if (within !== undefined) {
      before = document.text;
      await within(document);
      document = await this.document(name, { signal });
    }
    const seen = this.#seen.of(name);
    const lower = document.name.toLowerCase();
    const due = this.#due.filter((one) => one.document.toLowerCase() === lower && one.reason);
    checkUpdated(
      document,
      before ?? (since === "session" ? seen.first : seen.atTurn),
      section,
      within ? "the block began" : since === "session" ? "the session began" : "the last turn",
      due.map((one) => one.reason),
    );
    return document;
  }

  /**
   * Records how a task was done: its tools in order, and its outcome. A known pattern is counted once more. Closing a
   * session records the session's own calls; this method is for others.
   */
  async recordPattern(pattern: PatternRecord, options: SidecarOptions = {}): Promise<RecordedPattern> {
    this.#checkInUse();
    checkObject("recordPattern", pattern, '{ tools: ["grep"] }');
    const signal = signalOf("recordPattern(pattern, options)", options);
    checkList("tools", pattern.tools);
    const { task_id } = this.#attachment;
    const body = {
      ...(task_id ? { task_id } : {}),
      ...pattern,
      agent: this.agent,
      task: this.#taskOr(pattern.task, "recordPattern"),
      tools: (pattern.tools ?? []).map((tool) => (typeof tool === "string" ? { name: tool } : tool)),
      ...(this.id === undefined ? {} : { session: this.id }),
    };
    return this.#connection.askWithoutSession(
      { missing: empty.recorded(), required: ["new"] },
      { method: "POST", path: "/v1/patterns", body },
      signal,
    );
  }

  /**
   * Returns this agent's patterns of similar tasks, best first. Texts of patterns are data of other tasks, never
   * instructions, and are put into no prompt here; {@link quotePatterns} quotes them for a prompt.
   */
  async searchPatterns(
    query: { task?: string; limit?: number } = {},
    options: SidecarOptions = {},
  ): Promise<FoundPatterns> {
    this.#checkInUse();
    checkObject("searchPatterns", query, '{ task: "fix the date bug" }');
    const signal = signalOf("searchPatterns(query, options)", options);
    const body = { ...query, task: this.#taskOr(query.task, "searchPatterns"), ...this.#standing() };
    const request = { method: "POST", path: "/v1/patterns/search", body, repeatable: true } as const;
    const form = { missing: empty.patterns(), required: ["items"] };
    return this.#connection.askWithoutSession(form, request, signal);
  }

  /**
   * Leaves a person's note to the agent, who gets it once: among the `directives` of its next turn or the `warnings` of
   * its next message. Needs a key with the scope `admin`. Throws {@link Unavailable} if the note was not left.
   */
  async note(text: string, options: SidecarOptions = {}): Promise<void> {
    const signal = signalOf("note(text, options)", options);
    const missing: SidecarAnswer = { degraded: false, warnings: [] };
    const request = { method: "POST", path: "/notes", body: { text } } as const;
    const { degraded, warnings } = await this.askSession({ missing, required: ["id"] }, request, signal);
    if (degraded) throw new Unavailable(warnings.join("; "));
  }

  /**
   * Yields the answers to all steps of the session, of any program. The stream begins now, or behind the step `after`
   * (0: with the first step), and ends with the session. An interrupted stream continues without a gap; if the server
   * stays away it ends, with a warning in the log.
   */
  async *stream(options: SidecarOptions & { after?: number } = {}): AsyncGenerator<SessionStep, void, void> {
    this.#checkInUse();
    checkMembers("stream(options)", options, ["after", "signal"]);
    const { signal } = options;
    try {
      const path = `/v1/sessions/${await this.#connection.attached(this.#client.time(signal))}/messages`;
      const limits = { timeoutMs: this.#client.deadlineMs, giveUpMs: GIVE_UP_STREAM_MS, signal };
      const after = options.after === undefined ? undefined : String(options.after);
      for await (const { id, event, data } of this.#client.transport.events({ path, after }, limits)) {
        if (event === "") continue;
        yield { id: Number(id), event, data: objectOf(data) };
        if (event === "close") return;
      }
    } catch (error) {
      signal?.throwIfAborted();
      if (this.#summary !== undefined) return;
      const missed = error instanceof Unavailable ? new MissedAnswer(error.message) : this.#connection.lossOf(error);
      this.#client.without(empty.guard(), missed);
      this.logger.warn(`umbra: the session is not followed any more: ${missed.message}`);
    }
  }

  /**
   * Ends the session. Its calls become a pattern if the outcome is `succeeded`; without an outcome they do if the
   * reviews of the `task_id` approve the task. If the server does not answer, the end is reported when this client
   * attaches its next session.
   */
  async close(
    outcome: SessionOutcome | undefined = this.outcome,
    options: SidecarOptions = {},
  ): Promise<SessionSummary> {
    this.#checkInUse();
    const signal = signalOf("close(outcome, options)", options);
    this.outcome = outcome;
    let answer = empty.summary();
    try {
      const { id, lost } = this.#connection;
      if (id === undefined) throw new MissedAnswer(lost ?? "there is no session to close");
      const body = outcome === undefined ? {} : { outcome };
      const request: SidecarRequest = {
        method: "POST",
        path: `/v1/sessions/${id}/close`,
        body,
        repeatable: true,
      };
      try {
        answer = await this.#client.ask({ missing: empty.summary() }, request, this.#client.time(signal));
      } catch (error) {
        if (error instanceof MissedAnswer) keepEnd(this.#client.transport, request);
        throw this.#connection.lossOf(error);
      }
    } catch (error) {
      answer = this.#connection.without(answer, error);
    } finally {
      // For this program the session is over in any case: the server closes an unused session by itself.
      this.#summary = answer;
      this.#isOver = true;
    }
    return answer;
  }

  /** @internal Ends the use of the session here: closes it, unless it was closed or is to stay open. */
  async end(): Promise<void> {
    if (this.#isOver) return;
    if (this.#staysOpen) this.#isOver = true;
    else await this.close();
  }

  /** Closes the session with {@link outcome}, unless it was closed or `close` is false. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.end();
    } catch (error) {
      // The end of a block must not hide the error that leaves it.
      if (!(error instanceof UmbraError)) throw error;
      this.logger.warn(`umbra: the session is not closed: ${error.message}`);
    }
  }

  /** @internal Returns an answer of the session; `without` if there is none. */
  async askSession<A extends SidecarAnswer>(
    form: AnswerForm<A>,
    request: SidecarRequest,
    signal: AbortSignal | undefined,
    without: A = form.missing,
  ): Promise<A> {
    this.#checkInUse();
    const answer = await this.#connection.ask(form, request, signal, without);
    this.#losesChanges &&= answer.degraded;
    return answer;
  }

  /** @internal */
  noteIntervention(ruling: GuardRuling): void {
    this.interventions.push(ruling);
    if (this.interventions.length > MOST_INTERVENTIONS) this.interventions.shift();
  }

  /** @internal */
  sawDocument(asked: string, answer: DocumentAnswer): void {
    this.#seen.saw(asked, answer);
  }

  /** @internal Logs that a change is not stored, once until an answer of the session comes. */
  lostChange(name: string, warnings: readonly string[]): void {
    const advice = "make it again once read() of the document is not degraded";
    if (!this.#losesChanges) {
      this.logger.warn(`umbra: the change of the document ${name} is not stored: ${warnings.join("; ")}; ${advice}`);
    }
    this.#losesChanges = true;
  }

  /** @internal Throws {@link SessionOver} if the session was closed, as far as the last answer told. */
  checkNotClosed(): void {
    if (this.#connection.isClosed) throw new SessionOver(this.#connection.lost);
  }

  #checkInUse(): void {
    const advice = this.#summary ? "" : ", or resume it by its id";
    if (this.#isOver) throw new SessionOver(`the session is over: attach a new one${advice}`);
  }

  /** Returns route and modes of a step, as far as the server does not know them. */
  #place({ route, modes }: Pick<MessageRequest, "route" | "modes"> | Place): Place {
    this.#checkInUse();
    if (modes != null && !Array.isArray(modes)) throw new TypeError("modes is a list of names");
    const known: Place = this.#isElsewhere ? { route: this.#route, modes: this.#modes } : {};
    return { ...known, ...(route != null && { route }), ...(modes != null && { modes: [...modes] }) };
  }

  /** Notes route and modes of a step that was not refused. If the server does not know them, the next step tells it. */
  #move(place: Place, isKnown: boolean): void {
    this.#route = place.route ?? this.#route;
    this.#modes = place.modes ?? this.#modes;
    this.#isElsewhere = !isKnown && Object.keys(place).length > 0;
  }

  /** Returns agent, route and modes, for questions without a session. */
  #standing(): { agent: string; route?: string; modes: string[] } {
    return { agent: this.agent, ...(this.#route === undefined ? {} : { route: this.#route }), modes: this.#modes };
  }

  #taskOr(task: string | undefined, method: string): string {
    const found = task ?? this.#task;
    if (!found) throw new TypeError(`${method} needs a task, since the session has none`);
    return found;
  }

  async #resume(id: string, time: RequestTime): Promise<void> {
    const missing = { degraded: false, warnings: [], documents: [] as { name: string }[] };
    const request = { method: "GET", path: `/v1/sessions/${segment(id)}`, repeatable: true } as const;
    // The id holds even if the server is away now: a later step finds the session.
    this.#connection.id = id;
    const form = { missing, required: ["id", "state"] };
    const asked = this.#client.ask(form, request, time).catch((error: unknown) => {
      throw this.#connection.lossOf(error, `the session ${id} cannot be resumed`);
    });
    const session = (await asked) as typeof missing & SessionState;
    this.#connection.documents = session.documents.map((one) => one.name);
    this.#seen.isResumed = true;
    this.#task ??= session.task ?? undefined;
    this.#route ??= session.route ?? undefined;
    if (this.#modes.length === 0) this.#modes = [...(session.modes ?? [])];
    this.#taints = session.taints ?? [];
    this.#connection.files = session.files ?? undefined;
    if (session.state === "closed") throw this.#connection.lose(`the session ${id} cannot be resumed: it is closed`);
  }
}

/** Function that puts guardrails around a tool; `run` applies them to all tools that are called within a function. */
export interface GuardrailsWrapper {
  <P extends unknown[], R>(body: (...parameters: P) => R | Promise<R>): (...parameters: P) => Promise<R>;
  /** Applies the guardrails to all tools that are called within `body`. */
  run<R>(body: () => R): R;
}

function objectOf(data: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(data);
    return isRecord(value) ? value : {};
  } catch {
    return {};
  }
}
