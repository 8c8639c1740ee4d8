#!/bin/sh
# Compiles a crate of the workspace with the flags that `cargo fuzz -s none` sets: libFuzzer sees edges and comparisons.
# None of them needs a nightly toolchain. Cargo calls it with rustc's command line (RUSTC_WORKSPACE_WRAPPER).
exec "$@" --cfg fuzzing -Copt-level=1 -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares
