// Events: the list with what became of each, and one with its texts and its verdict.
import { agentLink, cell, count, elapsed, empty, facts, h, link, seconds, soft, table, tag, taskLink, usd, when, words } from "../dom.js";
import { dispositions, eventBody, filters, findingTable, gist, list, maybe, pages, reason, text, withReviews } from "./parts.js";

export async function events({ ask, argument, query }) {
  if (argument) return event({ ask, argument });
  const page = await list(ask, "/v1/events", query);
  const rows = page.items.map((one) => [one.id,
    cell({ class: "when" }, h("a", { href: link(["events", one.id]) }, when(one.received_at))),
    cell({ class: "who" }, h("div", null, agentLink(one.agent)), one.task_id ? soft(taskLink(one.task_id)) : null),
    cell({ class: "wide" }, h("span", { class: "clamp small", dir: "auto" }, one.tool ? [h("code", { class: "long" }, one.tool.name), " "] : null, gist(one).slice(0, 400))),
    one.triggers.map((mark) => h("span", { title: mark.why }, tag(mark.name), " ")),
    one.dispositions.length ? one.dispositions.map((own) => h("div", { class: "small" }, `${own.shadow}: `, own.outcome === "skipped" ? h("span", { class: "soft" }, "skipped, ", reason(own.reason)) : own.review_id ? h("a", { href: link(["reviews", own.review_id]) }, own.outcome === "batched" ? "review with others" : "review") : own.outcome)) : soft("not watched")]);
  return [
    h("h1", null, "Events"), filters("events", query, text("agent", "Agent", query.agent), text("task_id", "Task", query.task_id)),
    rows.length ? table("Events", ["Received", "Agent and task", "What", "Triggers", "Dispositions"], rows) : empty(Object.values(query).some(Boolean) ? "No matching events." : "No events yet: they appear here once agents send them."), pages("events", query, page),
  ];
}

async function event({ ask, argument }) {
  const id = encodeURIComponent(argument);
  const one = await ask(`/v1/events/${id}`);
  const [verdict, ...reviews] = await Promise.all([maybe(ask(`/v1/events/${id}/verdict`)), ...(one.reviews ?? []).slice(0, 20).map((review) => maybe(ask(`/v1/reviews/${review.id}`)))]);
  const reviewed = reviews.flatMap((review) => review?.findings ?? []).filter((finding) => finding.event_id === one.id);
  const found = [...new Map([...reviewed, ...(one.findings ?? [])].map((finding) => [finding.id, finding])).values()];
  return [
    h("h1", null, "Event"), soft(one.id),
    verdict && verdict.verdict !== "not_reviewed" ? h("section", { class: "card" }, h("p", { class: "row" }, tag(verdict.verdict), verdict.verdict === "pending" ? soft("decided by ", when(verdict.verdict_by), ` at the latest${left(verdict.verdict_by)}`) : soft("verdict", verdict.shadow ? ` of ${verdict.shadow}` : "", verdict.decided_by ? `, decided by ${words(verdict.decided_by)}` : "")),
      verdict.reasons.length ? h("ul", { class: "small" }, verdict.reasons.map((text) => h("li", { dir: "auto" }, withReviews(text)))) : null, verdict.recommendation ? h("p", { dir: "auto" }, verdict.recommendation) : null) : null,
    h("section", { class: "card" }, eventBody(one, found, { linked: false }), one.marks.length ? soft(`Screened at accept: ${one.marks.map((mark) => `${mark.check}.${mark.rule}`).join(", ")}`) : null),
    facts(one.session_id ? ["Session", one.session_id] : null, one.task_type ? ["Task type", one.task_type] : null, one.status ? ["Status", one.status] : null, one.stop_reason ? ["Stop reason", one.stop_reason] : null, one.duration_ms === undefined ? null : ["Duration", elapsed(one.duration_ms)],
      !Number.isFinite(one.cost_usd) ? null : ["Cost", usd(one.cost_usd)], !Number.isFinite(one.task_cost_usd) ? null : ["Cost of the task", usd(one.task_cost_usd)], tokens(one.tokens)),
    h("h2", null, "Dispositions"), dispositions(one),
    found.length ? [h("h2", null, "Findings"), findingTable(found)] : null,
  ];
}

/** The tokens of an event, a number or read and written apart. */
function tokens(spent) {
  if (spent === undefined || spent === null) return null;
  return ["Tokens", typeof spent === "number" ? count(spent) : Object.entries(spent).map(([kind, n]) => `${count(n)} ${words(kind)}`).join(", ")];
}

function left(time) {
  const ahead = (new Date(time) - Date.now()) / 1000;
  return ahead > 0 ? `, in ${seconds(Math.ceil(ahead / 5) * 5)}` : "";
}
