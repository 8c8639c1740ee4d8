/**
 * Support agent of the AI SDK that is rehearsed before it may act. In shadow, nothing comes of its refunds and mails; its
 * reads are real, and show what it seemed to write. The shop is a JSON file, in which all changes can be seen.
 *
 *     umbra serve --tools examples/vercel_ai_shadow/tools.yaml &
 *     (cd clients/typescript && npm ci && npm run build)       # Node 22 or newer, for the AI SDK 7
 *     cd examples/vercel_ai_shadow && npm ci
 *     export OPENAI_API_KEY=...             # and OPENAI_BASE_URL, OPENAI_MODEL for models of another server
 *
 *     umbra execution shadow support --for 2h --reason rehearsal
 *     npm start -- 'Order A-17 arrived broken. Refund it, and tell the customer.'
 *     umbra audit list --agent support --execution shadow      # what would have been done; shop.json is unchanged
 *     umbra execution lift support --reason promoted           # the next run acts
 */

import { readFileSync, writeFileSync } from "node:fs";

import { openai } from "@ai-sdk/openai";
import { generateText, isStepCount, tool } from "ai";
import { Umbra } from "umbra-shadow";
import { guard } from "umbra-shadow/ai";
import { z } from "zod";

interface Shop {
  orders: { id: string; customer: string; total: number }[];
  refunds: { id: string; order: string; amount: number }[];
  sent: { to: string; text: string }[];
}

const FILE = process.env["SHOP"] ?? "shop.json";
const readShop = () => JSON.parse(readFileSync(FILE, "utf8")) as Shop;
const change = (part: Partial<Shop>) => writeFileSync(FILE, `${JSON.stringify({ ...readShop(), ...part }, null, 2)}\n`);

const tools = {
  get_order: tool({
    description: "Get an order by its id: its customer, and its total in dollars.",
    inputSchema: z.object({ id: z.string() }),
    execute: async ({ id }) => readShop().orders.find((order) => order.id === id) ?? "there is no such order",
  }),
  list_refunds: tool({
    description: "List all refunds so far.",
    inputSchema: z.object({}),
    execute: async () => ({ refunds: readShop().refunds }),
  }),
  refund: tool({
    description: "Refund an amount in dollars of an order.",
    inputSchema: z.object({ order: z.string(), amount: z.number() }),
    execute: async ({ order, amount }) => {
      const { refunds } = readShop();
      const made = { id: `r-${refunds.length + 1}`, order, amount };
      change({ refunds: [...refunds, made] });
      return made;
    },
  }),
  send_email: tool({
    description: "Send an email to a customer.",
    inputSchema: z.object({ to: z.string(), text: z.string() }),
    execute: async (mail) => {
      change({ sent: [...readShop().sent, mail] });
      return { status: "sent" };
    },
  }),
};

const umbra = new Umbra({ agent: "support" });
const { execution } = await umbra.execution.effective({ agent: "support" });
console.log(execution === "shadow" ? "in shadow: nothing is changed" : "live: the shop is changed");

const { text } = await generateText({
  model: openai.chat(process.env["OPENAI_MODEL"] ?? "gpt-5-mini"),
  system: "You help the customers of a shop. Look at the order and its refunds before you act, and check the result.",
  prompt: process.argv.slice(2).join(" ") || "Order A-17 arrived broken. Refund it, and tell the customer.",
  tools: guard(umbra, tools, { server: "shop", effects: { get_order: "read", list_refunds: "read" } }),
  stopWhen: isStepCount(10),
  onStepFinish: ({ toolResults }) => {
    for (const { toolName, input, output } of toolResults) {
      console.log(`${toolName}(${JSON.stringify(input)}) = ${JSON.stringify(output)}`);
    }
  },
});
console.log(text);
await umbra.flush();
