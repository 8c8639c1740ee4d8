#!/usr/bin/env bash
# Generates src/schema.ts from openapi/umbra.json; with --check, fails if the checked-in file differs.
# Needs node with npm; the generator is the pinned one of package-lock.json.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

case "${1:-}" in
"" | --check) ;;
*)
    echo "usage: generate.sh [--check]" >&2
    exit 2
    ;;
esac

[[ -x node_modules/.bin/openapi-typescript ]] || npm ci --silent --ignore-scripts --no-audit --no-fund

made=$(mktemp)
trap 'rm -f "$made"' EXIT
node_modules/.bin/openapi-typescript ../../openapi/umbra.json --empty-objects-unknown --output "$made" >/dev/null
if [[ ${1:-} == --check ]]; then
    if ! cmp -s "$made" src/schema.ts; then
        diff -u src/schema.ts "$made" | head -40 >&2 || true
        echo "clients/typescript/src/schema.ts differs from openapi/umbra.json: run clients/typescript/generate.sh" >&2
        exit 1
    fi
else
    cp "$made" src/schema.ts
    chmod 644 src/schema.ts
fi
