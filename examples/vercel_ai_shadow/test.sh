#!/usr/bin/env bash
# Runs the agent with the real AI SDK, a server and a scripted model: in shadow nothing is changed, its reads show what it
# seemed to write, and the audit what it would have done; promoted, it acts. Needs node with npm.
# UMBRA: the server's program, else target/debug/umbra of the repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
repository=$(realpath ../..)
umbra=$(realpath "${UMBRA:-$repository/target/debug/umbra}")
[[ -x $umbra ]] || { echo "set UMBRA to the server's program, or build it: cargo build" >&2; exit 1; }

work=$(mktemp -d)
pids=()
: >"$work/server.log" >"$work/model.log"
finish() {
    for pid in "${pids[@]}"; do
        kill -TERM "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap finish EXIT
# The server's Postgres may run as another user.
chmod 755 "$work"

fault() {
    echo "vercel_ai_shadow: FAULT: $1" >&2
    for log in "$work"/*.log; do tail -n 20 "$log" >&2; done
    exit 1
}

# Prints the address that a program says in the first line of its output that begins with a prefix.
address() {
    for _ in {1..600}; do
        found=$(sed -n "s/^$2//p" "$work/$1.log")
        [[ -z $found ]] || { echo "$found"; return; }
        kill -0 "${pids[-1]}" 2>/dev/null || return 1
        sleep 0.1
    done
    return 1
}

package=$repository/clients/typescript
[[ -d $package/node_modules/typescript ]] || npm --prefix "$package" ci --silent --ignore-scripts
npm --prefix "$package" run --silent build
cmp -s package-lock.json node_modules/installed.json || {
    npm ci --silent --ignore-scripts
    cp package-lock.json node_modules/installed.json
}

(cd "$work" && exec env -i PATH="$PATH" HOME="$HOME" ${UMBRA_PG_BIN:+UMBRA_PG_BIN="$UMBRA_PG_BIN"} \
    "$umbra" serve --bind 127.0.0.1:0 --data-dir "$work/data" --tools "$OLDPWD/tools.yaml") >"$work/server.log" 2>&1 &
pids+=($!)
UMBRA_URL=$(address server 'listening on ') || fault "the server did not start"

# The model looks, acts, and looks again: the number of results that it has read tells the step.
cat >"$work/model.mjs" <<'JS'
import { createServer } from "node:http";
import { text } from "node:stream/consumers";

const CALLS = [
  ["get_order", { id: "A-17" }],
  ["list_refunds", {}],
  ["refund", { order: "A-17", amount: 40 }],
  ["send_email", { to: "ann@example.com", text: "We have refunded 40 dollars." }],
  ["list_refunds", {}],
];
const server = createServer(async (request, response) => {
  const { model, messages } = JSON.parse(await text(request));
  const results = messages.filter(({ role }) => role === "tool").length;
  const [name, given] = CALLS[results] ?? [];
  const call = { id: `call_${results}`, type: "function", function: { name, arguments: JSON.stringify(given) } };
  const message = name
    ? { role: "assistant", content: null, tool_calls: [call] }
    : { role: "assistant", content: "Refunded, and Ann is told." };
  const choices = [{ index: 0, message, finish_reason: name ? "tool_calls" : "stop" }];
  const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 };
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify({ id: "c", object: "chat.completion", created: 1, model, choices, usage }));
});
server.listen(0, "127.0.0.1", () => console.log(`model http://127.0.0.1:${server.address().port}`));
JS
node "$work/model.mjs" >"$work/model.log" 2>&1 &
pids+=($!)
OPENAI_BASE_URL=$(address model 'model ') || fault "the model did not start"
OPENAI_BASE_URL+=/v1
export UMBRA_URL OPENAI_BASE_URL OPENAI_API_KEY=test OPENAI_MODEL=scripted SHOP=$work/shop.json
unset UMBRA_API_KEY UMBRA_API_KEY_FILE UMBRA_AGENT UMBRA_SESSION UMBRA_RUN UMBRA_SEED AGENT_SAFE_MODE

# Checks the output of a run, the shop after it, and the decisions in the audit: of the calls that change something, and
# of those that read.
check() {
    local execution=$1 listed=$2 sent=$3 decision=$4
    timeout 120 npm start --silent >"$work/agent.log" 2>&1 || fault "the agent failed in $execution"
    [[ $(sed '$!d' "$work/agent.log") == 'Refunded, and Ann is told.' ]] || fault "the agent did not end"
    grep -q "^list_refunds({}) = .*\"id\":\"$listed\"" "$work/agent.log" || fault "in $execution no read shows $listed"
    node -e '
        const { refunds, sent } = JSON.parse(require("fs").readFileSync(process.env.SHOP, "utf8"));
        if (refunds.length !== Number(process.argv[1]) || sent.length !== refunds.length) process.exit(1);
    ' "$sent" || fault "in $execution the shop is $(cat "$SHOP")"
    local rows
    rows=$(curl -s "$UMBRA_URL/v1/audit?agent=support&kind=decision&execution=$execution" | node -e '
        const rows = require("fs").readFileSync(0, "utf8").trim().split("\n").map((line) => JSON.parse(line));
        console.log(rows.map((row) => `${row.tool} ${row.decision}`).join(", "));
    ')
    [[ $rows == "shop.get_order execute, shop.list_refunds execute, shop.refund $decision, shop.send_email $decision, \
shop.list_refunds execute" ]] || fault "in $execution the audit has: $rows"
}

cp shop.json "$SHOP"
"$umbra" execution shadow support --for 2h --reason rehearsal >"$work/umbra.log" 2>&1 || fault "no shadow"
check shadow shadow-1 0 stub
cmp -s shop.json "$SHOP" || fault "the rehearsal changed the shop"
told=$("$umbra" audit list --agent support --execution shadow)
[[ -z ${VERBOSE:-} ]] || { cat "$work/agent.log"; echo "$told"; }
[[ $told == *shop.refund* && $told == *shop.send_email* ]] || fault "umbra audit list does not show the rehearsal: $told"
"$umbra" execution lift support --reason promoted >"$work/umbra.log" 2>&1 || fault "not promoted"
check live r-1 1 execute
echo "vercel_ai_shadow: held"
