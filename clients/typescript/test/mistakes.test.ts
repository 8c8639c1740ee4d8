/** Mistakes of programs: each is told, with what to do. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { APIError, Umbra, type UmbraSettings } from "umbra-shadow";
import { guard as guardAi } from "umbra-shadow/ai";
import { guard as guardAgents } from "umbra-shadow/openai-agents";
import { FakeSidecar } from "umbra-shadow/testing";

import { recorder, startServer } from "./support.js";

const server = await startServer();

test("each bad input gets an error that says what to do", async () => {
  const umbra = server.client();
  await assert.rejects(umbra.events.post({ output: 7, triggers: ["never"] } as never), (error) => {
    assert.ok(error instanceof APIError);
    assert.equal(error.status, 400);
    assert.equal(error.errors[0]?.pointer, "/triggers/0");
    assert.match(error.message, /POST \/v1\/events was refused \(400\).*\/triggers\/0 .*code_written/);
    assert.match(error.requestId ?? "", /^[0-9a-f]{32}$/);
    return true;
  });
  await assert.rejects(umbra.events.post("hello" as never), /an event is an object, not a string/);
  await assert.rejects(umbra.events.get("evt_0"), (error) => error instanceof APIError && error.code === "not_found");
  assert.throws(() => umbra.events.get(""), /an id is a text/);
  assert.throws(() => umbra.events.get(undefined as never), /an id is a text/);
  await assert.rejects(umbra.status({ timeoutMs: 0 }), /timeoutMs is in milliseconds/);
  await assert.rejects(umbra.findings.list({ severity: "dire" as "info" }).all(), /expected info, warning or critical/);
  for (const [settings, text] of [
    [{ url: "localhost:7817" }, /begins with neither http:\/\/ nor https:\/\/: write http:\/\/HOST:PORT/],
    [{ url: "http://host/v1/" }, /ends in \/v1: leave that out/],
    [{ api_key: "secret-word" }, /takes no api_key; it takes url, apiKey,/],
    [{ url: "umbra" }, /write http:\/\/HOST:PORT/],
    [{ url: "http://ann:secret-word@host" }, /has a user or a password/],
    [{ apiKey: "umbra_sk_secret-word\n" }, /the key has characters/],
    [{ timeoutMs: Number.NaN }, /timeoutMs is in milliseconds/],
    [{ decisionTimeoutMs: -1 }, /decisionTimeoutMs is in milliseconds/],
  ] as const) {
    assert.throws(
      () => new Umbra(settings as UmbraSettings),
      (error) => text.test(String(error)) && !String(error).includes("secret-word"),
    );
  }
});

test("a key's file that cannot be read is told", () => {
  process.env["UMBRA_API_KEY_FILE"] = "/no/such/file";
  try {
    assert.throws(() => new Umbra(), /UMBRA_API_KEY_FILE cannot be read: .*ENOENT/);
  } finally {
    delete process.env["UMBRA_API_KEY_FILE"];
  }
});

test("a parameter of the wrong kind is told, and not dropped", async () => {
  const umbra: any = server.client();
  const s: any = await umbra.sidecar();
  const fn = () => 1;
  const circle: Record<string, unknown> = {};
  circle["self"] = circle;
  for (const [call, text] of [
    [() => umbra.events.postMany({ output: "x" }), /postMany takes a list of events, not an object/],
    [() => umbra.events.post({ output: "x" }, { wait: 61 }), /wait is a whole number of seconds, 60 at most/],
    [() => umbra.events.post({ output: "x" }, { wait: "5" }), /wait is a whole number of seconds/],
    [() => umbra.events.post({ output: "x" }, { wait: -1 }), /wait is a whole number of seconds/],
    [() => umbra.events.verdict("evt_1", { wait: Number.NaN }), /wait is a number of seconds/],
    [() => new Umbra({ agent: 7 as never }), /agent is a text, not a number/],
    [() => new Umbra({ agent: "" }), /agent is a name/],
    [() => new Umbra({ session: false as never }), /session is a text, not a boolean/],
    [() => umbra.approvals.wait("apr_1", { timeoutMs: "5000" }), /timeoutMs is in milliseconds/],
    [() => umbra.approvals.wait("apr_1", { timeout: 5 }), /takes no timeout; it takes timeoutMs, .*: is it timeoutMs\?/],
    [() => umbra.approvals.wait("apr_1", 5), /takes an object such as { timeoutMs }, not a number/],
    [() => umbra.approvals.get("apr_1", { timeout: 5 }), /takes no timeout; .*: is it timeoutMs\?/],
    [() => umbra.findings.stream({}, { timeoutMs: "5" }), /timeoutMs is in milliseconds/],
    [() => umbra.decide({ tool: { name: "send" } }, { timeout: 5 }), /takes no timeout; .*: is it timeoutMs\?/],
    [() => umbra.request("get", "/v1/status", { quary: {} }), /takes no quary; .*: is it query\?/],
    [() => umbra.flush("5"), /timeoutMs is in milliseconds/],
    [() => umbra.sidecar({}, { deadlineMs: "300" }), /deadlineMs is in milliseconds/],
    [() => umbra.sidecar({}, { id: "" }), /an id is a text, not ""/],
    [() => umbra.decide({ tool: { name: "send" }, arguments: circle }), /the call cannot be written as JSON: .*circular/],
    [() => umbra.events.post({ output: circle }), /it contains itself, or is nested too deeply/],
    [() => umbra.runs.end("r", circle), /the body of POST \/v1\/runs\/r\/end cannot be written as JSON: .*circular/],
    [() => umbra.context({ run: 7 }, fn), /run is a text, not a number/],
    [() => umbra.callTool({ tool: "send", agent: umbra }, fn), /agent is a text, not an object/],
    [() => umbra.decide("send"), /decide takes an object such as { tool: /],
    [() => umbra.report("c-1", "ok"), /report\(callId, outcome\) takes an object such as { status: "ok", result }/],
    [() => umbra.report("c-1", { status: "done" }), /the status of an outcome is ok or error/],
    [() => umbra.report(undefined, { status: "ok" }), /an id is a text/],
    [() => umbra.tool({ name: "send" }), /umbra\.tool\(options, fn\) takes a function, not undefined/],
    [() => umbra.tool("send", fn), /umbra\.tool\(options, fn\) takes an object such as { name }, not a string/],
    [() => umbra.tool({ effect: "read" }, fn), /a tool needs its name/],
    [() => umbra.tool({ name: "send", effects: "read" }, fn), /takes no effects; it takes name, .*: is it effect\?/],
    [() => umbra.callTool({ name: "send" }, fn), /takes no name; it takes tool, arguments, /],
    [() => umbra.callTool({ tool: "send", args: {} }, fn), /takes no args; it takes tool, arguments, /],
    [() => umbra.callTool(null, fn), /takes an object such as { tool }, not null/],
    [() => umbra.context({ runn: "r" }, fn), /takes no runn; it takes agent, session, run, /],
    [() => umbra.callTool({ tool: "send" }), /takes a function, not undefined/],
    [() => umbra.context({ run: "r" }), /takes a function, not undefined/],
    [() => umbra.runs.end("r"), /takes an object such as { reason: "done" }, not undefined/],
    [() => umbra.request("get", "/v1/events/{id}"), /needs { path: { id } }/],
    [() => umbra.sidecar(fn), /umbra\.sidecar takes an object such as { task: .* }, not a function/],
    [() => umbra.sidecar({ id: "ses_1" }), /id is a setting: umbra\.sidecar\({}, { id }\)/],
    [() => umbra.sidecar({ tools: [] }, { id: "ses_1" }), /a resumed session keeps its tools: leave that out/],
    [() => umbra.sidecar({}, { deadline: 5 }), /takes no deadline; it takes id, close, deadlineMs/],
    [() => umbra.sidecar({ agent: 7 }), /agent is a text, not a number/],
    [() => umbra.sidecar({ documents: "# Todo" }), /documents takes an object such as { todo: .* }, not a string/],
    [() => umbra.sidecar({ documents: { todo: null } }), /the document todo is a text, or { text, format }, not null/],
    [() => umbra.sidecar({ documents: { todo: ["a"] } }), /the document todo is a text.*, not a list/],
    [async () => (await s.document("x")).put({ text: "x" }), /put takes the whole text, not an object/],
    [() => s.message({ results: [{ tool: "x", ok: "yes" }] }), /ok of a result is true or false, not a string/],
    [() => s.guard({ call: { tool: "x", arguments: [1] } }), /the arguments of "x" are no JSON object: a list/],
    [() => s.turn("edit"), /turn takes an object such as { intent: /],
    [() => s.turn({ planned_calls: {} }), /planned_calls is a list/],
    [() => s.message("hi"), /message takes an object such as { content: /],
    [() => s.guard({ tool: "x" }), /guard takes a call or a message: { call: { tool } }/],
    [() => s.select("x"), /select takes an object such as { query: /],
    [() => s.guardrails()(7), /takes a function, not a number/],
    [() => s.document(), /document takes a name/],
    [() => s.ensureUpdated("todo", "Plan"), /takes an object such as { section }, not a string/],
    [() => s.ensureUpdated("todo", { sections: "Plan" }), /takes no sections; .*: is it section\?/],
    [async () => (await s.document("x")).put("x", { author: "me" }), /takes no author; it takes by, format, signal/],
    [async () => (await s.document("x")).edit([], { bye: "me" }), /takes no bye; .*: is it by\?/],
    [async () => (await s.document("x")).read({ sgnal: 1 }), /takes no sgnal; .*: is it signal\?/],
    [async () => (await s.document("x")).history({ curser: "1" }), /takes no curser; .*: is it cursor\?/],
    [() => s.document("x", { format: "yaml" }), /document\(name, options\) takes no format; it takes signal/],
    [() => s.turn({}, { timeoutMs: 5 }), /turn\(request, options\) takes no timeoutMs; it takes signal/],
    [() => s.message({ content: "x" }, { sgnal: 1 }), /message\(request, options\) takes no sgnal/],
    [() => s.guard({ message: { text: "x" } }, { sgnal: 1 }), /guard\(request, options\) takes no sgnal/],
    [() => s.select({ query: "x" }, { limit: 1 }), /select\(request, options\) takes no limit/],
    [() => s.recordPattern({ tools: ["x"] }, { task: "x" }), /recordPattern\(pattern, options\) takes no task/],
    [() => s.searchPatterns({ task: "x" }, { limit: 1 }), /searchPatterns\(query, options\) takes no limit/],
    [() => s.note("x", { by: "me" }), /note\(text, options\) takes no by/],
    [() => s.stream({ aftr: 1 }).next(), /takes no aftr; .*: is it after\?/],
    [() => s.close("succeeded", { sgnal: 1 }), /close\(outcome, options\) takes no sgnal/],
    [() => s.recordPattern({ task: "x", tools: "grep" }), /tools is a list/],
    [() => s.searchPatterns("x"), /searchPatterns takes an object/],
    [
      () => guardAi(umbra, { refund: {} }, { effects: { refnd: "read" } as {} }),
      /effects names refnd, which is no tool here: is it refund\?/,
    ],
    [
      () => guardAgents(umbra, [{ type: "function", name: "refund" }], { effects: { look: "read" } }),
      /effects names look, which is no tool here: they are refund/,
    ],
    [() => guardAi({} as never, umbra), /the first parameter is a client: new Umbra\(\)/],
    [() => guardAi(umbra, [] as never), /takes an object such as { get_weather }, not a list/],
    [
      () => guardAi(umbra, { a: {} }, { effects: { a: "reads" as "read" } }),
      /effect is one of read, write, destructive/,
    ],
    [() => guardAgents(umbra, {} as never), /takes the list of an agent's tools/],
    [() => new FakeSidecar([fn] as never), /takes an object such as { rules }, not a list/],
    [() => new FakeSidecar({ rules: fn as never }), /rules is a list of functions/],
  ] as const) {
    await assert.rejects(
      async () => call(),
      (error) => error instanceof TypeError && text.test(error.message),
      String(call),
    );
  }
  await s.close();
});

test("misspelt options and an empty address are refused", async () => {
  const umbra = server.client();
  await using s = await umbra.sidecar();
  assert.throws(() => s.guardrails("enforce", { srever: "files" } as never), /takes no srever; it takes name, server/);
  await assert.rejects(umbra.events.post({ output: "x" } as never, { wiat: 5 } as never), /takes no wiat; it takes wait/);
  assert.throws(() => new Umbra({ url: "" }), /begins with neither http/);
});

test("arguments that contain themselves are told", async () => {
  const circle: Record<string, unknown> = {};
  circle["self"] = [circle];
  const call = server.client().callTool({ tool: "get_page", effect: "read", arguments: circle }, () => 1);
  await assert.rejects(call, /get_page was not run \(unreadable\): .* it contains itself, or is nested too deeply/);
});

test("a document under a misspelt name is told", async () => {
  const { lines, ...logger } = recorder();
  const umbra = server.client({ logger });
  const s = await umbra.sidecar({ documents: { todo: "# Todo\n" } }, (s) => s, { close: false });
  await using again = await umbra.sidecar({}, { id: s.id ?? "" });
  for (const name of ["Todo.md", "spec", "tood"]) await again.document(name);
  assert.equal(lines.length, 1, lines.join());
  assert.match(lines[0] ?? "", /the session has no document tood, which is empty until it is put: is todo meant\?/);
});
