/** Arguments that run are those that were decided, and those that the server is told. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Blocked, Umbra } from "umbra-shadow";

import { quiet, startServer, unique, vacantAddress } from "./support.js";

const server = await startServer();

const isChanged = (error: unknown) => error instanceof Blocked && error.reason === "arguments_changed";

/** Returns arguments that are other ones from the second reading on. */
function shifting(): { payment: string; amount: number } {
  let reads = 0;
  return {
    payment: "p",
    get amount() {
      reads += 1;
      return reads === 1 ? 1 : 99_999;
    },
  };
}

test("arguments that change while the call is decided do not run", async () => {
  const umbra = server.client({ agent: unique("changed") });
  const ran: unknown[] = [];
  const refund = umbra.tool({ name: "refund", server: "shop" }, (args: { payment: string; amount: number }) =>
    ran.push(args.amount),
  );
  const given = { payment: "p", amount: 1 };
  const calls = [
    umbra.callTool({ tool: "shop.refund", arguments: given }, () => ran.push(given.amount)),
    refund(given),
  ];
  given.amount = 8_888;
  for (const call of [...calls, refund(shifting())]) await assert.rejects(call, isChanged);
  assert.equal(ran.length, 0);
  await refund({ payment: "p", amount: 2 });
  const away = new Umbra({ url: await vacantAddress(), logger: quiet });
  await away.callTool({ tool: "look", effect: "read", arguments: shifting() }, () => ran.push("away"));
  assert.deepEqual(ran, [2, "away"]);
});

test("arguments that change while the rules are asked do not run under enforce", async () => {
  await using s = await server.client({ agent: unique("changed") }).sidecar();
  const ran: unknown[] = [];
  const run = (args: { payment: string; amount: number }) => ran.push(args.amount);
  await assert.rejects(s.guardrails("enforce", { name: "pay" })(run)(shifting()), isChanged);
  await s.guardrails("warn", { name: "pay" })(run)(shifting());
  const away = await new Umbra({ url: await vacantAddress(), logger: quiet }).sidecar();
  await away.guardrails("enforce", { name: "pay" })(run)(shifting());
  assert.deepEqual(ran, [99_999, 99_999]);
});
