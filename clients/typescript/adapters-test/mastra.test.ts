/** The adapter of Mastra. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Mastra } from "@mastra/core";
import { Agent, type ToolsInput } from "@mastra/core/agent";
import { RequestContext } from "@mastra/core/request-context";
import { InMemoryStore } from "@mastra/core/storage";
import { MastraLanguageModelV2Mock } from "@mastra/core/test-utils/llm-mock";
import { createTool } from "@mastra/core/tools";
import { type ApprovalPayload, guard } from "umbra-shadow/mastra";
import { z } from "zod";

import { startServer, unique } from "../test/support.js";
import { type Call, type Outcome, type RunAgent, SCHEMAS, SECRET, Shop, testAdapter, TICKET } from "./scenarios.js";

const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };

/** Returns a model that makes the calls of each turn at the same time, and then says "done". */
function modelOf(turns: readonly (readonly Call[])[]) {
  const steps = turns.map((calls, turn) => ({
    content: calls.map(({ name, arguments: given }, at) => ({
      type: "tool-call" as const,
      toolCallId: `call_${turn}_${at}`,
      toolName: name,
      input: JSON.stringify(given),
    })),
    finishReason: "tool-calls" as const,
    usage,
    warnings: [],
  }));
  const done = {
    content: [{ type: "text" as const, text: "done" }],
    finishReason: "stop" as const,
    usage,
    warnings: [],
  };
  const answers = [...steps, done];
  let next = 0;
  return new MastraLanguageModelV2Mock({
    doGenerate: async () => {
      const answer = answers[next++];
      if (answer === undefined) throw new Error("the script is over");
      return answer;
    },
  });
}

/** Returns the results of tools in the last prompt. */
function resultsIn(model: MastraLanguageModelV2Mock): string[] {
  return (model.doGenerateCalls.at(-1)?.prompt ?? []).flatMap((message) =>
    message.role !== "tool"
      ? []
      : message.content.map(({ output }) =>
          typeof output.value === "string" ? output.value : JSON.stringify(output.value),
        ),
  );
}

function toolsOf(shop: Shop) {
  const one = <N extends keyof typeof SCHEMAS>(name: N) =>
    createTool({
      id: name,
      description: `${name} of the shop`,
      inputSchema: SCHEMAS[name] as z.ZodType<Record<string, unknown>>,
      ...(name === "open_ticket" ? { outputSchema: TICKET as z.ZodType<Record<string, unknown>> } : {}),
      execute: async (given) => shop.run(name, given),
    });
  return {
    refund: one("refund"),
    list_refunds: one("list_refunds"),
    charge: one("charge"),
    drop_table: one("drop_table"),
    open_ticket: one("open_ticket"),
  };
}

function agentOf(model: MastraLanguageModelV2Mock, tools: ToolsInput): Agent {
  // The type of the mock is none of a model under exactOptionalPropertyTypes.
  const desk = new Agent({ id: "desk", name: "desk", instructions: "help", model: model as never, tools });
  return new Mastra({ agents: { desk }, storage: new InMemoryStore(), logger: false }).getAgent("desk") as Agent;
}

const runAgent: RunAgent = async ({ umbra, options, shop, calls }) => {
  const model = modelOf(calls.map((call) => [call]));
  const agent = agentOf(model, guard(umbra, toolsOf(shop), options));
  const requestContext = new RequestContext();
  requestContext.set("secret", SECRET);
  const outcome = (result: Awaited<ReturnType<Agent["generate"]>>): Outcome => {
    const asked = (result.suspendPayload as { suspendPayload?: ApprovalPayload } | undefined)?.suspendPayload;
    return {
      read: resultsIn(model),
      said: result.finishReason === "suspended" ? undefined : result.text,
      approvalId: asked?.approvalId,
      resume: async () =>
        outcome(await agent.resumeGenerate({ approved: true }, { runId: result.runId ?? "", requestContext })),
    };
  };
  return outcome(await agent.generate("go on", { requestContext, memory: { thread: unique("t"), resource: SECRET } }));
};

const server = await startServer();
testAdapter(server, "Mastra", runAgent);

const ASKED: Call = { name: "refund", arguments: { payment: "p-1", amount: 500 } };
const ALLOWED: Call = { name: "refund", arguments: { payment: "p-2", amount: 20 } };

test("Mastra: of calls of one step that wait for an approval or run at once, each runs once", async () => {
  const umbra = server.client({ agent: unique("desk") });
  const shop = new Shop();
  const last: Call = { name: "refund", arguments: { payment: "p-4", amount: 30 } };
  const model = modelOf([[ALLOWED, ASKED, last]]);
  const agent = agentOf(model, guard(umbra, toolsOf(shop), { server: "shop" }));
  const paused = await agent.generate("go on");
  const { approvalId } = (paused.suspendPayload as { suspendPayload: ApprovalPayload }).suspendPayload;
  assert.deepEqual(shop.ran, [["refund", ALLOWED.arguments]]);
  await umbra.approvals.approve(approvalId);
  const { text } = await agent.resumeGenerate({}, { runId: paused.runId ?? "" });
  assert.equal(text, "done");
  assert.deepEqual(
    shop.ran,
    [ALLOWED, ASKED, last].map((call) => ["refund", call.arguments]),
  );
});

test("Mastra: two calls of one step that wait are approved and resumed one after another", async () => {
  const umbra = server.client({ agent: unique("desk") });
  const shop = new Shop();
  const second: Call = { name: "refund", arguments: { payment: "p-3", amount: 700 } };
  const agent = agentOf(modelOf([[ASKED, second]]), guard(umbra, toolsOf(shop), { server: "shop" }));
  let result = await agent.generate("go on");
  const { runId = "" } = result;
  for (const { arguments: given } of [ASKED, second]) {
    const { toolCallId, suspendPayload } = result.suspendPayload as {
      toolCallId: string;
      suspendPayload: ApprovalPayload;
    };
    assert.deepEqual(suspendPayload.arguments, given);
    await umbra.approvals.approve(suspendPayload.approvalId);
    result = await agent.resumeGenerate({ approved: true }, { runId, toolCallId });
  }
  assert.equal(result.text, "done");
  assert.deepEqual(shop.ran, [
    ["refund", ASKED.arguments],
    ["refund", second.arguments],
  ]);
});

test("Mastra: a call that the framework declines does not run, though it is approved", async () => {
  const agentId = unique("desk");
  const umbra = server.client({ agent: agentId });
  const shop = new Shop();
  const tools = guard(umbra, toolsOf(shop), { server: "shop" });
  const pause = async () => {
    const model = modelOf([[ASKED, ALLOWED]]);
    const agent = agentOf(model, tools);
    const { runId = "", suspendPayload } = await agent.generate("go on");
    const { toolCallId, suspendPayload: asked } = suspendPayload as {
      toolCallId: string;
      suspendPayload: ApprovalPayload;
    };
    await umbra.approvals.approve(asked.approvalId);
    return { model, agent, place: { runId, toolCallId } };
  };

  const byData = await pause();
  assert.equal((await byData.agent.resumeGenerate({ approved: false }, byData.place)).text, "done");
  assert.match(resultsIn(byData.model)[0] ?? "", /shop\.refund was not run \(declined\): it was declined; do not/);

  // The approval of the declined call is used up: the same call is asked about anew. In rehearsal it is declined too.
  const byMethod = await pause();
  await server.rehearse(agentId);
  await byMethod.agent.declineToolCallGenerate({ ...byMethod.place, reason: "too dear" });
  assert.match(resultsIn(byMethod.model)[0] ?? "", /\(declined\): it was declined: too dear; do not call it again/);
  assert.deepEqual(shop.ran, [["refund", ALLOWED.arguments]]);
});

test("Mastra: a tool gets the data of its own suspension, and not that of an approval", async () => {
  const umbra = server.client({ agent: unique("desk") });
  const resumedWith: unknown[] = [];
  const refund = createTool({
    id: "refund",
    description: "refund",
    inputSchema: SCHEMAS.refund,
    suspendSchema: z.object({ question: z.string() }),
    resumeSchema: z.object({ sure: z.boolean() }),
    execute: async ({ payment }, context) => {
      const resumeData = context.agent?.resumeData;
      resumedWith.push(resumeData);
      if (resumeData === undefined) {
        await context.agent?.suspend({ question: `refund ${payment}?` });
        return;
      }
      return { status: "refunded" };
    },
  });
  const tools = guard(umbra, { refund }, { server: "shop" });
  const questionOf = (result: { suspendPayload?: unknown }) =>
    (result.suspendPayload as { suspendPayload: Partial<ApprovalPayload> & { question?: string } }).suspendPayload;

  const asked = agentOf(modelOf([[ASKED]]), tools);
  const forApproval = await asked.generate("go on");
  await umbra.approvals.approve(questionOf(forApproval).approvalId ?? "");
  const forTool = await asked.resumeGenerate({ sure: true }, { runId: forApproval.runId ?? "" });
  assert.equal(questionOf(forTool).question, "refund p-1?");
  assert.deepEqual(resumedWith, [undefined]);

  const model = modelOf([[ALLOWED]]);
  const allowed = agentOf(model, tools);
  const paused = await allowed.generate("go on");
  assert.equal(questionOf(paused).question, "refund p-2?");
  assert.equal((await allowed.resumeGenerate({ sure: true }, { runId: paused.runId ?? "" })).text, "done");
  assert.deepEqual(resumedWith, [undefined, undefined, { sure: true }]);
  assert.match(resultsIn(model)[0] ?? "", /refunded/);
});

test("Mastra: an approved call runs, though its schema has defaults and converts", async () => {
  const umbra = server.client({ agent: unique("desk") });
  const ran: unknown[] = [];
  const refund = createTool({
    id: "refund",
    description: "refund",
    inputSchema: z.object({
      payment: z.string().transform((text) => `${text}!`),
      amount: z.coerce.number(),
      currency: z.string().default("EUR"),
    }),
    execute: async (given) => void ran.push(given),
  });
  const model = modelOf([[{ name: "refund", arguments: { payment: "p-1", amount: "500" } }]]);
  const agent = agentOf(model, guard(umbra, { refund }, { server: "shop" }));
  const paused = await agent.generate("go on");
  const asked = (paused.suspendPayload as { suspendPayload: ApprovalPayload }).suspendPayload;
  assert.deepEqual(asked.arguments, { payment: "p-1!", amount: 500, currency: "EUR" });
  await umbra.approvals.approve(asked.approvalId);
  const { text } = await agent.resumeGenerate({}, { runId: paused.runId ?? "" });
  assert.deepEqual([text, ran], ["done", [asked.arguments]]);
});

test("Mastra: effects of unknown tools are refused, and tools stay tools of Mastra", () => {
  const tools = toolsOf(new Shop());
  const guarded = guard(server.client(), tools);
  assert.equal(Object.getPrototypeOf(guarded.refund), Object.getPrototypeOf(tools.refund));
  const effects = { refunds: "read" } as unknown as { refund: "read" };
  assert.throws(
    () => guard(server.client(), tools, { effects }),
    /effects names refunds, which is no tool here: is it refund\?/,
  );
  const other = { onApproval: () => {} } as never;
  assert.throws(() => guard(server.client(), tools, other), /takes no onApproval; it takes effects, /);
});
