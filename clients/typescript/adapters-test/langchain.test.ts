/** The adapter of LangChain. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Command, interrupt, MemorySaver } from "@langchain/langgraph";
import {
  type AgentMiddleware,
  AIMessage,
  createAgent,
  fakeModel,
  tool,
  ToolMessage,
  toolRetryMiddleware,
} from "langchain";
import { type ApprovalInterrupt, umbraMiddleware } from "umbra-shadow/langchain";
import { z } from "zod";

import { recorder, startServer, unique } from "../test/support.js";
import { type Call, type Outcome, type RunAgent, SCHEMAS, SECRET, Shop, testAdapter } from "./scenarios.js";

/** Returns a model that makes the calls, one in each answer, and then says "done". */
function modelOf(calls: readonly Call[]) {
  const model = fakeModel();
  for (const { name, arguments: args } of calls) model.respondWithTools([{ name, args }]);
  return model.respond(new AIMessage("done"));
}

function toolsOf(shop: Shop) {
  return Object.entries(SCHEMAS).map(([name, schema]) =>
    tool(async (given: Record<string, unknown>) => shop.run(name, given), {
      name,
      description: `${name} of the shop`,
      schema: schema as z.ZodType<Record<string, unknown>>,
    }),
  );
}

const runAgent: RunAgent = async ({ umbra, options, shop, calls }) => {
  const model = modelOf(calls);
  const agent = createAgent({
    model,
    tools: toolsOf(shop),
    middleware: [umbraMiddleware(umbra, options)],
    contextSchema: z.object({ secret: z.string() }),
    checkpointer: new MemorySaver(),
  });
  const settings = { configurable: { thread_id: unique("thread"), secret: SECRET }, context: { secret: SECRET } };
  const outcome = (state: { messages: unknown[]; __interrupt__?: { value?: unknown }[] }): Outcome => {
    const asked = state.__interrupt__?.[0]?.value as ApprovalInterrupt | undefined;
    return {
      read: (model.calls.at(-1)?.messages ?? []).filter((one) => ToolMessage.isInstance(one)).map((one) => one.text),
      said: asked ? undefined : (state.messages.at(-1) as AIMessage).text,
      approvalId: asked?.approvalId,
      resume: async () => outcome(await agent.invoke(new Command({ resume: true }), settings)),
    };
  };
  return outcome(await agent.invoke({ messages: [{ role: "user", content: "go on" }] }, settings));
};

const server = await startServer();
testAdapter(server, "LangChain", runAgent, false);

const REFUND: Call = { name: "refund", arguments: { payment: "p-1", amount: 500 } };

test("LangChain: without a checkpointer a call that needs an approval is a tool message", async () => {
  const umbra = server.client({ agent: unique("desk") });
  const shop = new Shop();
  const middleware = [umbraMiddleware(umbra, { server: "shop" })];
  const agent = createAgent({ model: modelOf([REFUND]), tools: toolsOf(shop), middleware });
  const { messages } = await agent.invoke({ messages: [{ role: "user", content: "go on" }] });
  const answer = messages.find((one) => ToolMessage.isInstance(one));
  assert.match(answer?.text ?? "", /A person must approve apr_/);
  assert.equal((answer as ToolMessage).status, "error");
  assert.equal(messages.at(-1)?.text, "done");
  assert.deepEqual(shop.ran, []);
});

test("LangChain: of calls at the same time those that may run do, once", async () => {
  const umbra = server.client({ agent: unique("desk") });
  const shop = new Shop();
  const model = fakeModel()
    .respondWithTools([
      { name: "refund", args: REFUND.arguments },
      { name: "refund", args: { payment: "p-2", amount: 20 } },
      { name: "refund", args: { payment: "p-3", amount: 9_000 } },
    ])
    .respond(new AIMessage("done"));
  const agent = createAgent({
    model,
    tools: toolsOf(shop),
    middleware: [umbraMiddleware(umbra, { server: "shop" })],
    checkpointer: new MemorySaver(),
  });
  const settings = { configurable: { thread_id: unique("thread") } };
  const paused = await agent.invoke({ messages: [{ role: "user", content: "go on" }] }, settings);
  const [asked] = (paused as { __interrupt__?: { value: ApprovalInterrupt }[] }).__interrupt__ ?? [];
  assert.deepEqual(asked?.value.arguments, REFUND.arguments);
  await umbra.approvals.approve(asked?.value.approvalId ?? "");
  const { messages } = await agent.invoke(new Command({ resume: true }), settings);
  assert.equal(messages.at(-1)?.text, "done");
  assert.deepEqual(
    shop.ran.map((one) => (one as [string, { payment: string }])[1].payment),
    ["p-2", "p-1"],
  );
});

test("LangChain: a call that the graph declines does not run, though it is approved", async () => {
  const agentId = unique("desk");
  const umbra = server.client({ agent: agentId });
  const shop = new Shop();
  const reject = { decisions: [{ type: "reject", message: "too dear" }] };
  for (const [answer, text, isApproved, rehearsal] of [
    [false, "it was declined; do not call it again", true],
    [{ approved: false, reason: "too dear" }, "it was declined: too dear; do not call it again", true],
    [reject, "it was declined: too dear; do not call it again", true],
    [reject, "it was declined: too dear; do not call it again", false],
    // Nothing but a yes is a yes.
    ["no", "it was declined; do not call it again", true],
    [{ decisions: [{ type: "approve" }, ...reject.decisions] }, "it was declined: too dear; do not call it again", true],
    // In rehearsal, whose calls have approvals of their own, it is declined too.
    [false, "it was declined; do not call it again", true, "rehearsal"],
  ] as const) {
    const agent = createAgent({
      model: modelOf([REFUND]),
      tools: toolsOf(shop),
      middleware: [umbraMiddleware(umbra, { server: "shop" })],
      checkpointer: new MemorySaver(),
    });
    const settings = { configurable: { thread_id: unique("thread") } };
    if (rehearsal) await server.rehearse(agentId);
    const paused = await agent.invoke({ messages: [{ role: "user", content: "go on" }] }, settings);
    // The approval of the declined call before is used up: the same call is asked about anew.
    const [asked] = (paused as { __interrupt__?: { value: ApprovalInterrupt }[] }).__interrupt__ ?? [];
    const id = asked?.value.approvalId ?? "";
    if (isApproved) await umbra.approvals.approve(id);
    const { messages } = await agent.invoke(new Command({ resume: answer }), settings);
    const told = messages.find((one) => ToolMessage.isInstance(one)) as ToolMessage | undefined;
    assert.deepEqual([told?.text, told?.status], [`shop.refund was not run (declined): ${text}`, "error"]);
    assert.equal(messages.at(-1)?.text, "done");
    assert.equal((await umbra.approvals.get(id)).state, isApproved ? "used" : "pending");
  }
  assert.deepEqual(shop.ran, []);
});

test("LangChain: of calls that are made at once in one task, none pauses", async () => {
  const umbra = server.client({ agent: unique("desk") });
  const shop = new Shop();
  for (const [calls, isPaused] of [[[REFUND], true], [[REFUND, REFUND], false]] as const) {
    const model = fakeModel().respondWithTools(calls.map(({ name, arguments: args }) => ({ name, args })));
    const agent = createAgent({
      model: model.respond(new AIMessage("done")),
      tools: toolsOf(shop),
      middleware: [umbraMiddleware(umbra, { server: "shop" })],
      checkpointer: new MemorySaver(),
      version: "v1",
    });
    const settings = { configurable: { thread_id: unique("thread") } };
    const result = await agent.invoke({ messages: [{ role: "user", content: "go on" }] }, settings);
    assert.equal("__interrupt__" in result, isPaused);
    const told = result.messages.filter((one) => ToolMessage.isInstance(one));
    assert.equal(told.length, isPaused ? 0 : 2);
    for (const one of told) assert.match(one.text, /A person must approve apr_/);
  }
  assert.deepEqual(shop.ran, []);
});

test("LangChain: a tool's own interrupt does not get the answer to the pause for an approval", async () => {
  const umbra = server.client({ agent: unique("desk") });
  const refund = tool(async () => `sure: ${interrupt("sure?")}`, {
    name: "refund",
    description: "",
    schema: SCHEMAS.refund,
  });
  const agent = createAgent({
    model: modelOf([REFUND]),
    tools: [refund],
    middleware: [umbraMiddleware(umbra, { server: "shop" })],
    checkpointer: new MemorySaver(),
  });
  const settings = { configurable: { thread_id: unique("thread") } };
  type Paused = { __interrupt__?: { value: unknown }[] };
  const paused = await agent.invoke({ messages: [{ role: "user", content: "go on" }] }, settings);
  await umbra.approvals.approve(((paused as Paused).__interrupt__?.[0]?.value as ApprovalInterrupt).approvalId);
  const asked = await agent.invoke(new Command({ resume: true }), settings);
  assert.equal((asked as Paused).__interrupt__?.[0]?.value, "sure?");
});

test("LangChain: an interrupt of the tool itself is answered to the tool, and is no failure", async () => {
  const run = unique("run");
  const umbra = server.client({ agent: unique("desk"), run });
  const asking = tool(async () => `sure: ${interrupt("sure?")}`, {
    name: "get_page",
    description: "",
    schema: z.object({}),
  });
  const agent = createAgent({
    model: modelOf([{ name: "get_page", arguments: {} }]),
    tools: [asking],
    middleware: [umbraMiddleware(umbra, { effects: { get_page: "read" } })],
    checkpointer: new MemorySaver(),
  });
  const settings = { configurable: { thread_id: unique("thread") } };
  const paused = await agent.invoke({ messages: [{ role: "user", content: "go on" }] }, settings);
  assert.equal((paused as { __interrupt__?: { value: unknown }[] }).__interrupt__?.[0]?.value, "sure?");
  const { messages } = await agent.invoke(new Command({ resume: "yes" }), settings);
  assert.equal(messages.find((one) => ToolMessage.isInstance(one))?.text, "sure: yes");
  assert.ok(await umbra.flush());
  const outcomes = await server.audit({ run, kind: "outcome" }, 2);
  assert.deepEqual(
    outcomes.map((row) => (row["outcome"] as { status: string }).status),
    ["ok", "ok"],
  );
});

test("LangChain: a tool's failure and its message are those without the middleware", async () => {
  const run = unique("run");
  const umbra = server.client({ agent: unique("desk"), run });
  let runs = 0;
  const broken = tool(
    async () => {
      runs += 1;
      throw new RangeError("no such page");
    },
    { name: "get_page", description: "page", schema: z.object({ page: z.number().optional() }) },
  );
  const text = tool(async () => "[1, 2]  ", { name: "get_text", description: "text", schema: z.object({}) });
  const guarding = umbraMiddleware(umbra, { effects: { get_page: "read", get_text: "read" } });
  const start = async (name: string, middleware: readonly AgentMiddleware[], args: object = {}) => {
    const call = { name, arguments: args as Record<string, unknown> };
    const agent = createAgent({ model: modelOf([call]), tools: [broken, text], middleware });
    const { messages } = await agent.invoke({ messages: [{ role: "user", content: "go on" }] });
    const told = messages.find((one) => ToolMessage.isInstance(one)) as ToolMessage | undefined;
    // The text of wrong arguments has a stack.
    return [told?.text.replace(/\n +at .*/gs, ""), told?.status, messages.at(-1)?.text];
  };
  for (const args of [{}, { page: "one" }]) {
    const unguarded = await start("get_page", [], args);
    assert.equal(unguarded[1], "error");
    assert.deepEqual(await start("get_page", [guarding], args), unguarded);
  }
  assert.equal((await start("get_text", [guarding]))[0], "[1, 2]  ");
  runs = 0;
  const retrying = toolRetryMiddleware({ maxRetries: 1, initialDelayMs: 0 });
  assert.match((await start("get_page", [guarding, retrying]))[0] ?? "", /failed after 2 attempts/);
  assert.equal(runs, 2);
  assert.ok(await umbra.flush());
  const outcomes = await server.audit({ run, kind: "outcome" }, 4);
  assert.deepEqual(
    outcomes.map((row) => (row["outcome"] as { status: string }).status),
    ["error", "error", "ok", "ok"],
  );
});

test("LangChain: arguments that are no object are told to the model, and run nothing", async () => {
  const shop = new Shop();
  const middleware = [umbraMiddleware(server.client({ agent: unique("desk") }), { server: "shop" })];
  for (const args of [[1], "text"]) {
    const call = { name: "refund", arguments: args as unknown as Record<string, unknown> };
    const agent = createAgent({ model: modelOf([call]), tools: toolsOf(shop), middleware });
    const { messages } = await agent.invoke({ messages: [{ role: "user", content: "go on" }] });
    const told = messages.find((one) => ToolMessage.isInstance(one)) as ToolMessage | undefined;
    assert.deepEqual([told?.text, told?.status], ["refund was not run: its arguments are no JSON object.", "error"]);
    assert.equal(messages.at(-1)?.text, "done");
  }
  assert.deepEqual(shop.ran, []);
});

test("LangChain: a misspelt name in effects, and middleware that was not made, are told", async () => {
  const { lines, ...logger } = recorder();
  const umbra = server.client({ agent: unique("desk"), logger });
  const effects = { list_refund: "read", charge: "write", no_tool: "read" } as const;
  const middleware = [umbraMiddleware(umbra, { effects })];
  const list = { name: "list_refunds", arguments: { page: 0 } };
  const calls = [list, list, { name: "charge", arguments: { amount: 1 } }];
  const agent = createAgent({ model: modelOf(calls), tools: toolsOf(new Shop()), middleware });
  await agent.invoke({ messages: [{ role: "user", content: "go on" }] });
  assert.deepEqual(lines, ["warn umbra: effects names list_refund, which is no tool here: is it list_refunds?"]);
  const unmade = { model: modelOf([]), tools: toolsOf(new Shop()), middleware: [umbraMiddleware as never] };
  assert.throws(() => createAgent(unmade), /is made by a call: middleware: \[umbraMiddleware\(umbra\)\]/);
});
