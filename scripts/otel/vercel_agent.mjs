// Agent on the AI SDK of Vercel, with the SDK of OpenTelemetry for Node.
//
// Usage: vercel_agent.mjs AGENT. OPENAI_BASE_URL names the model server.
import { readFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";

import { openai } from "@ai-sdk/openai";
import { NodeSDK } from "@opentelemetry/sdk-node";
import { stepCountIs, generateText, tool } from "ai";
import { z } from "zod";

const scenario = JSON.parse(readFileSync(new URL("scenario.json", import.meta.url)));
const report = (what) => console.log(JSON.stringify({ what, at: Date.now() / 1000 }));

const telemetry = new NodeSDK();
telemetry.start();

const tools = {
  run_shell: tool({
    description: "Runs a command line.",
    inputSchema: z.object({ command: z.string() }),
    execute: async () => {
      report("call");
      await setTimeout(scenario.tool_seconds * 1000);
      report("result");
      return scenario.shell.result;
    },
  }),
  read_file: tool({
    description: "Reads a file.",
    inputSchema: z.object({ path: z.string() }),
    execute: async () => {
      throw new Error(scenario.read.error);
    },
  }),
};
await generateText({
  model: openai("gpt-4.1-mini"),
  system: scenario.system,
  prompt: scenario.prompt,
  tools,
  stopWhen: stepCountIs(5),
  experimental_telemetry: { isEnabled: true, functionId: process.argv[2] },
});
report("answer");
await telemetry.shutdown();
