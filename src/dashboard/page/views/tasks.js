// Tasks: the list, and one as a timeline and its events with what reviews say of each.
import { agentLink, cell, count, empty, h, link, many, soft, table, tag, when } from "../dom.js";
import { dispositions, eventBody, filters, findingTable, list, pages, text } from "./parts.js";
import { timeline } from "./timeline.js";

const AGENTS = 3;
const others = (agents) => (agents.length > AGENTS ? soft(`and ${count(agents.length - AGENTS)} more`) : null);

export function taskTable(items, none = "No event has named a task (task_id) yet.") {
  if (!items.length) return empty(none);
  return table("Tasks", ["Task", "Agents", "Events", "Judged", "Recommendation", "Last event"], items.map((one) => [one.task_id,
    cell({ class: "wide" }, h("bdi", null, h("a", { href: link(["tasks", one.task_id]) }, one.task_id))), [one.agents.slice(0, AGENTS).map((name) => h("div", null, agentLink(name))), others(one.agents)],
    cell({ class: "n" }, count(one.events)), cell({ class: "n", title: one.coverage.summary }, count(one.coverage.judged)), tag(one.assessment), cell({ class: "when" }, when(one.last_at))]));
}

export async function tasks({ ask, argument, query }) {
  if (argument) return task({ ask, argument, query });
  const page = await list(ask, "/v1/trajectories", query);
  return [h("h1", null, "Tasks"), filters("tasks", query, text("agent", "Agent", query.agent)), taskTable(page.items, query.agent ? "No tasks of this agent." : undefined), pages("tasks", query, page)];
}

async function task({ ask, argument, query }) {
  const asked = new URLSearchParams({ limit: 50, ...(query.cursor ? { cursor: query.cursor } : {}) });
  const whole = await ask(`/v1/trajectories/${encodeURIComponent(argument)}?${asked}`);
  const here = ["tasks", whole.task_id];
  return [
    h("p", { class: "row" }, tag(whole.assessment), soft(`${many(whole.review_count, "review")}, ${whole.coverage.summary}, `, when(whole.first_at), " to ", when(whole.last_at)), whole.agents.slice(0, AGENTS).map(agentLink), others(whole.agents)),
    h("h1", null, "Task ", h("bdi", null, whole.task_id)),
    h("p", { class: "advice", dir: "auto" }, whole.recommendation),
    whole.reasons.length ? h("ul", { class: "small" }, whole.reasons.map((one) => h("li", { dir: "auto" }, one))) : null,
    timeline(whole),
    whole.events.map((event) => h("section", { class: `card edge ${worst(event.findings)}`, "data-key": event.id, tabindex: -1 }, eventBody(event, event.findings),
      event.findings.length ? findingTable(event.findings) : null, event.dispositions.length ? h("details", null, h("summary", null, outcome(event)), dispositions(event)) : null)),
    h("p", { class: "row pages" }, query.cursor ? h("a", { href: link(here) }, "← First events") : null, whole.next_cursor ? h("a", { href: link(here, { cursor: whole.next_cursor }) }, "Later events →") : null),
  ];
}

const worst = (findings) => ["critical", "warning", "info"].find((severity) => findings.some((one) => one.severity === severity)) ?? "";

function outcome(event) {
  const skipped = event.dispositions.filter((one) => one.outcome === "skipped").length;
  const reviewed = event.dispositions.length - skipped;
  return ["Dispositions: ", [reviewed ? many(reviewed, "review") : null, skipped ? `${count(skipped)} skipped` : null].filter(Boolean).join(", ")].join("");
}
