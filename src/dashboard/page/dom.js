// Elements, texts, times and money. What agents and models wrote becomes text nodes and nothing else.

/** An element with properties (`class`, `href`, `on*`, others) and children: elements, texts, arrays, null. */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const tag = (word) => (word ? h("span", { class: `tag ${word}` }, word.replaceAll("_", " ")) : h("span", { class: "soft" }, "–"));
export const empty = (words) => h("p", { class: "empty" }, words);
export const soft = (...words) => h("span", { class: "soft small" }, ...words);

export function table(heads, rows) {
  return h("div", { class: "scroll" }, h("table", null, h("thead", null, h("tr", null, heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", null, rows)));
}

export function when(time) {
  if (!time) return "–";
  const date = new Date(time);
  const day = date.toDateString() === new Date().toDateString() ? "" : `${date.toLocaleDateString()} `;
  return h("time", { datetime: time, title: time }, day + date.toLocaleTimeString());
}

export const count = (n) => (n ?? 0).toLocaleString();

export function usd(amount) {
  if (amount === null || amount === undefined) return "–";
  return `$${amount >= 1 || amount === 0 ? amount.toFixed(2) : amount.toPrecision(2)}`;
}

export function seconds(n) {
  if (!n) return "0 s";
  if (n < 90) return `${n < 10 ? n.toFixed(1) : Math.round(n)} s`;
  return n < 5400 ? `${Math.round(n / 60)} min` : `${Math.round(n / 3600)} h`;
}

/** How much of a cap is used, as words and a bar. */
export function share(used, cap, show) {
  if (cap === null || cap === undefined) return show(used);
  return h("span", { class: "row" }, `${show(used)} / ${show(cap)}`, h("meter", { min: 0, max: cap || 1, high: (cap || 1) * 0.9, value: used, "aria-label": "used" }));
}

/** A text with the UTF-8 byte ranges of `evidence` marked. */
export function marked(text, evidence) {
  const bytes = new TextEncoder().encode(text);
  const decode = (from, to) => new TextDecoder().decode(bytes.subarray(from, to));
  const parts = [];
  let at = 0;
  for (const { start, end } of evidence.toSorted((a, b) => a.start - b.start)) {
    if (start < at || end > bytes.length) continue;
    parts.push(decode(at, start), h("mark", null, decode(start, end)));
    at = end;
  }
  return h("pre", null, ...parts, decode(at, bytes.length));
}

/** `#/path?query` of this page. */
export function link(path, query = {}) {
  const known = Object.entries(query).filter(([, value]) => value);
  return `#/${path}${known.length ? `?${new URLSearchParams(known)}` : ""}`;
}
