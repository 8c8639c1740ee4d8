// One function a view: what it asks of the API, and how it looks.
import { count, empty, h, link, marked, seconds, share, soft, table, tag, usd, when } from "./dom.js";

const params = (query) => new URLSearchParams(Object.entries(query).filter(([, value]) => value));
const list = (ask, path, query) => ask(`${path}?${params({ limit: 50, order: "desc", ...query })}`);
/** What a server may not have (yet) or a key may not see is left out. */
const maybe = (asked) => asked.catch((error) => (error.status === 404 || error.status === 403 ? null : Promise.reject(error)));

function tile(value, words, kind) {
  return h("div", { class: "tile" }, h("b", { class: kind }, value), h("span", null, words));
}

function select(name, words, options, chosen) {
  return h("select", { name, "aria-label": words }, h("option", { value: "" }, words), options.map((option) => h("option", { value: option, selected: option === chosen }, option)));
}

function text(name, words, value) {
  return h("input", { name, placeholder: words, "aria-label": words, value: value ?? "" });
}

/** Filters that go into the address, so that a view can be passed on. */
function filters(path, ...fields) {
  const go = (event) => {
    event.preventDefault();
    document.activeElement?.blur();
    location.hash = link(path, Object.fromEntries(new FormData(event.currentTarget)));
  };
  const form = h("form", { class: "filter", onsubmit: go }, fields, h("button", null, "Show"));
  form.addEventListener("change", () => form.requestSubmit());
  return form;
}

function older(path, query, page) {
  return page.next_cursor ? h("p", null, h("a", { href: link(path, { ...query, cursor: page.next_cursor }) }, "Older")) : null;
}

function findingRow(finding) {
  return h("tr", null,
    h("td", { class: "when" }, when(finding.timestamp)),
    h("td", null, tag(finding.severity)),
    h("td", { class: "wide" }, h("a", { href: link(`findings/${finding.id}`) }, finding.description), h("br"),
      soft(finding.verified ? null : "not verified, ", finding.source === "model" ? "by the model" : finding.rule, finding.occurrences > 1 ? `, seen ${count(finding.occurrences)} times` : null)),
    h("td", null, h("a", { href: link("findings", { agent: finding.watched_agent }) }, finding.watched_agent), h("br"), soft(finding.task_id ? h("a", { href: link(`tasks/${encodeURIComponent(finding.task_id)}`) }, finding.task_id) : null)),
    h("td", null, finding.shadow, h("br"), soft(finding.mode)),
    h("td", null, finding.status === "open" ? soft("open") : tag(finding.status)));
}

const findingTable = (items) => items.length ? table(["When", "Severity", "Finding", "Agent", "Shadow", "Status"], items.map(findingRow)) : empty("No findings.");

async function overview({ ask }) {
  const [status, findings, breakers] = await Promise.all([ask("/v1/status"), list(ask, "/v1/findings", { limit: 10 }), maybe(ask("/v1/breakers"))]);
  const sum = (of) => status.shadows.reduce((total, shadow) => total + of(shadow), 0);
  const skipped = (shadow) => Object.values(shadow.skips_today).reduce((total, n) => total + n, 0);
  const opened = (breakers?.items ?? []).filter((one) => one.recommendation !== "closed");
  const shadows = status.shadows.map((shadow) => h("tr", null,
    h("td", null, shadow.name, h("br"), soft(shadow.reviewer === "model" ? shadow.model : "built-in checks")),
    h("td", null, shadow.mode),
    h("td", null, share(shadow.reviews_today, shadow.max_reviews_per_day, count)),
    h("td", null, share(shadow.usd_today, shadow.max_usd_per_day, usd)),
    h("td", null, Object.entries(shadow.skips_today).map(([reason, n]) => h("div", { class: "small" }, `${reason.replaceAll("_", " ")}: ${count(n)}`))),
    h("td", { class: "wide small" }, shadow.health === "ok" ? tag("ok") : shadow.health)));
  return [
    h("div", { class: "tiles" },
      tile(count(sum((shadow) => shadow.reviews_today)), "reviews today"),
      tile(usd(sum((shadow) => shadow.usd_today)), "spent today"),
      tile(count(sum(skipped)), "skips today"),
      tile(`${count(status.queue.queued)} + ${count(status.queue.running)}`, status.queue.queued ? `waiting + running, oldest ${seconds(status.queue.oldest_age_seconds)}` : "waiting + running"),
      tile(count(opened.length), "agents to stop or watch", opened.length ? "bad" : "good")),
    opened.length ? [h("h2", null, "Breakers"), opened.map(breakerCard)] : null,
    h("h2", null, "Newest findings"), findingTable(findings.items), h("p", null, h("a", { href: "#/findings" }, "All findings")),
    h("h2", null, "Shadows"), table(["Shadow", "Mode", "Reviews today", "Money today", "Skips today", "Health"], shadows),
    h("h2", null, "Providers"), table(["Alias", "Model", "State", "Last failure"], status.providers.map((one) => h("tr", null, h("td", null, one.name), h("td", null, one.model), h("td", null, tag(one.state)), h("td", { class: "wide small" }, one.last_error ?? "–")))),
    h("p", null, soft(`Umbra ${status.version}, Postgres ${status.database.version}`)),
  ].flat(Infinity).filter(Boolean);
}

async function findings({ ask, argument, query, again }) {
  if (argument) return finding({ ask, argument, again });
  const page = await list(ask, "/v1/findings", query);
  return [
    h("h1", null, "Findings"),
    filters("findings", select("severity", "any severity", ["info", "warning", "critical"], query.severity), select("mode", "review and active", ["passive", "review", "active"], query.mode),
      select("status", "any status", ["open", "confirmed", "false_positive", "resolved"], query.status), text("agent", "agent", query.agent), text("shadow", "shadow", query.shadow), text("task_id", "task", query.task_id)),
    findingTable(page.items), older("findings", query, page),
  ].filter(Boolean);
}

async function finding({ ask, argument, again }) {
  const item = await ask(`/v1/findings/${encodeURIComponent(argument)}`);
  const event = await maybe(ask(`/v1/events/${item.event_id}`));
  const say = (status) => async () => {
    document.activeElement?.blur();
    try { await ask(`/v1/findings/${item.id}`, { method: "PATCH", body: { status } }); } catch (error) { alert(error.message); }
    again();
  };
  const buttons = [["confirmed", "It is right"], ["false_positive", "It is wrong"], ["resolved", "Dealt with"], ["open", "Open again"]].filter(([status]) => status !== item.status);
  return [
    h("h1", null, item.description),
    h("div", { class: "card" }, h("dl", null,
      pair("Severity", tag(item.severity)), pair("Category", item.category), pair("Agent", item.watched_agent), pair("Shadow", `${item.shadow} (${item.mode})`),
      pair("Found by", `${item.source === "model" ? "the model" : "a check"}: ${item.rule}`), pair("Evidence", item.verified ? "stands in the text" : "not verified"),
      pair("When", when(item.timestamp)), pair("Seen", `${count(item.occurrences)} times for this agent`), pair("Do", item.recommendation || "–"),
      pair("Review", h("a", { href: link(`reviews/${item.review_id}`) }, item.review_id)), pair("Status", [tag(item.status), item.note ? ` ${item.note}` : null])),
    h("p", { class: "row" }, buttons.map(([status, words]) => h("button", { onclick: say(status) }, words)))),
    event ? [h("h2", null, "The event"), ...eventBody(event, [item])] : empty("The event is not kept any more."),
  ].flat(Infinity);
}

const pair = (name, value) => [h("dt", null, name), h("dd", null, value ?? "–")];

function eventBody(event, found) {
  const at = (field) => found.filter((one) => one.evidence?.field === field).map((one) => one.evidence);
  const fields = [["task", event.task], ["input", event.input], ["output", event.output]];
  for (const [name, value] of Object.entries(event.tool?.args ?? {})) fields.push([`tool.args.${name}`, typeof value === "string" ? value : JSON.stringify(value, null, 1)]);
  fields.push(["tool.result", event.tool?.result], ["tool.error", event.tool?.error]);
  return [
    h("p", { class: "row" }, when(event.received_at), h("b", null, event.agent), event.tool ? h("code", null, event.tool.name) : null, (event.triggers ?? []).map((one) => tag(one.name)),
      event.task_id ? h("a", { href: link(`tasks/${encodeURIComponent(event.task_id)}`) }, `task ${event.task_id}`) : null),
    ...fields.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => h("div", { class: "card" }, soft(name), marked(typeof value === "string" ? value : JSON.stringify(value, null, 1), at(name)))),
  ];
}

async function reviews({ ask, argument, query }) {
  if (argument) return review({ ask, argument });
  const page = await list(ask, "/v1/reviews", query);
  const rows = page.items.map((one) => h("tr", null, h("td", { class: "when" }, when(one.created_at)), h("td", null, one.assessment ? tag(one.assessment) : tag(one.state)),
    h("td", null, h("a", { href: link(`reviews/${one.id}`) }, `${one.shadow} on ${one.agent}`), h("br"), soft(`${one.mode}, ${one.trigger ?? ""}`)),
    h("td", null, one.reviewer === "model" ? one.model : one.reviewer ? "checks" : "–"), h("td", null, usd(one.cost_usd)), h("td", { class: "wide" }, one.recommendation ?? one.failure ?? "–")));
  return [
    h("h1", null, "Reviews"),
    filters("reviews", select("assessment", "any assessment", ["APPROVE", "INCONCLUSIVE", "SUGGEST", "FLAG"], query.assessment), select("state", "any state", ["queued", "running", "done", "failed"], query.state),
      select("mode", "any mode", ["passive", "review", "active"], query.mode), text("agent", "agent", query.agent), text("shadow", "shadow", query.shadow)),
    rows.length ? table(["Reserved", "Outcome", "Review", "Reviewer", "Cost", "Recommendation"], rows) : empty("No reviews."), older("reviews", query, page),
  ].filter(Boolean);
}

async function review({ ask, argument }) {
  const one = await ask(`/v1/reviews/${encodeURIComponent(argument)}`);
  const ids = (one.events ?? []).slice(0, 20).map((event) => event.event_id ?? event);
  const events = (await Promise.all(ids.map((id) => maybe(ask(`/v1/events/${id}`))))).filter(Boolean);
  return [
    h("h1", null, `${one.shadow} on ${one.agent}`),
    h("div", { class: "card" }, h("dl", null, pair("Outcome", tag(one.assessment ?? one.state)), pair("Score", one.score), pair("Mode", one.mode), pair("Trigger", one.trigger),
      pair("Reviewer", one.reviewer === "model" ? one.model : "built-in checks"), pair("Cost", usd(one.cost_usd)), pair("Tokens", `${count(one.usage.input)} read, ${count(one.usage.output)} written`),
      pair("Reserved", when(one.created_at)), pair("Ended", when(one.finished_at)), pair("Do", one.recommendation), one.failure ? pair("Failure", one.failure) : [], (one.notes ?? []).map((note) => pair("Note", note)))),
    h("h2", null, "Findings"), findingTable(one.findings ?? []),
    events.map((event) => [h("h2", null, "Event"), eventBody(event, (one.findings ?? []).filter((found) => found.event_id === event.id))]),
  ].flat(Infinity);
}

async function tasks({ ask, argument, query }) {
  if (argument) return task({ ask, argument });
  const page = await list(ask, "/v1/trajectories", query);
  const rows = page.items.map((one) => h("tr", null, h("td", null, h("a", { href: link(`tasks/${encodeURIComponent(one.task_id)}`) }, one.task_id)), h("td", null, (one.agents ?? []).join(", ")),
    h("td", null, count(one.events)), h("td", null, count(one.reviews)), h("td", null, tag(one.assessment)), h("td", { class: "when" }, when(one.last_at))));
  return [h("h1", null, "Tasks"), rows.length ? table(["Task", "Agents", "Events", "Reviews", "Strictest", "Last event"], rows) : empty("No events with a task_id."), older("tasks", query, page)].filter(Boolean);
}

async function task({ ask, argument }) {
  const whole = await ask(`/v1/trajectories/${encodeURIComponent(argument)}`);
  return [
    h("h1", null, `Task ${whole.task_id}`),
    whole.recommendation ? h("div", { class: "card row" }, tag(whole.assessment), typeof whole.recommendation === "string" ? whole.recommendation : JSON.stringify(whole.recommendation)) : null,
    (whole.events ?? []).map((event) => {
      const found = event.findings ?? (event.reviews ?? []).flatMap((one) => one.findings ?? []);
      return h("section", { class: "card" }, eventBody(event, found), found.length ? findingTable(found) : (event.reviews ?? []).map((one) => h("p", { class: "row" }, tag(one.assessment ?? one.state), soft(one.shadow))));
    }),
  ].flat(Infinity).filter(Boolean);
}

function breakerCard(one) {
  return h("div", { class: "card" }, h("p", { class: "row" }, tag(one.recommendation), h("b", null, one.agent), soft(`${one.consecutive_rejections} of ${one.threshold} rejections in a row`), one.since ? ["since ", when(one.since)] : null, one.acknowledged ? soft("acknowledged") : null),
    (one.reasons ?? []).map((reason) => h("div", { class: "small" }, typeof reason === "string" ? reason : reason.description ?? JSON.stringify(reason))));
}

async function agents({ ask }) {
  const [breakers, reflexions] = await Promise.all([maybe(ask("/v1/breakers?limit=200")), maybe(list(ask, "/v1/reflexions", {}))]);
  return [
    h("h1", null, "Agents"), h("h2", null, "Breakers"), breakers?.items.length ? breakers.items.map(breakerCard) : empty("No agent has been rejected."),
    h("h2", null, "Lessons"), reflexions?.items.length ? reflexions.items.map((one) => h("div", { class: "card" }, h("p", { class: "row" }, tag(one.status), h("b", null, one.agent), soft(`${one.task_type ?? "any task"}, ${count(one.occurrence_count ?? one.occurrences?.length ?? one.occurrences)} times`)), h("div", null, one.lesson))) : empty("No fault has recurred."),
  ].flat(Infinity);
}

async function briefing({ ask, argument }) {
  const markdown = await ask(`/v1/briefings/${encodeURIComponent(argument || "latest")}`, { accept: "text/markdown" });
  return [h("h1", null, "Briefing"), h("pre", null, markdown)];
}

export const views = {
  overview: { draw: overview, moves: true },
  findings: { draw: findings, moves: true },
  reviews: { draw: reviews, moves: true },
  tasks: { draw: tasks, moves: true },
  agents: { draw: agents, moves: true },
  briefing: { draw: briefing, moves: false },
};
