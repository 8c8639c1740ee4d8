#!/usr/bin/env bash
# Tests Umbra with real agents, which are attached as their users would attach them: coding agents by their hooks, from
# npm, against a scripted model. Prints a table of hosts and faults.
# Needs node with npm, and cargo to build umbra and umbra-bench (a debug build, unless $UMBRA and $BENCH name others).
#
# attach.sh         all hosts and all faults, in enforce and in observe: about 20 minutes
# attach.sh quick   Claude Code and Codex, and the faults that tell most: about a minute
# CACHE: a folder that keeps the agents (else target/agents).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ -z ${BENCH:-} ]]; then
    cargo build --quiet --locked --package umbra --package umbra-bench
    BENCH=target/debug/umbra-bench
fi
agents=${CACHE:-target/agents}
hooks() { # hooks OPTION..: runs the agents
    "$BENCH" ${UMBRA:+--umbra "$UMBRA"} hooks --agents "$agents" "$@"
}

if [[ ${1:-} == quick ]]; then
    hooks --hosts claude-code,codex --faults none,stopped,killed,removed
    hooks --hosts claude-code,codex --faults none,stopped --mode observe
else
    hooks
    hooks --mode observe
fi
echo "attach.sh: all held"
