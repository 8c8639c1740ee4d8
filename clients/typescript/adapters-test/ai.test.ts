/** The adapter of the AI SDK, against its present and its previous major version. */

import assert from "node:assert/strict";
import { test } from "node:test";

import * as ai7 from "ai";
import * as mocks7 from "ai/test";
import * as ai6 from "ai6";
import * as mocks6 from "ai6/test";
import { ApprovalRequired } from "umbra-shadow";
import { guard } from "umbra-shadow/ai";
import { z } from "zod";

import { Peer, startServer, unique } from "../test/support.js";
import { type Call, type RunAgent, SCHEMAS, SECRET, Shop, testAdapter, TICKET } from "./scenarios.js";

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

/** Returns answers of a model: the calls, one in each, and then "done". */
function answers(calls: readonly Call[]) {
  const made = calls.map(({ name, arguments: given }, at) => ({
    content: [{ type: "tool-call" as const, toolCallId: `call_${at}`, toolName: name, input: JSON.stringify(given) }],
    finishReason: { unified: "tool-calls" as const, raw: undefined },
    usage,
    warnings: [],
  }));
  const done = {
    content: [{ type: "text" as const, text: "done" }],
    finishReason: { unified: "stop" as const, raw: undefined },
    usage,
    warnings: [],
  };
  return [...made, done];
}

interface Prompted {
  prompt: { role: string; content: unknown }[];
}

/** Returns the results of tools in the last prompt. */
function resultsIn(prompts: readonly Prompted[]): string[] {
  const parts = (prompts.at(-1)?.prompt ?? []).flatMap((message) =>
    message.role === "tool" ? (message.content as { type: string; output: { value: unknown } }[]) : [],
  );
  const results = parts.filter((part) => part.type === "tool-result");
  return results.map(({ output }) => (typeof output.value === "string" ? output.value : JSON.stringify(output.value)));
}

function toolsOf(shop: Shop) {
  const one = <N extends keyof typeof SCHEMAS>(name: N) =>
    ai7.tool({
      description: `${name} of the shop`,
      inputSchema: SCHEMAS[name] as z.ZodType<Record<string, unknown>>,
      execute: async (given: Record<string, unknown>) => shop.run(name, given),
    });
  return {
    refund: one("refund"),
    list_refunds: one("list_refunds"),
    charge: one("charge"),
    drop_table: one("drop_table"),
    open_ticket: { ...one("open_ticket"), outputSchema: TICKET },
  };
}

const run7: RunAgent = async ({ umbra, options, shop, calls }) => {
  const waiting: { approvalId?: string; waitingCall?: string | undefined } = {};
  const onApproval = ({ approvalId }: ApprovalRequired, waitingCall: string | undefined) => {
    Object.assign(waiting, { approvalId, waitingCall });
  };
  const model = new mocks7.MockLanguageModelV4({ doGenerate: answers(calls) });
  const step = async (messages: ai7.ModelMessage[]): ReturnType<RunAgent> => {
    const result = await ai7.generateText({
      model,
      messages,
      tools: guard(umbra, toolsOf(shop), { ...options, onApproval }),
      stopWhen: ai7.isStepCount(9),
      runtimeContext: { secret: SECRET },
      headers: { authorization: SECRET },
    });
    const asked = result.content.filter((part) => part.type === "tool-approval-request");
    return {
      read: resultsIn(model.doGenerateCalls),
      said: asked.length ? undefined : result.text,
      approvalId: waiting.approvalId,
      ...waiting,
      resume: () => {
        const content = asked.map((part) => ({
          type: "tool-approval-response" as const,
          approvalId: part.approvalId,
          approved: true,
        }));
        return step([...messages, ...result.response.messages, { role: "tool", content }]);
      },
    };
  };
  return step([{ role: "user", content: "go on" }]);
};

const run6: RunAgent = async ({ umbra, options, shop, calls }) => {
  const waiting: { approvalId?: string; waitingCall?: string | undefined } = {};
  const onApproval = ({ approvalId }: ApprovalRequired, waitingCall: string | undefined) => {
    Object.assign(waiting, { approvalId, waitingCall });
  };
  const model = new mocks6.MockLanguageModelV3({ doGenerate: answers(calls) });
  const step = async (messages: ai6.ModelMessage[]): ReturnType<RunAgent> => {
    const result = await ai6.generateText({
      model,
      messages,
      tools: guard(umbra, toolsOf(shop) as unknown as ai6.ToolSet, { ...options, onApproval }),
      stopWhen: ai6.stepCountIs(9),
      experimental_context: { secret: SECRET },
    });
    const asked = result.content.filter((part) => part.type === "tool-approval-request");
    return {
      read: resultsIn(model.doGenerateCalls),
      said: asked.length ? undefined : result.text,
      approvalId: waiting.approvalId,
      ...waiting,
      resume: () => {
        const content = asked.map((part) => ({
          type: "tool-approval-response" as const,
          approvalId: part.approvalId,
          approved: true,
        }));
        return step([...messages, ...result.response.messages, { role: "tool", content }]);
      },
    };
  };
  return step([{ role: "user", content: "go on" }]);
};

const server = await startServer();
testAdapter(server, "AI SDK 7", run7);
testAdapter(server, "AI SDK 6", run6);

test("AI SDK: each call is decided once, though it is asked about twice and ids of calls repeat", async () => {
  const run = unique("run");
  const shop = new Shop();
  const tools = guard(server.client({ agent: unique("desk"), run }), toolsOf(shop), { server: "shop" });
  for (const page of [0, 0, 1]) {
    const model = new mocks7.MockLanguageModelV4({
      doGenerate: answers([{ name: "list_refunds", arguments: { page } }]),
    });
    await ai7.generateText({ model, prompt: "go", tools, stopWhen: ai7.isStepCount(3) });
    assert.match(resultsIn(model.doGenerateCalls)[0] ?? "", /old-1/);
  }
  const rows = await server.audit({ run, kind: "decision" }, 3);
  assert.deepEqual([rows.length, new Set(rows.map((row) => row["call_id"])).size, shop.ran.length], [3, 3, 3]);
});

test("AI SDK: a server that hangs is waited for once a call, and is asked again for the next one", async () => {
  await using peer = await new Peer(server.url).listen();
  peer.behaviour = "hang";
  const umbra = server.client({ url: peer.url, agent: unique("desk"), decisionTimeoutMs: 500 });
  const shop = new Shop();
  const tools = guard(umbra, toolsOf(shop), { server: "shop", effects: { list_refunds: "read" } });
  const calls = [0, 0].map((page) => ({ name: "list_refunds", arguments: { page } }));
  const model = new mocks7.MockLanguageModelV4({ doGenerate: answers(calls) });
  await ai7.generateText({ model, prompt: "go", tools, stopWhen: ai7.isStepCount(3) });
  assert.deepEqual([peer.received.match(/POST \/v1\/decide /g)?.length, shop.ran.length], [2, 2]);
});

test("AI SDK: an approval of a call covers the content of what its schema makes", async () => {
  class Money {
    constructor(readonly amount: number) {}
  }
  const umbra = server.client({ agent: unique("desk") });
  const ran: unknown[] = [];
  const refund = ai7.tool({
    inputSchema: z.object({
      payment: z.string(),
      amount: z.number(),
      paid: z.string().transform((text) => new Money(Number(text))),
    }),
    execute: async ({ paid }) => void ran.push(paid),
  });
  const tools = guard(umbra, { refund }, { server: "shop" });
  const options = { toolCallId: "call_0", messages: [], context: undefined as never };
  const given = { payment: "p-1", amount: 500 };
  const call = async (paid: number) => tools.refund.execute?.({ ...given, paid: new Money(paid) }, options);
  const asked: unknown = await call(5).catch((error: unknown) => error);
  assert.ok(asked instanceof ApprovalRequired);
  assert.deepEqual((await umbra.approvals.get(asked.approvalId)).arguments, { ...given, paid: { amount: 5 } });
  await umbra.approvals.approve(asked.approvalId);
  await assert.rejects(call(5_000_000), ApprovalRequired);
  await call(5);
  assert.deepEqual(ran, [new Money(5)]);
});

test("AI SDK: a call that the program's own rule approves is told to onApproval, once", async () => {
  const told: unknown[] = [];
  const onApproval = ({ tool, approvalId }: ApprovalRequired, id: string | undefined) => {
    told.push([tool, approvalId.slice(0, 4), id]);
  };
  const umbra = server.client({ agent: unique("desk") });
  for (const toolApproval of [{ refund: "approved" } as const, undefined]) {
    const shop = new Shop();
    const tools = guard(umbra, toolsOf(shop), { server: "shop", onApproval });
    const model = new mocks7.MockLanguageModelV4({
      doGenerate: answers([{ name: "refund", arguments: { payment: unique("p"), amount: 500 } }]),
    });
    const settings = { model, tools, stopWhen: ai7.isStepCount(3), ...(toolApproval && { toolApproval }) };
    const { content, response } = await ai7.generateText({ ...settings, prompt: "go" });
    assert.deepEqual(told.splice(0), [["shop.refund", "apr_", "call_0"]]);
    assert.equal(content.some((part) => part.type === "tool-error"), toolApproval !== undefined);
    const asked = content.filter((part) => part.type === "tool-approval-request");
    const type = "tool-approval-response" as const;
    const yes = asked.map(({ approvalId }) => ({ type, approvalId, approved: true }));
    const go = { role: "user", content: "go" } as const;
    const messages = [go, ...response.messages, { role: "tool" as const, content: yes }];
    if (!toolApproval) await ai7.generateText({ ...settings, messages });
    assert.deepEqual([told, shop.ran], [[], []]);
  }
});

test("AI SDK: a call that was never answered does not stand in the way of another with its id", async () => {
  const shop = new Shop();
  const tools = guard(server.client({ agent: unique("desk") }), toolsOf(shop), { server: "shop" });
  for (const amount of [500, 20]) {
    const call = { name: "refund", arguments: { payment: "p-1", amount } };
    const model = new mocks7.MockLanguageModelV4({ doGenerate: answers([call]) });
    await ai7.generateText({ model, prompt: "go", tools, stopWhen: ai7.isStepCount(3) });
  }
  assert.deepEqual(shop.ran, [["refund", { payment: "p-1", amount: 20 }]]);
});

test("AI SDK: the tool's own approval holds as well, and tools without execute are unchanged", async () => {
  const umbra = server.client({ agent: unique("desk") });
  const hosted = ai7.tool({ inputSchema: z.object({}), outputSchema: z.string() });
  assert.equal(guard(umbra, { hosted }).hosted, hosted);
  const isLater = async ({ page }: { page: number }) => page > 0;
  for (const [needsApproval, page, isAsked] of [
    [isLater, 1, true],
    [isLater, 0, false],
    [true, 0, true],
    [false, 0, false],
  ] as const) {
    const shop = new Shop();
    const own = ai7.tool({
      inputSchema: SCHEMAS.list_refunds,
      execute: async (given) => shop.run("list_refunds", given),
      needsApproval,
    });
    const tools = guard(umbra, { list_refunds: own }, { effects: { list_refunds: "read" } });
    const model = new mocks7.MockLanguageModelV4({
      doGenerate: answers([{ name: "list_refunds", arguments: { page } }]),
    });
    const { content } = await ai7.generateText({ model, prompt: "go", tools, stopWhen: ai7.isStepCount(3) });
    const asked = content.filter((part) => part.type === "tool-approval-request");
    assert.deepEqual([asked.length, shop.ran.length], isAsked ? [1, 0] : [0, 1]);
  }
});

test("AI SDK: of preliminary results the last one is the result, in a stream too", async () => {
  const run = unique("run");
  const umbra = server.client({ agent: unique("desk"), run });
  const tools = {
    get_page: ai7.tool({
      inputSchema: z.object({}),
      async *execute() {
        yield "loading";
        yield "the page";
      },
    }),
  };
  const finish = { type: "finish" as const, finishReason: { unified: "stop" as const, raw: undefined }, usage };
  const call = { type: "tool-call" as const, toolCallId: "call_0", toolName: "get_page", input: "{}" };
  const text = [
    { type: "text-start" as const, id: "1" },
    { type: "text-delta" as const, id: "1", delta: "done" },
    { type: "text-end" as const, id: "1" },
  ];
  const streams = [
    { stream: ai7.simulateReadableStream({ chunks: [call, finish] }) },
    { stream: ai7.simulateReadableStream({ chunks: [...text, finish] }) },
  ];
  const model = new mocks7.MockLanguageModelV4({ doStream: streams });
  const guarded = guard(umbra, tools, { effects: { get_page: "read" } });
  const result = ai7.streamText({ model, prompt: "go", tools: guarded, stopWhen: ai7.isStepCount(3) });
  assert.equal(await result.text, "done");
  assert.deepEqual(resultsIn(model.doStreamCalls), ["the page"]);
  assert.ok(await umbra.flush());
  const [row] = await server.audit({ run, kind: "outcome" }, 1);
  assert.equal((row?.["outcome"] as Record<string, unknown>)["result"], "the page");
});

test("AI SDK: effects of unknown tools are refused", () => {
  const tools = toolsOf(new Shop());
  const effects = { refunds: "read" } as unknown as { refund: "read" };
  assert.throws(
    () => guard(server.client(), tools, { effects }),
    /effects names refunds, which is no tool here: is it refund\?/,
  );
});

test("AI SDK: wrong options are refused", () => {
  for (const [options, message] of [
    [{ effect: {} }, /takes no effect; it takes effects, server, sidecar, onApproval/],
    [{ onAproval: () => {} }, /takes no onAproval; it takes effects, /],
    [{ server: 5 }, /server is a name/],
    [{ sidecar: {} }, /sidecar is a session: await umbra\.sidecar/],
    [{ onApproval: true }, /onApproval takes a function, not a boolean/],
    [null, /takes an object such as { effects }, not null/],
  ] as const) {
    assert.throws(() => guard(server.client(), toolsOf(new Shop()), options as never), { name: "TypeError", message });
  }
});
