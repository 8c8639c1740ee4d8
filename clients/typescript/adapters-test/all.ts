/** All tests in one process, so that they share a server. */

import { readdirSync } from "node:fs";

for (const name of readdirSync(new URL(".", import.meta.url))) {
  if (name.endsWith(".test.js")) await import(`./${name}`);
}
