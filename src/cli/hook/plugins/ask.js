import { readFileSync } from "node:fs";

const deadline = settings.mode === "enforce" ? 2000 : 250;
const unanswered = "Umbra did not answer, so the call was not made. Ask the user to start it: umbra serve";

// A proxy is not for addresses on this machine.
process.env.NO_PROXY = [process.env.NO_PROXY, "127.0.0.1,localhost"].filter(Boolean).join(",");

// Sends a payload and returns the answer. Throws if anything but Umbra answers, or nobody in time.
async function ask(payload) {
  const nonce = crypto.randomUUID().replaceAll("-", "");
  const query = new URLSearchParams({ mode: settings.mode, nonce });
  const agent = settings.agent ?? process.env.UMBRA_AGENT;
  if (agent) query.set("agent", agent);
  const headers = { "content-type": "application/json" };
  const { UMBRA_API_KEY: given, UMBRA_API_KEY_FILE: file } = process.env;
  const key = given || (file && readFileSync(file, "utf8").trim());
  if (key) headers.authorization = `Bearer ${key}`;
  const stop = new AbortController();
  // AbortSignal.timeout does not keep the process alive, which would then end in the middle of a call.
  const timer = setTimeout(() => stop.abort(), deadline);
  try {
    const response = await fetch(`${settings.url}/v1/hooks/${settings.host}?${query}`, {
      method: "POST",
      headers,
      body: JSON.stringify(payload),
      redirect: "error",
      signal: stop.signal,
    });
    if (!response.ok || response.headers.get("umbra-hook") !== nonce) throw new Error(unanswered);
    return await response.json();
  } finally {
    clearTimeout(timer);
  }
}

// Asks before a call. In enforce only an allowance of Umbra lets it run.
async function decide(payload) {
  try {
    const answer = await ask(payload);
    if (answer.decision === "allow" || answer.decision === "deny") return answer;
  } catch {}
  return settings.mode === "enforce" ? { decision: "deny", reason: unanswered } : { decision: "allow" };
}

// Tells of an event, after all earlier ones. A failure is nothing to the agent.
let told = Promise.resolve();
function tell(payload) {
  told = told.then(() => ask(payload)).catch(() => ({}));
  return told;
}

// Waits for an answer, but not longer than so many milliseconds.
async function within(ms, answer) {
  let timer;
  const late = new Promise((resolve) => (timer = setTimeout(() => resolve({}), ms)));
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

// Waits until all is told, but not for long: the agent is about to end.
const flush = () => within(1000, told);

// Puts other arguments in the place of a call's own. No later plugin can change what was judged.
function settle(own, args) {
  if (args) {
    for (const name of Object.keys(own)) delete own[name];
    Object.assign(own, args);
  }
  if (settings.mode === "enforce") freeze(own);
}

function freeze(value) {
  if (typeof value !== "object" || value === null) return;
  Object.values(value).forEach(freeze);
  Object.freeze(value);
}
