// Briefings of days and reports of weeks, each in its shadow's local time.
import { agentLink, cell, count, empty, h, link, many, percent, soft, table, tag, taskLink, to, usd, when } from "../dom.js";
import { reason } from "./parts.js";
import { agentTable, week } from "./overview.js";

const tile = (value, label, kind) => h("div", { class: "tile" }, h("b", { class: kind }, value), h("span", null, label));
const DAY_MS = 86_400_000;
/** The day so many days from `date`, both as 2026-02-28. */
const beside = (date, days) => new Date(Date.parse(`${date}T00:00:00Z`) + days * DAY_MS).toISOString().slice(0, 10);

/** The ISO week (2026-W09) of a day: that of its Thursday. */
function isoWeek(date) {
  const thursday = beside(date, 3 - ((new Date(`${date}T00:00:00Z`).getUTCDay() + 6) % 7));
  const days = (Date.parse(thursday) - Date.parse(`${thursday.slice(0, 4)}-01-01`)) / DAY_MS;
  return `${thursday.slice(0, 4)}-W${String(Math.floor(days / 7) + 1).padStart(2, "0")}`;
}

export async function briefing({ recall, argument }) {
  const weekly = argument === "week" || argument.includes("-W");
  const path = weekly ? `/v1/reports/${encodeURIComponent(argument === "week" ? "latest" : argument)}` : `/v1/briefings/${encodeURIComponent(argument || "latest")}`;
  const one = await recall(path);
  const step = weekly ? [isoWeek(beside(one.first, -7)), isoWeek(beside(one.first, 7))] : [beside(one.first, -1), beside(one.first, 1)];
  const go = (event) => event.target.value && (location.hash = link(["briefing", weekly ? isoWeek(event.target.value) : event.target.value]));
  const { totals, feedback } = one;
  return [
    h("h1", null, weekly ? `Week ${one.period}` : `Briefing of ${one.period}`),
    h("p", { class: "row" }, to(["briefing", step[0]], "← Before"), to(["briefing", step[1]], "After →"), weekly ? to(["briefing"], "Days") : to(["briefing", "week"], "Weeks"),
      h("label", { class: "small soft" }, weekly ? "Week of " : "Day ", h("input", { type: "date", value: one.first, onchange: go })), one.complete ? soft("made ", when(one.made_at)) : tag("not over yet", "warning"), weekly ? soft(`${one.first} to ${one.last}`) : null),
    one.first_day >= one.first ? h("p", null, `This installation began on ${one.first_day}: there are no figures before that day.`) : null,
    h("h2", null, "Gravest findings"), gravestList(one.gravest),
    h("h2", null, "Not judged by a model, and why"), notJudged(one),
    h("h2", null, "Figures"),
    h("div", { class: "tiles" }, tile(count(totals.reviews), "reviews"), totals.assessments.CHECKED ? tile(count(totals.assessments.CHECKED), "checked, not judged") : null, tile(count(totals.assessments.FLAG), "flagged", totals.assessments.FLAG ? "critical" : null), tile(count(totals.findings.critical), "critical findings", totals.findings.critical ? "critical" : null),
      tile(count(totals.findings.warning), "warnings", totals.findings.warning ? "warning" : null), tile(percent(totals.finding_rate), "found something"), tile(usd(totals.cost_usd), "spent"), totals.failed ? tile(count(totals.failed), "failed", "warning") : null),
    week(one),
    one.breakers.length ? [h("h2", null, "Agents to hold back or watch, when this was made"), table("Breakers", ["Agent", "Breaker", "Since", "Acknowledged"], one.breakers.map((own) => [own.agent, agentLink(own.agent), tag(own.recommendation, own.recommendation === "open" ? "critical" : "warning"), when(own.since), own.acknowledged ? "yes" : "no"]))] : null,
    one.recurring.length ? [h("h2", null, "Recurring faults"), table("Recurring faults", ["Severity", "Fault", "Agent", "Times", "Before"], one.recurring.map((own) => [`${own.agent} ${own.fingerprint}`, tag(own.severity),
      cell({ class: "wide" }, h("span", { class: "clamp", dir: "auto" }, own.description), soft(`${own.category} · ${own.rule}`)), agentLink(own.agent), cell({ class: "n" }, count(own.times)), cell({ class: "n" }, count(own.before))]))] : null,
    h("h2", null, "Agents"), one.agents.length ? agentTable(one.agents) : empty("No agent was reviewed."), one.more_agents ? soft(`${count(one.more_agents)} more agents were reviewed.`) : null,
    h("h2", null, "Shadows"), shadowLines(one.shadows),
    h("h2", null, "Feedback"), h("p", null, `${count(feedback.confirmed)} confirmed, ${count(feedback.false_positive)} false positive, ${count(feedback.resolved)} resolved, ${count(feedback.open)} without feedback.`),
    one.passive.length ? [h("h2", null, "Passive shadows"), soft("Passive shadows only observe; the figures above do not include them."), shadowLines(one.passive)] : null,
  ];
}

function gravestList(findings) {
  if (!findings.length) return empty("None.");
  return h("ul", null, findings.map((one) => h("li", { "data-key": one.id }, tag(one.severity), " ", h("span", { dir: "auto" }, to(["findings", one.id], one.description || "(no description)")), " ",
    soft(agentLink(one.agent), one.task_id ? [", task ", taskLink(one.task_id)] : null, `, found by ${one.shadow}`, one.times > 1 ? `, ${count(one.times)} times` : null, one.verified || one.source !== "model" ? null : ", not verified"))));
}

/** Events without a review, and reviews without a model's verdict. */
function notJudged({ shadows, totals }) {
  const reviews = [[totals.assessments.CHECKED, "made by the built-in checks alone, which found nothing"], [totals.assessments.INCONCLUSIVE, "without a verdict by the model"], [totals.failed, "given up"], [totals.open, "not finished yet"]];
  const lines = [...shadows.flatMap((one) => Object.entries(one.skips).map(([name, n]) => h("li", null, `${many(n, "event")} skipped by ${one.shadow}: `, reason(name)))),
    ...reviews.filter(([n]) => n).map(([n, what]) => h("li", null, `${many(n, "review")} ${what}`))];
  return lines.length ? h("ul", null, lines) : empty("No events that a shadow watches.");
}

function shadowLines(shadows) {
  if (!shadows.length) return empty("None.");
  return table("Shadows", ["Shadow", "Mode", "Reviews", "Flagged", "Critical", "Warnings", "Found something", "Cost", "Skipped"], shadows.map((one) => [one.shadow, to(["shadows", one.shadow], one.shadow), one.mode, cell({ class: "n" }, count(one.reviews)), cell({ class: "n" }, count(one.assessments.FLAG)),
    cell({ class: "n" }, count(one.findings.critical)), cell({ class: "n" }, count(one.findings.warning)), cell({ class: "n" }, percent(one.finding_rate)), cell({ class: "n" }, usd(one.cost_usd)),
    Object.entries(one.skips).map(([name, n]) => h("div", { class: "small" }, `${count(n)}: `, reason(name)))]));
}
