// Which view is shown, how the API is asked, and when again: a finding that is streamed refreshes the page, and so does time.
import { empty, h, settle } from "./dom.js";
import { views } from "./views.js";

const LIVE_MS = 15_000;
const POLL_MS = 5_000;
/** Findings may come by the hundred: at most one refresh in so long. */
const NUDGE_MS = 1_000;
/** A stream that was refused is asked for again after this. */
const LISTEN_AGAIN_MS = 5_000;

/** The end of a refusal that says which request lists what there is: here a menu does. */
const LISTED_BY = /[;:] GET \/v1\/\S+ (lists|says|has|shows) .*$/;

const view = document.getElementById("view");
const state = document.getElementById("state");
const notice = document.getElementById("notice");
const dialog = document.getElementById("key");
const forget = document.getElementById("forget");
const remembered = new Map();
let timer = 0;
let turn = 0;
let drawn = 0;
let shown = null;
let stream = null;
let live = false;
let asked = false;

class Refused extends Error {
  constructor(status, problem) {
    super([problem?.detail?.replace(LISTED_BY, "") ?? problem?.title ?? `the server answered ${status}`, ...(problem?.errors ?? []).map((one) => `${one.pointer}: ${one.detail}`)].join(" "));
    this.status = status;
  }
}

const key = () => sessionStorage.getItem("key");
const authorized = (headers) => (key() ? { ...headers, authorization: `Bearer ${key()}` } : headers);

/** Asks the API: JSON, or text where `accept` says so. */
async function ask(path, { method = "GET", body, accept = "application/json" } = {}) {
  const headers = authorized({ accept });
  if (body) headers["content-type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => null));
  return accept === "application/json" ? answer.json() : answer.text();
}

/** The same for what is dear to compute and changes slowly: an answer counts for half a minute. */
function recall(path) {
  const known = remembered.get(path);
  if (known && Date.now() - known.at < 30_000) return known.answer;
  const answer = ask(path);
  remembered.set(path, { at: Date.now(), answer });
  answer.catch(() => remembered.delete(path));
  return answer;
}

/** Does what somebody asked for, says why it did not work, and shows what became of it. */
async function act(work, done) {
  try {
    await work();
    remembered.clear();
    say(done ?? "");
  } catch (error) {
    say(error.status === 403 ? `${error.message} (this key may not do that)` : error.message, true);
  }
  await show();
}

function say(text, bad) {
  notice.textContent = text;
  notice.className = bad ? "bad" : "good";
  notice.hidden = !text;
}

function askForKey(text) {
  document.getElementById("refusal").textContent = text;
  if (!dialog.open) dialog.showModal();
}

dialog.addEventListener("close", () => {
  const given = dialog.querySelector("input").value.trim();
  dialog.querySelector("form").reset();
  // Closed without one: the page says what is missing, and asks no more by itself.
  if (given) useKey(given);
});

function useKey(given) {
  given ? sessionStorage.setItem("key", given) : sessionStorage.removeItem("key");
  remembered.clear();
  hush();
  view.replaceChildren();
  shown = null;
  show();
}
forget.addEventListener("click", () => useKey(""));

/** The view that the address names, or `null` for an address that is none. */
function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  try {
    const [name, ...rest] = path.split("/").map(decodeURIComponent);
    return { name: name || "overview", argument: rest.join("/"), query: Object.fromEntries(new URLSearchParams(query)) };
  } catch {
    return { name: "", argument: "", query: {} };
  }
}

/** Shows the view of the address, and again after a while. */
async function show() {
  clearTimeout(timer);
  const mine = ++turn;
  drawn = Date.now();
  const address = location.hash;
  const { name, argument, query } = place();
  for (const one of document.querySelectorAll("nav a")) {
    const current = one.getAttribute("href") === (name === "overview" ? "#/" : `#/${name}`);
    current ? one.setAttribute("aria-current", "page") : one.removeAttribute("aria-current");
  }
  forget.hidden = !key();
  try {
    const draw = views.get(name);
    const content = draw ? await draw({ ask, recall, act, argument, query }) : [empty("Page not found. ", h("a", { href: "#/" }, "Overview"))];
    if (mine !== turn) return;
    put([content].flat(Infinity).filter(Boolean), address);
    if (!stream) listen();
    tell();
  } catch (error) {
    if (mine !== turn) return;
    refuse(error, address);
  }
  if (!document.hidden) timer = setTimeout(show, live ? LIVE_MS : POLL_MS);
}

function put(content, address) {
  // Marked text stays until it is let go; a new address always shows.
  const marks = address === shown && !getSelection().isCollapsed && view.contains(getSelection().anchorNode);
  if (!marks) address === shown ? settle(view, content) : view.replaceChildren(...content);
  shown = address;
  view.setAttribute("aria-busy", "false");
  const head = view.querySelector("h1")?.textContent;
  document.title = head ? `${head.slice(0, 80)} – Umbra` : "Umbra";
}

function refuse(error, address) {
  state.className = "bad";
  live = false;
  if (!error.status) {
    // A fault of this page is not the server's silence.
    if (!(error instanceof TypeError && /fetch|network|load/i.test(error.message))) console.error(error);
    state.textContent = "no answer, trying again";
    if (address !== shown) put([empty("The server does not answer. This page tries again by itself.")], null);
  } else if (error.status === 401) {
    state.textContent = "a key is needed";
    if (address !== shown) put([empty("This server requires a key. ", h("button", { onclick: () => askForKey("") }, "Enter a key"))], address);
    if (!asked || key()) askForKey(key() ? error.message : "");
    asked = true;
    sessionStorage.removeItem("key");
    forget.hidden = true;
  } else {
    state.textContent = error.status === 403 ? "not for this key" : error.status === 404 ? "not found" : "refused";
    put([h("div", { class: "empty" }, h("p", { class: "bad" }, error.message), h("p", null, h("a", { href: "#/" }, "Overview")))], address);
  }
}

function tell() {
  state.className = live ? "live" : "";
  state.textContent = live ? "live" : `every ${POLL_MS / 1000} s`;
}

/** Follows the findings; what they say is read with everything else, so that there is one way to show it. */
async function listen() {
  const own = new AbortController();
  stream = own;
  try {
    // Not EventSource, which sends no key.
    const answer = await fetch("/v1/findings/stream", { headers: authorized({ accept: "text/event-stream" }), signal: own.signal });
    if (!answer.ok) throw new Refused(answer.status);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (!live) {
        live = true;
        tell();
      }
      rest += value;
      const lines = rest.split("\n");
      rest = lines.pop();
      if (lines.includes("event: finding")) nudge();
    }
  } catch { /* Refused, cut or hushed: time refreshes the page meanwhile. */ }
  if (stream !== own) return;
  live = false;
  // Whether the server is gone or the stream alone, the next answer tells.
  if (!document.hidden) nudge();
  setTimeout(() => { if (stream === own) stream = null; }, LISTEN_AGAIN_MS);
}

function hush() {
  stream?.abort();
  stream = null;
  live = false;
}

let nudged = 0;
function nudge() {
  clearTimeout(nudged);
  nudged = setTimeout(show, Math.max(0, drawn + NUDGE_MS - Date.now()));
}

addEventListener("hashchange", async () => {
  say("");
  view.setAttribute("aria-busy", "true");
  await show();
  scrollTo(0, 0);
  view.focus({ preventScroll: true });
});
// A hidden tab costs the server nothing, not even one of the browser's few connections.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) return show();
  clearTimeout(timer);
  hush();
});
show();
