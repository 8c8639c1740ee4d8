/** The adapter of the OpenAI Agents SDK. */

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  Agent,
  applyPatchTool,
  computerTool,
  run as runLoop,
  RunState,
  setTracingDisabled,
  shellTool,
  tool,
} from "@openai/agents";
import { assistantMessage, functionCall, ScriptedModel } from "@openai/agents/testing";
import type { ApprovalRequired } from "umbra-shadow";
import { guard } from "umbra-shadow/openai-agents";
import { z } from "zod";

import { recorder, startServer, unique } from "../test/support.js";
import { type Call, type Outcome, type RunAgent, SCHEMAS, SECRET, Shop, testAdapter, TICKET } from "./scenarios.js";

setTracingDisabled(true);

function toolsOf(shop: Shop) {
  return Object.entries(SCHEMAS).map(([name, parameters]) =>
    tool({
      name,
      description: `${name} of the shop`,
      parameters: parameters as typeof SCHEMAS.charge,
      ...(name === "open_ticket" ? { outputSchema: TICKET } : {}),
      execute: async (given) => shop.run(name, given) as { ticket: string },
    }),
  );
}

/** Returns a model that makes the calls, one in each answer, and then says "done". */
function modelOf(calls: readonly Call[]) {
  const steps = calls.map((call, at) => [functionCall(call.name, call.arguments, { callId: `call_${at}` })]);
  return new ScriptedModel([...steps, [assistantMessage("done")]]);
}

/** Returns the results of tools in the last request. */
function resultsIn(model: ScriptedModel): string[] {
  const input = model.lastCall?.request.input ?? [];
  return (Array.isArray(input) ? input : [])
    .filter((item) => item.type === "function_call_result")
    .map((item) => {
      const { output } = item;
      if (typeof output === "string") return output;
      return "text" in output ? output.text : JSON.stringify(output);
    });
}

type Restart = "same process" | "another process";

/** Returns a runner of agents that are resumed by the same tools, or by new ones from the saved state. */
function runner(restart: Restart): RunAgent {
  return async ({ umbra, options, shop, calls }) => {
    const waiting: { approvalId?: string; waitingCall?: string | undefined } = {};
    const onApproval = ({ approvalId }: ApprovalRequired, waitingCall: string | undefined) => {
      Object.assign(waiting, { approvalId, waitingCall });
    };
    const model = modelOf(calls);
    const agentOf = () =>
      new Agent({ name: "desk", model, tools: guard(umbra, toolsOf(shop), { ...options, onApproval }) });
    const agent = agentOf();
    const outcome = (result: Awaited<ReturnType<typeof start>>): Outcome => ({
      read: resultsIn(model),
      said: result.interruptions.length ? undefined : (result.finalOutput as string | undefined),
      approvalId: waiting.approvalId,
      ...waiting,
      resume: async () => {
        const saved =
          restart === "same process" ? result.state : await RunState.fromString(agentOf(), result.state.toString());
        for (const interruption of saved.getInterruptions()) saved.approve(interruption);
        return outcome(await runLoop(restart === "same process" ? agent : agentOf(), saved as typeof result.state));
      },
    });
    const start = () => runLoop(agent, "go on", { context: { secret: SECRET } });
    return outcome(await start());
  };
}

const server = await startServer();
testAdapter(server, "OpenAI Agents", runner("same process"));
testAdapter(server, "OpenAI Agents, state restored", runner("another process"));

test("OpenAI Agents: arguments that are no JSON object run nothing, even when approved", async () => {
  const shop = new Shop();
  const note = tool({
    name: "note",
    description: "note",
    parameters: { type: "object", properties: {}, required: [], additionalProperties: true },
    strict: false,
    execute: async (one) => shop.run("note", { one }),
  });
  const tools = guard(server.client({ agent: unique("desk") }), [note]);
  for (const given of ['["p-1"]', "null", '"{}"', '{"one": ']) {
    const model = new ScriptedModel([[functionCall("note", given, { callId: "call_0" })], [assistantMessage("done")]]);
    const agent = new Agent({ name: "desk", model, tools });
    let result = await runLoop(agent, "go on");
    for (const interruption of result.interruptions) result.state.approve(interruption);
    if (result.interruptions.length) result = await runLoop(agent, result.state);
    assert.equal(result.finalOutput, "done");
    // The SDK itself answers what is no JSON at all.
    assert.match(resultsIn(model)[0] ?? "", /note was not run: .* are no JSON object|parsing tool arguments/);
  }
  assert.deepEqual(shop.ran, []);
});

test("OpenAI Agents: each call is decided once, though it is asked about twice and ids of calls repeat", async () => {
  const run = unique("run");
  const shop = new Shop();
  const tools = guard(server.client({ agent: unique("desk"), run }), toolsOf(shop), { server: "shop" });
  for (const page of [0, 0, 1]) {
    const model = modelOf([{ name: "list_refunds", arguments: { page } }]);
    await runLoop(new Agent({ name: "desk", model, tools }), "go on");
    assert.match(resultsIn(model)[0] ?? "", /old-1/);
  }
  const rows = await server.audit({ run, kind: "decision" }, 3);
  assert.deepEqual([rows.length, new Set(rows.map((row) => row["call_id"])).size, shop.ran.length], [3, 3, 3]);
});

test("OpenAI Agents: a call that was never answered does not stand in the way of another with its id", async () => {
  const shop = new Shop();
  const tools = guard(server.client({ agent: unique("desk") }), toolsOf(shop), { server: "shop" });
  for (const amount of [500, 20]) {
    const model = modelOf([{ name: "refund", arguments: { payment: "p-1", amount } }]);
    await runLoop(new Agent({ name: "desk", model, tools }), "go on");
  }
  assert.deepEqual(shop.ran, [["refund", { payment: "p-1", amount: 20 }]]);
});

test("OpenAI Agents: the tool's own approval holds as well, and hosted tools are unchanged", async () => {
  const umbra = server.client({ agent: unique("desk") });
  const shop = new Shop();
  const own = tool({
    name: "list_refunds",
    description: "list",
    parameters: z.object({ page: z.number() }),
    execute: async (given) => shop.run("list_refunds", given),
    needsApproval: async (_context, { page }) => page > 0,
  });
  const hosted = { type: "hosted_tool" as const, name: "web_search", providerData: {} };
  assert.equal(guard(umbra, [hosted])[0], hosted);
  for (const page of [1, 0]) {
    const model = modelOf([{ name: "list_refunds", arguments: { page } }]);
    const tools = guard(umbra, [own], { effects: { list_refunds: "read" } });
    const { interruptions } = await runLoop(new Agent({ name: "desk", model, tools }), "go on");
    assert.deepEqual([interruptions.length, shop.ran.length], page ? [1, 0] : [0, 1]);
  }
});

test("OpenAI Agents: a failing tool is reported as failed, and the model reads the same as without guard", async () => {
  const run = unique("run");
  const umbra = server.client({ agent: unique("desk"), run });
  const broken = tool({
    name: "get_page",
    description: "page",
    parameters: z.object({}),
    execute: async () => {
      throw new RangeError("no such page");
    },
  });
  const read = [];
  for (const tools of [[broken], guard(umbra, [broken], { effects: { get_page: "read" } })]) {
    const model = modelOf([{ name: "get_page", arguments: {} }]);
    await runLoop(new Agent({ name: "desk", model, tools }), "go on");
    read.push(resultsIn(model)[0]);
  }
  assert.match(read[0] ?? "", /error/);
  assert.equal(read[1], read[0]);
  assert.ok(await umbra.flush());
  const [row] = await server.audit({ run, kind: "outcome" }, 1);
  assert.equal((row?.["outcome"] as { status: string }).status, "error");
});

test("OpenAI Agents: the pause waits for onApproval, and an error of it ends no run", async () => {
  const logger = recorder();
  const told: string[] = [];
  const model = modelOf([{ name: "refund", arguments: { payment: "p-1", amount: 500 } }]);
  const tools = guard(server.client({ agent: unique("desk"), logger }), toolsOf(new Shop()), {
    server: "shop",
    onApproval: async ({ approvalId, tool }) => {
      assert.equal(tool, "shop.refund");
      await new Promise((resolve) => setImmediate(resolve));
      told.push(approvalId);
      throw new Error("the chat is down");
    },
  });
  const { interruptions } = await runLoop(new Agent({ name: "desk", model, tools }), "go on");
  assert.deepEqual([interruptions.length, told.length], [1, 1]);
  const warning = new RegExp(`warn umbra: onApproval failed for shop\\.refund, .* ${told[0]}: Error: the chat is down`);
  assert.match(logger.lines.join(), warning);
});

test("OpenAI Agents: a tool whose executor the boundary would not see is refused", () => {
  const umbra = server.client();
  const nothing = async () => assert.fail("it ran");
  const shell = shellTool({ shell: { run: nothing } });
  const patch = applyPatchTool({ editor: { createFile: nothing, updateFile: nothing, deleteFile: nothing } });
  const computer = computerTool({ computer: { create: nothing } as never });
  for (const one of [shell, patch, computer]) {
    assert.throws(() => guard(umbra, [one]), {
      name: "TypeError",
      message: new RegExp(`${one.name} .*no function tool, .*make it a function tool by tool`),
    });
  }
  assert.throws(() => guard(umbra, [nothing as never]), /is made by tool\({ name, ... }\)/);
});

test("OpenAI Agents: effects of unknown tools are refused", () => {
  const tools = toolsOf(new Shop());
  assert.throws(
    () => guard(server.client(), tools, { effects: { refunds: "read" } }),
    /effects names refunds, which is no tool here: is it refund\?/,
  );
});
