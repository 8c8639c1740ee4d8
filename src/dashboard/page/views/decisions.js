// Decisions: whether calls run now and why, runs that stay in shadow, and what was decided about each call.
import { agentLink, card, cell, empty, h, soft, table, tag, when, words } from "../dom.js";
import { filters, maybe, select, text } from "./parts.js";

const DECISIONS = ["execute", "stub", "ask", "block"];
const EFFECTS = ["read", "write", "destructive"];
const EXECUTIONS = ["live", "shadow"];
const KIND = { execute: "good", stub: "info", ask: "warning", block: "critical" };
const ROWS = 100;

export async function decisions({ ask, act, query }) {
  const asked = new URLSearchParams([...Object.entries(query).filter(([, value]) => value), ["order", "desc"], ["limit", ROWS]]);
  const [lines, execution, runs] = await Promise.all([ask(`/v1/audit?${asked}`, { accept: "application/x-ndjson" }), maybe(ask("/v1/execution")), maybe(ask("/v1/runs?in_shadow=true"))]);
  const rows = lines.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  const staying = (runs?.items ?? []).filter((one) => one.stays_in_shadow);
  return [
    h("h1", null, "Decisions"),
    execution ? inForce(execution, { ask, act }) : null,
    staying.length ? stays(staying, { ask, act }) : null,
    h("h2", null, "Calls"),
    filters("decisions", query, text("agent", "Agent", query.agent), text("tool", "Tool", query.tool), text("run", "Run", query.run), select("decision", "Decision", DECISIONS, query.decision),
      select("effect", "Effect", EFFECTS, query.effect), select("execution", "Execution", EXECUTIONS, query.execution), text("since", "Since", query.since)),
    rows.length ? callTable(rows) : empty(Object.values(query).some(Boolean) ? "No matching decisions. Agents and tools may be globs such as stripe.*, since may be 1h." : "No calls are decided yet: decisions appear here once agents ask before they call tools."),
    rows.length === ROWS ? soft(`The newest ${ROWS}.`) : null,
  ];
}

const source = (one) => [tag(one.execution, one.execution === "shadow" ? "warning" : "good"), " ", `by ${one.source} ${one.name}`, one.reason ? `: ${one.reason}` : ""];

/** What is in force, who is overruled, and the overrides, each with a way to lift it. */
function inForce(view, { ask, act }) {
  const lift = (one) => () => {
    const reason = prompt(`Why is ${one.scope} ${one.value} lifted?`);
    if (reason) act(() => ask("/v1/execution", { method: "PUT", body: { scope: one.scope, value: one.value || null, execution: null, reason } }), "The override is lifted.");
  };
  return card("execution",
    h("p", { class: "row" }, h("b", null, `Environment ${view.environment}`), source(view.effective.won)),
    view.effective.overruled.map((one) => h("p", { class: "small" }, "overrules ", source(one))),
    view.overrides.length ? table("Overrides", ["For", "Execution", "Since", "Until", "Reason", "Action"], view.overrides.map((one) => [one.id, `${one.scope} ${one.value}`, tag(one.execution, one.execution === "shadow" ? "warning" : "good"),
      when(one.set_at), one.expires_at ? when(one.expires_at) : "lifted", h("span", { dir: "auto" }, one.reason), h("button", { onclick: lift(one), "aria-label": `Lift ${one.scope} ${one.value}` }, "Lift")])) : soft("No override is in force."));
}

/** Runs that began in shadow and rehearse on, although other calls of their agents run. */
function stays(runs, { ask, act }) {
  const end = (one) => () => {
    const reason = prompt(`Why does the run ${one.run} end?`);
    if (reason) act(() => ask(`/v1/runs/${encodeURIComponent(one.run)}/end`, { method: "POST", body: { agent: one.agent, reason } }), `The run ${one.run} has ended.`);
  };
  return card("runs", h("p", null, h("b", null, "Runs that stay in shadow"), soft(" They began in shadow; other calls of their agents run.")),
    table("Runs", ["Run", "Agent", "Last call", "Action"], runs.map((one) => [`${one.agent} ${one.run}`, one.run, agentLink(one.agent), when(one.changed_at), h("button", { onclick: end(one), "aria-label": `End ${one.run}` }, "End")])));
}

function callTable(rows) {
  return table("Calls", ["When", "Decision", "Call", "Agent and run", "Why"], rows.map((one) => [String(one.seq),
    cell({ class: "when" }, when(one.timestamp)),
    cell({ class: "brief" }, tag(one.decision ?? one.kind, KIND[one.decision]), " ", soft(one.effect, one.execution ? ` · ${one.execution}` : null)),
    cell({ class: "wide" }, h("code", { class: "long" }, one.tool), one.args ? h("details", null, h("summary", null, "Arguments"), h("pre", { tabindex: 0 }, JSON.stringify(one.args, null, 2))) : null),
    cell({ class: "who" }, h("div", null, agentLink(one.agent)), one.run ? soft(one.run) : null),
    h("span", { class: "small", dir: "auto" }, one.guard?.reason ?? one.guard?.rule ?? (one.reason ? words(one.reason) : null) ?? (one.explain ?? []).at(-1) ?? "")]));
}
