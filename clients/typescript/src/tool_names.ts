/**
 * Names of tools as the server compares them: normal form, readings and patterns. The rules are those of
 * `crates/domain/src/tool` of the server; a test compares both.
 */

/** Server, empty if unknown, and own name of a tool, in normal form. */
export type NormalName = readonly [server: string, own: string];

/** Most words of a name after which a server's name may end. */
const MOST_SERVER_WORDS = 8;
const SIGNS = /[-_ ./:]+/g;
const WORD_BEGINS = /(?<=[\p{Lowercase}\p{N}])(?=\p{Uppercase})|(?<=\p{Uppercase})(?=\p{Uppercase}\p{Lowercase})/gu;

/** Returns a tool's name as a rule has it: `server.name`, or the name alone. */
function full([server, own]: NormalName): string {
  return server ? `${server}.${own}` : own;
}

/** Returns the normal form without separators: equal for all spellings of one tool. */
export function joined(name: string, server?: string | null): string {
  return full(readings(name, server)[0]).replace(/[._]/g, "");
}

/** Returns the tools that a name may stand for; the first is the one that the spelling itself gives. */
export function readings(name: string, server?: string | null): [NormalName, ...NormalName[]] {
  const [stated, own] = server ? [withoutMcp(server), name] : (split(withoutMcp(name)) ?? ["", withoutMcp(name)]);
  const found: [NormalName, ...NormalName[]] = [[stated && words(stated), words(own)]];
  const add = (of: string, tool: string) => {
    if (tool && !found.some(([a, b]) => a === of && b === tool)) found.push([of, tool]);
  };
  // A server may pass on another server's tool under both names.
  for (let parts = split(withoutMcp(own)); parts !== undefined; parts = split(parts[1])) {
    add(words(parts[0]), words(parts[1]));
  }
  if (!stated) {
    const parts = words(own).replace(/^mcp_/, "").split("_");
    for (let at = 1; at < parts.length && at <= MOST_SERVER_WORDS; at++) {
      add(parts.slice(0, at).join("_"), parts.slice(at).join("_"));
    }
  }
  return found;
}

/**
 * Returns true if a rule that restricts tools of this pattern, a name or a glob, holds for the tool: if any reading of
 * the name matches. A pattern without a server is for the tool of every server, and a tool without a server may be any
 * server's.
 */
export function matches(pattern: string, name: string, server?: string | null): boolean {
  if (pattern === "*") return true;
  const whole = normalPattern(pattern);
  if (!isWild(whole) && whole.replace(/[._]/g, "") === joined(name, server)) return true;
  const forBare = ownPart(whole);
  return readings(name, server).some((reading) => {
    const [at, own] = reading;
    if (fits(whole, full(reading))) return true;
    return at ? fits(whole, own) : forBare !== undefined && fits(forBare, own);
  });
}

/** True for a name that the server accepts: letters, digits and visible ASCII, no blank at its ends. */
export function isPlain(name: string): boolean {
  return name.trim() === name && /^(?:[ -~]|(?![\u115f\u1160\u3164\uffa0])[\p{Alphabetic}\p{N}])*$/u.test(name);
}

/** Returns the words of a name, in lower case and joined by `_`. A word ends at a sign and before a capital. */
function words(name: string): string {
  const spelled = name.replace(WORD_BEGINS, "_").replace(SIGNS, "_").replace(/^_|_$/g, "").toLowerCase();
  return spelled || name.toLowerCase();
}

function withoutMcp(name: string): string {
  return name.replace(/^mcp__(?=[^])/i, "");
}

/** Splits server and tool at the first separator that occurs in no word. */
function split(name: string): [server: string, own: string] | undefined {
  const sign = /__|[./:]/.exec(name);
  if (sign === null) return undefined;
  const parts: [string, string] = [name.slice(0, sign.index), name.slice(sign.index + sign[0].length)];
  return parts.every((part) => part.replace(SIGNS, "")) ? parts : undefined;
}

/** Returns a pattern in normal form: literal parts like names, wildcards unchanged. */
function normalPattern(pattern: string): string {
  let spelled = "";
  let hasServer = false;
  // A set of characters is no text of a name.
  for (const part of withoutMcp(pattern.trim()).split(/(\[[^\]]*\]|[{},])/)) {
    if (/^[[{},]/.test(part)) {
      hasServer &&= part.startsWith("[");
      spelled += part.toLowerCase();
      continue;
    }
    for (const [sign] of part.replace(WORD_BEGINS, "_").matchAll(/__+|[-_ ./:]|[^-_ ./:]+/g)) {
      const begins = /(?:^|[.{,])$/.test(spelled);
      if (!/^[-_ ./:]/.test(sign)) {
        spelled += sign.toLowerCase();
      } else if (!begins && !hasServer && /^(?:__|[./:])/.test(sign)) {
        hasServer = true;
        spelled = `${spelled.replace(/_+$/, "")}.`;
      } else if (!begins && !spelled.endsWith("_")) {
        spelled += "_";
      }
    }
  }
  return spelled.replace(/_+$/, "");
}

/** Returns the tool part of a normal pattern for `server.name`; undefined if it is for all tools of a server. */
function ownPart(pattern: string): string | undefined {
  const [, server, own] = /^([^.]*)\.(.*)$/s.exec(pattern) ?? [];
  const isClosed = (open: string, close: string) => server?.split(open).length === server?.split(close).length;
  return own && /[\p{Alphabetic}\p{N}]/u.test(own) && isClosed("{", "}") && isClosed("[", "]") ? own : undefined;
}

function isWild(pattern: string): boolean {
  return /[*?[{\\]/.test(pattern);
}

function fits(pattern: string, name: string): boolean {
  if (!isWild(pattern)) return pattern.replaceAll("_", "") === name.replaceAll("_", "");
  let depth = 0;
  const source = pattern.replace(/\\[^]|\[!?[^\]]+\]|[^]/g, (part) => {
    if (part === "*") return "[^]*";
    if (part === "?") return "[^]";
    if (part === "{") depth += 1;
    if (part === "{") return "(?:";
    if (part === "," && depth > 0) return "|";
    if (part === "}" && depth > 0) depth -= 1;
    else if (part.length > 1) return part.startsWith("[") ? part.replace(/^\[!/, "[^") : part;
    else return part.replace(/[\\^$.|+()[\]}]/, "\\$&");
    return ")";
  });
  return new RegExp(`^${source}$`).test(name);
}
