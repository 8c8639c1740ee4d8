/** The sidecar of a session whose server is away, late, faulty, or is no server of Umbra. */

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { APIError, Blocked, type Logger, type Sidecar, Umbra, Unavailable } from "umbra-shadow";

import {
  httpAnswer,
  Peer,
  quiet,
  recorder,
  startKeyedServer,
  startServer,
  unique,
  vacantAddress,
  until,
} from "./support.js";

const server = await startServer();
const TODO = "# Todo\n\n## Plan\n\n- [ ] find the bug\n";
const EDIT = { tool: { server: "files", name: "edit_file" }, arguments: { path: "a" } };
const DROP = { tool: { server: "db", name: "drop_table" }, arguments: { table: "users" } };

/** Runs an agent's loop that gets nothing from its sidecar, and ends. */
async function loopWithout(s: Sidecar): Promise<void> {
  const turn = await s.turn({ intent: "x", planned_calls: [DROP, EDIT] });
  assert.deepEqual(
    turn.decisions.map((one) => [one.decision, one.tool?.name]),
    [
      ["allow", "drop_table"],
      ["allow", "edit_file"],
    ],
  );
  assert.deepEqual([turn.turn, turn.decision, turn.degraded, turn.warnings.length], [0, "allow", true, 1]);
  const told = await s.message({ content: "x", tool_calls: [DROP], results: [{ tool: "x", content: "y" }] });
  assert.deepEqual([told.degraded, told.calls.length, told.results.length, told.decision], [true, 1, 1, "allow"]);
  for (const answer of [
    await s.guard({ call: DROP }),
    await s.select({ query: "x" }),
    await s.recordPattern({ task: "x" }),
    await s.searchPatterns({ task: "x" }),
  ]) {
    assert.ok(answer.degraded && answer.warnings.length > 0);
  }
  const todo = await s.document("todo");
  assert.deepEqual([todo.text, todo.degraded], [TODO, true]);
  const edited = await todo.edit({ op: "append_text", text: "x" });
  await todo.put("y");
  assert.deepEqual([edited.stored, edited.degraded, edited.text], [false, true, TODO]);
  assert.equal((await s.ensureUpdated("todo", { section: "Plan" })).degraded, true);
  await assert.rejects(s.note("x"), Unavailable);
  assert.equal((await todo.history()).degraded, true);
  const drop = s.guardrails("enforce", { server: "db", name: "drop_table" })(({ table }: { table: string }) => table);
  assert.equal(await drop({ table: "a" }), "a");
}

function quick(url: string, logger: Logger = quiet, decisionTimeoutMs = 300): Umbra {
  return new Umbra({ url, agent: unique("coder"), decisionTimeoutMs, logger });
}

test("without a server the agent's loop goes on, and the log says so once", async () => {
  const { lines, ...logger } = recorder();
  const s = await quick(await vacantAddress(), logger).sidecar({ documents: { todo: TODO } });
  assert.equal(s.degraded, true);
  assert.match(s.warnings.join(), /did not answer/);
  await loopWithout(s);
  for await (const _ of s.stream()) assert.fail("there is none");
  assert.equal((await s.close("succeeded")).degraded, true);
  assert.match(lines[0] ?? "", /the agent goes on without the sidecar/);
  assert.equal(lines.filter((line) => line.includes("left alone for 15 s")).length, 1);
  const lost = lines.filter((line) => line.includes("the change of the document todo is not stored: "));
  assert.equal(lost.length, 1);
  assert.match(lost[0] ?? "", /make it again once read\(\) of the document is not degraded/);
});

test("an answer to any request of the client ends the pause of its sidecars", async () => {
  const peer = await new Peer(server.url).listen();
  await using _ = peer;
  const umbra = server.client({ url: peer.url, agent: unique("coder") });
  const s = await umbra.sidecar({ documents: { todo: TODO } });
  for (const answered of [() => umbra.callTool({ tool: "post_note" }, () => 1), () => umbra.breakers.list().all()]) {
    peer.behaviour = "cut";
    peer.cut();
    for (let fault = 0; fault < 3; fault++) await s.turn();
    peer.behaviour = "pass";
    assert.match((await s.turn()).warnings.join(), /is left alone for a while/);
    await answered();
    assert.equal((await s.turn()).degraded, false);
  }
  await s.close();
});

test("an address without TLS, with a bad certificate or of another program is told at once", async () => {
  const { lines, ...logger } = recorder();
  const umbra = server.client({ url: server.url.replace("http:", "https:"), logger });
  const told = (error: unknown) => error instanceof Unavailable && /speaks no TLS: write http:\/\//.test(error.message);
  const began = performance.now();
  await assert.rejects(umbra.status(), told);
  await assert.rejects(umbra.events.post({ output: "x" }), told);
  await assert.rejects(umbra.approvals.wait("apr_1"), told);
  await assert.rejects(umbra.findings.stream()[Symbol.asyncIterator]().next(), told);
  await assert.rejects(umbra.callTool({ tool: "post_note" }, () => assert.fail("it ran")), /unavailable/);
  assert.match(lines.join(), /speaks no TLS/);
  const refusing = async () => Promise.reject(new TypeError("failed", { cause: new Error("self-signed certificate") }));
  const refused = server.client({ fetch: refusing, logger: quiet });
  await assert.rejects(refused.status(), /did not answer: self-signed certificate/);
  // Nor is another program at the address waited for.
  for (const status of [404, 200]) {
    const other = server.client({ fetch: async () => new Response("ok", { status }), logger: quiet });
    await assert.rejects(other.approvals.wait("apr_1"), /is no server of Umbra/);
    await assert.rejects(other.findings.stream()[Symbol.asyncIterator]().next(), /is no server of Umbra/);
  }
  assert.ok(performance.now() - began < 10_000);
});

test("a server that accepts and never answers costs three deadlines, and no more", async (t: TestContext) => {
  for (const behaviour of ["hang", { answer: "HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n{" }] as const) {
    const peer = await new Peer().listen();
    await using _ = peer;
    peer.behaviour = behaviour;
    const s = await quick(peer.url, quiet, 100).sidecar({ documents: { todo: TODO } });
    assert.match(s.warnings.join(), /no answer within \d+ ms/);
    await loopWithout(s);
    assert.equal(peer.requests, 3);
    await Promise.all(Array.from({ length: 20 }, () => s.turn()));
    assert.equal(peer.requests, 3);
    // After the pause exactly one request tries the server.
    const now = performance.now.bind(performance);
    const clock = t.mock.method(performance, "now", () => now() + 15_100);
    await Promise.all(Array.from({ length: 20 }, () => s.searchPatterns({ task: "x" })));
    clock.mock.restore();
    assert.equal(peer.requests, 4);
  }
});

test("a frozen server costs a deadline, and its rules hold again when it is back", async () => {
  const umbra = server.client({ agent: unique("coder") });
  const s = await umbra.sidecar({ documents: { todo: TODO } });
  // The same session, with a short deadline; a busy server may be late as well.
  const hurried = await umbra.sidecar({}, { id: s.id ?? "", deadlineMs: 300 });
  const todo = await until("the document", async () => {
    const document = await hurried.document("todo");
    return document.degraded ? undefined : document;
  });
  await server.freeze();
  try {
    const began = performance.now();
    const held = await hurried.turn({ route: "edit", planned_calls: [DROP] });
    assert.ok(held.degraded && performance.now() - began < 10_000);
    await todo.edit({ op: "append_text", text: "x" });
    assert.deepEqual([todo.text, todo.degraded], [TODO, true]);
  } finally {
    server.thaw();
  }
  const guarded = await until("an answer", async () => {
    const answer = await hurried.guard({ call: DROP });
    return answer.degraded ? undefined : answer;
  });
  assert.equal(guarded.decision, "block");
  // The server learns of the route with the next step.
  const rulings = await until("a turn", async () => {
    const turn = await hurried.turn({ planned_calls: [EDIT] });
    return turn.degraded ? undefined : turn.decisions;
  });
  assert.equal(rulings[0]?.rule, "plan-first");
  assert.equal((await (await s.document("todo")).edit({ op: "append_text", text: "x" })).stored, true);
  assert.equal((await s.close()).degraded, false);
});

test("an answer of another form counts as none", async () => {
  const attached = { session: { id: "ses_1", agent: "a", state: "open" }, documents: [], warnings: [] };
  const judged = (decision: unknown) => JSON.stringify({ turn: 1, decision: "allow", decisions: [decision] });
  for (const answer of [
    httpAnswer(200, "not json"),
    httpAnswer(200, "[]"),
    httpAnswer(200, "[".repeat(100_000)),
    httpAnswer(500, "{}"),
    httpAnswer(503, "<html>", "retry-after: 1"),
    httpAnswer(429, '{"detail": "too many"}'),
    httpAnswer(302, "", "location: /elsewhere"),
    httpAnswer(200, ""),
    httpAnswer(200, "{}"),
    httpAnswer(200, '{"turn": "one", "decision": "allow"}'),
    httpAnswer(200, '{"turn": 1, "decision": "perhaps"}'),
    httpAnswer(200, '{"turn": 1, "decision": "allow", "directives": {}}'),
    httpAnswer(200, judged(7)),
    httpAnswer(200, judged({ decision: "perhaps" })),
  ]) {
    const peer = await new Peer().listen();
    await using _ = peer;
    peer.behaviour = answer;
    const without = await quick(peer.url).sidecar();
    assert.equal(without.degraded, true);
    peer.behaviour = httpAnswer(200, JSON.stringify(attached));
    const s = await quick(peer.url).sidecar();
    assert.equal(s.id, "ses_1");
    peer.behaviour = answer;
    const turn = await s.turn({ planned_calls: [DROP] });
    assert.deepEqual([turn.decisions[0]?.decision, turn.degraded], ["allow", true], answer.answer.slice(0, 300));
    assert.equal(await s.guardrails("enforce", { name: "x" })(() => "ran")(), "ran");
  }
  // Missing rulings count as allowed.
  const peer = await new Peer().listen();
  await using _ = peer;
  peer.behaviour = httpAnswer(200, JSON.stringify(attached));
  const s = await quick(peer.url).sidecar();
  peer.behaviour = httpAnswer(200, '{"turn": 1, "decision": "allow", "decisions": null}');
  const turn = await s.turn({ planned_calls: [DROP] });
  assert.deepEqual([turn.decisions[0]?.decision, turn.degraded], ["allow", false]);
});

test("strict: what would be missing is thrown", async () => {
  const umbra = quick(await vacantAddress());
  await assert.rejects(umbra.sidecar({}, { strict: true }), Unavailable);
  const peer = await new Peer(server.url).listen();
  await using _ = peer;
  const s = await server.client({ url: peer.url }).sidecar({}, { strict: true, deadlineMs: 2_000 });
  peer.behaviour = "cut";
  peer.cut();
  await assert.rejects(s.turn(), Unavailable);
  const tool = s.guardrails("enforce", { name: "x" })(() => assert.fail("it ran"));
  await assert.rejects(tool(), Unavailable);
  await assert.rejects(s.close(), Unavailable);
});

test("length leads past no rule", async () => {
  const peer = await new Peer(server.url).listen();
  await using _ = peer;
  const umbra = server.client({ url: peer.url, agent: unique("coder") });
  await using s = await umbra.sidecar({}, { deadlineMs: 500 });
  const ran: string[] = [];
  const edit = s.guardrails("enforce", { server: "files", name: "edit_file" })((args: { path: string; text: string }) =>
    ran.push(args.path),
  );
  const drop = s.guardrails("enforce", { server: "db", name: "drop_table" })((_: { table: string }) =>
    ran.push("dropped"),
  );
  const long = "x".repeat(300_000);
  const faults = [200, 204, 302, 413, 429, 503].map((status) => httpAnswer(status, status === 204 ? "" : "{}"));
  for (const behaviour of ["hang", "cut", ...faults] as const) {
    peer.behaviour = behaviour;
    peer.cut();
    await assert.rejects(
      edit({ path: "a", text: long }),
      (error) => {
        return error instanceof Blocked && error.reason === "too_long";
      },
      JSON.stringify(behaviour),
    );
  }
  // A proxy that refuses long requests does not lead past the rules either.
  peer.behaviour = httpAnswer(403, "<html>no</html>", "content-type: text/html");
  peer.cut();
  await assert.rejects(drop({ table: "users" }), (error) => error instanceof APIError && error.status === 403);
  // Long requests do not open the circuit breaker, which would let short calls past the rules.
  peer.behaviour = "pass";
  peer.cut();
  await until("an answer", async () => ((await s.guard({ call: DROP })).degraded ? undefined : true));
  await assert.rejects(drop({ table: "users" }), (error) => error instanceof Blocked && error.reason === "policy");
  assert.deepEqual(ran, []);
});

test("a long result leaves its label, even if only its ends are told", async () => {
  // The server gets no request above 55 KB.
  const umbra = server.client({
    agent: unique("coder"),
    fetch: (input, init) => {
      if (String(init?.body ?? "").length > 55_000) throw new TypeError("fetch failed");
      return fetch(input, init);
    },
  });
  for (const page of ["x".repeat(60_000), "x".repeat(200_000)]) {
    await using s = await umbra.sidecar();
    const read = s.guardrails("enforce", { server: "web", name: "fetch" })((_: { url: string }) => page);
    const send = s.guardrails("enforce", { server: "mail", name: "send_email" })((_: object) =>
      assert.fail("it was sent"),
    );
    assert.equal(await read({ url: "a" }), page);
    await assert.rejects(
      send({ to: "all" }),
      (error) => error instanceof Blocked && error.rule === "no-mail-after-web",
    );
  }
});

test("neither number nor a busy program leads past a rule", async () => {
  const umbra = server.client({ agent: unique("coder") });
  await using s = await umbra.sidecar({}, { deadlineMs: 1_000 });
  const drop = s.guardrails("enforce", { server: "db", name: "drop_table" })((_: object) => assert.fail("it ran"));
  const calls = Promise.allSettled(Array.from({ length: 40 }, (_, n) => drop({ table: String(n) })));
  for (let n = 0; n < 20; n++) await new Promise((resolve) => setImmediate(resolve));
  const end = performance.now() + 1_500;
  while (performance.now() < end);
  for (const one of await calls) {
    assert.ok(
      one.status === "rejected" && one.reason instanceof Blocked && one.reason.reason === "policy",
      String(one),
    );
  }
});

test("a session that could not be attached is attached later", async (t: TestContext) => {
  const peer = await new Peer(server.url).listen();
  await using _ = peer;
  peer.behaviour = httpAnswer(503, "{}");
  const umbra = server.client({ url: peer.url, agent: unique("coder") });
  const s = await umbra.sidecar({ documents: { todo: TODO } });
  assert.equal(s.degraded, true);
  peer.behaviour = "pass";
  peer.cut();
  assert.equal((await s.searchPatterns({ task: "x" })).degraded, false);
  // Not attached yet: the rules hold nevertheless, and a warning reports the missing session.
  const held = await s.guard({ call: DROP });
  assert.deepEqual([held.decision, held.degraded], ["block", true]);
  assert.match(held.warnings.join(), /there is no session/);
  assert.equal((await s.document("todo")).text, TODO);
  const now = performance.now.bind(performance);
  const clock = t.mock.method(performance, "now", () => now() + 5_100);
  assert.equal((await s.turn()).turn, 1);
  clock.mock.restore();
  assert.deepEqual([(await s.document("todo")).text, s.degraded], [TODO, false]);
  assert.equal((await s.close()).session?.turns, 1);
});

test("a session that the server has ended stops no agent", async () => {
  const umbra = server.client({ agent: unique("coder") });
  const tools = [{ server: "files", name: "edit_file", description: "Edit a file" }];
  const s = await umbra.sidecar({ tools, task: "edit a file" });
  await umbra.request("post", "/v1/sessions/{id}/close", { path: { id: s.id ?? "" }, body: {} });
  const todo = await s.document("todo");
  assert.equal((await todo.put("x")).stored, false);
  const turn = await s.turn({ planned_calls: [DROP] });
  assert.ok(turn.degraded && turn.warnings[0]?.includes("closed"), turn.warnings.join());
  const held = await s.guard({ call: DROP });
  assert.deepEqual([held.decision, held.degraded], ["block", true]);
  await assert.rejects(s.guardrails("enforce", { server: "db", name: "drop_table" })(() => 1)(), Blocked);
  assert.equal((await s.select({ query: "edit a file" })).ranked[0]?.tool.name, "edit_file");
  for await (const _ of s.stream()) assert.fail("there is none");
  assert.equal((await s.close()).session?.state, "closed");
});

test("once a session was closed, no call runs under its enforced rules", async () => {
  const agent = unique("coder");
  const ends: [string, (s: Sidecar) => unknown][] = [
    ["by this program", (s) => s.close("succeeded")],
    ["elsewhere", async (s) => (await server.client({ agent }).sidecar({}, { id: s.id ?? "" })).close()],
  ];
  for (const [where, end] of ends) {
    const logger = recorder();
    const s = await server.client({ agent, logger }).sidecar({ task: "send it" });
    const send = s.guardrails("enforce", { server: "mail", name: "send_email" })((_: object) => assert.fail("it ran"));
    const warned = s.guardrails("warn", { name: "get_page" })((_: object) => "a page");
    await end(s);
    for (let call = 0; call < 2; call++) {
      const isOver = (error: unknown) => error instanceof Blocked && error.reason === "session_over";
      await assert.rejects(send({}), isOver, where);
    }
    assert.equal(await warned({}), "a page");
    assert.match(logger.lines.join("\n"), /mail\.send_email is blocked: .*get_page is not held to the rules: /s);
  }
});

test("a killed server stops no agent, and the session's end is told with the next one", async (t: TestContext) => {
  const { server: own, coderKey } = await startKeyedServer();
  const agent = unique("coder");
  for (const [apiKey, name, status] of [
    [undefined, agent, 401],
    ["umbra_sk_no", agent, 401],
    [coderKey, "another", 403],
  ] as const) {
    const attached = own.client({ apiKey, agent: name }).sidecar();
    await assert.rejects(
      attached,
      (error) => error instanceof APIError && error.status === status && /key/.test(error.message),
    );
  }
  const umbra = own.client({ apiKey: coderKey, agent });
  const s = await umbra.sidecar({ task: "fix the date bug", documents: { todo: TODO } });
  await s.message({ tool_calls: [EDIT], results: [{ tool: EDIT.tool, content: "done" }] });
  await s.document("todo");
  await own.stop("SIGKILL");
  await loopWithout(s);
  assert.equal((await s.close("succeeded")).degraded, true);
  await own.start();
  // The pause of a server that did not answer is over.
  const now = performance.now.bind(performance);
  t.mock.method(performance, "now", () => now() + 15_100);
  const next = await umbra.sidecar({ task: "fix the date bug" });
  assert.equal((await next.searchPatterns()).items.length, 1);
  await next.close();
});

test("a cancelled step ends at once, and holds no other up", async (t: TestContext) => {
  const peer = await new Peer(server.url).listen();
  await using _ = peer;
  peer.behaviour = httpAnswer(503, "{}");
  const umbra = server.client({ url: peer.url, agent: unique("coder") });
  await using s = await umbra.sidecar();
  peer.behaviour = "hang";
  const now = performance.now.bind(performance);
  const clock = t.mock.method(performance, "now", () => now() + 5_100);
  // Both wait for the same attachment; one leaves.
  const stop = new AbortController();
  const left = assert.rejects(s.turn({}, { signal: stop.signal }), /the user left/);
  const stayed = s.turn();
  await until("an attachment", () => (peer.requests === 2 ? true : undefined));
  stop.abort(new Error("the user left"));
  await left;
  peer.behaviour = "pass";
  peer.cut();
  assert.equal((await stayed).degraded, true);
  clock.mock.mockImplementation(() => now() + 11_000);
  assert.equal((await s.turn()).degraded, false);
});
