// Webhooks: who is told, and the letters that could not be delivered.
import { cell, count, empty, h, link, many, soft, table, tag, when } from "../dom.js";
import { filters, list, maybe, pages, select } from "./parts.js";

export async function webhooks({ ask, act, query }) {
  const [all, dead] = await Promise.all([maybe(ask("/v1/webhooks")), maybe(list(ask, "/v1/webhooks/dead", query))]);
  if (!all) return [h("h1", null, "Webhooks"), empty("Webhooks are shown to keys with the scope admin.")];
  const resend = (letter) => () => act(() => ask(`/v1/webhooks/dead/${letter.id}/resend`, { method: "POST" }), `Sent again to ${letter.endpoint}: the letter returns to this list if it fails again.`);
  return [
    h("h1", null, "Webhooks"),
    all.items.length ? table("Endpoints", ["Endpoint", "Host", "Receives", "State", "Waiting", "Dead letters"], all.items.map((one) => [one.name, one.name, one.host, one.events.join(", "),
      one.state === "gone" ? [tag("gone"), " ", soft("the endpoint answered 410 Gone; sending a dead letter again tries it again")] : one.state === "failing" ? [tag("failing"), " ", soft(one.last_error, ", next try ", when(one.next_try_at))] : tag(one.state), cell({ class: "n" }, count(one.waiting)), cell({ class: `n ${one.dead ? "critical" : ""}` }, one.dead ? h("a", { href: link("webhooks", { endpoint: one.name }) }, count(one.dead)) : "0")]))
      : empty("No webhooks: the settings declare none."),
    all.items.length || dead.items.length ? [h("h2", null, "Dead letters"), all.items.length > 1 ? filters("webhooks", query, select("endpoint", "Endpoint", all.items.map((one) => one.name), query.endpoint)) : null,
      dead.items.length ? table("Dead letters", ["Given up", "Endpoint", "What", "Failure", "Action"], dead.items.map((one) => [one.id, cell({ class: "when" }, when(one.dead_at)), one.endpoint,
        cell({ class: "wide" }, h("div", null, one.type), h("details", null, h("summary", null, "Content"), h("pre", { tabindex: 0 }, JSON.stringify(one.payload, null, 2)))),
        [one.last_failure ?? (one.last_status ? `answered ${one.last_status}` : "–"), h("div", null, soft(one.attempts ? `after ${many(one.attempts, "attempt")}` : "not tried"))], h("button", { onclick: resend(one), "aria-label": `Send again: ${one.type} to ${one.endpoint}` }, "Send again")]))
        : empty(all.items.some((one) => one.waiting) ? "No dead letters; some messages still wait." : "Everything was delivered."), pages("webhooks", query, dead)] : null,
  ];
}
