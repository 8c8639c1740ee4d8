#!/usr/bin/env bash
# Measures the overhead of the clients for each call of a tool: the time of a decision and of a question to the sidecar,
# by the packages and by the bare HTTP request, in one run and by turns, so that noise of the machine hits all alike.
# Prints a table: median and 99th percentile in milliseconds, and the ratio of the medians to the bare request's.
# A bare request is written and read as JSON by hand, over a kept connection. A call of a tool has one request in its
# path, the decision; its outcome is reported in the background, and is waited for here outside of the measured time.
#   scripts/overhead.sh [ROUNDS]     calls of each kind, 2000 unless given; two minutes on an idle machine
# Needs python3 with pip, node with npm. UMBRA: the server's program, else that of target/debug; take a release
# build. CACHE: a folder that keeps the dependencies of the Python client (else target/overhead).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
rounds=${1:-2000}
umbra=$(realpath "${UMBRA:-target/debug/umbra}")
venv=${CACHE:-$PWD/target/overhead}
work=$(mktemp -d)
chmod 755 "$work"
trap '[[ -z ${SERVER_PID:-} ]] || { kill -TERM "$SERVER_PID" && wait "$SERVER_PID" || true; }; rm -rf "$work"' EXIT

python_environment "$venv" httpx pydantic sniffio
(cd clients/typescript && { [[ -d node_modules ]] || npm ci --silent --no-audit --no-fund; } && npm run --silent build)

# Settings and keys of this shell must not reach the server and the clients.
for name in "${!UMBRA_@}" AGENT_SAFE_MODE DATABASE_URL; do [[ $name == UMBRA_PG_BIN ]] || unset "$name"; done
coproc SERVER { exec "$umbra" serve --bind 127.0.0.1:0 --data-dir "$work/data" 2>"$work/log"; }
read -r line <&"${SERVER[0]}" || { cat "$work/log" >&2; exit 1; }
url=${line#*listening on }

printf '%-52s%8s%8s%8s\n' "calls of each kind: $rounds" 'p50 ms' 'p99 ms' 'ratio'
PYTHONPATH=clients/python/src "$venv/bin/python" scripts/overhead.py "$url" "$rounds"
node scripts/overhead.mjs "$url" "$rounds"
