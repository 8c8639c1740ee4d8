#!/usr/bin/env bash
# Tests the API document with third-party tools: the linters Spectral and Redocly must find no error, and the clients
# that openapi-typescript and openapi-python-client generate must compile and read a running server.
# Needs a built umbra ($UMBRA, else target/debug/umbra), node with npm, and python3 with pip.
# CACHE: a folder that keeps the tools (else target/openapi).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh

npm_packages=(@redocly/cli@2.77.0 @stoplight/spectral-cli@6.16.3 openapi-typescript@7.13.0 openapi-fetch@0.17.0 typescript@5.9.3)
python_client_version=0.29.1
umbra=$(realpath "${UMBRA:-target/debug/umbra}")
document=$PWD/openapi/umbra.json

work=$(mktemp -d)
server=
finish() {
    if [[ -n $server ]]; then
        kill -TERM "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap finish EXIT

cache=$(realpath -m "${CACHE:-target/openapi}")
bin=$cache/node_modules/.bin
mkdir -p "$cache"
[[ -x $bin/redocly ]] || npm install --silent --no-save --no-audit --no-fund --prefix "$cache" "${npm_packages[@]}"
python=$cache/venv/bin/python
python_environment "$cache/venv" "openapi-python-client==$python_client_version"

echo "== linters"
echo 'extends: ["spectral:oas"]' >"$work/spectral.yaml"
"$bin/spectral" lint --display-only-failures --fail-severity error --ruleset "$work/spectral.yaml" "$document"
(cd "$work" && REDOCLY_SUPPRESS_UPDATE_NOTICE=true REDOCLY_TELEMETRY=off "$bin/redocly" lint --format summary "$document")

echo "== a server"
: >"$work/out" # The child opens it later than the first look below.
"$umbra" --data-dir "$work/data" serve --bind 127.0.0.1:0 >"$work/out" 2>"$work/err" &
server=$!
base=
for _ in {1..600}; do
    base=$(sed -n 's/^listening on //p' "$work/out")
    [[ -z $base ]] || break
    kill -0 "$server" || { cat "$work/err" >&2; exit 1; }
    sleep 0.1
done
[[ -n $base ]] || { cat "$work/err" >&2; exit 1; }

echo "== TypeScript"
ln -s "$cache/node_modules" "$work/node_modules"
"$bin/openapi-typescript" "$document" --output "$work/umbra.ts" >/dev/null
cat >"$work/client.ts" <<'TS'
import createClient from "openapi-fetch";
import { base } from "./base.ts";
import type { paths } from "./umbra.ts";

const api = createClient<paths>({ baseUrl: base });
const posted = await api.POST("/v1/events", { body: { agent: "typescript", output: "The report is written." } });
if (posted.data === undefined) throw new Error(JSON.stringify(posted.error));
const listed = await api.GET("/v1/events", { params: { query: { agent: "typescript" } } });
const ids: string[] = listed.data!.items.map((event) => event.id);
if (!ids.includes(posted.data.id)) throw new Error(`${posted.data.id} is not listed`);
const findings = await api.GET("/v1/findings", {});
const severities: string[] = findings.data!.items.map((finding) => finding.severity);
console.log(`TypeScript: ${ids.length} event, ${severities.length} findings`);
TS
echo '{"type": "module"}' >"$work/package.json"
echo "export const base = \"$base\";" >"$work/base.ts"
(cd "$work" && "$bin/tsc" --strict --target es2022 --module nodenext --moduleResolution nodenext \
    --rewriteRelativeImportExtensions --lib es2022,dom --outDir js client.ts)
cp "$work/package.json" "$work/js/"
ln -s "$cache/node_modules" "$work/js/node_modules"
node "$work/js/client.js"

echo "== Python"
(cd "$work" && "$python" -m openapi_python_client generate --path "$document" --meta none --output-path umbra_client >"$work/made" 2>&1) ||
    { cat "$work/made" >&2; exit 1; }
PYTHONPATH=$work "$python" - "$base" <<'PY'
import compileall
import sys

import umbra_client
from umbra_client.api.events import list_events
from umbra_client.client import Client

assert compileall.compile_dir(umbra_client.__path__[0], quiet=1), "a module does not compile"
listed = list_events.sync(client=Client(base_url=sys.argv[1]), agent="typescript")
assert [event.agent for event in listed.items] == ["typescript"], listed
print("Python: 1 event")
PY
echo "openapi.sh: all held"
