// Draws tools from the lists of public MCP servers: 100 that read and 100 that change something, by the servers' own
// `readOnlyHint`. Installs each server from npm into a folder, starts it without an account, and asks `tools/list`.
// Each row is a call. A call that reads has the arguments that its schema requires; a call that changes something has
// all arguments.
//
//   node scripts/draw_tools.mjs FOLDER > tests/data/drawn_tools.jsonl
//
// The seed is fixed and versions are pinned, so that rows are the same each time. No other row of tests/data is of
// these servers.
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const SEED = 23;
const OF_EACH = 100;
const DEADLINE_MS = 30_000;
/** Servers: name, package with version, and the variables without which the server does not start. */
const SERVERS = [
  ["airtable", "airtable-mcp-server@1.14.0", { AIRTABLE_API_KEY: "patx.y" }],
  ["chrome", "chrome-devtools-mcp@1.11.0", {}],
  ["commander", "@wonderwhy-er/desktop-commander@0.2.52", {}],
  ["digitalocean", "@digitalocean/mcp@1.0.70", { DIGITALOCEAN_API_TOKEN: "x" }],
  ["firecrawl", "firecrawl-mcp@3.26.0", { FIRECRAWL_API_KEY: "fc-x" }],
  ["gitlab", "@zereight/mcp-gitlab@2.1.64", { GITLAB_PERSONAL_ACCESS_TOKEN: "x" }],
  ["hubspot", "@hubspot/mcp-server@0.4.0", { PRIVATE_APP_ACCESS_TOKEN: "pat-x" }],
  ["mapbox", "@mapbox/mcp-server@0.14.0", { MAPBOX_ACCESS_TOKEN: "pk.eyJ1IjoiYSJ9.x" }],
  ["monday", "@mondaydotcomorg/monday-api-mcp@3.3.0", { MONDAY_TOKEN: "x" }],
  ["mongodb", "mongodb-mcp-server@3.0.4", { MDB_MCP_CONNECTION_STRING: "mongodb://127.0.0.1:1" }],
  ["netlify", "@netlify/mcp@1.15.1", { NETLIFY_PERSONAL_ACCESS_TOKEN: "x" }],
  ["postman", "@postman/postman-mcp-server@2.13.0", { POSTMAN_API_KEY: "PMAK-x" }],
  ["todoist", "@doist/todoist-mcp@11.0.0", { TODOIST_API_KEY: "x" }],
];

/** Installs a package into a folder of its own, without scripts, and returns its program. */
function installed(folder, spec) {
  const name = spec.slice(0, spec.lastIndexOf("@"));
  const own = join(folder, name.replaceAll(/[@/]/g, "_"));
  mkdirSync(own, { recursive: true });
  execFileSync("npm", ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", "--prefix", own, spec], { cwd: own, stdio: ["ignore", "ignore", "inherit"] });
  const home = join(own, "node_modules", name);
  const { bin } = JSON.parse(readFileSync(join(home, "package.json"), "utf8"));
  return join(home, typeof bin === "string" ? bin : Object.values(bin)[0]);
}

/** Returns the tools that a server lists over standard input and output, of all pages. */
function listed(folder, program, variables) {
  return new Promise((done, fail) => {
    const env = { PATH: process.env.PATH, HOME: folder, ...variables };
    const child = spawn(process.execPath, [program], { env, stdio: ["pipe", "pipe", "ignore"] });
    const timer = setTimeout(() => end(fail, new Error(`${program} listed nothing in time`)), DEADLINE_MS);
    const end = (what, value) => (clearTimeout(timer), child.kill("SIGKILL"), what(value));
    const send = (message) => child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
    const tools = [];
    let rest = "";
    child.stdin.on("error", () => {});
    child.on("exit", () => end(fail, new Error(`${program} ended`)));
    child.stdout.on("data", (data) => {
      const lines = (rest + data).split("\n");
      rest = lines.pop();
      for (const line of lines.filter((line) => line.startsWith("{"))) {
        const { id, result, error } = JSON.parse(line);
        if (error) return end(fail, new Error(`${program}: ${error.message}`));
        if (id === 1) {
          send({ method: "notifications/initialized" });
          send({ id: 2, method: "tools/list", params: {} });
        } else if (id >= 2) {
          tools.push(...result.tools);
          if (!result.nextCursor) return end(done, tools);
          send({ id: id + 1, method: "tools/list", params: { cursor: result.nextCursor } });
        }
      }
    });
    send({ id: 1, method: "initialize", params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "draw", version: "1" } } });
  });
}

/** Returns a generator of random numbers for a seed (mulberry32). */
function random(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), seed | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

function shuffled(items, next) {
  const left = [...items];
  return Array.from(items, () => left.splice(Math.floor(next() * left.length), 1)[0]);
}

/** Returns an argument that fits a schema, by the schema's first choice. */
function sample(schema, all) {
  const [choice] = schema.enum ?? schema.examples ?? [];
  const known = schema.const ?? schema.default ?? choice;
  if (known !== undefined && known !== null) return known;
  const one = (schema.anyOf ?? schema.oneOf)?.find((one) => one.type !== "null");
  if (one) return sample(one, all);
  switch ([schema.type].flat()[0]) {
    case "object": return members(schema, all);
    case "array": return [sample(schema.items ?? {}, all)];
    case "boolean": return true;
    case "integer": case "number": return schema.minimum ?? 1;
    default: return { uri: "https://example.com/", "date-time": "2026-01-02T03:04:05Z", date: "2026-01-02", email: "a@example.com" }[schema.format] ?? "a";
  }
}

function members(schema, all) {
  const wanted = Object.entries(schema.properties ?? {}).filter(([name]) => all || schema.required?.includes(name));
  return Object.fromEntries(wanted.map(([name, property]) => [name, sample(property, all)]));
}

const folder = resolve(process.argv[2] ?? "drawn");
const pools = { read: [], change: [] };
const next = random(SEED);
for (const [server, spec, variables] of SERVERS) {
  const tools = await listed(folder, installed(folder, spec), variables);
  const rows = tools.filter((tool) => typeof tool.annotations?.readOnlyHint === "boolean").map(({ name, description, inputSchema, annotations }) => ({
    server, name, effect: annotations.readOnlyHint ? "read" : annotations.destructiveHint === false ? "write" : "destructive", description, input_schema: inputSchema,
    arguments: members(inputSchema, !annotations.readOnlyHint),
  }));
  pools.read.push(shuffled(rows.filter((row) => row.effect === "read"), next));
  pools.change.push(shuffled(rows.filter((row) => row.effect !== "read"), next));
  console.error(`${spec}: ${tools.length} tools, ${rows.length} with a hint`);
}
// One tool of each server in turn, so that a large server does not fill the rows.
const drawn = Object.values(pools).flatMap((servers) => Array.from({ length: OF_EACH }, (_, round) => servers.flatMap((rows) => rows[round] ?? [])).flat().slice(0, OF_EACH));
writeFileSync(1, drawn.map((row) => `${JSON.stringify(row)}\n`).join(""));
