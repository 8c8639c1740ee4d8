/** All tests in one process, one after the other, so that they share a server and none runs while it is frozen. */

import { readdirSync } from "node:fs";

for (const name of readdirSync(new URL(".", import.meta.url))) {
  if (name.endsWith(".test.js")) await import(`./${name}`);
}
