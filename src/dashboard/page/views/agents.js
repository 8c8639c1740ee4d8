// Agents: what is recommended about each, what they should learn, and one with all that concerns it.
import { count, empty, h, many, to } from "../dom.js";
import { breakerCard, distinct, filters, findingTable, lessonCard, list, maybe, pages, select, text } from "./parts.js";
import { reviewTable } from "./reviews.js";
import { taskTable } from "./tasks.js";

const FINDINGS = 10;
const ORDER = ["open", "half_open", "closed"];

export async function agents({ ask, act, argument, query }) {
  if (argument) return agent({ ask, act, argument });
  const [breakers, lessons] = await Promise.all([list(ask, "/v1/breakers", { limit: 100, order: "asc", ...query }), maybe(list(ask, "/v1/reflexions", { status: "open", agent: query.agent }))]);
  const sorted = breakers.items.toSorted((a, b) => ORDER.indexOf(a.recommendation) - ORDER.indexOf(b.recommendation) || b.consecutive_rejections - a.consecutive_rejections);
  const troubled = sorted.filter((one) => one.recommendation !== "closed");
  const calm = sorted.filter((one) => one.recommendation === "closed");
  return [
    h("h1", null, "Agents"),
    filters("agents", query, select("recommendation", "Breaker", ORDER, query.recommendation), text("agent", "Agent", query.agent)),
    troubled.map((one) => breakerCard(one, { ask, act })),
    calm.length ? h("div", { class: "grid" }, calm.map((one) => h("a", { class: "tile", href: to(["agents", one.agent], "").getAttribute("href"), "data-key": one.agent }, h("bdi", { class: "clamp" }, one.agent),
      h("span", null, one.consecutive_rejections ? `${count(one.consecutive_rejections)} of ${many(one.threshold, "rejection")} in a row` : "no rejections in a row")))) : null,
    sorted.length ? null : empty(Object.values(query).some(Boolean) ? "No matching agents." : "No agent has been judged yet: a breaker needs a verified review."),
    pages("agents", query, breakers),
    h("h2", null, "Lessons"), lessons?.items.length ? lessons.items.map(lessonCard) : empty("No fault has recurred."),
  ];
}

async function agent({ ask, act, argument }) {
  const of = { agent: argument, limit: 10 };
  const [breaker, lessons, findings, reviews, tasks] = await Promise.all([ask(`/v1/breakers/${encodeURIComponent(argument)}`), maybe(list(ask, "/v1/reflexions", { ...of, limit: 50 })),
    list(ask, "/v1/findings", { agent: argument }), list(ask, "/v1/reviews", of), list(ask, "/v1/trajectories", of)]);
  const more = (path, page) => (page.next_cursor ? h("p", { class: "pages" }, to(path, "All of them", { agent: argument })) : null);
  return [
    h("h1", null, h("bdi", null, argument)),
    breakerCard(breaker, { ask, act }),
    h("h2", null, "Newest findings"), findingTable(distinct(findings.items).slice(0, FINDINGS)), findings.items.length ? h("p", { class: "pages" }, to("findings", "All of them", { agent: argument })) : null,
    lessons?.items.length ? [h("h2", null, "Lessons"), lessons.items.map(lessonCard)] : null,
    h("h2", null, "Newest reviews"), reviewTable(reviews.items), more("reviews", reviews),
    h("h2", null, "Tasks"), taskTable(tasks.items, "No tasks."), more("tasks", tasks),
    h("p", { class: "pages" }, to("events", "Events of this agent", { agent: argument })),
  ];
}
