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
  await Promise.all([...calls, refund(shifting())].map((call) => assert.rejects(call, isChanged)));
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

test("functions, instances of classes and numbers without a form in JSON are sent as markers", async () => {
  class Client {
    key = "of-the-client";
  }
  class Wrapped {
    toJSON = () => ({ id: 7 });
  }
  const client = new Client();
  const odd = {
    body: () => "of-the-source",
    client,
    list: [client, Infinity, -Infinity, 2n ** 64n],
    plain: Object.assign(Object.create(null) as object, { a: 1 }),
    wrapped: new Wrapped(),
  };
  const run = unique("markers");
  const umbra = server.client({ agent: unique("markers"), run });
  await umbra.callTool({ tool: "get_page", effect: "read", arguments: odd }, () => 1);
  const [row] = await server.audit({ run }, 1);
  assert.deepEqual(row?.["args"], {
    body: "<function>",
    client: "<Client>",
    list: ["<Client>", "<number Infinity>", "<number -Infinity>", "18446744073709551616"],
    plain: { a: 1 },
    wrapped: { id: 7 },
  });
  assert.doesNotMatch(JSON.stringify(row), /of-the-/);
});
