#!/usr/bin/env bash
# Installs the pinned frameworks, and tests the adapters of the built package against them and a running server.
# UMBRA: the server's program, else that of the repository's target folder. Arguments: test files, else all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

[[ -d ../node_modules/typescript ]] || npm --prefix .. ci --silent --ignore-scripts --no-audit --no-fund
npm --prefix .. run --silent build
cmp -s package-lock.json node_modules/installed.json || {
    npm ci --silent --ignore-scripts --no-audit --no-fund
    cp package-lock.json node_modules/installed.json
}
# A copy, as of an installed package: a link would look for the frameworks beside the sources.
rm -rf build node_modules/umbra-shadow
mkdir node_modules/umbra-shadow
cp -r ../dist ../package.json node_modules/umbra-shadow/
node_modules/.bin/tsc
if [[ $# -eq 0 ]]; then set -- build/adapters-test/all.js; fi
node --test --test-timeout=300000 "$@"
