// Findings: the list, and one with its evidence and what people say of it.
import { agentLink, count, empty, facts, h, many, tag, taskLink, to, when, words } from "../dom.js";
import { eventBody, filters, findingTable, list, maybe, MODES, pages, select, text } from "./parts.js";

const CATEGORIES = ["security", "factual", "completeness", "relevance", "quality", "custom"];
const STATUS = ["open", "confirmed", "false_positive", "resolved"];

export async function findings({ ask, act, argument, query }) {
  if (argument) return finding({ ask, act, argument });
  const page = await list(ask, "/v1/findings", query);
  return [
    h("h1", null, "Findings"),
    filters("findings", query, select("severity", "Severity", ["info", "warning", "critical"], query.severity), select("category", "Category", CATEGORIES, query.category), select("status", "Status", STATUS, query.status),
      select("mode", "Shadow's mode", MODES, query.mode, "review and active"), text("agent", "Agent", query.agent), text("shadow", "Shadow", query.shadow), text("task_id", "Task", query.task_id)),
    findingTable(page.items, Object.values(query).some(Boolean) ? "No matching findings." : "No findings yet."), pages("findings", query, page),
    page.items.length ? h("p", { class: "pages" }, h("button", { class: "quiet", onclick: () => act(() => save(ask, query), "") }, "Download as SARIF")) : null,
  ];
}

/** Up to 500 findings of this view as a SARIF log. */
async function save(ask, query) {
  const log = await ask(`/v1/findings?${new URLSearchParams({ ...Object.fromEntries(Object.entries(query).filter(([, value]) => value)), limit: 500, order: "desc", format: "sarif" })}`, { accept: "application/sarif+json" });
  const url = URL.createObjectURL(new Blob([log], { type: "application/sarif+json" }));
  h("a", { href: url, download: "umbra.sarif" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

const FEEDBACK = [["confirmed", "Right"], ["false_positive", "False positive"], ["resolved", "Resolved"], ["open", "Reopen"]];

async function finding({ ask, act, argument }) {
  const item = await ask(`/v1/findings/${encodeURIComponent(argument)}`);
  const event = await maybe(ask(`/v1/events/${item.event_id}`));
  const say = (event) => {
    event.preventDefault();
    const note = new FormData(event.currentTarget).get("note").trim();
    const status = event.submitter.value;
    act(() => ask(`/v1/findings/${item.id}`, { method: "PATCH", body: { status, ...(note ? { note } : {}) } }), `The finding is ${words(status)}.`);
  };
  const evidence = item.evidence;
  return [
    h("p", { class: "row" }, tag(item.severity), h("span", { class: "soft" }, words(item.category)), when(item.timestamp), item.status === "open" ? null : tag(item.status)),
    h("h1", { dir: "auto" }, item.description || "(no description)"),
    item.recommendation ? h("p", { class: "advice", dir: "auto" }, item.recommendation) : null,
    evidence?.quote ? h("figure", { class: "quote" }, h("pre", { tabindex: 0 }, evidence.quote), h("figcaption", null, `${evidence.field}, bytes ${count(evidence.start)} to ${count(evidence.end)}`)) : null,
    h("section", { class: "card" }, facts(
      ["Agent", agentLink(item.watched_agent)], item.task_id ? ["Task", taskLink(item.task_id)] : null,
      ["Found by", item.source === "model" ? `the model, under ${words(item.rule)}` : `the check ${item.rule}`, ", for ", to(["shadows", item.shadow], item.shadow), ` (${item.mode})`],
      ["Evidence", item.verified ? (evidence ? "found in the event's text" : "none can be quoted; two calls of the model agree") : evidence ? "not verified" : "not verified: no quote was found in the text"],
      item.about === "given" ? ["About", "data that the agent was given: no fault of the agent, and no breaker counts it"] : null,
      ["Seen", `${many(item.occurrences, "time")} for this agent, by then`],
      ["Review", item.review_id ? to(["reviews", item.review_id], item.review_id) : "none: found by the built-in checks without a review"],
      item.note ? ["Note", h("span", { dir: "auto" }, item.note)] : null),
    h("form", { class: "filter", onsubmit: say }, h("label", null, "Note", h("input", { name: "note", maxlength: 2000, size: 40, placeholder: item.note ? "leave empty to keep the note above" : "reason, for the reviewer and others" })),
      FEEDBACK.filter(([status]) => status !== item.status).map(([value, label]) => h("button", { value }, label)))),
    event ? [h("h2", null, "The event"), h("section", { class: "card" }, eventBody(event, [item]))] : empty("The event is no longer stored."),
  ];
}
