#!/usr/bin/env bash
# Writes the parts of the client packages that are generated from openapi/umbra.json, Python's synchronous twin, and the
# table of both packages' operations in docs/clients.md. Needs httpx and pydantic for python3.
#   scripts/client_models.sh           writes them
#   scripts/client_models.sh --check   fails if the files in the repository differ, or the packages' operations do
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for generate in clients/python/generate.sh clients/typescript/generate.sh; do
    if [[ -x $generate ]]; then "$generate" "$@"; fi
done
python3 scripts/api_table.py "$@"
