/** Calls, results and definitions of tools in the forms of model APIs, converted to those of the sidecar. */

import { describeKind } from "./checks.js";
import { isRecord } from "./transport.js";
import type { SidecarCall, SidecarResult, ToolDefinition, ToolRef } from "./types.js";

/**
 * A call as the sidecar has it, or in the form of OpenAI (`{type: "function", function: {name, arguments}}`,
 * `{type: "function_call", name, arguments}`, arguments as JSON text), Anthropic (`{type: "tool_use", name, input}`) or
 * LangChain (`{name, args}`).
 */
export type CallLike = SidecarCall | NamedCall | { function: NamedCall; id?: unknown; type?: unknown };

interface NamedCall {
  name: string;
  arguments?: unknown;
  args?: unknown;
  input?: unknown;
  id?: unknown;
  call_id?: unknown;
  type?: unknown;
}

/** A result as the sidecar has it, or one that names its call by `tool_call_id`, `call_id` or `tool_use_id`. */
export type ResultLike =
  | SidecarResult
  | (ResultMembers & ({ tool_call_id: string } | { call_id: string } | { tool_use_id: string }));

interface ResultMembers {
  content?: unknown;
  output?: unknown;
  is_error?: unknown;
  status?: unknown;
  role?: unknown;
  name?: unknown;
  type?: unknown;
}

/** A definition as in `tools/list`, or in the form of OpenAI or Anthropic. */
export type DefinitionLike = ToolDefinition | NamedDefinition | { function: NamedDefinition; type?: unknown };

interface NamedDefinition {
  name: string;
  description?: unknown;
  parameters?: unknown;
  input_schema?: unknown;
  strict?: unknown;
  type?: unknown;
}

type Members = Record<string, unknown>;

/** Returns a call as the sidecar has it. Throws {@link TypeError} for a call without a tool. */
export function sidecarCall(call: CallLike): SidecarCall {
  const given = unwrapped(call);
  const tool = given["tool"] ?? given["name"];
  if (!isTool(tool)) {
    throw new TypeError(`a call needs its tool, as {tool: "mail.send", arguments: {...}}; it has ${names(given)}`);
  }
  const found = given["arguments"] ?? given["args"] ?? given["input"];
  if (found === undefined || found === null) return { tool };
  return { tool, arguments: argumentsIn(found, tool) };
}

/** Returns a result as the sidecar has it. Throws {@link TypeError} for a result of an unknown tool. */
export function sidecarResult(result: ResultLike, calls: readonly CallLike[]): SidecarResult {
  const given = unwrapped(result);
  const id = given["tool_call_id"] ?? given["call_id"] ?? given["tool_use_id"];
  const isItsCall = (call: CallLike) =>
    id !== undefined && [(call as Members)["id"], (call as Members)["call_id"]].includes(id);
  const itsCall = calls.find(isItsCall);
  const tool = given["tool"] ?? given["name"] ?? (itsCall && sidecarCall(itsCall).tool);
  if (!isTool(tool)) {
    throw new TypeError(`a result needs its tool, or the id of a call in tool_calls; it has ${names(given)}`);
  }
  const ok = given["ok"] ?? !(given["is_error"] === true || given["status"] === "error");
  if (typeof ok !== "boolean") throw new TypeError(`ok of a result is true or false, not ${describeKind(ok)}`);
  return { tool, ok, content: given["content"] ?? given["output"] };
}

/** Returns a definition as in `tools/list`. */
export function toolDefinition(tool: DefinitionLike): ToolDefinition {
  const { type: _, strict: __, parameters, input_schema, ...given } = unwrapped(tool);
  const schema = given["inputSchema"] ?? parameters ?? input_schema;
  return { ...given, ...(schema === undefined ? {} : { inputSchema: schema }) } as ToolDefinition;
}

function unwrapped(value: unknown): Members {
  if (!isRecord(value)) throw new TypeError(`a tool, call or result is an object, not ${JSON.stringify(value)}`);
  const { function: inner, ...given } = value;
  return isRecord(inner) ? { ...given, ...inner } : value;
}

function isTool(value: unknown): value is ToolRef {
  return (typeof value === "string" && value !== "") || (isRecord(value) && typeof value["name"] === "string");
}

function argumentsIn(given: unknown, tool: ToolRef): Members {
  let value = given;
  try {
    if (typeof given === "string") value = JSON.parse(given || "{}");
  } catch {
    // The text itself is shown.
  }
  if (isRecord(value)) return value;
  const shown = typeof given === "string" ? given.slice(0, 80) : describeKind(given);
  throw new TypeError(`the arguments of ${JSON.stringify(tool)} are no JSON object: ${shown}`);
}

function names(given: Members): string {
  return Object.keys(given).join(", ") || "no members";
}
