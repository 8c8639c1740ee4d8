/** Connection of a session to its server: the session is attached, asked, and may be lost. */

import { unlessAborted } from "./deadline.js";
import { APIError } from "./errors.js";
import { empty, type SidecarAnswer } from "./sidecar_answers.js";
import {
  type AnswerForm,
  MissedAnswer,
  type RequestTime,
  type SidecarClient,
  type SidecarRequest,
  unreportedEnds,
} from "./sidecar_client.js";
import type { Attachment } from "./types.js";

/** Pause between attempts to attach a session that could not be attached, in milliseconds. */
const ATTACH_AGAIN_MS = 5_000;

export class SessionConnection {
  /** Id of the session; undefined if the server has no such session. */
  id: string | undefined;
  /** Folder of the documents as files; undefined without files. */
  files: string | undefined;
  /** Names of the documents at the last attachment. */
  documents: readonly string[] = [];
  /** Missing parts at the last attachment. */
  warnings: readonly string[] = [];
  /** Reason for the loss of the session; undefined while there is one. */
  lost: string | undefined;
  /** True if the session was closed, by this program or another. */
  isClosed = false;
  #attaching: Promise<string> | undefined;
  #attachAfter = 0;

  constructor(
    readonly client: SidecarClient,
    /** Returns the body of the request that attaches the session. */
    private readonly attachment: () => object,
  ) {}

  /** Returns an answer of the session to a request below its path; `without` if there is none. */
  async ask<A extends SidecarAnswer>(
    form: AnswerForm<A>,
    request: SidecarRequest,
    signal: AbortSignal | undefined,
    without: A,
  ): Promise<A> {
    const time = this.client.time(signal);
    try {
      const path = `/v1/sessions/${await this.attached(time)}${request.path}`;
      try {
        return await this.client.ask(form, { ...request, path }, time);
      } catch (error) {
        throw this.lossOf(error);
      }
    } catch (error) {
      return this.without(without, error, form.tooLong);
    }
  }

  /** Returns an answer that needs no session. */
  async askWithoutSession<A extends SidecarAnswer>(
    form: AnswerForm<A>,
    request: SidecarRequest,
    signal: AbortSignal | undefined,
  ): Promise<A> {
    try {
      return await this.client.ask(form, request, this.client.time(signal));
    } catch (error) {
      return this.without(form.missing, error);
    }
  }

  /** Returns an answer of the session, or without a session an answer without it. */
  async askWithOptionalSession<A extends SidecarAnswer>(
    form: AnswerForm<A>,
    question: (session: string | undefined) => SidecarRequest,
    signal: AbortSignal | undefined,
  ): Promise<A> {
    const time = this.client.time(signal);
    let session: string | undefined;
    try {
      try {
        session = await this.attached(time);
      } catch (error) {
        if (!(error instanceof MissedAnswer)) throw error;
      }
      if (session !== undefined) {
        try {
          return await this.client.ask(form, question(session), time);
        } catch (error) {
          if (!(error instanceof APIError)) throw error;
          this.lossOf(error);
        }
      }
      const answer = await this.client.ask(form, question(undefined), time);
      const why = this.lost ?? "it is not attached";
      const missing = `there is no session, so neither its labels nor its documents counted: ${why}`;
      return { ...answer, degraded: true, warnings: [...answer.warnings, missing] };
    } catch (error) {
      return this.without(form.missing, error, form.tooLong);
    }
  }

  /** Returns the answer in place of a missing one. Throws every other error. */
  without<A extends SidecarAnswer>(missing: A, error: unknown, tooLong: Partial<A> = {}): A {
    if (!(error instanceof MissedAnswer)) throw error;
    const answer = this.client.without(missing, error);
    return error.isTooLong ? { ...answer, ...tooLong } : answer;
  }

  /** Notes that the session is missing or over, which is no fault of the caller. Throws every other error. */
  lossOf(error: unknown, what = `the server ended the session ${this.id}`): MissedAnswer {
    if (error instanceof MissedAnswer) return error;
    if (!(error instanceof APIError) || !["no_session", "session_closed"].includes(error.code)) throw error;
    this.isClosed ||= error.code === "session_closed";
    return this.lose(`${what}: ${error.detail}`);
  }

  /** Notes that there is no session any more, with one warning in the log. */
  lose(why: string): MissedAnswer {
    if (this.lost === undefined && !this.client.strict) {
      const advice = "for a new one call umbra.sidecar without an id";
      this.client.transport.logger.warn(`umbra: ${why}; the agent goes on without it: ${advice}`);
    }
    this.lost ??= why;
    return new MissedAnswer(this.lost);
  }

  /** Returns the session's id. A session that could not be attached is tried again now and then. */
  async attached(time: RequestTime): Promise<string> {
    if (this.lost !== undefined) throw new MissedAnswer(this.lost);
    if (this.id !== undefined) return this.id;
    if (this.#attaching === undefined) {
      if (performance.now() < this.#attachAfter) {
        throw new MissedAnswer(this.warnings.join("; ") || "there is no session");
      }
      this.#attachAfter = performance.now() + (this.client.transport.health.rests ? ATTACH_AGAIN_MS : 0);
      // Others may wait for it too: its caller's signal does not end it.
      this.#attaching = this.#attach({ until: time.until, signal: undefined }).finally(() => {
        this.#attaching = undefined;
      });
    }
    return unlessAborted(this.#attaching, time.signal);
  }

  async #attach(time: RequestTime): Promise<string> {
    const body = { ...this.attachment(), deadline_ms: this.client.serverMs() };
    const form: AnswerForm<Attachment> = { missing: empty.attachment(), required: ["documents"] };
    const answer = await this.client.ask(form, { method: "POST", path: "/v1/sessions", body }, time);
    this.warnings = answer.warnings;
    if (typeof answer.session?.id !== "string") {
      throw new MissedAnswer(answer.warnings.join("; ") || "the server has no session");
    }
    this.files = answer.session.files ?? undefined;
    this.id = answer.session.id;
    this.documents = answer.documents.map((one) => one.name);
    await this.#reportEnds(time);
    return this.id;
  }

  /** Reports sessions that ended while the server was away. One that is unknown or closed there is done. */
  async #reportEnds(time: RequestTime): Promise<void> {
    const ends = unreportedEnds.get(this.client.transport) ?? [];
    for (let end = ends.shift(); end !== undefined; end = ends.shift()) {
      try {
        await this.client.ask({ missing: empty.summary() }, end, time);
      } catch (error) {
        if (error instanceof APIError) continue;
        ends.unshift(end);
        return;
      }
    }
  }
}
