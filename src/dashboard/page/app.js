// Which view is shown, how the API is asked, and how often.
import { h, empty } from "./dom.js";
import { views } from "./views.js";

const REFRESH_MS = 4000;
const view = document.getElementById("view");
const state = document.getElementById("state");
const dialog = document.getElementById("key");
let timer = 0;
let turn = 0;

class Refused extends Error {
  constructor(status, problem) {
    super(problem?.detail ?? problem?.title ?? `the server answered ${status}`);
    this.status = status;
  }
}

/** Asks the API: JSON, or text where `accept` says so. */
async function ask(path, { method = "GET", body, accept = "application/json" } = {}) {
  const headers = { accept };
  const key = sessionStorage.getItem("key");
  if (key) headers.authorization = `Bearer ${key}`;
  if (body) headers["content-type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => null));
  return accept === "application/json" ? answer.json() : answer.text();
}

function askForKey(words) {
  document.getElementById("refusal").textContent = words;
  if (!dialog.open) dialog.showModal();
}

dialog.addEventListener("close", () => {
  sessionStorage.setItem("key", dialog.querySelector("input").value.trim());
  dialog.querySelector("form").reset();
  show();
});

function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  return { name: name || "overview", argument: decodeURIComponent(rest.join("/")), query: Object.fromEntries(new URLSearchParams(query)) };
}

/** Shows the view of the address; again after a while if it is one that moves. */
async function show() {
  clearTimeout(timer);
  const mine = ++turn;
  const { name, argument, query } = place();
  const made = views[name];
  for (const one of document.querySelectorAll("nav a")) {
    const current = one.getAttribute("href") === (name === "overview" ? "#/" : `#/${name}`);
    current ? one.setAttribute("aria-current", "page") : one.removeAttribute("aria-current");
  }
  try {
    const content = made ? await made.draw({ ask, argument, query, again: show }) : empty("There is no such view.");
    if (mine !== turn) return;
    // What somebody types or has marked is not taken away.
    const busy = view.contains(document.activeElement) && document.activeElement.matches("input, select, button");
    if (!busy && !String(getSelection())) view.replaceChildren(...[content].flat());
    state.className = "";
    state.textContent = made?.moves ? "live" : "";
  } catch (error) {
    if (mine !== turn) return;
    state.className = "bad";
    if (error.status === 401) {
      state.textContent = "a key is needed";
      askForKey(sessionStorage.getItem("key") ? error.message : "");
      return;
    }
    state.textContent = error.status ? "refused" : "the server does not answer";
    if (error.status) view.replaceChildren(h("p", { class: "empty bad" }, error.message));
  }
  if (made?.moves) timer = setTimeout(show, REFRESH_MS);
}

addEventListener("hashchange", () => {
  view.replaceChildren();
  show().then(() => view.focus());
});
document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : show()));
show();
