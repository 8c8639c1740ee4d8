#!/usr/bin/env bash
# Measures the service as it is shipped: builds `umbra` and `umbra-bench` with the profile `dist` and the allocator of
# the image, then runs a benchmark on that build.
#   scripts/bench.sh ingest|decide|looks|otlp|sidecar|fidelity [OPTION..]      options: add --help after the name
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo build --locked --profile dist --features umbra-bench/jemalloc --package umbra --package umbra-bench
exec "${CARGO_TARGET_DIR:-target}/dist/umbra-bench" "$@"
