// Timeline: the steps of a task as a table, each with a bar at its place in time and a link to its card below.
import { cell, count, elapsed, h, link, many, soft, svg, table, tag, usd } from "../dom.js";
import { gist } from "./parts.js";

/** A gap is folded if it is longer than this, and than so many times the work and the shorter half of the gaps: else the steps would be slivers. */
const FOLD_FROM_MS = 60_000;
const FOLD_FROM = 2;
/** Share of the width that a folded gap takes, and that all of them take together at most. */
const FOLD_WIDTH = 0.04;
const FOLDS_WIDTH = 0.3;
const DEEPEST = 6;

const two = (n) => String(Math.floor(n)).padStart(2, "0");
/** A time since the first step: exact also after hours. */
const offset = (ms) => (ms < 60_000 ? elapsed(ms) : `${Math.floor(ms / 3_600_000)}:${two((ms / 60_000) % 60)}:${two((ms / 1000) % 60)}`);
const start = (step) => Date.parse(step.started_at);
const end = (step) => start(step) + (step.duration_ms ?? 0);
const spent = (step) => (step.tokens ? step.tokens.input + step.tokens.output : 0);
const sum = (steps, of) => steps.reduce((total, step) => total + (of(step) ?? 0), 0);

/** The stretches of work, the gaps between them, and the function from a time to its share of the width. */
function scale(steps) {
  const work = [];
  for (const step of steps) {
    const last = work.at(-1);
    if (last && start(step) <= last.until) last.until = Math.max(last.until, end(step));
    else work.push({ from: start(step), until: end(step) });
  }
  const busy = work.reduce((total, one) => total + one.until - one.from, 0);
  const gaps = work.slice(1).map((one, at) => ({ from: work[at].until, until: one.from, length: one.from - work[at].until }));
  const short = gaps.map((gap) => gap.length).sort((a, b) => a - b).slice(0, (gaps.length - 1) / 2);
  const usual = short.reduce((total, length) => total + length, busy);
  const folds = gaps.filter((gap) => usual && gap.length > Math.max(FOLD_FROM_MS, FOLD_FROM * usual));
  const length = Math.max(...work.map((one) => one.until)) - work[0].from;
  const shown = folds.reduce((rest, gap) => rest - gap.length, length);
  const fold = Math.min(FOLD_WIDTH, FOLDS_WIDTH / folds.length);
  const room = 1 - (folds.length ? fold * folds.length : 0);
  const place = (time) => {
    const passed = folds.filter((gap) => gap.until <= time);
    const drawn = time - work[0].from - passed.reduce((total, gap) => total + gap.length, 0);
    return (shown ? (drawn / shown) * room : 0) + passed.length * fold;
  };
  return { busy, folds, fold, place, length };
}

const SEVERITIES = ["critical", "warning", "info"];
const found = (step) => SEVERITIES.map((severity) => [severity, step.findings.filter((one) => one.severity === severity).length]).filter(([, n]) => n);
const part = (share) => `${(share * 100).toFixed(2)}%`;

/** The bar of a step. A tick has no known duration; the least bar can be seen. */
function bar(step, { folds, fold, place }) {
  const [from, until] = [place(start(step)), place(end(step))];
  const width = Math.max(until - from, 0.006);
  const kind = found(step)[0]?.[0] ?? (step.tool ? "tool" : "model");
  return svg("svg", { class: "bar", "aria-hidden": "true", width: "100%", height: 16 },
    svg("rect", { class: "track", y: 7, width: "100%", height: 2 }),
    folds.map((gap) => svg("rect", { class: "fold", x: part(place(gap.until) - fold), width: part(fold), height: 16 })),
    step.duration_ms === undefined ? svg("rect", { class: `tick ${kind}`, x: part(Math.min(from, 0.994)), width: 3, height: 16 })
      : svg("rect", { class: kind, x: part(Math.min(from, 1 - width)), y: 3, width: part(width), height: 10, rx: 2 }));
}

const model = (step) => (typeof step.metadata?.otel?.model === "string" ? step.metadata.otel.model : null);
const nameOf = (step) => step.tool?.name || model(step) || (step.output !== undefined ? "output" : step.input !== undefined ? "input" : step.triggers.some((one) => one.name === "task_complete") ? "end of the task" : "step");

/** The name of a step, after its depth, with its agent where there are several, and the beginning of its text. */
function named(step, above, several) {
  const text = gist({ ...step, task: "" }).slice(0, 120);
  return h("div", null, above.slice(-DEEPEST).map(() => h("span", { class: "level" })),
    above.length ? h("span", { class: "unseen" }, `within ${nameOf(above.at(-1))}: `) : null,
    h("bdi", { class: "name", title: nameOf(step) }, h("a", { href: link(["events", step.id]), "data-step": step.id }, nameOf(step))),
    several ? h("bdi", { class: "soft small" }, step.agent) : null, text ? h("span", { class: "soft small gist", dir: "auto" }, text) : null);
}

/** A timeline of the steps of a page of a task, in the order of their start. */
export function timeline({ events: steps, agents, event_count: all }) {
  if (!steps.length) return null;
  const time = scale(steps);
  const [tokens, cost] = [sum(steps, spent), sum(steps, (step) => step.cost_usd)];
  const timed = steps.some((step) => step.duration_ms !== undefined);
  const columns = [["Step"], ["Start"], timed && ["Duration"], tokens && ["Tokens"], cost && ["Cost"], steps.some((step) => step.findings.length) && ["Findings"]].filter(Boolean).flat();
  const above = new Map();
  const rows = steps.flatMap((step) => {
    const parent = steps.find((one) => one.id === step.parent_id);
    above.set(step.id, parent ? [...above.get(parent.id), parent] : []);
    const gap = time.folds.find((one) => one.until === start(step) && !one.told);
    if (gap) gap.told = true;
    const cells = {
      Step: cell({ class: "step" }, named(step, above.get(step.id), agents.length > 1)),
      Start: cell({ class: "place" }, h("div", null, h("span", { class: "n" }, `+${offset(start(step) - start(steps[0]))}`), bar(step, time))),
      Duration: cell({ class: "n" }, step.duration_ms === undefined ? null : step.duration_ms ? elapsed(step.duration_ms) : "<1 ms"),
      Tokens: cell({ class: "n" }, spent(step) ? count(spent(step)) : null),
      Cost: cell({ class: "n" }, Number.isFinite(step.cost_usd) ? usd(step.cost_usd) : null),
      Findings: cell({ class: "found" }, ...found(step).map(([severity, n]) => [tag(severity), n > 1 ? soft(` × ${count(n)} `) : " "]).flat()),
    };
    const idle = gap ? [[`before ${step.id}`, cell({ class: "gap", colspan: columns.length }, `${elapsed(gap.length)} without a step, not to scale`)]] : [];
    return [...idle, [step.id, ...columns.map((name) => cells[name])]];
  });
  const [length, busy] = [elapsed(time.length), elapsed(time.busy)];
  const totals = [steps.length < all ? `${count(steps.length)} of ${many(all, "step")}` : many(all, "step"), time.length ? length : null, time.busy && busy !== length ? `${busy} of it in steps` : null, tokens ? many(tokens, "token") : null, cost ? usd(cost) : null];
  return h("section", { class: "timeline", "data-key": "timeline" }, h("h2", null, "Timeline"), h("p", null, soft(totals.filter(Boolean).join(" · "))), table("Timeline", columns, rows));
}

// One listener for all rows: an element that listens is drawn anew at each refresh and would lose the focus.
document.addEventListener("click", (event) => {
  const id = event.target.closest?.("a[data-step]")?.dataset.step;
  const card = id && document.querySelector(`section[data-key="${CSS.escape(id)}"]`);
  if (!card || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  card.scrollIntoView();
  card.focus({ preventScroll: true });
});
