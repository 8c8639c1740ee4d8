/** A server of the tests with its own database, a proxy that fails on demand, and what several tests share. */

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { createServer, connect, type AddressInfo, type Socket, type Server as NetServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { after } from "node:test";

import { Umbra, type UmbraSettings } from "umbra-shadow";

/** Folder of the package. Compiled tests are in folders below it. */
const HERE = packageFolder(fileURLToPath(import.meta.url));
/** A busy machine is no fault: tests of deadlines set one. */
export const PATIENT_MS = 30_000;

function packageFolder(path: string): string {
  const folder = dirname(path);
  return existsSync(join(folder, "test/support.ts")) ? folder : packageFolder(folder);
}

/** Path of the server's program: `UMBRA`, or the newest build of the repository. */
export function program(): string {
  const built = ["release", "debug"]
    .map((kind) => join(HERE, "../../target", kind, "umbra"))
    .filter((path) => existsSync(path));
  const newest = built.sort((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs)[0];
  const path = process.env["UMBRA"] ?? newest;
  if (path === undefined) throw new Error("set UMBRA to the server's program, or build it: cargo build");
  return path;
}

// The variables of the machine must not reach the tests.
for (const name of Object.keys(process.env)) {
  if ((name.startsWith("UMBRA_") && name !== "UMBRA_PG_BIN") || name.toUpperCase() === "AGENT_SAFE_MODE")
    delete process.env[name];
}

export class Server {
  readonly folder = mkdtempSync(join(tmpdir(), "umbra-ts-"));
  process!: ChildProcess;
  url = "http://127.0.0.1:0";

  /** Starts a server at the same address as before. */
  async start(): Promise<this> {
    const address = this.url.slice("http://".length);
    const files = ["tools", "shadows"].flatMap((kind) => [`--${kind}`, join(HERE, `test/${kind}.yaml`)]);
    this.process = spawn(program(), ["serve", "--bind", address, "--data-dir", join(this.folder, "data"), ...files], {
      env: {
        PATH: process.env["PATH"],
        HOME: process.env["HOME"],
        ...(process.env["UMBRA_PG_BIN"] ? { UMBRA_PG_BIN: process.env["UMBRA_PG_BIN"] } : {}),
        UMBRA__SIDECAR__PATH: join(HERE, "test/sidecar.yaml"),
        UMBRA__SIDECAR__DEADLINE: "20s",
      },
      cwd: this.folder,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let log = "";
    this.process.stderr?.on("data", (data) => (log += data));
    let said = "";
    for await (const data of this.process.stdout ?? []) {
      said += data;
      const found = /listening on (\S+)/.exec(said)?.[1];
      if (found) {
        this.url = found;
        return this;
      }
    }
    throw new Error(`the server did not start: ${log}`);
  }

  /** Runs a command of the server's program on the same data, before the server starts. */
  command(...words: string[]): string {
    const env = {
      PATH: process.env["PATH"],
      HOME: process.env["HOME"],
      UMBRA__STORAGE__DATA_DIR: join(this.folder, "data"),
    };
    const done = spawnSync(program(), words, { cwd: this.folder, env, encoding: "utf8" });
    if (done.status !== 0) throw new Error(done.stderr);
    return done.stdout;
  }

  /** Ends the server, and waits for its end. */
  async stop(how: NodeJS.Signals = "SIGTERM"): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const end = once(this.process, "exit");
    this.process.kill(how);
    this.process.kill("SIGCONT");
    await end;
  }

  /** Stops the server's process in its tracks; its sockets stay open. Returns once all its threads stand still. */
  async freeze(): Promise<void> {
    this.process.kill("SIGSTOP");
    const threads = `/proc/${this.process.pid}/task`;
    if (!existsSync(threads)) return;
    const isStopped = (thread: string) => / T /.test(readFileSync(join(threads, thread, "stat"), "utf8"));
    await until("a stopped server", () => (readdirSync(threads).every(isStopped) ? true : undefined));
  }

  thaw(): void {
    this.process.kill("SIGCONT");
  }

  async remove(): Promise<void> {
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Returns a client with time enough, unless the settings say otherwise. */
  client(settings: UmbraSettings = {}): Umbra {
    const patience = { timeoutMs: PATIENT_MS, decisionTimeoutMs: PATIENT_MS };
    return new Umbra({ url: this.url, ...patience, logger: quiet, ...settings });
  }

  /** Lets the calls of an agent be rehearsed. */
  async rehearse(agent: string): Promise<void> {
    const body = { scope: "agent", value: agent, execution: "shadow", reason: "a test" } as const;
    await this.client().request("put", "/v1/execution", { body });
  }

  /** Returns the rows of the audit, once there are as many. */
  async audit(query: Record<string, string>, rows: number): Promise<Record<string, unknown>[]> {
    return until(`${rows} rows of the audit`, async () => {
      const answer = await fetch(`${this.url}/v1/audit?${new URLSearchParams(query)}`);
      const lines = (await answer.text()).split("\n").filter(Boolean);
      return lines.length >= rows ? lines.map((line) => JSON.parse(line) as Record<string, unknown>) : undefined;
    });
  }
}

/** Servers that end with the tests of this process. */
const servers: Server[] = [];
after(() => Promise.all(servers.map((server) => server.remove())));

function newServer(): Server {
  const server = new Server();
  servers.push(server);
  return server;
}

let shared: Promise<Server> | undefined;
/** Returns the server that the tests of this process share. */
export function startServer(): Promise<Server> {
  return (shared ??= newServer().start());
}

/** A server that wants keys, for tests that stop it and start it again. */
export interface KeyedServer {
  server: Server;
  /** Key with the scope `ingest`, for agents whose names begin with `coder`. */
  coderKey: string;
  /** Key with the scopes `ingest` and `read`. */
  key: string;
}

async function keyedServer(): Promise<KeyedServer> {
  const server = newServer();
  const made = (...words: string[]) =>
    (JSON.parse(server.command("keys", "create", "--name", "t", "--json", ...words)) as { key: string }).key;
  const coderKey = made("--scope", "ingest", "--agent", "coder*");
  const key = made("--scope", "ingest", "--scope", "read");
  return { server: await server.start(), coderKey, key };
}

let keyed: Promise<KeyedServer> | undefined;
/** Returns the server with keys that the tests of this process share. */
export function startKeyedServer(): Promise<KeyedServer> {
  return (keyed ??= keyedServer());
}

export const quiet = { info: () => {}, warn: () => {} };

/** Returns a logger that keeps its lines. */
export function recorder(): { lines: string[]; info(text: string): void; warn(text: string): void } {
  const lines: string[] = [];
  return { lines, info: (text) => void lines.push(`info ${text}`), warn: (text) => void lines.push(`warn ${text}`) };
}

/** Returns the first result that is not undefined; looks again until there is one. */
export async function until<T>(what: string, look: () => Promise<T | undefined> | T | undefined): Promise<T> {
  const end = performance.now() + PATIENT_MS;
  while (performance.now() < end) {
    const found = await look();
    if (found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`there is no ${what}`);
}

let numbers = 0;
/** Returns a name that no other test uses. */
export function unique(name: string): string {
  numbers += 1;
  return `${name}-${process.pid}-${numbers}-${Date.now().toString(36)}`;
}

type Behaviour = "pass" | "hang" | "cut" | { answer: string };

/** Proxy between a client and the server, or a stand-in at the server's address. */
export class Peer {
  behaviour: Behaviour = "pass";
  accepted = 0;
  /** Bytes that clients sent. */
  received = "";
  readonly #sockets = new Set<Socket>();
  readonly #listener: NetServer;

  constructor(private readonly target?: string) {
    this.#listener = createServer((socket) => this.#serve(socket));
  }

  async listen(): Promise<this> {
    this.#listener.listen(0, "127.0.0.1");
    await once(this.#listener, "listening");
    return this;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#listener.address() as AddressInfo).port}`;
  }

  /** Number of requests that clients sent. */
  get requests(): number {
    return this.received.match(/ HTTP\/1\.1\r\n/g)?.length ?? 0;
  }

  /** Breaks all connections. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    this.cut();
  }

  #serve(socket: Socket): void {
    this.accepted += 1;
    this.#keep(socket);
    const { behaviour } = this;
    socket.on("data", (data) => {
      this.received += data.toString("latin1");
      if (typeof behaviour === "object") socket.write(behaviour.answer);
      if (behaviour === "cut") socket.destroy();
    });
    if (behaviour === "pass") {
      const { hostname, port } = new URL(this.target ?? "");
      const theirs = connect(Number(port), hostname);
      this.#keep(theirs);
      socket.pipe(theirs).pipe(socket);
    }
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.on("close", () => this.#sockets.delete(socket));
  }
}

/** Returns an address at which no server listens. */
export async function vacantAddress(): Promise<string> {
  const peer = await new Peer().listen();
  const { url } = peer;
  await peer[Symbol.asyncDispose]();
  return url;
}

/** Returns a whole answer of HTTP. */
export function httpAnswer(
  status: number,
  body: string,
  headers = "content-type: application/json",
): { answer: string } {
  const length = `content-length: ${Buffer.byteLength(body)}`;
  return { answer: `HTTP/1.1 ${status} X\r\n${length}\r\n${headers}\r\nconnection: close\r\n\r\n${body}` };
}

/** Returns the source of the package's own metadata. */
export function packageVersion(): string {
  return (JSON.parse(readFileSync(join(HERE, "package.json"), "utf8")) as { version: string }).version;
}
