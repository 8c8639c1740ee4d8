// Elements, texts, times and money. What agents and models wrote becomes text nodes and nothing else.

const listening = new WeakSet();

/** An element with properties (`class`, `href`, `on*`, others) and children: elements, texts, arrays, null. */
export function h(name, props, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) {
      element.addEventListener(key.slice(2), value);
      listening.add(element);
    } else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** A drawing or a part of one, with attributes and children. */
export function svg(name, props, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(props)) element.setAttribute(key, value);
  element.append(...children.flat());
  return element;
}

/**
 * Makes the children of `old` those of `fresh` and leaves alone what is equal, so that focus, scroll positions, open
 * details and half-typed words outlive a refresh. Children with `data-key` are matched by it, others by their place.
 */
export function settle(old, fresh) {
  const keyed = new Map([...old.children].filter((child) => child.dataset.key).map((child) => [child.dataset.key, child]));
  const plain = [...old.childNodes].filter((child) => !child.dataset?.key);
  const wanted = [...fresh].map((child) => {
    const key = child.dataset?.key;
    const match = key ? keyed.get(key) : plain.shift();
    // A key that stands twice is matched once.
    keyed.delete(key);
    if (!match) return child;
    if (match.isEqualNode(child)) return match;
    if (match.nodeType !== Node.ELEMENT_NODE || match.tagName !== child.tagName || listening.has(match) || listening.has(child)) return child;
    // Whether details are open is the reader's.
    const kept = match.tagName === "DETAILS" ? ["open"] : [];
    for (const { name } of [...match.attributes]) if (!child.hasAttribute(name) && !kept.includes(name)) match.removeAttribute(name);
    for (const { name, value } of child.attributes) if (match.getAttribute(name) !== value && !kept.includes(name)) match.setAttribute(name, value);
    settle(match, child.childNodes);
    return match;
  });
  const stays = new Set(wanted);
  for (const child of [...old.childNodes]) if (!stays.has(child)) child.remove();
  wanted.forEach((child, at) => {
    if (old.childNodes[at] !== child) old.insertBefore(child, old.childNodes[at] ?? null);
  });
}

const KINDS = {
  FLAG: "critical", rejected: "critical", failed: "critical", failing: "critical", gone: "critical", SUGGEST: "warning", INCONCLUSIVE: "warning", half_open: "warning",
  pending: "warning", APPROVE: "good", accepted: "good", ok: "good", closed: "good", confirmed: "good", critical: "critical", warning: "warning", info: "info", CHECKED: "info",
};

export const words = (name) => String(name).replaceAll("_", " ");
/** A word of the API in a frame; `kind` where the word alone does not tell whether it is good. */
export const tag = (word, kind) => (word ? h("span", { class: `tag ${kind ?? KINDS[word] ?? ""}` }, words(word)) : h("span", { class: "soft" }, "–"));
export const empty = (...text) => h("p", { class: "empty" }, ...text);
export const soft = (...text) => h("span", { class: "soft small" }, ...text);
export const card = (key, ...children) => h("section", { class: "card", "data-key": key }, ...children);
export const facts = (...pairs) => h("dl", null, pairs.filter(Boolean).map(([name, ...value]) => [h("dt", null, name), h("dd", null, ...value)]));

/** A cell with properties, for `table`. */
export const cell = (props, ...children) => ({ props, children });

/** Rows are `[key, cell, cell, ...]`; each cell is a node, a text, a list or a `cell`. The roles survive the narrow layout. */
export function table(caption, heads, rows) {
  const row = ([key, ...cells]) => h("tr", { role: "row", "data-key": key }, cells.map((one, at) => {
    const { props, children } = one?.children && !(one instanceof Node) ? one : { props: null, children: [one] };
    return h("td", { role: "cell", "data-head": heads[at], ...props }, ...children);
  }));
  return h("div", { class: "scroll" }, h("table", { role: "table", "aria-label": caption },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads.map((head) => h("th", { scope: "col", role: "columnheader" }, head)))),
    h("tbody", { role: "rowgroup" }, rows.map(row))));
}

const HOUR = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const WHOLE = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long", hourCycle: "h23" });
const YEAR = 365 * 86_400_000;

/** A time of day in the reader's zone, with its day unless that is today; all of it on hovering. */
export function when(time) {
  if (!time) return "–";
  const date = new Date(time);
  const now = new Date();
  const text = date.toDateString() === now.toDateString() ? HOUR.format(date) : Math.abs(now - date) < YEAR ? DAY.format(date) : date.toLocaleDateString();
  return h("time", { datetime: time, title: WHOLE.format(date) }, text);
}

export const count = (n) => (n ?? 0).toLocaleString();
export const many = (n, one, more = `${one}s`) => `${count(n)} ${n === 1 ? one : more}`;

/** Dollars: cents, and below a dollar enough digits to tell amounts apart. */
export function usd(amount) {
  if (amount === null || amount === undefined) return "–";
  if (amount >= 1 || amount === 0) return `$${amount.toLocaleString(undefined, { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
  return amount < 0.0001 ? "<$0.0001" : `$${amount.toFixed(amount < 0.01 ? 4 : amount < 0.1 ? 3 : 2)}`;
}

export function seconds(n) {
  if (!n) return "0 s";
  if (n < 90) return `${n < 10 ? n.toFixed(1) : Math.round(n)} s`;
  return n < 5400 ? `${Math.round(n / 60)} min` : `${Math.round(n / 3600)} h`;
}

export const elapsed = (ms) => (ms < 1000 ? `${Math.round(ms)} ms` : seconds(ms / 1000));

export const percent = (share) => (share === null || share === undefined ? "–" : `${Math.round(share * 100)} %`);

/** How much of a cap is used, as words and a bar. */
export function share(what, used, cap, show) {
  if (cap === null || cap === undefined) return show(used);
  return [h("div", { class: "nowrap" }, `${show(used)} of ${show(cap)}`), h("meter", { min: 0, max: cap || 1, low: (cap || 1) * 0.8, high: (cap || 1) * 0.95, optimum: 0, value: used, "aria-label": `${what}: ${show(used)} of ${show(cap)}` })];
}

/** A text with the UTF-8 byte ranges of `evidence` marked; ranges that overlap become one. */
export function marked(text, evidence) {
  const bytes = new TextEncoder().encode(text);
  const decode = (from, to) => new TextDecoder().decode(bytes.subarray(from, to));
  const parts = [];
  let at = 0;
  let open = null;
  const close = () => {
    if (!open) return;
    parts.push(decode(at, open.start), h("mark", null, decode(open.start, open.end)));
    at = open.end;
  };
  for (const { start, end } of [...evidence].sort((a, b) => a.start - b.start)) {
    if (end > bytes.length || end <= start) continue;
    if (open && start < open.end) open.end = Math.max(open.end, end);
    else {
      close();
      open = { start, end };
    }
  }
  close();
  return h("pre", { tabindex: 0 }, ...parts, decode(at, bytes.length));
}

/** `#/path?query` of this page; each part of the path is encoded. */
export function link(parts, query = {}) {
  const known = Object.entries(query).filter(([, value]) => value);
  return `#/${[parts].flat().map(encodeURIComponent).join("/")}${known.length ? `?${new URLSearchParams(known)}` : ""}`;
}

export const to = (parts, text, query) => h("a", { href: link(parts, query) }, text);
export const agentLink = (name) => h("bdi", null, to(["agents", name], name));
export const taskLink = (id) => (id ? h("bdi", null, to(["tasks", id], id)) : null);
