// Shadows: how each one's day stands, what it watches and may spend, how often it is right, and what it skipped.
import { cell, count, empty, facts, h, percent, seconds, share, soft, table, tag, to, usd, words } from "../dom.js";
import { distinct, findingTable, list, maybe, reason } from "./parts.js";
import { reviewTable } from "./reviews.js";

export function shadowTable(shadows) {
  if (!shadows.length) return empty("No shadow is in force.");
  return table("Shadows", ["Shadow", "Mode", "Reviews today", "Money today", "Skipped today", "Health"], shadows.map((one) => [one.name,
    [h("div", null, to(["shadows", one.name], one.name)), soft(one.reviewer === "model" ? one.model : "built-in checks")], one.mode,
    cell(null, ...[share("reviews today", one.reviews_today, one.max_reviews_per_day, count)].flat(), one.checked_today ? soft(` ${count(one.checked_today)} checked, judged by no model`) : null), cell(null, ...[share("money today", one.usd_today, one.max_usd_per_day, usd)].flat()),
    Object.entries(one.skips_today).map(([name, n]) => h("div", { class: "small" }, `${count(n)}: `, reason(name))),
    cell({ class: "small" }, one.health === "ok" ? tag("ok") : one.health)]));
}

/** Models that a shadow names; what else is declared matters to nobody until one does. */
export function providerTable(status) {
  const used = new Set(status.shadows.filter((one) => one.reviewer === "model" || one.health !== "ok").map((one) => one.model));
  const models = status.providers.filter((one) => used.has(one.name) && one.state !== "checks");
  if (!models.length) return empty("No shadow has a model: the built-in checks review.");
  const kind = { ok: "good", open: "critical", half_open: "warning", no_key: "warning" };
  const says = { ok: "ok", open: "paused after failures", half_open: "on trial", no_key: "no key" };
  return table("Models in use", ["Alias", "Model", "State", "Last failure"], models.map((one) => [one.name, one.name, one.model,
    [tag(says[one.state] ?? one.state, kind[one.state]), one.retry_in_ms ? soft(` tried again in ${seconds(one.retry_in_ms / 1000)}`) : null], cell({ class: "wide small" }, one.last_error ?? "–")]));
}

const FINDINGS = 10;
const judged = (one) => (one.judged ? `${percent(one.precision)} right of ${count(one.judged)} that people judged (${percent(one.low)} to ${percent(one.high)})` : "no findings judged by people yet");

export async function shadows({ ask, argument }) {
  if (argument) return shadow({ ask, argument });
  const [status, all, skips] = await Promise.all([ask("/v1/status"), ask("/v1/shadows"), ask("/v1/skips?limit=50")]);
  return [
    h("h1", null, "Shadows"), shadowTable(status.shadows),
    h("h2", null, "How often they are right"),
    all.items.length ? table("Precision", ["Shadow", "Findings"], all.items.map((one) => [one.name, to(["shadows", one.name], one.name), judged(one.precision.in_force)])) : null,
    h("h2", null, "Models in use"), providerTable(status),
    h("h2", null, "Skips"),
    skips.items.length ? table("Skips", ["Day", "Shadow", "Reason", "Events"], skips.items.map((one) => [`${one.day} ${one.shadow} ${one.reason}`, one.day, one.shadow, reason(one.reason), cell({ class: "n" }, count(one.count))])) : empty("Nothing was skipped."),
  ];
}

const watches = (one) => [
  h("code", null, one.agent), one.all ? " everything" : ` ${one.triggers.map(words).join(", ")}`, one.task_type ? `, tasks of the type ${one.task_type}` : "", one.min_cost ? `, from ${usd(one.min_cost)}` : "",
  Object.keys(one.metadata).length ? [", metadata ", h("code", null, JSON.stringify(one.metadata))] : "",
  one.except.length ? `, but not ${one.except.join(", ")}` : "",
];

async function shadow({ ask, argument }) {
  const one = await ask(`/v1/shadows/${encodeURIComponent(argument)}`);
  const of = { shadow: argument, limit: 10 };
  // A passive shadow's findings are shown to who asks for them.
  const [findings, reviews] = await Promise.all([maybe(list(ask, "/v1/findings", { shadow: argument, mode: one.mode === "passive" ? "passive" : "" })), maybe(list(ask, "/v1/reviews", of))]);
  const spend = one.cost_control;
  const caps = [["Reviews a day", spend.max_reviews_per_day, count], ["Reviews an agent a day", spend.max_reviews_per_target_per_day, count], ["Money a day", spend.max_usd_per_day, usd], ["Tokens a day", spend.max_tokens_per_day, count],
    ["Skips tasks below", spend.skip_if_task_cost_below, usd], ["Cooldown", spend.cooldown_seconds || null, seconds], ["Sample", spend.sample < 1 ? spend.sample : null, percent]];
  return [
    h("p", { class: "row" }, tag(one.mode), one.enabled ? null : tag("switched off", "warning"), one.health === "ok" ? tag("ok") : soft(one.health)),
    h("h1", null, one.name),
    h("section", { class: "card" }, facts(
      ["Reviewer", one.reviewer === "model" ? one.model : "built-in checks"], ["Watches", one.watch.map((rule) => h("div", null, watches(rule)))], ["Reviews of", one.scope === "event" ? "single events" : one.scope],
      ["Right", judged(one.precision.in_force)], ...caps.filter(([, value]) => value !== null && value !== undefined).map(([name, value, say]) => [name, say(value)]),
      ["Time zone", spend.time_zone], spend.batch ? ["Batches", `up to ${spend.batch.max_events} events or ${count(spend.batch.max_chars)} characters, ${seconds(spend.batch.max_wait_seconds)} at most`] : null,
      one.criteria.length ? ["Criteria", h("ul", null, one.criteria.map((text) => h("li", null, text)))] : null, ["Checks", one.checks.join(", ")], ["Flags from", one.flag_at], ["Version", one.version])),
    h("h2", null, "Newest findings"), findings ? findingTable(distinct(findings.items).slice(0, FINDINGS)) : empty("This key may not read findings."),
    findings?.items.length ? h("p", { class: "pages" }, to("findings", "All of them", { shadow: argument, mode: one.mode })) : null,
    h("h2", null, "Newest reviews"), reviews ? reviewTable(reviews.items) : null, reviews?.next_cursor ? h("p", { class: "pages" }, to("reviews", "All of them", { shadow: argument })) : null,
  ];
}
