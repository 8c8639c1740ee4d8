// What several views show: findings in a table, an event's texts, a breaker, filters, pages.
import { agentLink, card, cell, count, empty, h, link, many, marked, soft, table, tag, taskLink, to, when, words } from "../dom.js";

export const ASSESSMENTS = ["APPROVE", "CHECKED", "INCONCLUSIVE", "SUGGEST", "FLAG"];
export const MODES = ["passive", "review", "active"];

const params = (query) => new URLSearchParams(Object.entries(query).filter(([, value]) => value));
/** A page of a list, newest first. */
export const list = (ask, path, query) => ask(`${path}?${params({ limit: 50, order: "desc", ...query })}`);
/** What a server may not have (yet) or a key may not see is left out. */
export const maybe = (asked) => asked.catch((error) => (error.status === 404 || error.status === 403 ? null : Promise.reject(error)));

export function select(name, label, options, chosen, any = "any") {
  const known = [["", any], ...options.map((option) => [option, words(option)])];
  return h("label", null, label, h("select", { name }, known.map(([value, text]) => h("option", { value, selected: value === (chosen ?? "") }, text))));
}

export const text = (name, label, value) => h("label", null, label, h("input", { name, value: value ?? "", size: 14, autocomplete: "off", spellcheck: "false" }));

/** Filters that go into the address, so that a view can be passed on. */
export function filters(path, query, ...fields) {
  const go = (event) => {
    event.preventDefault();
    location.hash = link(path, Object.fromEntries(new FormData(form)));
  };
  const form = h("form", { class: "filter", role: "search", onsubmit: go, onchange: go }, fields, h("button", null, "Show"), Object.values(query).some(Boolean) ? to(path, "Clear") : null);
  return form;
}

export function pages(path, query, page) {
  return h("p", { class: "row pages" }, query.cursor ? to(path, "← Newest", { ...query, cursor: "" }) : null, page.next_cursor ? to(path, "Older →", { ...query, cursor: page.next_cursor }) : null);
}

/** The text that tells most about an event. */
export const gist = (event) => (event.tool ? first(event.tool.args) ?? event.tool.result ?? event.tool.error : event.output || event.input || event.task) ?? "";
const first = (args) => (typeof args === "string" ? args : Object.values(args ?? {}).find((value) => typeof value === "string"));

const FINDING = ["When", "Severity", "Finding", "Agent and task", "Shadow", "Status"];

export function findingTable(items, none = "No findings.") {
  if (!items.length) return empty(none);
  return table("Findings", FINDING, items.map((one) => [one.id,
    cell({ class: "when" }, when(one.timestamp)),
    cell({ class: "brief" }, tag(one.severity)),
    cell({ class: "wide" }, h("a", { class: "clamp", dir: "auto", href: link(["findings", one.id]) }, one.description || "(no description)"),
      soft([one.verified ? null : "not verified", one.source === "model" ? "by the model" : one.rule, one.times > 1 ? `${count(one.times)} of the newest` : one.occurrences > 1 ? `seen ${many(one.occurrences, "time")}` : null].filter(Boolean).join(" · "))),
    cell({ class: "who" }, h("div", null, agentLink(one.watched_agent)), one.task_id ? soft(taskLink(one.task_id)) : null),
    [h("div", { class: "nowrap" }, one.shadow), soft(one.mode)],
    cell({ class: "brief" }, one.status === "open" ? soft("open") : tag(one.status))]));
}

/** The newest of each fault of each agent, with how often it is among `items`. */
export function distinct(items) {
  const faults = new Map();
  for (const one of items) {
    const key = `${one.watched_agent}\n${one.fingerprint}`;
    const known = faults.get(key);
    known ? known.times++ : faults.set(key, { ...one, times: 1 });
  }
  return [...faults.values()];
}

/** The strings of a JSON value with their paths, as evidence names them; what is no string as JSON. */
function leaves(path, value) {
  if (value === null || value === undefined) return [];
  if (typeof value === "string") return [[path, value]];
  if (typeof value === "object" && Object.keys(value).length) return Object.entries(value).flatMap(([name, inner]) => leaves(`${path}.${name}`, inner));
  return [[path, JSON.stringify(value)]];
}

const SHOWN_LEAVES = 60;

/** Who did it, when, and its texts with what was found in them. */
export function eventBody(event, found, { linked = true } = {}) {
  const at = (field) => found.filter((one) => one.event_id === event.id && one.evidence?.field === field).map((one) => one.evidence);
  const fields = [...leaves("task", event.task), ...leaves("input", event.input), ...leaves("tool.args", event.tool?.args), ...leaves("tool.result", event.tool?.result),
    ...leaves("tool.error", event.tool?.error), ...leaves("tool.exit_code", event.tool?.exit_code), ...leaves("output", event.output), ...leaves("metadata", event.metadata)].filter(([, value]) => value !== "");
  return [
    h("p", { class: "row" }, linked ? to(["events", event.id], when(event.received_at)) : when(event.received_at), h("b", null, agentLink(event.agent)), event.tool ? h("code", { class: "long" }, event.tool.name) : null,
      event.triggers.map((one) => h("span", { title: one.why }, tag(one.name))), event.stop_reason ? soft(`stopped: ${event.stop_reason}`) : null, event.task_id ? soft("task ", taskLink(event.task_id)) : null),
    event.output === "" ? soft("The output is empty.") : null,
    fields.slice(0, SHOWN_LEAVES).map(([name, value]) => h("div", { class: "field" }, soft(name), marked(value, at(name)))),
    fields.length > SHOWN_LEAVES ? soft(`${count(fields.length - SHOWN_LEAVES)} more fields`) : null,
  ];
}

const REASONS = {
  shadow_disabled: "the shadow is switched off", loop_guard: "Umbra's own traffic", not_sampled: "not in the sample", cost_below_floor: "the task cost too little",
  cooldown: "cooldown", target_cap: "the agent's cap for the day is spent", daily_cap: "the cap for the day is spent", token_cap: "the day's tokens are spent",
  usd_cap: "the day's money is spent", overload: "too many reviews wait", provider_unavailable: "the model does not answer", erased: "erased",
};
export const reason = (name) => h("span", { title: name }, REASONS[name] ?? words(name));

/** What became of an event for each shadow that watches it. */
export function dispositions(event) {
  if (!event.dispositions.length) return empty("No shadow watches this event.");
  const outcome = (one) => {
    const review = (event.reviews ?? []).find((known) => known.id === one.review_id);
    const own = review?.assessments.find((known) => known.event_id === event.id);
    const assessment = own?.assessment ?? review?.assessment;
    if (one.outcome === "skipped") return [tag("skipped"), " ", soft(reason(one.reason))];
    return [assessment ? tag(assessment) : tag(review?.state ?? one.outcome), " ", one.review_id ? to(["reviews", one.review_id], "review") : null];
  };
  return table("Dispositions", ["Shadow", "Mode", "Trigger", "Outcome"], event.dispositions.map((one) => [one.shadow, to(["shadows", one.shadow], one.shadow), one.mode, words(one.trigger), outcome(one)]));
}

/** What is recommended about an agent, and what people may do about it. */
export function breakerCard(one, { ask, act }) {
  const path = `/v1/breakers/${encodeURIComponent(one.agent)}`;
  const acknowledge = (event) => {
    event.preventDefault();
    const body = Object.fromEntries([...new FormData(event.currentTarget)].filter(([, value]) => value));
    act(() => ask(`${path}/acknowledge`, { method: "POST", body }), `Acknowledged for ${one.agent}.`);
  };
  const reset = () => confirm(`Close the breaker of ${one.agent}? Earlier reviews no longer count.`) && act(() => ask(`${path}/reset`, { method: "POST" }), `The breaker of ${one.agent} is closed.`);
  const stands = one.recommendation !== "closed";
  const kind = { open: "critical", half_open: "warning", closed: "good" }[one.recommendation];
  return h("section", { class: `card edge ${kind}`, "data-key": `breaker-${one.agent}` },
    h("p", { class: "row" }, tag(one.recommendation, kind), h("b", null, agentLink(one.agent)), one.since ? soft("since ", when(one.since)) : null,
      stands && one.acknowledged ? soft(`acknowledged${one.acknowledged_by ? ` by ${one.acknowledged_by}` : ""} `, when(one.acknowledged_at)) : null),
    h("p", { class: "small" }, { open: "Hold this agent back until a person has looked.", half_open: "On trial: its next reviews close or open the breaker.", closed: `${many(one.consecutive_rejections, "rejection")} in a row; ${one.threshold} open the breaker.` }[one.recommendation]),
    stands && one.note ? h("p", { class: "small" }, `“${one.note}”`) : null,
    one.reasons.length ? h("ul", { class: "small" }, one.reasons.map((text) => h("li", null, withReviews(text)))) : null,
    stands ? h("div", { class: "row" },
      one.acknowledged ? null : h("details", null, h("summary", null, "Acknowledge"), h("form", { class: "filter", onsubmit: acknowledge },
        h("label", null, "Who", h("input", { name: "by", maxlength: 200, autocomplete: "name" })), h("label", null, "Note", h("input", { name: "note", maxlength: 2000, size: 36 })), h("button", null, "Acknowledge"))),
      h("button", { onclick: reset }, "Reset")) : null);
}

/** Ids of reviews within a sentence of ours as links. */
export function withReviews(sentence) {
  return sentence.split(/(rev_[0-9a-f]{32})/).map((part, at) => (at % 2 ? to(["reviews", part], "review") : part));
}

/** A fault that recurs, and the words that the agent's next task should begin with. */
export function lessonCard(one) {
  return card(one.id,
    h("p", { class: "row" }, tag(one.severity), h("b", null, agentLink(one.agent)), soft(one.task_type ? `tasks of the type ${one.task_type}` : "any task"), one.status === "closed" ? tag("closed") : null),
    one.description ? h("p", { dir: "auto" }, one.description) : null,
    h("p", { class: "small" }, one.lesson),
    soft(`${many(one.events, "event")}, from `, when(one.first_at), " to ", when(one.last_at), one.closed_at ? [", closed ", when(one.closed_at)] : null),
    h("details", null, h("summary", null, "Prompt for its next task"), h("pre", { tabindex: 0 }, one.prompt)),
    h("details", null, h("summary", null, `Where it was found (${count(one.occurrences.length)})`), h("ul", { class: "small" }, one.occurrences.map((place) => h("li", null, to(["findings", place.finding_id], when(place.timestamp)))))));
}
