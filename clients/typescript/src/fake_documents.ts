/** Documents of the fake sidecar: sections and items of markdown, and edits of them. */

import { isCalled } from "./document.js";
import { Refusal } from "./fake_refusal.js";
import { isRecord } from "./transport.js";
import type { DocumentEdit, DocumentFormat, DocumentSection } from "./types.js";

/** A document of a fake session. */
export interface FakeDocument {
  version: number;
  text: string;
  format: DocumentFormat;
}

type ItemState = "open" | "done" | "dropped";
type ItemReference = Extract<DocumentEdit, { op: "set_state" }>["item"];

const ITEM = /^(\s*[-*+] )(?:\[([ xX-])\] )?(.*)$/;
const HEADING = /^(#{1,6})\s+(.*?)\s*$/;
const BOXES: Record<ItemState, string> = { open: "[ ] ", done: "[x] ", dropped: "[-] " };
const OPERATIONS: readonly unknown[] = [
  ...["add_section", "replace_section", "remove_section", "rename_section", "append_item", "insert_item"],
  ...["replace_item", "remove_item", "set_state", "set_key", "remove_key", "append_text"],
];
const STATES: Record<string, ItemState> = { " ": "open", x: "done", X: "done", "-": "dropped" };

/** Returns the sections of a text, each with its items. */
export function sectionsOf(text: string): DocumentSection[] {
  const found: DocumentSection[] = [];
  for (const line of linesOf(text)) {
    const heading = HEADING.exec(line);
    const items = found.at(-1)?.items;
    if (heading) {
      const [, signs = "", title = ""] = heading;
      const slug = title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-");
      found.push({ slug: slug.replace(/^-|-$/g, ""), title, level: signs.length, items: [] });
    } else if (items && ITEM.test(line)) {
      const { state, words } = itemParts(line);
      items.push({ index: items.length + 1, text: words, state: state ?? null, id: null, depth: 0 });
    }
  }
  return found;
}

/** Returns the number of items in each state. */
export function countItems(text: string): { open_items: number; done_items: number } {
  const count = (state: ItemState) => linesOf(text).filter((line) => itemParts(line).state === state).length;
  return { open_items: count("open"), done_items: count("done") };
}

/** Returns a text after all edits. Throws {@link Refusal} if one cannot be made, as the server refuses it. */
export function withEdits(text: string, edits: readonly DocumentEdit[]): string {
  edits.forEach((edit, at) => {
    const [member, detail] = faultOf(edit) ?? [];
    if (detail === undefined) return;
    const fault = { pointer: `/edits/${at}${member}`, code: "invalid", detail };
    throw new Refusal(400, "bad_json", "The body cannot be used; `errors` says what is wrong and where.", [fault]);
  });
  return edits.reduce((now, edit, at) => {
    try {
      return edited(now, edit);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      const fault = { pointer: `/edits/${at}`, code: "format", detail: error.message };
      throw new Refusal(400, "invalid_request", "an edit cannot be applied; no edit was applied", [fault]);
    }
  }, text);
}

/** Returns the fault of an edit that the server cannot read: the pointer to it within the edit, and the text. */
function faultOf(edit: DocumentEdit): [string, string] | undefined {
  const { op, state, item } = edit as { op?: unknown; state?: unknown; item?: unknown };
  if (op === undefined) return ["", "the field `op` is missing"];
  if (!OPERATIONS.includes(op)) return ["/op", `\`${op}\` is not one of ${OPERATIONS.join(", ")}`];
  if (state != null && !Object.keys(BOXES).includes(String(state)))
    return ["", `\`${state}\` is not one of ${Object.keys(BOXES).join(", ")}`];
  if (item !== undefined && !isRecord(item))
    return ["", 'expected an item, such as {"text": "find the bug"} or {"index": 1}'];
  return undefined;
}

/** Returns a text after one edit. Throws {@link RangeError} if the edit cannot be made, as the server words it. */
function edited(text: string, edit: DocumentEdit): string {
  const lines = linesOf(text);
  switch (edit.op) {
    case "add_section": {
      if (edit.after != null) break;
      const level = edit.level ?? sectionsOf(text).at(-1)?.level ?? 2;
      const body = edit.body?.trim() ? ["", trimmed(edit.body)] : [];
      return ended([...lines, "", `${"#".repeat(level)} ${edit.title}`, ...body]);
    }
    case "replace_section": {
      const { start, outer } = sectionAt(lines, edit.section);
      const rest = lines.slice(outer);
      return ended([...lines.slice(0, start), "", trimmed(edit.body), ...(rest.length ? [""] : []), ...rest]);
    }
    case "append_text": {
      if (edit.section == null) return ended([...lines, "", trimmed(edit.text)]);
      const { end } = sectionAt(lines, edit.section);
      return ended(lines.toSpliced(end, 0, "", trimmed(edit.text)));
    }
    case "append_item": {
      const { end, items } = sectionAt(lines, edit.section);
      const beside = items.length ? items.slice(-1) : [...lines.keys()];
      const state = edit.state ?? (beside.some((at) => itemParts(lines[at] ?? "").state) ? "open" : undefined);
      const item = `- ${state ? BOXES[state] : ""}${edit.text}`;
      return ended(lines.toSpliced(end, 0, ...(items.length ? [] : [""]), item));
    }
    case "set_state":
    case "replace_item":
    case "remove_item": {
      const at = itemAt(lines, sectionAt(lines, edit.section).items, edit.item);
      const { lead, state, words } = itemParts(lines[at] ?? "");
      if (edit.op === "remove_item") return ended(lines.toSpliced(at, 1));
      const [box, kept] = edit.op === "set_state" ? [edit.state, words] : [state, edit.text];
      return ended(lines.with(at, `${lead}${box ? BOXES[box] : ""}${kept}`));
    }
  }
  throw new TypeError(`FakeSidecar does not make the edit ${edit.op}: put the whole text, or script the answer`);
}

/** Returns where a section begins, its own content ends, its subsections end, and its items are. */
function sectionAt(
  lines: readonly string[],
  name: string,
): { start: number; end: number; outer: number; items: number[] } {
  const headings = lines.flatMap((line, at) => {
    const [, signs, title] = HEADING.exec(line) ?? [];
    return signs && title !== undefined ? [{ at, level: signs.length, title }] : [];
  });
  const place = headings.findIndex(({ title }) => isCalled(title, name));
  const found = headings[place];
  if (found === undefined) throw new RangeError(`section not found; the document has ${headings.length} sections`);
  const later = headings.slice(place + 1);
  const inner = later[0]?.at ?? lines.length;
  const start = found.at + 1;
  let end = inner;
  while (end > start && !lines[end - 1]?.trim()) end -= 1;
  const items = Array.from({ length: inner - start }, (_, n) => start + n).filter((at) => ITEM.test(lines[at] ?? ""));
  return { start, end, outer: later.find(({ level }) => level <= found.level)?.at ?? lines.length, items };
}

function itemAt(lines: readonly string[], items: readonly number[], { index, text }: ItemReference): number {
  const words = (at: number) => itemParts(lines[at] ?? "").words;
  let found: readonly number[] = [];
  if (index != null) found = items.slice(index - 1, index).filter((at) => text == null || words(at) === text);
  else if (text != null) found = items.filter((at) => words(at) === text);
  if (found.length === 0 && index == null && text) {
    found = items.filter((at) => words(at).toLowerCase().includes(text.toLowerCase()));
  }
  const [only] = found;
  if (only === undefined) throw new RangeError(`item not found; the section has ${items.length} items`);
  if (found.length > 1) throw new RangeError(`${found.length} items of the section match: give \`index\``);
  return only;
}

function itemParts(line: string): { lead: string; state: ItemState | undefined; words: string } {
  const [, lead = "", box = "", words = ""] = ITEM.exec(line) ?? [];
  return { lead, state: STATES[box], words };
}

function linesOf(text: string): string[] {
  return text.replace(/\n+$/, "").split("\n");
}

function trimmed(text: string): string {
  return text.replace(/^\n+|\n+$/g, "");
}

function ended(lines: readonly string[]): string {
  return `${lines.join("\n").replace(/\n+$/, "")}\n`;
}
