/** Sessions that are resumed by their ids. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { NotUpdated, type Sidecar, Unavailable } from "umbra-shadow";

import { recorder, startServer, unique } from "./support.js";

const server = await startServer();
const EDIT = { tool: { server: "files", name: "edit_file" }, arguments: { path: "date.ts", text: "fix" } };
const DROP = { tool: { server: "db", name: "drop_table" }, arguments: { table: "users" } };
const TODO = "# Todo\n\n## Plan\n\n- [ ] find the bug\n";

test("a session is resumed by its id, in another process too", async () => {
  const umbra = server.client({ agent: unique("coder") });
  const documents = { todo: TODO };
  const id = await umbra.sidecar({ task: "fix it", route: "edit", modes: ["careful"], documents }, begin, {
    close: false,
  });
  async function begin(s: Sidecar): Promise<string> {
    await s.turn();
    await (await s.document("todo")).edit({ op: "append_item", section: "plan", text: "before" });
    return s.id as string;
  }
  {
    await using s = await umbra.sidecar({}, { id, close: false });
    await assert.rejects(s.ensureUpdated("todo"), NotUpdated);
    assert.match((await s.document("todo")).text, /before/);
  }
  {
    await using s = await server.client({ agent: umbra.agent }).sidecar({}, { id });
    assert.deepEqual([s.id, s.task, s.route, s.modes, s.degraded], [id, "fix it", "edit", ["careful"], false]);
    assert.equal((await s.turn({ planned_calls: [EDIT] })).turn, 2);
    await assert.rejects(s.ensureUpdated("todo", { section: "Plan" }), NotUpdated);
    await (await s.document("todo")).edit({ op: "append_item", section: "plan", text: "more" });
    await s.ensureUpdated("todo", { section: "Plan" });
  }
});

test("a session that cannot be resumed stops no agent", async () => {
  const agent = unique("coder");
  const closed = await server.client({ agent }).sidecar({ task: "fix it", route: "edit" }, (s) => s.id ?? "");
  for (const [id, why] of [
    [closed, /it is closed/],
    ["ses_00000000000000000000000000000000", /session not found/],
  ] as const) {
    const { lines, ...logger } = recorder();
    const umbra = server.client({ agent, logger });
    const s = await umbra.sidecar({}, { id });
    assert.equal(s.degraded, true);
    assert.match(s.warnings.join(), why);
    assert.equal((await s.turn()).degraded, true);
    assert.equal((await s.document("todo")).degraded, true);
    // The rules hold without a session.
    assert.deepEqual([(await s.guard({ call: DROP })).rule, s.task], ["no-drop", id === closed ? "fix it" : undefined]);
    assert.equal(await s.guardrails("enforce", { name: "look" })(() => "ran")(), "ran");
    await s.close("succeeded");
    assert.equal(lines.length, 1, lines.join());
    assert.match(lines[0] ?? "", new RegExp(`the session ${id} cannot be resumed: .*call umbra.sidecar without an id`));
    await assert.rejects(
      umbra.sidecar({}, { id, strict: true }),
      (error) => error instanceof Unavailable && error.message.includes(id),
    );
  }
});
