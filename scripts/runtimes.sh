#!/usr/bin/env bash
# Runs clients/typescript/test/package.sh with Deno and Bun from the npm registry: one and the same program
# (clients/typescript/test/smoke.mjs) uses the packed package under Node, Deno and Bun, against a real server.
# Needs a built umbra ($UMBRA, else target/debug/umbra) and node with npm; 200 MB for the runtimes.
# Exit code: 0 if all checks held.
#
# CACHE: a folder that keeps the runtimes (else target/runtimes).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cache=$(realpath -m "${CACHE:-target/runtimes}")
[[ -z ${UMBRA:-} ]] || export UMBRA=$(realpath "$UMBRA")
mkdir -p "$cache"
npm install --silent --no-audit --no-fund --prefix "$cache" deno@2.9.6 bun@1.4.5
export PATH=$cache/node_modules/.bin:$PATH
# package.sh skips a runtime that is missing.
deno --version
bun --version
clients/typescript/test/package.sh
