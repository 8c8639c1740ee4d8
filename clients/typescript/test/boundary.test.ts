/** The execution boundary around tools: live, in rehearsal, and while the server is away. */

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  APIError,
  ApprovalRequired,
  Blocked,
  type DecideCall,
  StubFault,
  Umbra,
  Unavailable,
  UndecidedCall,
} from "umbra-shadow";

import {
  PATIENT_MS,
  Peer,
  quiet,
  recorder,
  startKeyedServer,
  startServer,
  unique,
  until,
  vacantAddress,
} from "./support.js";

const server = await startServer();

/** Returns tools of a shop, and the calls that ran. */
function shop(umbra: Umbra) {
  const ran: unknown[] = [];
  const refund = umbra.tool(
    { name: "refund", server: "shop", effect: "destructive" },
    (args: { payment: string; amount: number }) => {
      ran.push(["refund", args]);
      return { id: "real-1", status: "refunded" };
    },
  );
  const getRefund = umbra.tool(
    { name: "get_refund", server: "shop", effect: "read" },
    async ({ id }: { id: string }) => {
      ran.push(["get_refund", id]);
      return { id, status: "settled" };
    },
  );
  const listRefunds = umbra.tool(
    { name: "list_refunds", server: "shop", effect: "read" },
    ({ page }: { page: number }) => ({
      data: [{ id: `old-${page}`, status: "settled" }],
      next: page ? null : "1",
    }),
  );
  return { ran, refund, getRefund, listRefunds };
}

function isBlocked(reason: string, kind: typeof Blocked | typeof ApprovalRequired = Blocked) {
  return (error: unknown) => {
    assert.ok(error instanceof kind, String(error));
    assert.equal(error.reason, reason);
    return true;
  };
}

async function rehearsal(): Promise<Umbra> {
  const agent = unique("rehearsal");
  await server.rehearse(agent);
  return server.client({ agent, session: "s", run: unique("r"), seed: "7" });
}

test("the caller has the result before its outcome is reported", async () => {
  const asked: string[] = [];
  const sent: typeof fetch = (input, init) => {
    asked.push(new URL(String(input)).pathname.split("/").at(-1) ?? "");
    return fetch(input, init);
  };
  const umbra = server.client({ agent: unique("quick"), fetch: sent });
  const calls = Array.from({ length: 20 }, () => umbra.callTool({ tool: "get_page", effect: "read" }, () => "page"));
  await Promise.race(calls);
  assert.deepEqual(asked, Array(20).fill("decide"));
  await Promise.all(calls);
  assert.equal(await umbra.flush(PATIENT_MS), true);
  assert.equal(asked.filter((one) => one === "outcome").length, 20);
});

test("in live a call runs, its result passes unchanged, and its outcome is in the audit", async () => {
  const run = unique("live");
  const umbra = server.client({ agent: unique("live"), run });
  const { refund, ran } = shop(umbra);
  assert.deepEqual(await refund({ payment: "p-1", amount: 20 }), { id: "real-1", status: "refunded" });
  assert.deepEqual(ran, [["refund", { payment: "p-1", amount: 20 }]]);
  const failing = umbra.tool({ name: "get_page", effect: "read" }, (): string => {
    throw new RangeError("no such page");
  });
  await assert.rejects(failing(), RangeError);
  assert.equal(await umbra.flush(PATIENT_MS), true);
  const outcomes = (await server.audit({ run, kind: "outcome" }, 2)).map(
    (row) => row["outcome"] as Record<string, unknown>,
  );
  assert.deepEqual(outcomes[0]?.["result"], { id: "real-1", status: "refunded" });
  assert.equal(outcomes[1]?.["status"], "error");
  assert.equal(outcomes[1]?.["error"], "RangeError: no such page");
});

test("only the first parameter is told to the server, not the framework's context", async () => {
  const run = unique("context");
  const umbra = server.client({ agent: unique("live"), run });
  const look = umbra.tool(
    { name: "get_order", effect: "read" },
    (args: { id: string }, framework: { secret: string }) => [args.id, framework.secret],
  );
  assert.deepEqual(await look({ id: "o-1" }, { secret: "of-the-framework" }), ["o-1", "of-the-framework"]);
  const [row] = await server.audit({ run }, 1);
  assert.deepEqual(row?.["args"], { id: "o-1" });
  assert.ok(!JSON.stringify(row).includes("of-the-framework"));
});

test("rules and schemas hold, and a refusal says why", async () => {
  for (const umbra of [server.client({ agent: unique("live") }), await rehearsal()]) {
    const { refund, ran } = shop(umbra);
    await assert.rejects(refund({ payment: "p", amount: -1 }), isBlocked("invalid_arguments"));
    await assert.rejects(refund({ payment: "p", amount: 5_000 }), (error) => {
      assert.ok(error instanceof Blocked);
      assert.deepEqual([error.tool, error.reason, error.rule], ["shop.refund", "policy", "no-large-refunds"]);
      assert.match(error.message, /shop\.refund was not run \(policy\): .*made by a person/);
      return true;
    });
    const careful = umbra.context({ modes: ["careful"] }, () => refund({ payment: "p", amount: 20 }));
    await assert.rejects(careful, (error) => error instanceof Blocked && error.rule === "careful-mode-refunds-nothing");
    assert.deepEqual(ran, []);
  }
});

test("a call that needs an approval runs once a person approved it, and once only", async () => {
  const umbra = server.client({ agent: unique("desk") });
  const { refund, ran } = shop(umbra);
  const asked = await refund({ payment: "p-1", amount: 500 }).catch((error: unknown) => error);
  assert.ok(asked instanceof ApprovalRequired);
  assert.match(asked.approvalId, /^apr_/);
  assert.ok(Date.parse(asked.expiresAt) > Date.now());
  assert.match(asked.detail, new RegExp(`A person must approve ${asked.approvalId}`));
  await umbra.approvals.approve(asked.approvalId, "spoke with the customer");
  assert.equal((await refund({ payment: "p-1", amount: 500 })).id, "real-1");
  await assert.rejects(refund({ payment: "p-1", amount: 500 }), isBlocked("approval_required", ApprovalRequired));
  assert.equal(ran.length, 1);
});

test("a call that needs an approval gets it within guardrails, and a plain function does not run", async () => {
  const umbra = server.client({ agent: unique("asked"), logger: quiet });
  const { refund, ran } = shop(umbra);
  await umbra.sidecar({ task: "refund" }, async (s) => {
    const plain = s.guardrails("enforce", { name: "refund", server: "shop" })((_: { amount: number }) => "refunded");
    await assert.rejects(plain({ amount: 500 }), isBlocked("policy"));
    await s.guardrails("enforce").run(async () => {
      const asked = await refund({ payment: "p-1", amount: 500 }).catch((error: unknown) => error);
      assert.ok(asked instanceof ApprovalRequired, String(asked));
      await umbra.approvals.approve(asked.approvalId, "spoke with the customer");
      assert.equal((await refund({ payment: "p-1", amount: 500 })).id, "real-1");
    });
    assert.equal(s.interventions.length, 1);
  });
  assert.equal(ran.length, 1);
});

test("a rehearsal reads what it only seemed to write", async () => {
  const { refund, getRefund, listRefunds, ran } = shop(await rehearsal());
  const made = await refund({ payment: "p-1", amount: 49.99 });
  assert.deepEqual(made, { id: "shadow-1", status: "refunded" });
  assert.deepEqual(await getRefund({ id: "shadow-1" }), made);
  const pages = [await listRefunds({ page: 0 }), await listRefunds({ page: 1 })];
  assert.deepEqual(
    pages.map((page) => page.data.map((one) => one.id)),
    [["old-0"], ["old-1", "shadow-1"]],
  );
  assert.equal((await getRefund({ id: "old-1" })).status, "settled");
  assert.deepEqual(ran, [["get_refund", "old-1"]]);
});

test("without a run the process remembers what it only seemed to write", async () => {
  const agent = unique("rehearsal");
  await server.rehearse(agent);
  const { refund, getRefund, ran } = shop(server.client({ agent }));
  const made = [await refund({ payment: "p-1", amount: 1 }), await refund({ payment: "p-2", amount: 1 })];
  assert.deepEqual(
    made.map((one) => one.id),
    ["shadow-1", "shadow-2"],
  );
  assert.equal((await getRefund({ id: "shadow-2" })).status, "refunded");
  assert.deepEqual(ran, []);
});

test("without a contract the tool's own stub is returned as it is, or nothing runs", async () => {
  const umbra = await rehearsal();
  const nothing = () => assert.fail("it ran");
  const when = new Date(0);
  for (const stub of [{ status: "sent", at: when }, null, "text", 0, false]) {
    const send = umbra.tool<[{ to: string }], unknown>({ name: "send_mail", effect: "write", stub }, nothing);
    assert.equal(await send({ to: "a@example.com" }), stub);
  }
  const made = umbra.tool(
    { name: "send_mail", effect: "write", stub: ({ to }: { to: string }) => ({ to }) },
    nothing as never,
  );
  assert.deepEqual(await made({ to: "a@example.com" }), { to: "a@example.com" });
  await assert.rejects(
    umbra.callTool({ tool: "post_note", effect: "write", arguments: { text: "hi" } }, nothing),
    isBlocked("no_contract"),
  );
  const mine = { id: "mine", status: "x", at: when };
  const call = { tool: "shop.refund", arguments: { payment: "p", amount: 2 }, stubOverride: mine };
  assert.equal(await umbra.callTool(call, nothing as never), mine);
  const schema = { type: "object", required: ["id"] };
  const wrong = umbra.callTool<unknown>(
    { tool: "settle", effect: "write", stub: { status: "gone" }, outputSchema: schema },
    nothing,
  );
  await assert.rejects(wrong, isBlocked("invalid_stub"));
});

test("a stub that cannot be made matters only where it is needed", async () => {
  const broken = () => {
    throw new EvalError("no stub");
  };
  const call = { tool: "post_note", effect: "write", arguments: { text: "hi" }, stub: broken } as const;
  const live = server.client({ agent: unique("live") });
  assert.equal(await live.callTool<string>(call, () => "posted"), "posted");
  await assert.rejects(
    (await rehearsal()).callTool<string>(call, () => "posted"),
    EvalError,
  );
});

test("a fault of a contract is thrown as the tool's", async () => {
  const umbra = await rehearsal();
  const call: DecideCall = {
    tool: { server: "shop", name: "charge" },
    arguments: {},
    run: unique("faulty"),
    faults: true,
  };
  assert.equal((await umbra.decide(call)).stub?.fault, "rate_limited");
  // The first call of the run asked for faults: they hold for the run.
  await assert.rejects(
    umbra.callTool({ tool: "shop.charge", run: call.run as string }, () => "charged"),
    (error) => {
      return error instanceof StubFault && error.fault === "rate_limited" && error.tool === "shop.charge";
    },
  );
});

test("the context is that of the calls within, also across awaits and at the same time", async () => {
  const umbra = server.client({ agent: unique("context"), run: unique("outer") });
  const look = umbra.tool({ name: "get_order", effect: "read" }, async () => {
    await new Promise((resolve) => setImmediate(resolve));
    return "order";
  });
  const runs = [unique("a"), unique("b")];
  const nested = async (run: string) => {
    await look();
    await umbra.context({ run: `${run}-inner`, route: "/deep", modes: ["two"] }, () => look());
  };
  await Promise.all(runs.map((run) => umbra.context({ run, session: `s-${run}`, modes: ["one"] }, () => nested(run))));
  await umbra.callTool({ tool: "get_order", effect: "read", run: `${runs[0]}-explicit`, agent: "another" }, () => 1);
  for (const run of runs) {
    const [row] = await server.audit({ run }, 1);
    assert.deepEqual([row?.["session"], row?.["route"] ?? null], [`s-${run}`, null]);
    const [inner] = await server.audit({ run: `${run}-inner` }, 1);
    assert.deepEqual([inner?.["session"], inner?.["route"]], [`s-${run}`, "/deep"]);
  }
  const [explicit] = await server.audit({ run: `${runs[0]}-explicit` }, 1);
  assert.equal(explicit?.["agent"], "another");
  assert.throws(() => umbra.context({ modes: "careful" as never }, () => 1), /modes is a list of names/);
});

test("a run within a run inherits its shadow", async () => {
  const umbra = await rehearsal();
  const call: DecideCall = { tool: { name: "post_note" }, stub_override: 1 };
  assert.equal((await umbra.decide(call)).execution, "shadow");
  const lift = { scope: "agent", value: umbra.agent, execution: null, reason: "done" } as const;
  await umbra.request("put", "/v1/execution", { body: lift });
  // The named run stays in shadow, and so does a run within it; another run is live.
  assert.equal((await umbra.context({ run: unique("child") }, () => umbra.decide(call))).execution, "shadow");
  const child = { ...call, run: unique("child"), parent_run: unique("other") };
  assert.equal((await umbra.decide(child)).execution, "live");
});

test("AGENT_SAFE_MODE stops live calls that change something", async () => {
  const { refund, getRefund, ran } = shop(server.client({ agent: unique("live") }));
  for (const [name, value] of [
    ["AGENT_SAFE_MODE", "true"],
    ["agent_safe_mode", "on"],
  ] as const) {
    process.env[name] = value;
    try {
      await assert.rejects(refund({ payment: "p", amount: 2 }), isBlocked("safe_mode_mismatch"));
      assert.equal((await getRefund({ id: "a" })).id, "a");
    } finally {
      delete process.env[name];
    }
  }
  assert.deepEqual(ran, [
    ["get_refund", "a"],
    ["get_refund", "a"],
  ]);
  process.env["AGENT_SAFE_MODE"] = "off";
  assert.equal((await refund({ payment: "p", amount: 2 })).id, "real-1");
  delete process.env["AGENT_SAFE_MODE"];
});

test("without a server, declared reads run and nothing else does", async () => {
  const { lines, ...logger } = recorder();
  const umbra = new Umbra({ url: await vacantAddress(), agent: "away", logger });
  assert.equal(await umbra.callTool({ tool: "get_page", effect: "read" }, () => "page"), "page");
  assert.match(lines.join(), /did not answer.*ECONNREFUSED.*get_page reads, so it runs all the same/);
  for (const effect of ["write", "destructive", undefined] as const) {
    await assert.rejects(
      umbra.callTool({ tool: "x.do", effect }, () => assert.fail("it ran")),
      (error) => {
        assert.ok(isBlocked("unavailable")(error) && error instanceof UndecidedCall);
        assert.ok(error.cause instanceof Unavailable);
        assert.equal(error.message, "x.do was not run (unavailable): Umbra did not answer");
        return true;
      },
    );
  }
  await assert.rejects(umbra.decide({ tool: { name: "x" } }), Unavailable);
});

test("a tool that the server has called no read does not run while the server is frozen", async () => {
  const agent = unique("frozen");
  // Only the questions to a frozen server are to be late.
  const logger = recorder();
  const umbra = server.client({ agent, decisionTimeoutMs: 300, logger });
  const refund = umbra.tool(
    { name: "refund", server: "shop", effect: "read" },
    (_: { payment: string; amount: number }) => assert.fail("it ran"),
  );
  const getRefund = umbra.tool({ name: "get_refund", server: "shop", effect: "read" }, ({ id }: { id: string }) => id);
  for (const [name, given, answer] of [
    ["refund", { payment: "p", amount: 500 }, "ask"],
    ["get_refund", { id: "a" }, "execute"],
  ] as const) {
    const call = { tool: { server: "shop", name }, arguments: given, declared_effect: "read" } as const;
    assert.equal((await umbra.decide(call, { timeoutMs: PATIENT_MS })).decision, answer);
  }
  const told = logger.lines.filter((line) => line.includes("is declared a read, and counts as none"));
  assert.equal(told.length, 1, logger.lines.join());
  assert.match(told[0] ?? "", /shop\.refund/);
  await server.freeze();
  try {
    const began = performance.now();
    await assert.rejects(refund({ payment: "p", amount: 20 }), (error) => {
      return (
        error instanceof Blocked &&
        /within 300 ms; it is declared a read, but the server has said that it is none/.test(error.detail)
      );
    });
    assert.ok(performance.now() - began < 10_000);
    assert.equal(await getRefund({ id: "b" }), "b");
  } finally {
    server.thaw();
  }
  assert.equal(
    (await server.client({ agent }).decide({ tool: { name: "get_refund", server: "shop" } })).decision,
    "execute",
  );
});

test("an outcome waits for the server, and flush tells whether it was heard", async () => {
  const peer = await new Peer(server.url).listen();
  await using _ = peer;
  const run = unique("outcome");
  const umbra = server.client({ url: peer.url, agent: unique("live"), run });
  await umbra.callTool({ tool: "get_page", effect: "read" }, () => {
    peer.behaviour = "cut";
    peer.cut();
    return "page";
  });
  assert.equal(await umbra.flush(50), false);
  peer.behaviour = "pass";
  assert.equal(await umbra.flush(PATIENT_MS), true);
  const [row] = await server.audit({ run, kind: "outcome" }, 1);
  assert.equal((row?.["outcome"] as { result: string }).result, "page");
});

test("outcomes that a server never takes hold up no others, and are told", async () => {
  const taken: string[] = [];
  const answer: typeof fetch = async (input) => {
    const call = String(input).split("/").at(-2) ?? "";
    if (call.startsWith("lost")) return Response.json({ detail: "a fault" }, { status: 500 });
    taken.push(call);
    return Response.json({});
  };
  const { lines, ...logger } = recorder();
  const umbra = new Umbra({ url: "http://127.0.0.1:1", fetch: answer, logger });
  const calls = [...Array.from({ length: 8 }, (_, n) => `lost-${n}`), "kept"];
  for (const call of calls) umbra.report(call, { status: "ok" });
  assert.equal(await umbra.flush(PATIENT_MS), true);
  assert.deepEqual(taken, ["kept"]);
  assert.equal(lines.length, 8);
  assert.match(lines[0] ?? "", /the outcome of call lost-\d is not reported: .* answered 500 .*: a fault/);
});

test("decide and report leave it to the caller to run", async () => {
  const run = unique("own");
  const umbra = server.client({ agent: unique("live"), run });
  const decision = await umbra.decide({
    call_id: unique("c"),
    tool: { server: "shop", name: "get_refund" },
    arguments: { id: "a" },
  });
  assert.deepEqual([decision.decision, decision.effect, decision.effect_source], ["execute", "read", "contract"]);
  umbra.report(decision.call_id, { status: "ok", result: { id: "a" } });
  assert.equal(await umbra.flush(PATIENT_MS), true);
  assert.equal((await server.audit({ run, kind: "outcome" }, 1)).length, 1);
});

test("an answer about another call decides nothing", async () => {
  const answer = (call_id: string) => async () =>
    Response.json({ call_id, decision: "execute", execution: "live", effect: "write" });
  const call = { tool: "mail.send", effect: "write", callId: "mine" } as const;
  const umbra = (call_id: string) => new Umbra({ fetch: answer(call_id), logger: quiet });
  await assert.rejects(
    umbra("another").callTool(call, () => assert.fail("it ran")),
    (error) => error instanceof UndecidedCall && /answered about call another, not mine/.test(error.detail),
  );
  await assert.rejects(umbra("another").decide({ call_id: "mine", tool: { name: "send" } }), Unavailable);
  // The server marks an id that has the form of a secret.
  assert.equal(await umbra("[secret:github_token:3f]").callTool(call, () => "sent"), "sent");
});

test("a refused key is told once to the operator, and not to the model", async () => {
  const { server: keyed, key } = await startKeyedServer();
  for (const [apiKey, status] of [
    [undefined, 401],
    [key, 403],
  ] as const) {
    const { lines, ...logger } = recorder();
    const { refund, ran } = shop(keyed.client({ agent: unique("coder"), apiKey, logger }));
    for (const amount of [1, 2]) {
      const error: unknown = await refund({ payment: "p", amount }).catch((error: unknown) => error);
      assert.ok(error instanceof Blocked && error.cause instanceof APIError, String(error));
      assert.match(error.message, /no decision about this agent's calls can be had/);
      assert.doesNotMatch(error.message, /key/);
    }
    assert.deepEqual([lines.length, ran.length], [1, 0]);
    assert.match(lines[0] ?? "", new RegExp(`so none runs: POST /v1/decide was refused .${status}`));
  }
});

test("a server that is away is told once to the operator, until it answers", async () => {
  const peer = await new Peer(server.url).listen();
  await using _ = peer;
  const { lines, ...logger } = recorder();
  const umbra = server.client({ url: peer.url, agent: unique("live"), logger });
  const note = () => umbra.callTool({ tool: "post_note", effect: "write" }, () => "posted");
  for (let absence = 1; absence <= 2; absence++) {
    peer.behaviour = "cut";
    peer.cut();
    for (let call = 0; call < 2; call++) await assert.rejects(note(), UndecidedCall);
    assert.equal(lines.length, absence);
    peer.behaviour = "pass";
    assert.equal(await note(), "posted");
  }
  assert.match(lines[1] ?? "", /calls that may change something do not run, such as that of post_note/);
});

test("a cancelled question is no call", async () => {
  const peer = await new Peer().listen();
  await using _ = peer;
  peer.behaviour = "hang";
  const stop = new AbortController();
  const umbra = new Umbra({ url: peer.url, decisionTimeoutMs: PATIENT_MS, logger: quiet });
  const call = umbra.callTool({ tool: "get_page", effect: "read", signal: stop.signal }, () => assert.fail("it ran"));
  const ended = assert.rejects(call, /the user left/);
  await until("the question", () => (peer.received.includes("/v1/decide") ? true : undefined));
  stop.abort(new Error("the user left"));
  await ended;
});

test("a program that computes for long does not lose an answer that has come", async () => {
  const umbra = server.client({ agent: unique("busy"), decisionTimeoutMs: 1_000 });
  const { refund } = shop(umbra);
  const refused = assert.rejects(refund({ payment: "p", amount: 5_000 }), isBlocked("policy"));
  // The question must be on its way before the event loop is held up.
  for (let n = 0; n < 20; n++) await new Promise((resolve) => setImmediate(resolve));
  const end = performance.now() + 1_500;
  while (performance.now() < end);
  await refused;
});

test("arguments and results of any form reach their rules and their caller", async () => {
  const umbra = server.client({ agent: unique("odd"), run: unique("odd") });
  const circular: Record<string, unknown> = {};
  circular["self"] = [circular, circular];
  const echo = (result: unknown) => umbra.callTool({ tool: "get_page", effect: "read" }, () => result);
  assert.equal(await echo(circular), circular);
  const many = Array.from({ length: 300_000 }, (_, n) => n);
  assert.equal(await echo(many), many);
  assert.equal(await echo(undefined), undefined);
  await assert.rejects(
    umbra.callTool({ tool: "get_page", effect: "read", arguments: circular }, () => 1),
    isBlocked("unreadable"),
  );
  const long = umbra.callTool({ tool: "get_page", effect: "read", arguments: { many } }, () => 1);
  await assert.rejects(long, isBlocked("unreadable"));
  const odd = {
    at: new Date(0),
    big: 12n,
    set: new Set([1]),
    map: new Map([["a", 1]]),
    bytes: new TextEncoder().encode("x"),
    none: undefined,
    not: Number.NaN,
    url: new URL("https://a.example/"),
    query: new URLSearchParams("q=1"),
    half: "\ud800",
    boxed: [new String("x"), new Number(7), new Boolean(false)],
  };
  const run = unique("values");
  await umbra.callTool({ tool: "get_page", effect: "read", run, arguments: odd }, () => 1);
  const [row] = await server.audit({ run }, 1);
  assert.deepEqual(row?.["args"], {
    at: "1970-01-01T00:00:00.000Z",
    big: "12",
    boxed: ["x", 7, false],
    bytes: "x",
    half: "\ufffd",
    map: { a: 1 },
    not: "<number NaN>",
    query: "q=1",
    set: [1],
    url: "https://a.example/",
  });
});

test("unequal bytes are unequal arguments", async () => {
  const texts = ["naïve", "naïve\0", "a\\xff", "a\\x5cxff", "\ufeffa", "a", "\ufffd"];
  const bytes: Uint8Array[] = texts.map((text) => new TextEncoder().encode(text));
  bytes.push(Uint8Array.of(0x61, 0xff), Uint8Array.of(0x61, 0xfe), Buffer.from([0xef, 0xbf]), Buffer.from("buffer"));
  let question = "";
  const sent: typeof fetch = (input, init) => {
    if (String(input).endsWith("/decide")) question = String(init?.body);
    return fetch(input, init);
  };
  const umbra = server.client({ agent: unique("odd"), fetch: sent });
  const all = { bytes, buffer: Uint8Array.of(0xe9, 0).buffer };
  await umbra.callTool({ tool: "get_page", effect: "read", arguments: all }, () => 1);
  const told = ["naïve", "naïve\\x00", "a\\x5cxff", "a\\x5cx5cxff", "\ufeffa", "a", "\ufffd"];
  const odd = ["a\\xff", "a\\xfe", "\\xef\\xbf", "buffer"];
  const { arguments: asked } = JSON.parse(question) as { arguments: unknown };
  assert.deepEqual(asked, { bytes: [...told, ...odd], buffer: "\\xe9\\x00" });
});

test("a call that the server cannot judge is blocked with the faults that the model can mend", async () => {
  const umbra = server.client({ agent: unique("coder") });
  let deep: unknown = 1;
  for (let level = 0; level < 50; level++) deep = [deep];
  const nul = { a: "1\u0000", b: "2\u0000", c: "3\u0000", d: "4\u0000" };
  for (const [given, text] of [
    [{ a: deep }, /^Umbra refused the question: .*: \/arguments\/a\/0\S*: .*nested more than 32 deep/],
    [nul, /: \/arguments\/a: contains U\+0000.*; \/arguments\/b: contains U\+0000.*; \/arguments\/c: [^;]*$/],
  ] as const) {
    await assert.rejects(
      umbra.callTool({ tool: "get_x", arguments: given, effect: "read" }, () => assert.fail("it ran")),
      (error) => isBlocked("invalid_request")(error) && text.test((error as Blocked).detail),
    );
  }
});

test("a wrong tool or call is refused at once", async () => {
  const umbra = server.client();
  assert.throws(
    () => umbra.tool({ name: "x", effect: "harmless" as "read" }, () => 1),
    /effect is one of read, write, destructive/,
  );
  assert.throws(() => umbra.tool({ name: "" }, () => 1), /a tool needs its name/);
  assert.throws(() => umbra.tool({ name: "x" }, function* () {}), /is a generator/);
  assert.throws(() => umbra.tool({ name: "x" }, async function* () {}), /is a generator/);
  const tool = umbra.tool({ name: "get_x" }, (args: object) => args);
  await assert.rejects(tool("text" as never), /get_x takes one object of named arguments, not a string/);
  await assert.rejects(tool([1] as never), /not a list/);
  await assert.rejects(
    umbra.callTool({ tool: "get_x", arguments: '{"id": 1}' as never }, () => 1),
    /one object of named values, not a string/,
  );
  await assert.rejects(
    umbra.callTool({ tool: "n".repeat(600), effect: "read" }, () => assert.fail("it ran")),
    (error) => {
      return error instanceof Blocked && error.cause instanceof APIError && error.cause.status === 400;
    },
  );
});
