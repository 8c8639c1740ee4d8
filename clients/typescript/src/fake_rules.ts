/** Rules of the fake sidecar: functions that judge one moment of a session. */

import { plainName, sectionText, substance } from "./document.js";
import { matches } from "./tool_names.js";
import type { DocumentDue, GuardRuling } from "./types.js";

/** Gravity of the decisions. */
export const GRAVITY = { allow: 0, warn: 1, block: 2 } as const;

/** Moment of a session that a rule judges. */
export interface Moment {
  /** The turn itself, a call (planned, asked about or made), a message, or the result of a call. */
  readonly subject: "turn" | "call" | "message" | "result";
  /** Tool of a call or result, after its server if it has one (`mail.send_email`); else empty. */
  readonly tool: string;
  /** Arguments of a call. */
  readonly arguments: Readonly<Record<string, unknown>>;
  /** Text of a message or result. */
  readonly text: string;
  /** Author of a message, such as `assistant`; else empty. */
  readonly role: string;
  /** Route of the agent. */
  readonly route: string | undefined;
  /** Modes of the agent. */
  readonly modes: readonly string[];
  /** Labels that rules have put on the session. */
  readonly taints: ReadonlySet<string>;
  /** Texts of the documents, by name. */
  readonly documents: Readonly<Record<string, string>>;
  /** Returns true for a call of such a tool: a name or a glob, in any spelling, as a rule of the server holds. */
  calls(tools: string): boolean;
  /** Returns true if a document, or a section, has changed in substance since the last turn or the attachment. */
  updated(document: string, section?: string): boolean;
}

type Decision = GuardRuling["decision"];

/**
 * Verdict of a rule: nothing (false and null too); a decision; a decision with its reason; a document that is due, by which the turn or call
 * is blocked unless `verdict` says otherwise; or members of a ruling: `{ taints: ["untrusted"] }` labels the session.
 */
export type FakeVerdict =
  | Decision
  | readonly [decision: Decision, reason: string]
  | (Partial<DocumentDue> & { document: string })
  | Partial<Pick<GuardRuling, "decision" | "rule" | "reason" | "taints">>
  | false
  | null
  | undefined
  | void;

/** Rule of a fake: judges one moment. The rule's name is that of the function. */
export type FakeRule = (at: Moment) => FakeVerdict;

/** Ruling of all rules on one moment. */
export type FakeRuling = GuardRuling & { taints: string[]; due: DocumentDue[] };

/** Returns a moment; `before` has the texts of the documents at the last turn. */
export function momentOf(
  parts: Partial<Moment> & Pick<Moment, "subject">,
  before: Readonly<Record<string, string>>,
): Moment {
  const none = { tool: "", arguments: {}, text: "", role: "", route: undefined, modes: [], taints: new Set<string>() };
  const moment = { ...none, documents: {}, ...parts };
  return {
    ...moment,
    calls: (tools) => moment.subject === "call" && matches(tools, moment.tool),
    updated: (document, section) => {
      const name = plainName(document);
      const [was, is] = [before[name] ?? "", moment.documents[name] ?? ""].map((text) =>
        substance(section === undefined ? text : (sectionText(text, section, false) ?? "")),
      );
      return was !== is;
    },
  };
}

/** Returns the ruling of the rules: the gravest verdict, with all labels and due documents. */
export function judge(rules: readonly FakeRule[], moment: Moment): FakeRuling {
  const ruling: FakeRuling = { decision: "allow", would: "allow", taints: [], due: [] };
  for (const rule of rules) {
    const { decision = "allow", due, taints, ...told } = readVerdict(rule.name || "rule", rule(moment));
    ruling.taints.push(...(taints ?? []));
    if (due !== undefined) ruling.due.push(due);
    if (told.rule && (ruling.rule === undefined || GRAVITY[decision] > GRAVITY[ruling.decision])) {
      Object.assign(ruling, told, { decision, would: decision, checked_by: "rule" });
    }
  }
  return ruling;
}

function readVerdict(rule: string, verdict: FakeVerdict): Partial<GuardRuling> & { due?: DocumentDue } {
  if (verdict === undefined || verdict === null || verdict === false) return {};
  let read: Partial<Omit<GuardRuling, "due">> & { due?: DocumentDue } = { rule };
  if (typeof verdict === "string") {
    read.decision = verdict;
  } else if (verdict instanceof Array) {
    [read.decision, read.reason] = verdict;
  } else if (typeof verdict === "object" && "document" in verdict) {
    const due: DocumentDue = { rule, needs: "updated", verdict: "block", reason: `by the rule ${rule}`, ...verdict };
    read = { decision: due.verdict, rule: due.rule, reason: due.reason, due };
  } else if (typeof verdict === "object" && ("decision" in verdict || "taints" in verdict)) {
    read = { ...read, decision: "allow", ...verdict };
  }
  if (read.decision === undefined || !Object.hasOwn(GRAVITY, read.decision)) {
    const given = (verdict as unknown) instanceof Promise ? "a promise" : JSON.stringify(verdict);
    throw new TypeError(`the rule ${rule} returns allow, warn or block, [decision, reason] or nothing, not ${given}`);
  }
  return { reason: `the policy ${rule} says ${read.decision}`, ...read } as Partial<GuardRuling> & { due?: DocumentDue };
}
