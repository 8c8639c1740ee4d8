#!/usr/bin/env bash
# Fuzzes the readers of untrusted texts, on a stable toolchain, from the examples in fuzz/seeds and the findings of
# earlier runs (fuzz/corpus). A crash leaves a file in fuzz/artifacts and fails this script.
#   scripts/fuzz.sh [seconds] [target..]      default: 60 seconds each of redaction, shell, reply, sql and otel
#   scripts/fuzz.sh build                     only builds them
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../fuzz"
seconds=${1:-60}
targets=("${@:2}")
if ((${#targets[@]} == 0)); then targets=(redaction shell reply sql otel); fi

bins=()
for target in "${targets[@]}"; do bins+=(--bin "$target"); done
# Only the workspace's own crates are instrumented: all others are those of the tests, by `--workspace` with the same
# features.
RUSTC_WORKSPACE_WRAPPER=$PWD/instrument.sh cargo build --locked --quiet --workspace "${bins[@]}"
if [[ $seconds == build ]]; then exit; fi
built=${CARGO_TARGET_DIR:-../target}/debug

# All targets run at once: each has one thread.
logs=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$logs"' EXIT
declare -A running
for target in "${targets[@]}"; do
    mkdir -p "corpus/$target" artifacts
    echo "$target for $seconds s"
    "$built/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=4096 \
        -dict="seeds/$target.dict" -print_final_stats=1 -artifact_prefix="artifacts/$target-" "corpus/$target" "seeds/$target" \
        >"$logs/$target" 2>&1 &
    running[$target]=$!
done
status=0
for target in "${targets[@]}"; do
    if wait "${running[$target]}"; then
        grep -E '^Done|stat::number_of_executed_units' "$logs/$target" | sed "s/^/$target: /"
    else
        tail -n 60 "$logs/$target" >&2
        status=1
    fi
done
exit "$status"
