// Approvals: calls that wait for a person's word, and those that had it.
import { agentLink, card, count, empty, facts, h, link, seconds, soft, tag, to, when } from "../dom.js";
import { filters, maybe, select, text } from "./parts.js";

const STATES = ["pending", "approved", "denied", "used", "expired"];

export async function approvals({ ask, act, query }) {
  const asked = Object.entries({ state: "pending", ...query }).filter(([, value]) => value && value !== "all");
  const page = await maybe(ask(`/v1/approvals?${new URLSearchParams([...asked, ["limit", 100]])}`));
  if (!page) return [h("h1", null, "Approvals"), empty("Approvals are shown to keys with the scope read or admin.")];
  return [
    h("h1", null, "Approvals"),
    filters("approvals", query, select("state", "State", [...STATES, "all"], query.state || "pending", "pending"), text("agent", "Agent", query.agent), text("tool", "Tool", query.tool)),
    page.items.length ? page.items.map((one) => approvalCard(one, { ask, act })) : empty((query.state || "pending") === "pending" ? "No call waits for approval." : "No matching approvals."),
  ];
}

/** A call with its arguments, who asks and why, how long it has waited, and the two answers. */
function approvalCard(one, { ask, act }) {
  const say = (event) => {
    event.preventDefault();
    const reason = new FormData(event.currentTarget).get("reason").trim();
    const decision = event.submitter.value;
    act(() => ask(`/v1/approvals/${encodeURIComponent(one.id)}`, { method: "POST", body: { decision, ...(reason ? { reason } : {}) } }),
      decision === "approve" ? `${one.tool} may ${one.execution === "shadow" ? "be rehearsed" : "run"} once, with these arguments.` : `${one.tool} will not run.`);
  };
  const left = (new Date(one.expires_at) - Date.now()) / 1000;
  return card(one.id,
    h("p", { class: "row" }, tag(one.state), one.execution === "shadow" ? tag("rehearsal") : null, h("code", { class: "long" }, one.tool), soft("by "), agentLink(one.agent), soft("asked ", when(one.asked_at))),
    one.reason || one.rule ? h("p", { dir: "auto" }, one.reason || one.rule) : null,
    one.arguments ? h("pre", { tabindex: 0 }, JSON.stringify(one.arguments, null, 2)) : soft("The arguments are erased."),
    facts(one.rule ? ["Rule", one.rule] : null, one.run ? ["Run", one.run] : null, one.session ? ["Session", one.session] : null,
      one.state === "pending" ? ["Expires", when(one.expires_at), left > 0 ? soft(` in ${seconds(left)}`) : null] : null,
      one.answered_at ? ["Answered", when(one.answered_at), one.answered_by ? soft(` by ${one.answered_by}`) : null] : null, one.note ? ["Note", h("span", { dir: "auto" }, one.note)] : null),
    one.state === "pending" ? h("form", { class: "filter", onsubmit: say }, h("label", null, "Reason", h("input", { name: "reason", maxlength: 2000, size: 40, placeholder: "for the audit, and for the denied agent" })),
      h("button", { value: "approve", "aria-label": `Approve ${one.tool} of ${one.agent}` }, "Approve"), h("button", { value: "deny", class: "quiet", "aria-label": `Deny ${one.tool} of ${one.agent}` }, "Deny")) : null);
}

/** What the overview says of calls that wait. */
export const waiting = (page) => (page?.items.length ? card("approvals", h("p", { class: "row" }, tag("pending"), h("b", null, h("a", { href: link("approvals") }, `${count(page.items.length)} ${page.items.length === 1 ? "call waits" : "calls wait"} for approval`)), to("approvals", "Answer"))) : null);
