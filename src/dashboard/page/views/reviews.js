// Reviews: the list, and one with its assessments, its findings and its events.
import { agentLink, cell, count, empty, facts, h, link, seconds, soft, table, tag, taskLink, to, usd, when, words } from "../dom.js";
import { ASSESSMENTS, eventBody, filters, findingTable, list, maybe, MODES, pages, reason, select, text } from "./parts.js";

const EVENTS = 20;
const reviewer = (one) => (one.reviewer === "model" ? one.model : one.reviewer ? "built-in checks" : "–");

export function reviewTable(items, none = "No reviews.") {
  if (!items.length) return empty(none);
  return table("Reviews", ["Reserved", "Outcome", "Review", "Reviewer", "Cost", "Recommendation"], items.map((one) => [one.id,
    cell({ class: "when" }, when(one.created_at)), tag(one.assessment ?? one.state),
    [h("a", { href: link(["reviews", one.id]) }, one.shadow), " on ", agentLink(one.agent), h("div", null, soft([one.mode, one.trigger && words(one.trigger), one.scope && one.scope !== "event" ? one.scope : null].filter(Boolean).join(" · ")))],
    reviewer(one), cell({ class: "n" }, usd(one.cost_usd)), cell({ class: "wide" }, h("span", { class: "clamp", dir: "auto" }, one.recommendation ?? one.failure ?? (one.reason ? reason(one.reason) : "–")))]));
}

export async function reviews({ ask, argument, query }) {
  if (argument) return review({ ask, argument });
  const page = await list(ask, "/v1/reviews", query);
  return [
    h("h1", null, "Reviews"),
    filters("reviews", query, select("assessment", "Assessment", ASSESSMENTS, query.assessment), select("state", "State", ["queued", "running", "done", "failed", "released"], query.state),
      select("mode", "Mode", MODES, query.mode, "any"), text("agent", "Agent", query.agent), text("shadow", "Shadow", query.shadow), text("task_id", "Task", query.task_id)),
    reviewTable(page.items, Object.values(query).some(Boolean) ? "No matching reviews." : "No reviews yet."), pages("reviews", query, page),
  ];
}

async function review({ ask, argument }) {
  const one = await ask(`/v1/reviews/${encodeURIComponent(argument)}`);
  const ids = one.events.slice(0, EVENTS);
  const events = (await Promise.all(ids.map((id) => maybe(ask(`/v1/events/${id}`))))).filter(Boolean);
  const own = (event) => one.assessments.find((known) => known.event_id === event.id);
  const many = one.assessments.length > 1;
  return [
    h("p", { class: "row" }, tag(one.assessment ?? one.state), one.assessment === "CHECKED" ? soft("the built-in checks found nothing; no model judged it") : null, one.score === null ? null : h("span", null, `score ${one.score} of 100`), when(one.finished_at ?? one.created_at)),
    h("h1", null, one.shadow, " on ", h("bdi", null, one.agent)),
    one.recommendation ? h("p", { class: "advice", dir: "auto" }, one.recommendation) : null,
    h("section", { class: "card" }, facts(
      ["Shadow", to(["shadows", one.shadow], one.shadow), soft(` ${one.mode}, version ${one.shadow_version}`)],
      ["Agent", agentLink(one.agent)], one.task_id && one.scope !== "batch" ? ["Task", taskLink(one.task_id)] : null, one.trigger ? ["Trigger", words(one.trigger)] : null,
      ["Reviewer", reviewer(one)], ["Cost", `${usd(one.cost_usd)} for ${count(one.usage.input)} tokens read and ${count(one.usage.output)} written`],
      ["Reserved", when(one.created_at)], one.finished_at ? ["Ended", when(one.finished_at), one.latency_ms === null ? "" : `, after ${seconds(one.latency_ms / 1000)}`] : null,
      one.failure ? ["Failure", one.failure] : null, one.reason ? ["Not reviewed", reason(one.reason)] : null, ...one.notes.map((note) => ["Note", note]))),
    one.findings?.length ? [h("h2", null, "Findings"), findingTable(one.findings)] : null,
    events.length ? h("h2", null, events.length === 1 ? "The event" : `Its ${events.length} events`) : null,
    events.map((event) => h("section", { class: "card", "data-key": event.id }, many && own(event) ? h("p", { class: "row" }, tag(own(event).assessment), own(event).score === null ? null : `score ${own(event).score}`, soft(own(event).recommendation)) : null,
      eventBody(event, (one.findings ?? []).filter((found) => found.event_id === event.id)))),
    one.events.length > events.length ? empty(`${count(one.events.length - events.length)} more events are not shown or no longer stored.`) : null,
  ];
}
