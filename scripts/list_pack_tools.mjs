// Lists the tools of the servers that have packs, in the form of tests/data/pack_tools.jsonl: one line a tool, with the
// name that the server gives itself. The servers come from npm and need no network to list their tools.
// Usage: node scripts/list_pack_tools.mjs FOLDER > tests/data/pack_tools.jsonl (packages are installed in FOLDER)
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

const folder = process.argv[2];
const servers = [
  ["@modelcontextprotocol/server-filesystem@2026.8.31", "mcp-server-filesystem", ["/tmp"]],
  ["@modelcontextprotocol/server-github@2025.4.8", "mcp-server-github", []],
  ["@gongrzhe/server-gmail-autoauth-mcp@1.1.11", "gmail-mcp", []],
  ["@playwright/mcp@0.0.83", "playwright-mcp", ["--headless"]],
  ["@modelcontextprotocol/server-postgres@0.6.2", "mcp-server-postgres", ["postgres://127.0.0.1:1/none"]],
  ["@modelcontextprotocol/server-slack@2025.4.25", "mcp-server-slack", []],
  ["@stripe/mcp@0.2.5", "mcp", ["--api-key=sk_test_none", "--tools=all"]],
];
// Files and variables that servers require to start; none of them is a valid secret.
const home = join(folder, "home");
mkdirSync(join(home, ".gmail-mcp"), { recursive: true });
const keys = { installed: { client_id: "none", client_secret: "none", redirect_uris: ["http://localhost:3000"] } };
writeFileSync(join(home, ".gmail-mcp", "gcp-oauth.keys.json"), JSON.stringify(keys));
const env = { ...process.env, HOME: home, SLACK_BOT_TOKEN: "none", SLACK_TEAM_ID: "none" };

const client = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "list", version: "1" } };

function offer(command, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { env, stdio: ["pipe", "pipe", "ignore"] });
    const late = setTimeout(() => (child.kill(), reject(new Error(`${command} does not answer`))), 30_000);
    const send = (message) => child.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
    let server;
    createInterface({ input: child.stdout }).on("line", (line) => {
      if (!line.startsWith("{")) return;
      const { id, result } = JSON.parse(line);
      if (id === 1) {
        server = result.serverInfo.name;
        send({ method: "notifications/initialized" });
        send({ id: 2, method: "tools/list" });
      } else if (id === 2) {
        clearTimeout(late);
        child.kill();
        resolve({ server, tools: result.tools });
      }
    });
    send({ id: 1, method: "initialize", params: client });
  });
}

for (const [name, bin, args] of servers) {
  const prefix = join(folder, bin);
  mkdirSync(prefix, { recursive: true });
  execFileSync("npm", ["install", "--silent", "--no-save", "--no-audit", "--no-fund", "--prefix", prefix, name]);
  const { server, tools } = await offer(join(prefix, "node_modules", ".bin", bin), args);
  for (const tool of tools.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    console.log(JSON.stringify({ package: name, server, tool: tool.name, description: tool.description, input_schema: tool.inputSchema }));
  }
}
