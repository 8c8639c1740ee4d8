#!/usr/bin/env bash
# Writes the parts of the client packages that are generated from openapi/umbra.json, and Python's synchronous twin.
#   scripts/client_models.sh           writes them
#   scripts/client_models.sh --check   fails if the files in the repository differ
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for generate in clients/python/generate.sh clients/typescript/generate.sh; do
    if [[ -x $generate ]]; then "$generate" "$@"; fi
done
