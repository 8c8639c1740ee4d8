/** A tool with two guards, as a tool of `umbra.tool` in an adapter: one decision, and one approval. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";

import { ApprovalRequired, Umbra } from "umbra-shadow";
import { guard as guardAi } from "umbra-shadow/ai";
import { guard as guardAgents } from "umbra-shadow/openai-agents";

import { PATIENT_MS, recorder, startServer, unique, vacantAddress } from "./support.js";

const server = await startServer();

interface Refund {
  payment: string;
  amount: number;
}

const SMALL: Refund = { payment: "p", amount: 5 };
const REFUND = { tool: "shop.refund", arguments: SMALL };

/** Returns a client, the last part of the path of each of its requests, and the lines of its log. */
function recorded(settings: { url?: string; agent?: string } = {}) {
  const asked: string[] = [];
  const sent: typeof fetch = (input, init) => {
    asked.push(new URL(String(input)).pathname.split("/").at(-1) ?? "");
    return fetch(input, init);
  };
  const { lines, ...logger } = recorder();
  const umbra = server.client({ agent: unique("twice"), fetch: sent, logger, ...settings });
  const count = async (part: string) => ((await umbra.flush(PATIENT_MS)), asked.filter((one) => one === part).length);
  return { umbra, asked, lines, count };
}

/** Returns a tool of `umbra.tool`, and the calls that ran. */
function refundOf(umbra: Umbra, server = "shop") {
  const ran: Refund[] = [];
  const refund = umbra.tool({ name: "refund", server, effect: "destructive" }, (given: Refund) => {
    ran.push(given);
    return { id: "real-1", status: "refunded" };
  });
  return { ran, refund };
}

const OPTIONS = { toolCallId: "call_0" };

test("a tool of umbra.tool in an adapter needs one approval, and is told once", async () => {
  const { umbra, count, lines } = recorded();
  const { ran, refund } = refundOf(umbra);
  const tools = guardAi(umbra, { refund: { execute: (given: Refund, _: object) => refund(given) } }, { server: "shop" });
  const given = { payment: "p-1", amount: 500 };
  const asked = await tools.refund.execute(given, OPTIONS).catch((error: unknown) => error);
  assert.ok(asked instanceof ApprovalRequired);
  await umbra.approvals.approve(asked.approvalId);
  // A schema of a framework may put the arguments in another order.
  assert.equal((await tools.refund.execute({ amount: 500, payment: "p-1" }, OPTIONS)).id, "real-1");
  assert.deepEqual([ran.length, await count("decide"), await count("outcome"), lines], [1, 2, 1, []]);
});

test("tools that are guarded twice or thrice are asked about once", async () => {
  type Asking = { needsApproval: (given: Refund, options: object) => Promise<boolean> };
  const { umbra, count } = recorded();
  const { ran, refund } = refundOf(umbra);
  let tools = { refund: { execute: (given: Refund, _: object) => refund(given) } };
  for (let guards = 0; guards < 3; guards++) tools = guardAi(umbra, tools, { server: "shop" });
  assert.equal(await (tools.refund as never as Asking).needsApproval(SMALL, OPTIONS), false);
  assert.equal(await count("decide"), 1);
  await tools.refund.execute(SMALL, OPTIONS);
  assert.deepEqual([ran.length, await count("decide"), await count("outcome")], [1, 2, 1]);

  const mine = {
    type: "function" as const,
    name: "refund",
    invoke: async (_: unknown, input: string) => refund(JSON.parse(input) as Refund),
    needsApproval: async () => false,
  };
  const [tool] = guardAgents(umbra, guardAgents(umbra, [mine], { server: "shop" }), { server: "shop" });
  assert.equal(await tool?.needsApproval(), false);
  await tool?.invoke({}, JSON.stringify(SMALL));
  assert.deepEqual([ran.length, await count("decide"), await count("outcome")], [2, 4, 2]);
});

test("a tool whose guards differ is decided by both, and the log says so once", async () => {
  const { umbra, count, lines } = recorded();
  const { ran, refund } = refundOf(umbra);
  const execute = (given: Refund, _: object) => refund(given);
  const tools = guardAi(umbra, { refund: { execute } });
  for (let call = 0; call < 2; call++) await tools.refund.execute(SMALL, OPTIONS);
  assert.deepEqual([ran.length, await count("decide"), lines.length], [2, 4, 1]);
  assert.match(lines[0] ?? "", /guarded twice, as refund and as shop\.refund: .* two approvals; give .* the same server/);
  const note = umbra.tool({ name: "post_note", effect: "destructive" }, (_: { text?: string }) => "posted");
  for (const [name, body] of [
    ["a_note", () => note({})],
    // A default of a schema.
    ["post_note", () => note({ text: "" })],
    ["post_note", () => note({})],
  ] as const) {
    await umbra.callTool({ tool: name, effect: "write" }, body);
  }
  assert.deepEqual([await count("decide"), lines.length], [10, 2]);
  assert.match(lines[1] ?? "", /guarded twice, as post_note and as post_note: .* the same server, effect and arguments/);
});

test("the rules of a session are asked once, and the call is reported once", async () => {
  const { umbra, asked, count } = recorded();
  const { ran, refund } = refundOf(umbra);
  await umbra.sidecar({ task: "refund" }, async (sidecar) => {
    const held = sidecar.guardrails("enforce")(refund);
    const options = { server: "shop", sidecar };
    const tools = guardAi(umbra, { refund: { execute: (given: Refund, _: object) => held(given) } }, options);
    await guardAi(umbra, tools, options).refund.execute(SMALL, OPTIONS);
    await umbra.flush(PATIENT_MS);
    assert.deepEqual(asked.splice(0).sort(), ["decide", "guard", "messages", "outcome", "sessions"]);
    // Rules that were not asked are.
    await guardAi(umbra, tools, { server: "shop" }).refund.execute(SMALL, OPTIONS);
    assert.deepEqual([await count("guard"), await count("decide"), ran.length], [1, 1, 2]);
  });
});

test("a read that runs without a decision is not asked about again", async () => {
  const { umbra, asked, lines } = recorded({ url: await vacantAddress() });
  const look = umbra.tool({ name: "look", effect: "read" }, () => "seen");
  const tools = guardAi(umbra, { look: { execute: (_: object, __: object) => look() } }, { effects: { look: "read" } });
  assert.equal(await tools.look.execute({}, OPTIONS), "seen");
  // The question is repeated once if the connection fails.
  assert.deepEqual([asked.length, lines.length], [2, 1]);
  const change = umbra.tool({ name: "look", effect: "write" }, () => assert.fail("it ran"));
  await assert.rejects(umbra.callTool({ tool: "look", effect: "read" }, () => change()), /was not run \(unavailable\)/);
});

test("another call, or another call of the same guard, is decided", async () => {
  const { umbra, count } = recorded();
  const { refund } = refundOf(umbra);
  const other = server.client({ agent: umbra.agent });
  const elsewhere = refundOf(other);
  const within = (body: () => unknown) => umbra.callTool(REFUND, body);
  let decided = 0;
  for (const [calls, body] of [
    [1, () => refund(SMALL)],
    [2, async () => [await refund(SMALL), await refund(SMALL)]],
    [2, () => refund({ ...SMALL, amount: 6 })],
    [2, () => refund({ payment: "p", amount: 5, note: null } as never)],
    [2, () => umbra.context({ agent: unique("other") }, () => refund(SMALL))],
    [2, () => umbra.context({ route: "/other" }, () => refund(SMALL))],
    [2, () => umbra.callTool({ tool: "shop.list_refunds", arguments: { ...SMALL } }, () => 1)],
    // A tool may call itself.
    [2, () => umbra.callTool(REFUND, () => 1)],
    [1, () => elsewhere.refund(SMALL)],
    [3, () => umbra.callTool({ tool: "shop.get_refund" }, () => refund(SMALL))],
  ] as const) {
    await within(body);
    decided += calls;
    assert.equal(await count("decide"), decided, String(body));
  }
  // A stricter effect may have other rules.
  const strict = umbra.tool({ name: "get_page", effect: "destructive" }, () => 1);
  await umbra.callTool({ tool: "get_page", effect: "read" }, () => strict());
  assert.equal(await count("decide"), decided + 2);
  // What a body leaves behind is no part of the call.
  let late = (): unknown => undefined;
  const left = new Promise<void>((resolve) => (late = resolve));
  let later: Promise<unknown> | undefined;
  await within(() => void (later = left.then(() => refund(SMALL))));
  late();
  await later;
  assert.equal(await count("decide"), decided + 4);
});

test("a runtime without an asynchronous context decides both calls", async () => {
  const code = `
    process.getBuiltinModule = undefined;
    const { Umbra } = await import("umbra-shadow");
    const umbra = new Umbra({ url: ${JSON.stringify(server.url)}, agent: ${JSON.stringify(unique("bare"))} });
    const look = umbra.tool({ name: "get_refund", server: "shop" }, () => "seen");
    console.log(await umbra.callTool({ tool: "shop.get_refund" }, () => look()));`;
  const options = { cwd: new URL("..", import.meta.url), encoding: "utf8" } as const;
  assert.equal(execFileSync(process.execPath, ["--input-type=module", "-e", code], options), "seen\n");
});
