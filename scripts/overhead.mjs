// Times of calls by the TypeScript client and by the bare request, for scripts/overhead.sh: overhead.mjs URL ROUNDS
import { randomUUID } from "node:crypto";

import { Umbra } from "../clients/typescript/dist/index.js";

const [url, rounds] = [process.argv[2], Number(process.argv[3])];
const given = { to: "ann@example.com", subject: "Your order", text: "It left our warehouse today. ".repeat(30) };
const tool = { server: "mail", name: "send_email" };
/** Rounds before the measured ones, in which connections are made and code gets warm. */
const WARM = 200;

const umbra = new Umbra({ url, agent: "overhead", run: "overhead", decisionTimeoutMs: 60_000 });
const sendEmail = umbra.tool({ ...tool, effect: "write" }, async () => "sent");
const s = await umbra.sidecar();

async function byHand(path, body) {
  const headers = { "content-type": "application/json" };
  return (await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

/** Returns the body of a decision, as the client sends it. */
function decision() {
  const call = { call_id: randomUUID(), agent: "overhead", run: "overhead", deadline_ms: 60_000 };
  return { ...call, tool, arguments: given, declared_effect: "write" };
}

// Each group begins with its bare request.
const call = { tool, arguments: given };
const groups = [
  {
    "decision: fetch": () => byHand("/v1/decide", decision()),
    "umbra.decide": () => umbra.decide({ ...call, declared_effect: "write" }),
    "umbra.tool": () => sendEmail(given),
  },
  {
    "question to the sidecar: fetch": () => byHand("/v1/guard", { session: s.id, call, deadline_ms: 54_000 }),
    "s.guard": () => s.guard({ call }),
  },
];
const kinds = groups.flatMap(Object.entries);
const times = new Map(kinds.map(([name]) => [name, []]));
for (let turn = -WARM; turn < rounds; turn++) {
  kinds.sort(() => Math.random() - 0.5);
  for (const [name, make] of kinds) {
    const began = performance.now();
    const answer = await make();
    const took = performance.now() - began;
    if (answer !== "sent" && !["execute", "allow"].includes(answer.decision)) throw new Error(JSON.stringify(answer));
    await umbra.flush(60_000);
    if (turn >= 0) times.get(name).push(took);
  }
}
await s.close();

for (const group of groups) {
  const [bare] = Object.keys(group);
  for (const name of Object.keys(group)) {
    const [middle, late] = [quantile(name, 0.5), quantile(name, 0.99)];
    const figures = [middle, late, middle / quantile(bare, 0.5)].map((one) => one.toFixed(2).padStart(8));
    console.log(`TypeScript, ${name}`.padEnd(52) + figures.join(""));
  }
}

/** Returns the time that a share of the calls took at most, in milliseconds. */
function quantile(name, share) {
  const sorted = times.get(name).sort((a, b) => a - b);
  return sorted[Math.floor(share * (sorted.length - 1))];
}
