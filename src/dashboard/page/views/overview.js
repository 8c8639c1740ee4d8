// The day so far: what needs attention, what it was like, what is new, and how the service stands.
import { agentLink, card, cell, count, empty, h, many, percent, seconds, soft, svg, table, tag, to, usd, when } from "../dom.js";
import { waiting } from "./approvals.js";
import { shadowTable, providerTable } from "./shadows.js";
import { breakerCard, distinct, findingTable, list, maybe } from "./parts.js";

const tile = (value, label, kind, href) => h(href ? "a" : "div", { class: "tile", href }, h("b", { class: kind }, value), h("span", null, label));
const BREAKERS = 3;
const AGENTS = 8;
const FINDINGS = 8;

export async function overview({ ask, recall, act }) {
  const [status, findings, opened, half, asked, hooked] = await Promise.all([ask("/v1/status"), list(ask, "/v1/findings"), maybe(ask("/v1/breakers?recommendation=open&limit=20")), maybe(ask("/v1/breakers?recommendation=half_open&limit=20")), maybe(ask("/v1/approvals?state=pending&limit=500")), maybe(ask("/v1/hooks"))]);
  const unguarded = (hooked?.items ?? []).filter((one) => one.undecided);
  const day = status.shadows[0]?.day ?? status.now.slice(0, 10);
  const today = await maybe(recall(`/v1/briefings/${day}`));
  const sum = (of) => status.shadows.reduce((total, shadow) => total + of(shadow), 0);
  const skipped = sum((shadow) => Object.values(shadow.skips_today).reduce((total, n) => total + n, 0));
  const breakers = [...(opened?.items ?? []), ...(half?.items ?? [])];
  const more = opened?.next_cursor || half?.next_cursor;
  const found = today?.totals.findings;
  return [
    h("h1", null, "Today"),
    h("div", { class: "tiles" },
      tile(`${count(breakers.length)}${more ? "+" : ""}`, breakers.length === 1 ? "agent to hold back or watch" : "agents to hold back or watch", breakers.length ? "critical" : "good", "#/agents"),
      found ? tile(count(found.critical), "critical findings", found.critical ? "critical" : null, "#/findings?severity=critical") : null,
      found ? tile(count(found.warning), "warnings", found.warning ? "warning" : null, "#/findings?severity=warning") : null,
      tile(count(sum((shadow) => shadow.reviews_today)), "reviews", null, "#/reviews"),
      tile(usd(sum((shadow) => shadow.usd_today)), "spent"),
      tile(count(skipped), "skipped", null, "#/shadows"),
      tile(count(status.queue.queued + status.queue.running), `in the queue${status.queue.oldest_age_seconds ? `, oldest ${seconds(status.queue.oldest_age_seconds)}` : ""}`, null, "#/reviews?state=queued")),
    breakers.length || status.needs.length || asked?.items.length || unguarded.length ? [h("h2", null, "Needs attention"), waiting(asked), status.needs.map(needCard), unguarded.map(unguardedCard), breakers.slice(0, BREAKERS).map((one) => breakerCard(one, { ask, act })), breakers.length > BREAKERS || more ? h("p", { class: "pages" }, to("agents", "All agents to hold back or watch")) : null] : null,
    h("h2", null, "Newest findings"),
    findingTable(distinct(findings.items).slice(0, FINDINGS), "No findings yet: they appear here once agents send events."),
    h("p", { class: "pages" }, to("findings", "All findings")),
    today?.agents.length ? [h("h2", null, "Agents today"), agentTable(today.agents.slice(0, AGENTS)), week(today)] : null,
    hooked?.items.length ? [h("h2", null, "Coding agents, by their hooks"), hookTable(hooked.items)] : null,
    status.telemetry.length ? [h("h2", null, "Services, by OpenTelemetry"), telemetryTable(status.telemetry)] : null,
    h("h2", null, "Shadows"), shadowTable(status.shadows),
    h("h2", null, "Models in use"), providerTable(status),
    h("p", { class: "pages" }, soft(`Umbra ${status.version} on ${many(status.servers, "server")}, Postgres ${status.database.version} ${status.database.state === "ok" ? "" : status.database.state}`)),
  ];
}

/** What keeps the service from judging or telling, and what to do about it. */
const needCard = (need) => card(`${need.kind} ${need.name}`,
  h("p", { class: "row" }, tag(need.kind, "warning"), h("b", null, need.kind === "shadow" ? to(["shadows", need.name], need.name) : need.kind === "webhook" ? to("webhooks", need.name) : need.name)),
  h("p", { dir: "auto" }, need.problem), soft(need.remedy));

/** A coding agent whose calls ran without a decision, although its hooks should ask before each. */
const unguardedCard = (one) => card(`hook ${one.host}`,
  h("p", { class: "row" }, tag("unguarded", "critical"), h("b", null, agentLink(one.agent))),
  h("p", null, `${many(one.undecided, "call")} of ${one.host} ran without a decision, although its hooks are in enforce.`),
  soft("Look at umbra hook status on its machine: hooks may be switched off, or not trusted."));

/** Coding agents whose hooks were heard of. */
const hookTable = (hosts) => table("Coding agents", ["Host", "Agent", "Mode", "Sessions", "Calls", "Without decision", "Last event"], hosts.map((one) => [`${one.host} ${one.agent} ${one.mode}`,
  cell(null, one.shown_host ? `${one.host}, run by ${one.shown_host}` : one.host), agentLink(one.agent), cell(null, tag(one.mode, one.mode === "enforce" ? "good" : null)), cell({ class: "n" }, count(one.sessions)),
  cell({ class: "n" }, count(one.calls)), cell({ class: `n ${one.undecided ? "critical" : ""}` }, count(one.undecided)), cell(null, when(one.seen_at))]));

/** Services that export telemetry, and what their exports lack. */
const telemetryTable = (services) => table("Services", ["Service", "Instrumentation", "Model calls", "Without content", "Tool calls", "Cut", "Refused", "Last export"], services.map((one) => [`${one.service} ${one.scope}`,
  cell({ dir: "auto" }, one.service), cell({ dir: "auto" }, one.scope || soft("refused")), cell({ class: "n" }, count(one.model_calls)), cell({ class: `n ${one.without_content ? "warning" : ""}` }, count(one.without_content)),
  cell({ class: "n" }, count(one.tool_calls)), cell({ class: "n" }, count(one.cut)), cell({ class: `n ${one.rejected ? "warning" : ""}`, title: one.reason }, count(one.rejected)), cell(null, when(one.seen_at))]));

export function agentTable(agents) {
  return table("Agents", ["Agent", "Reviews", "Flagged", "Critical", "Warnings", "Found something", "Cost"], agents.map((one) => [one.agent,
    agentLink(one.agent), cell({ class: "n" }, count(one.reviews)), cell({ class: "n" }, count(one.assessments.FLAG)),
    cell({ class: `n ${one.findings.critical ? "critical" : ""}` }, count(one.findings.critical)), cell({ class: `n ${one.findings.warning ? "warning" : ""}` }, count(one.findings.warning)),
    cell({ class: "n" }, percent(one.finding_rate)), cell({ class: "n" }, usd(one.cost_usd))]));
}

/** The days or weeks before and this one, as bars: reviews, and how many of them flagged. */
export function week(briefing) {
  const spans = [...briefing.before, { first: briefing.first, reviews: briefing.totals.reviews, flagged: briefing.totals.assessments.FLAG, findings: Object.values(briefing.totals.findings).reduce((a, b) => a + b, 0) }];
  const most = Math.max(...spans.map((one) => one.reviews), 1);
  if (!spans.some((one) => one.reviews)) return empty("No reviews in this time.");
  const [width, height, gap] = [40, 72, 8];
  const bars = spans.map((one, at) => {
    const tall = (n) => Math.round((n / most) * height);
    const x = at * (width + gap);
    return svg("g", {}, svg("title", {}, `${one.first}: ${many(one.reviews, "review")}, ${count(one.flagged)} flagged, ${many(one.findings, "finding")}`),
      svg("rect", { class: "base", x, y: 0, width, height, rx: 3 }),
      svg("rect", { class: "all", x, y: height - tall(one.reviews), width, height: tall(one.reviews), rx: 3 }),
      svg("rect", { class: "flagged", x, y: height - tall(one.flagged), width, height: tall(one.flagged), rx: 3 }),
      svg("text", { x: x + width / 2, y: height + 15 }, one.first.slice(5)));
  });
  const all = spans.map((one) => `${one.first} ${one.reviews}`).join(", ");
  return h("figure", { class: "bars" }, h("figcaption", null, soft(`Reviews a ${briefing.kind} (${count(most)} at most), and those that flagged`)),
    svg("svg", { viewBox: `0 0 ${spans.length * (width + gap)} ${height + 20}`, width: spans.length * (width + gap), height: height + 20, role: "img", "aria-label": `Reviews: ${all}` }, ...bars));
}
