#!/usr/bin/env bash
# Runs the integration tests and prints the slowest of them, in seconds: scripts/slowest.sh [COUNT] [FILTER..]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

count=${1:-20}
shift || true
stories=$(cargo test --test it --no-run --message-format=json | grep -oP '"executable":"\K[^"]*/it-[^"]*' | tail -n 1)
# Times of tests are an unstable option. The variable is set only for this run, since cargo would rebuild everything.
output=$(RUSTC_BOOTSTRAP=1 RUST_TEST_THREADS=${RUST_TEST_THREADS:-4} CARGO_MANIFEST_DIR=$PWD \
    "$stories" -Z unstable-options --report-time "$@") || failed=1
grep -oP '^test \K.*(?= ... \S+ <)|<\K[0-9.]+(?=s>$)' <<<"$output" | paste - - |
    awk -F'\t' '{ printf "%8.2f %s\n", $2, $1 }' | sort -rn | head -n "$count"
grep '^test result' <<<"$output"
exit "${failed:-0}"
