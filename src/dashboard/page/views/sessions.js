// Sessions: agents with a sidecar, and one with its documents, labels and rulings, and a note for its agent.
import { agentLink, cell, count, empty, facts, h, link, many, soft, table, tag, taskLink, when } from "../dom.js";
import { filters, list, maybe, pages, select, text } from "./parts.js";

const ruled = ({ allow, warn, block }) => [block ? [tag(`${count(block)} blocked`, "critical"), " "] : null, warn ? [tag(`${count(warn)} warned`, "warning"), " "] : null, soft(`${count(allow)} allowed`)];

export async function sessions({ ask, act, argument, query }) {
  if (argument) return session({ ask, act, argument });
  const page = await maybe(list(ask, "/v1/sessions", query));
  if (!page) return [h("h1", null, "Sessions"), empty("Sessions are shown to keys with the scope read.")];
  return [
    h("h1", null, "Sessions"),
    filters("sessions", query, select("state", "State", ["open", "closed"], query.state), text("agent", "Agent", query.agent)),
    page.items.length ? table("Sessions", ["Used last", "State", "Task", "Agent and route", "Steps", "Rulings"], page.items.map((one) => [one.id,
      cell({ class: "when" }, h("a", { href: link(["sessions", one.id]) }, when(one.seen_at))),
      cell({ class: "brief" }, tag(one.state, one.state === "open" ? "good" : null), one.outcome ? [" ", tag(one.outcome, one.outcome === "succeeded" ? "good" : "critical")] : null),
      cell({ class: "wide" }, h("span", { class: "clamp", dir: "auto" }, one.task ?? "–"), one.taints?.length ? one.taints.map((label) => [tag(label, "warning"), " "]) : null),
      cell({ class: "who" }, h("div", null, agentLink(one.agent)), soft(one.route)),
      soft(`${many(one.turns, "turn")}, ${many(one.messages, "message")}`), cell({ class: "brief" }, ruled(one.rulings))]))
      : empty(Object.values(query).some(Boolean) ? "No matching sessions." : "No sessions yet: they appear here once an agent attaches a sidecar."), pages("sessions", query, page),
  ];
}

async function session({ ask, act, argument }) {
  const id = encodeURIComponent(argument);
  const one = await ask(`/v1/sessions/${id}`);
  const tell = (event) => {
    event.preventDefault();
    const form = event.currentTarget;
    const note = new FormData(form).get("text").trim();
    if (note) act(() => ask(`/v1/sessions/${id}/notes`, { method: "POST", body: { text: note } }).then(() => form.reset()), "The agent receives the note with its next turn or message.");
  };
  return [
    h("p", { class: "row" }, tag(one.state, one.state === "open" ? "good" : null), one.outcome ? tag(one.outcome, one.outcome === "succeeded" ? "good" : "critical") : null, h("b", null, agentLink(one.agent)), soft("used ", when(one.seen_at))),
    h("h1", { dir: "auto" }, one.task ?? "Session"), soft(one.id),
    h("section", { class: "card" }, facts(one.task_id ? ["Task", taskLink(one.task_id)] : null, one.route ? ["Route", one.route] : null, one.modes?.length ? ["Modes", one.modes.join(", ")] : null,
      one.taints?.length ? ["Labels", one.taints.map((label) => [tag(label, "warning"), " "])] : null, ["Rulings", ruled(one.rulings)], ["Steps", `${many(one.turns, "turn")}, ${many(one.messages, "message")}`],
      ["Tools", count(one.tools)], ["Began", when(one.opened_at)], one.closed_at ? ["Ended", when(one.closed_at), soft(` ${one.closed_because}`)] : null)),
    one.state === "open" ? h("form", { class: "filter", onsubmit: tell }, h("label", null, "Note to the agent", h("input", { name: "text", maxlength: 2000, size: 50, placeholder: "sent with its next turn or message" })), h("button", null, "Send note")) : null,
    one.notes?.length ? [h("h2", null, "Notes not yet delivered"), h("ul", null, one.notes.map((note) => h("li", { dir: "auto" }, note)))] : null,
    h("h2", null, "Documents"), one.documents.length ? table("Documents", ["Document", "Version", "Items"], one.documents.map((document) => [document.name, document.name, cell({ class: "n" }, count(document.version)),
      document.open_items + document.done_items ? `${count(document.done_items)} of ${count(document.open_items + document.done_items)} done` : soft("none")])) : empty("No documents."),
    one.calls?.length ? [h("h2", null, "Calls"), table("Calls", ["Tool", "Result"], one.calls.map((call, at) => [String(at), h("code", { class: "long" }, named(call.tool)), call.ok === false ? tag("failed", "critical") : call.ok ? tag("ok") : soft("unknown")]))] : null,
  ];
}

const named = (tool) => (typeof tool === "string" ? tool : [tool.server, tool.name].filter(Boolean).join("."));
