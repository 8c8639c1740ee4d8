#!/usr/bin/env bash
# Tests the Python client's adapters, each with its real framework in an environment of its own, a scripted model, and a
# real server. Prints a table of adapters and stories: ok, FAULT, or - where a framework has no such thing.
# Needs a built umbra ($UMBRA, else target/debug/umbra or target/release/umbra) and python3, 3.10 or newer, with pip.
# Exit code: 0 if all stories passed, 1 on a fault or if a framework could not be installed.
#
# adapters.sh [NAME..]   langchain openai_agents pydantic_ai crewai adk mcp litellm, all unless given; about three
#                        minutes with the environments made
# CACHE: a folder that keeps the environments (else target/adapters). TYPES=1 checks the types of the client and of its
# adapters as well, by mypy and pyright, both strict.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
# Packages there would not be installed into the environments.
unset PYTHONPATH

declare -A packages=(
    [langchain]='langchain==1.5.2 langgraph==1.2.24'
    [openai_agents]='openai-agents==0.24.0'
    [pydantic_ai]='pydantic-ai-slim==2.68.0'
    [crewai]='crewai==1.15.30'
    [adk]='google-adk==2.13.0'
    [mcp]='mcp==2.3.0'
    [litellm]='litellm==1.108.7'
    [types]='mypy==2.4.1 pyright[nodejs]==1.1.414'
)
names=(langchain openai_agents pydantic_ai crewai adk mcp litellm)
cache=$(realpath -m "${CACHE:-target/adapters}")
client=$PWD/clients/python
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ -n ${UMBRA:-} ]]; then
    UMBRA=$(realpath "$UMBRA")
    export UMBRA
fi

for name in "$@"; do
    [[ " ${names[*]} " == *" $name "* ]] || { echo "there is no adapter $name: ${names[*]}" >&2; exit 2; }
done
[[ $# -eq 0 ]] || names=("$@")

# Makes the environment of an adapter.
environment() {
    # shellcheck disable=SC2086
    python_environment "$cache/$1" ${packages[$1]} httpx pydantic
}

# Checks the types of files as the environment of an adapter has them: check_types NAME ENVIRONMENT FILE..
check_types() {
    local name=$1 python=$cache/$2/bin/python types=$cache/types/bin
    shift 2
    if (cd "$client" && "$types/mypy" --python-executable "$python" --cache-dir "$work/mypy-$name" "$@" &&
        "$types/pyright" --pythonpath "$python" "$@") >"$work/types.log" 2>&1; then
        printf '%s\ttypes\tok\n' "$name" >>"$work/states"
    else
        failed=1
        printf '%s\ttypes\tFAULT\n' "$name" >>"$work/states"
        cat "$work/types.log" >&2
    fi
}

failed=
if [[ -n ${TYPES:-} ]]; then environment types; fi
for name in "${names[@]}"; do
    environment "$name" || { printf '%s\tinstall\tFAULT\n' "$name" >>"$work/states"; failed=1; continue; }
    (cd "$client/adapters_tests" && PYTHONPATH=$client/src PYTHONWARNINGS=ignore \
        "$cache/$name/bin/python" run.py "$name") >>"$work/states" 2>"$work/$name.log" ||
        { failed=1; echo "== $name" >&2; cat "$work/$name.log" >&2
            printf '%s\tall\tFAULT\n' "$name" >>"$work/states"; }
    [[ -z ${TYPES:-} ]] || check_types "$name" "$name" "$client"/src/umbra_shadow/adapters/*"$name"*.py
done
if [[ -n ${TYPES:-} ]]; then
    package=$client/src/umbra_shadow
    check_types client "${names[0]}" "$package"/{_async,_sync} "$package"/*.py \
        "$package"/adapters/_{boundary,posting}.py
fi

python3 - "$work/states" <<'PYTHON'
import sys

rows = [line.rstrip("\n").split("\t") for line in open(sys.argv[1])]
adapters = list(dict.fromkeys(name for name, _, _ in rows))
stories = dict.fromkeys(story for _, story, _ in rows)
states = {(name, story): state for name, story, state in rows}
width = max(map(len, stories))
print(" " * width, *adapters)
for story in stories:
    print(story.ljust(width), *(states.get((name, story), "").ljust(len(name)) for name in adapters))
PYTHON
[[ -z $failed ]]
