/** Documents of a session, and the duty to keep them up to date. */

import { checkMembers, checkObject, describeKind, signalOf } from "./checks.js";
import { APIError, Conflict, NotUpdated } from "./errors.js";
import type { Sidecar } from "./sidecar.js";
import type { SidecarAnswer } from "./sidecar_answers.js";
import type { AnswerForm, SidecarRequest } from "./sidecar_client.js";
import type { DocumentEdit, DocumentFormat, DocumentSection, DocumentVersion } from "./types.js";

/** Options of requests of a session. */
export interface SidecarOptions {
  /** Aborts the request; its `reason` is thrown. */
  signal?: AbortSignal | undefined;
}

/** A document in the answer to one request. */
export interface DocumentAnswer extends SidecarAnswer {
  /** Name, without the ending of its format. */
  name: string;
  /** Syntax. */
  format: DocumentFormat;
  /** Number of changes so far. */
  version: number;
  /** Tag of this text; null if the document does not exist yet, or its state is unknown. */
  etag: string | null;
  /** Text of the document; empty if it does not exist. */
  text: string;
  /** Content by sections and items. */
  sections: DocumentSection[];
  /** Number of open items. */
  open_items: number;
  /** Number of done items. */
  done_items: number;
  /** True if the document had changed meanwhile, and both changes are in it. */
  merged: boolean;
  /** True if the change is kept; otherwise `warnings` tell the reason. */
  stored: boolean;
}

/** A page of the versions of a document, oldest first. */
export interface DocumentHistory extends SidecarAnswer {
  /** Versions of the page. */
  items: DocumentVersion[];
  /** Cursor of the next page; null if there is none. */
  next_cursor: string | null;
  /** Cursor behind the last version. */
  resume_cursor: string | null;
}

/** Last known state of a document, with earlier texts. */
export interface SeenDocument {
  latest: DocumentAnswer;
  /** Text at the beginning of the session. */
  first: string;
  /** Text at the beginning of the last turn. */
  atTurn: string;
}

/** Returns a document that does not exist, with the text that it is to have. */
export function missingDocument(name: string, text = ""): DocumentAnswer {
  const counts = { version: 0, etag: null, sections: [], open_items: 0, done_items: 0 };
  return { name, format: "markdown", text, ...counts, merged: false, stored: true, degraded: false, warnings: [] };
}

/** Last known states of the documents of a session, by name. */
export class SeenDocuments {
  readonly #states = new Map<string, SeenDocument>();
  readonly #given: ReadonlyMap<string, string>;
  /** True if the session was resumed: earlier texts are not known then. */
  isResumed = false;

  /** Takes the documents that the session begins with. */
  constructor(given: Record<string, string | { text: string }>) {
    checkObject("documents", given, '{ todo: "# Todo\\n" }');
    const texts = Object.entries(given).map(([name, one]): [string, string] => {
      const text: unknown = typeof one === "string" ? one : one?.text;
      if (typeof text === "string") return [plainName(name), text];
      throw new TypeError(`the document ${name} is a text, or { text, format }, not ${describeKind(one)}`);
    });
    this.#given = new Map(texts);
  }

  /** Returns the last known state of a document. */
  of(asked: string): SeenDocument {
    const name = plainName(asked);
    const state = this.known(name);
    this.#states.set(name, state);
    return state;
  }

  /** Returns the last known state of a document, and does not keep one that was not read yet. */
  known(asked: string): SeenDocument {
    const name = plainName(asked);
    const first = this.#given.get(name) ?? "";
    return this.#states.get(name) ?? { latest: missingDocument(name, first), first, atTurn: first };
  }

  /** Returns the names of the documents that exist, as far as is known. */
  names(): string[] {
    const existing = [...this.#states].filter(([, { latest }]) => latest.etag !== null);
    return [...this.#given.keys(), ...existing.map(([name]) => name)];
  }

  /** Returns the last known texts. */
  texts(): (readonly [name: string, text: string])[] {
    return [...this.#states].map(([name, { latest }]) => [name, latest.text]);
  }

  /** Notes the texts at the beginning of a turn. */
  beginTurn(texts: readonly (readonly [name: string, text: string])[]): void {
    for (const [name, text] of texts) this.of(name).atTurn = text;
  }

  /** Notes the present state of a document. */
  saw(asked: string, answer: DocumentAnswer): void {
    const isFirst = !this.#states.has(plainName(asked));
    const seen = this.of(asked);
    if (isFirst && this.isResumed) {
      // Earlier texts are not known here: changes count from the first look on.
      seen.first = seen.atTurn = answer.text;
    } else if (answer.etag !== null && answer.version === 0) {
      // The text at the beginning of the session, in the form that the server keeps.
      if (seen.atTurn === seen.first) seen.atTurn = answer.text;
      seen.first = answer.text;
    }
    if (answer.version >= seen.latest.version || answer.etag === null) seen.latest = answer;
  }
}

/**
 * A document of a session, in the state of the last read or change; {@link Sidecar.document} returns one.
 *
 * A change applies to the last known state (`If-Match` is sent). Changes that others made meanwhile are merged with it,
 * item by item, or the whole change is refused with {@link Conflict}. While the server is away the text stays in the
 * last known state, the answer is `degraded`, and a change is not `stored`, of which the log has a warning.
 */
export class Document {
  readonly #session: Sidecar;
  readonly #path: string;
  readonly #asked: string;
  #answer: DocumentAnswer;

  /** @internal */
  constructor(session: Sidecar, name: string, seen: DocumentAnswer) {
    this.#session = session;
    this.#asked = name;
    this.#path = `/documents/${encodeURIComponent(name)}`;
    this.#answer = seen;
  }

  /** Name, without the ending of its format. */
  get name(): string {
    return this.#answer.name;
  }

  /** Text of the document; empty if it does not exist. */
  get text(): string {
    return this.#answer.text;
  }

  /** Syntax. */
  get format(): DocumentFormat {
    return this.#answer.format;
  }

  /** Tag of this text; undefined if the document does not exist yet, or its state is unknown. */
  get etag(): string | undefined {
    return this.#answer.etag ?? undefined;
  }

  /** Number of changes so far. */
  get version(): number {
    return this.#answer.version;
  }

  /** True if the document exists, as far as is known. */
  get exists(): boolean {
    return this.#answer.etag !== null;
  }

  /** Content by sections and items. */
  get sections(): readonly DocumentSection[] {
    return this.#answer.sections;
  }

  /** Number of open items. */
  get openItems(): number {
    return this.#answer.open_items;
  }

  /** Number of done items. */
  get doneItems(): number {
    return this.#answer.done_items;
  }

  /** True if something was missing at the last read or change. */
  get degraded(): boolean {
    return this.#answer.degraded;
  }

  /** Missing parts at the last read or change. */
  get warnings(): readonly string[] {
    return this.#answer.warnings;
  }

  /** Reads the document again. */
  async read(options: SidecarOptions = {}): Promise<DocumentAnswer> {
    const signal = signalOf("read(options)", options);
    try {
      return this.#take(await this.#ask({ method: "GET", path: this.#path, repeatable: true }, { signal }));
    } catch (error) {
      if (error instanceof APIError && error.status === 404) return this.#take(missingDocument(this.name));
      throw error;
    }
  }

  /**
   * Makes edits by section and item, all of them or none. `by` is the author, the agent unless given.
   *
   * Throws {@link Conflict} if the document has changed meanwhile in the same places, and {@link APIError} if an edit
   * cannot be made, or the document would be too long.
   */
  async edit(
    edits: DocumentEdit | readonly DocumentEdit[],
    options: SidecarOptions & { by?: string } = {},
  ): Promise<DocumentAnswer> {
    checkMembers("edit(edits, options)", options, ["by", "signal"]);
    const all = Array.isArray(edits) ? edits : [edits];
    if (all.length === 0) throw new TypeError("edit takes one edit at least");
    const body = { edits: all, ...(options.by === undefined ? {} : { by: options.by }) };
    return this.#take(await this.#ask({ method: "PATCH", path: this.#path, body, headers: this.#match() }, options));
  }

  /** Replaces the whole text, or creates the document; otherwise as {@link edit}. */
  async put(
    text: string,
    options: SidecarOptions & { by?: string; format?: DocumentFormat } = {},
  ): Promise<DocumentAnswer> {
    if (typeof text !== "string") throw new TypeError(`put takes the whole text, not ${describeKind(text)}`);
    checkMembers("put(text, options)", options, ["by", "format", "signal"]);
    const { by, format } = options;
    const body = { text, ...(by === undefined ? {} : { by }), ...(format === undefined ? {} : { format }) };
    return this.#take(await this.#ask({ method: "PUT", path: this.#path, body, headers: this.#match() }, options));
  }

  /** Returns a page of the versions, oldest first, from the first version or from a cursor on. */
  async history(options: SidecarOptions & { cursor?: string } = {}): Promise<DocumentHistory> {
    checkMembers("history(options)", options, ["cursor", "signal"]);
    const query = options.cursor === undefined ? "" : `?cursor=${encodeURIComponent(options.cursor)}`;
    const missing: DocumentHistory = {
      items: [],
      next_cursor: null,
      resume_cursor: null,
      degraded: false,
      warnings: [],
    };
    const request = { method: "GET", path: `${this.#path}/history${query}`, repeatable: true } as const;
    return this.#session.askSession({ missing }, request, options.signal);
  }

  #match(): Record<string, string> {
    return this.etag ? { "if-match": `"${this.etag}"` } : {};
  }

  async #ask(request: SidecarRequest, options: SidecarOptions): Promise<DocumentAnswer> {
    const form: AnswerForm<DocumentAnswer> = { missing: missingDocument(this.name), required: ["name", "stored"] };
    const without = { ...this.#answer, merged: false, stored: request.method === "GET" };
    try {
      return await this.#session.askSession(form, request, options.signal, without);
    } catch (error) {
      if (error instanceof APIError && (error.status === 412 || (error.status === 409 && error.errors.length > 0))) {
        const places = error.errors.map(({ pointer, code, detail }) => ({ place: pointer, kind: code, detail }));
        throw new Conflict(this.name, error.detail, places);
      }
      throw error;
    }
  }

  #take(answer: DocumentAnswer): DocumentAnswer {
    if (answer.degraded || !answer.stored) {
      // The present state is unknown: the last known state stays.
      const { warnings, stored } = answer;
      if (!stored) this.#session.lostChange(this.name, warnings);
      this.#answer = { ...this.#answer, degraded: true, warnings, stored, merged: false };
      return this.#answer;
    }
    this.#session.sawDocument(this.#asked, answer);
    // Answers to concurrent changes may arrive in another order than the changes.
    if (answer.version >= this.#answer.version || answer.etag === null) this.#answer = answer;
    return answer;
  }
}

/** Throws {@link NotUpdated} unless a document, or a section of it, has changed in substance. */
export function checkUpdated(
  document: Document,
  before: string,
  section: string | undefined,
  since: string,
  reasons: readonly string[],
): void {
  if (document.degraded || (document.exists && hasChanged(before, document, section))) return;
  const what = section ? `the section ${section} of ${document.name}` : `the document ${document.name}`;
  const isThere = document.exists && (section === undefined || hasSection(document, section));
  const wanted = isThere
    ? `Before you go on, update ${what}: it has not changed since ${since}.`
    : `Before you go on, write ${what}: it does not exist yet.`;
  throw new NotUpdated(document.name, section, since, [wanted, ...reasons]);
}

/** True if a document, or a section by slug or title, has changed in substance: more than blanks and ids. */
function hasChanged(before: string, now: Document, section: string | undefined): boolean {
  if (section === undefined) return substance(before) !== substance(now.text);
  const isYaml = now.format === "yaml";
  const [was, is] = [sectionText(before, section, isYaml), sectionText(now.text, section, isYaml)];
  if (is === undefined) {
    // Only the server finds this heading: then any change of the document counts, in favour of the agent.
    return hasSection(now, section) && substance(before) !== substance(now.text);
  }
  return was === undefined || substance(was) !== substance(is);
}

/** True if a document has a section of this slug or title. */
function hasSection(document: Document, section: string): boolean {
  if (sectionText(document.text, section, document.format === "yaml") !== undefined) return true;
  const name = section.toLowerCase();
  return document.sections.some((one) => [one.slug.toLowerCase(), one.title.toLowerCase()].includes(name));
}

/** Returns a document's name in the server's form: without the ending of its format. */
export function plainName(name: string): string {
  return name.toLowerCase().replace(/\.(md|ya?ml)$/, "");
}

/** Returns a text without ids, and with single blanks. */
export function substance(text: string): string {
  return text
    .replace(/<!--\s*id:[\s\S]*?-->/g, "")
    .split(/\s+/)
    .filter(Boolean)
    .join(" ");
}

/** Returns a section with its heading and its subsections, by slug, title or explicit id. */
export function sectionText(text: string, name: string, isYaml: boolean): string | undefined {
  let found: string[] | undefined;
  let level = 0;
  let fence = "";
  for (const line of text.split(/\r\n|\n|\r/)) {
    const mark = /^\s{0,3}(```+|~~~+)/.exec(line)?.[1];
    if (mark !== undefined && !isYaml) {
      if (!fence) fence = mark;
      else if (mark.startsWith(fence)) fence = "";
    }
    const heading = fence ? null : (isYaml ? /^([^\s#:][^:]*):(?:\s|$)/ : /^\s{0,3}(#{1,6})\s+(.*)/).exec(line);
    if (heading) {
      const depth = isYaml ? 1 : (heading[1] ?? "").length;
      if (found !== undefined && depth <= level) break;
      if (found === undefined && isCalled((isYaml ? heading[1] : heading[2]) ?? "", name)) {
        found = [];
        level = depth;
      }
    }
    found?.push(line);
  }
  return found?.join("\n");
}

/** Returns true if a heading has this slug, title or explicit id. */
export function isCalled(heading: string, name: string): boolean {
  const explicit = /<!--\s*id:\s*(\S+?)\s*-->/.exec(heading)?.[1];
  const title = heading
    .replace(/<!--.*?-->/g, "")
    .replace(/\s*#*\s*$/, "")
    .trim();
  const slug = title
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, "-")
    .replace(/^-+|-+$/g, "");
  return [title.toLowerCase(), slug].includes(name.toLowerCase()) || explicit === name;
}
