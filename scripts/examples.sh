#!/usr/bin/env bash
# Runs the examples, each with its real framework in an environment of its own, a real server, and a scripted model that
# speaks the API of OpenAI; checks by the server's API what each did. Prints a table of checks: held or FAULT.
# Needs a built umbra ($UMBRA, else target/debug/umbra or target/release/umbra) and python3, 3.11 or newer, with pip;
# vercel_ai_shadow needs node and npm as well. The story of examples/billing is tests/it/billing.rs.
# Exit code: 0 if all checks held, 1 on a fault or if a framework could not be installed.
#
# examples.sh [NAME..]   langgraph_sidecar openai_agents_approvals findings_pandas vercel_ai_shadow, all unless given;
#                        about a minute with the environments made
# CACHE: a folder that keeps the environments (else target/examples). TYPES=1 checks the examples' types as well.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
# Packages there would not be installed into the environments.
unset PYTHONPATH

declare -A packages=(
    [langgraph_sidecar]='langchain==1.5.2 langgraph==1.2.24 langchain-openai==1.7.4'
    [openai_agents_approvals]='openai-agents==0.24.0'
    [findings_pandas]='pandas==3.1.1 nbclient==0.11.0 ipykernel==7.4.0'
    [types]='mypy==2.4.1 pyright[nodejs]==1.1.414'
)
names=(langgraph_sidecar openai_agents_approvals findings_pandas vercel_ai_shadow)
cache=$(realpath -m "${CACHE:-target/examples}")
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ -n ${UMBRA:-} ]]; then
    UMBRA=$(realpath "$UMBRA")
    export UMBRA
fi

for name in "$@"; do
    [[ " ${names[*]} " == *" $name "* ]] || { echo "there is no example $name: ${names[*]}" >&2; exit 2; }
done
[[ $# -eq 0 ]] || names=("$@")

# Makes the environment of an example.
environment() {
    # shellcheck disable=SC2086
    python_environment "$cache/$1" ${packages[$1]} httpx pydantic
}

# Checks the types of an example's program in its environment.
check_types() {
    local name=$1 python=$cache/$1/bin/python types=$cache/types/bin file=$root/examples/$1/agent.py
    if (cd clients/python && "$types/mypy" --python-executable "$python" --cache-dir "$work/mypy-$name" "$file" &&
        "$types/pyright" -p "$root/examples" --pythonpath "$python" "$file") >"$work/types.log" 2>&1; then
        printf '%s\ttypes\theld\n' "$name" >>"$work/states"
    else
        failed=1
        printf '%s\ttypes\tFAULT\n' "$name" >>"$work/states"
        cat "$work/types.log" >&2
    fi
}

failed=
if [[ -n ${TYPES:-} ]]; then environment types; fi
for name in "${names[@]}"; do
    if [[ $name == vercel_ai_shadow ]]; then
        command=(examples/vercel_ai_shadow/test.sh)
        if [[ ! -e ${command[0]} ]]; then
            printf '%s\tno test.sh\t-\n' "$name" >>"$work/states"
            continue
        fi
        "${command[@]}" >"$work/$name.log" 2>&1 && state=held || { state=FAULT failed=1; cat "$work/$name.log" >&2; }
        printf '%s\ttest.sh\t%s\n' "$name" "$state" >>"$work/states"
        continue
    fi
    environment "$name" || { printf '%s\tinstall\tFAULT\n' "$name" >>"$work/states"; failed=1; continue; }
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/clients/python/src "$cache/$name/bin/python" \
        scripts/examples/check_example.py "$name" >"$work/lines" 2>"$work/$name.log" ||
        { failed=1; echo "== $name" >&2; cat "$work/$name.log" >&2; printf 'run\tFAULT\n' >>"$work/lines"; }
    sed "s/^/$name\t/" "$work/lines" >>"$work/states"
    [[ -z ${TYPES:-} || ! -e examples/$name/agent.py ]] || check_types "$name"
done

awk -F'\t' '{ printf "%-24s %-48s %s\n", $1, $2, $3 }' "$work/states"
[[ -z $failed ]]
