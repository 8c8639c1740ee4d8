/** The fake sidecar gives the answers of a server to the same programs, and does what only a fake does. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { ApprovalRequired, Blocked, StubFault, Unavailable } from "umbra-shadow";
import { guard } from "umbra-shadow/ai";
import { type FakeRule, FakeSidecar } from "umbra-shadow/testing";

import { DROP, RULES, STORIES, TODO, TOOLS } from "./fake_stories.js";
import { quiet, startServer, unique, until } from "./support.js";

const server = await startServer();

for (const [story, run] of Object.entries(STORIES)) {
  test(`as a server: ${story}`, async () => {
    const agent = unique("coder");
    const [real, fake] = [server.client({ agent }), new FakeSidecar({ rules: RULES, agent, logger: quiet }).umbra];
    const expected = await run(real);
    const found = await run(fake);
    for (const [at, part] of found.entries()) {
      assert.deepEqual(JSON.parse(JSON.stringify([part])), JSON.parse(JSON.stringify([expected[at]])), `part ${at}`);
    }
    assert.equal(found.length, expected.length);
  });
}

test("answers are scripted, and requests are recorded", async () => {
  const fake = new FakeSidecar({ agent: "a", logger: quiet });
  fake.script("turn", { directives: ["Stop."], decision: "block" });
  fake.script("turn", { directives: ["Go."] });
  await fake.umbra.sidecar({ task: "rename the column", tools: TOOLS }, async (s) => {
    assert.deepEqual([(await s.turn()).decision, (await s.turn({ intent: "go on" })).directives], ["block", ["Go."]]);
    const last = await s.turn();
    assert.deepEqual([last.turn, last.decision, last.directives], [3, "allow", []]);
    const todo = await s.document("Todo.md");
    await todo.put("# Todo\n");
    await s.guardrails("enforce", { name: "fetch" })((_: object) => "a page")({ url: "x" });
    await s.message({ content: "done" });
  });
  assert.deepEqual(
    fake.requests.map((one) => one.step),
    ["attach", "turn", "turn", "turn", "document", "document", "guard", "message", "message", "close"],
  );
  assert.equal(fake.asked("turn")[1]?.["intent"], "go on");
  assert.deepEqual(fake.asked("document"), [
    { name: "todo", method: "GET" },
    { name: "todo", method: "PUT", text: "# Todo\n" },
  ]);
  const [told, said] = fake.asked("message");
  assert.deepEqual(
    [told?.["tool_calls"], said?.["content"]],
    [[{ tool: { name: "fetch" }, arguments: { url: "x" } }], "done"],
  );
  assert.equal(fake.asked("close")[0]?.["outcome"], "succeeded");
  assert.throws(() => fake.script("turns" as "turn", {}), /no step "turns"/);
  assert.throws(() => fake.asked("mesage" as "message"), /no step "mesage"/);
  assert.throws(() => fake.script("turn", { directive: [] }), /script\("turn", members\) takes no directive; it takes/);
  assert.throws(() => fake.script("decide", { verdict: "ask" }), /takes no verdict; it takes decision, reason, /);
});

test("a fake goes away, and is there at once when it returns", async () => {
  const fake = new FakeSidecar({ rules: RULES, logger: quiet });
  fake.isAway = true;
  const s = await fake.umbra.sidecar();
  for (let n = 0; n < 5; n++) assert.ok((await s.guard({ call: DROP })).degraded);
  await assert.rejects(fake.umbra.sidecar({}, { strict: true }), Unavailable);
  await assert.rejects(
    fake.umbra.callTool({ tool: "x", effect: "write" }, () => assert.fail("it ran")),
    (error) => error instanceof Blocked && error.reason === "unavailable",
  );
  fake.isAway = false;
  assert.deepEqual([(await s.guard({ call: DROP })).rule, s.degraded, (await s.turn()).turn], ["no-drop", false, 1]);
  assert.equal(fake.asked("attach").length, 8);
});

test("each call of the boundary runs, unless its answer is scripted", async () => {
  const fake = new FakeSidecar({ logger: quiet });
  const refund = fake.umbra.tool({ name: "refund", effect: "destructive" }, ({ amount }: { amount: number }) => amount);
  assert.equal(await refund({ amount: 1 }), 1);
  assert.deepEqual([await fake.umbra.flush(), fake.asked("outcome").length], [true, 1]);
  for (const [members, kind] of [
    [{ decision: "block", reason: "policy", detail: "no" }, Blocked],
    [{ decision: "ask" }, ApprovalRequired],
    [{ decision: "stub", stub: { fault: "rate_limited", result: {} } }, StubFault],
  ] as const) {
    fake.script("decide", members);
    await assert.rejects(refund({ amount: 2 }), kind);
  }
  fake.script("decide", { decision: "ask" });
  const message = /: A rule asks for it\. A person must approve apr_fake; then/;
  await assert.rejects(refund({ amount: 2 }), { approvalId: "apr_fake", message });
  const { approvals } = fake.umbra;
  const { state, tool, arguments: given } = await approvals.get("apr_fake");
  assert.deepEqual([state, tool, given], ["pending", "refund", { amount: 2 }]);
  const answer = approvals.wait("apr_fake");
  await approvals.approve("apr_fake");
  assert.equal((await answer).state, "approved");
  assert.equal(await refund({ amount: 2 }), 2);
  fake.script("decide", { decision: "stub", stub: { result: "rehearsed" } });
  assert.equal(await refund({ amount: 3 }), "rehearsed");
  const [asked] = fake.asked("decide");
  assert.deepEqual([asked?.["arguments"], asked?.["declared_effect"]], [{ amount: 1 }, "destructive"]);
});

test("tools of a framework are held to the rules of a fake", async () => {
  const fake = new FakeSidecar({ rules: RULES, logger: quiet });
  await fake.umbra.sidecar({ task: "clean up" }, async (sidecar) => {
    const tools = { drop_table: { execute: () => assert.fail("it ran") }, list: { execute: () => "a, b" } };
    const { drop_table, list } = guard(fake.umbra, tools, { server: "db", sidecar });
    const call = (tool: object) =>
      (tool as { execute(input: object, options: object): Promise<unknown> }).execute({}, {});
    await assert.rejects(call(drop_table), (error) => error instanceof Blocked && error.rule === "no-drop");
    assert.equal(await call(list), "a, b");
  });
  assert.deepEqual(
    fake.asked("decide").map((one) => one["tool"]),
    [{ server: "db", name: "list" }],
  );
});

test("events are accepted, and recorded", async () => {
  const fake = new FakeSidecar({ agent: "writer", logger: quiet });
  const { id } = await fake.umbra.events.post({ output: "one" });
  const { accepted, results } = await fake.umbra.events.postMany([{ output: "two" }, { id: "e-3", output: "three" }]);
  assert.deepEqual([accepted, results.map((one) => one.index), results[1]?.id], [2, [0, 1], "e-3"]);
  const asked = fake.asked("event");
  assert.deepEqual(
    asked.map((one) => [one["agent"], one["output"]]),
    [
      ["writer", "one"],
      ["writer", "two"],
      ["writer", "three"],
    ],
  );
  assert.equal(asked[0]?.["id"], id);
});

test("a mistake of a test is told, whatever the agent catches", async () => {
  for (const [verdict, text] of [
    ["deny", /the rule wrong returns allow, warn or block, .* not "deny"/],
    [["deny", "no"], /not \["deny","no"\]/],
    [{ verdict: "block" }, /not {"verdict":"block"}/],
    [0, /not 0/],
    [Promise.resolve("block"), /not a promise/],
  ] as const) {
    const wrong = (): never => verdict as never;
    const s = await new FakeSidecar({ rules: [wrong], logger: quiet }).umbra.sidecar();
    await assert.rejects(s.guard({ call: DROP }), (error) => error instanceof TypeError && text.test(error.message));
    await assert.rejects(s.guardrails("enforce", { name: "x" })(() => 1)(), TypeError);
  }
  const asserts: FakeRule = (at) => assert.equal(at.route, "plan");
  const s = await new FakeSidecar({ rules: [asserts], logger: quiet }).umbra.sidecar();
  await assert.rejects(s.turn(), assert.AssertionError);
  const { umbra } = new FakeSidecar({ logger: quiet });
  await assert.rejects(umbra.runs.end("r", { reason: "x" }), /does not answer POST \/v1\/runs\/r\/end: test this part/);
  await assert.rejects(umbra.findings.list().all(), /does not answer GET/);
  await assert.rejects(umbra.findings.stream()[Symbol.asyncIterator]().next(), /does not answer GET/);
  await using other = await umbra.sidecar({ documents: { todo: TODO } });
  const todo = await other.document("todo");
  await assert.rejects(
    todo.edit({ op: "set_key", key: "a", value: 1 }),
    /does not make the edit set_key: put the whole/,
  );
});

test("any session is resumed, and several are apart", async () => {
  const fake = new FakeSidecar({ logger: quiet });
  const s = await fake.umbra.sidecar({}, { id: "ses_of_another_program", close: false });
  assert.deepEqual([s.id, s.degraded, (await s.turn()).turn], ["ses_of_another_program", false, 1]);
  await using one = await fake.umbra.sidecar({ documents: { todo: "# One\n" } });
  await using two = await fake.umbra.sidecar({ documents: { todo: "# Two\n" } });
  assert.notEqual(one.id, two.id);
  assert.deepEqual([(await one.document("todo")).text, (await two.document("todo")).text], ["# One\n", "# Two\n"]);
  // A program that changes an answer does not change the next one.
  const { pattern } = await one.recordPattern({ task: "x", tools: ["a"] });
  if (pattern) pattern.successes = 9;
  assert.equal((await one.recordPattern({ task: "x", tools: ["a"] })).pattern?.successes, 2);
  const stop = new AbortController();
  let steps = 0;
  const endless = (async () => {
    for await (const _ of one.stream({ after: 0, signal: stop.signal })) steps += 1;
  })();
  await one.turn();
  await until("the turn", () => (steps === 1 ? true : undefined));
  stop.abort(new Error("enough"));
  await assert.rejects(endless, /enough/);
});
