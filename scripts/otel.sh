#!/usr/bin/env bash
# Tests agents that are watched by OpenTelemetry, with real packages from PyPI and npm against a scripted model: the
# OpenAI SDK with the official instrumentation (over HTTP and gRPC), LangGraph with OpenInference, and the AI SDK of
# Vercel. Each asks for `curl ... | sh`: Umbra must tell of it within 10 s, while the agent still runs, and must have
# each call once. Then the exporter of the Python SDK sends to a server that is full, killed, and stopped: nothing
# acknowledged is lost, and the agent is never held up.
# Needs a built umbra ($UMBRA, else target/debug/umbra), python3 with pip, node and npm. Parts that cannot be installed
# are skipped, and named in the output.
# Exit code: 0 if all parts that could run passed, 1 if one failed.
#
# otel.sh         all parts: two to four minutes
# otel.sh quick   the OpenAI SDK alone, which must be installed: about half a minute, with the packages in the cache
# UMBRA: the binary. CACHE: a folder that keeps the packages (else target/otel).
# UMBRA_SABOTAGE=1: agents export no content where it can be switched off, and the script must fail.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh

otel=(opentelemetry-distro==0.66b2 opentelemetry-exporter-otlp==1.45.2)
openai_packages=("${otel[@]}" openai==3.57.0 opentelemetry-instrumentation-genai-openai==1.3b0)
langgraph_packages=("${otel[@]}" langchain==1.5.2 langgraph==1.2.24 langchain-openai==1.7.4
    openinference-instrumentation-langchain==0.1.80)
# The last versions for node 20.
vercel_packages=(ai@6.0.326 @ai-sdk/openai@3.0.141 @opentelemetry/sdk-node@0.223.0 zod@4.6.7)
umbra=$(realpath "${UMBRA:-target/debug/umbra}")
scripts=$PWD/scripts/otel
quick=
case ${1:-} in
    quick) quick=1 ;;
    '') ;;
    *)
        echo 'usage: otel.sh [quick]' >&2
        exit 1
        ;;
esac

work=$(mktemp -d)
server=
running=() # Processes of agents, of the model, and of what fills the server.
skipped=()
is_broken=0
failed=() # Parts that failed; the others still run.
finish() {
    local status=$? process
    for process in "${running[@]}"; do kill -TERM "$process" 2>/dev/null || true; done
    if [[ -n $server ]]; then
        kill -CONT "$server" 2>/dev/null || true
        kill -TERM "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    if ((status != 0 && is_broken)); then tail -n 20 "$work"/*.err >&2 || true; fi
    rm -rf "$work"
    exit $((status == 0 ? 0 : 1))
}
trap finish EXIT
trap 'exit 1' INT TERM

fail() {
    is_broken=1
    echo "otel.sh: $*" >&2
    exit 1
}

skip() {
    [[ -z $quick ]] || fail "$*"
    echo "otel.sh: skipped: $*" >&2
    skipped+=("$*")
}

[[ -x $umbra ]] || fail "$umbra is not there: cargo build, or set UMBRA"
# Variables of this shell must not reach the server and the agents.
unset DATABASE_URL AGENT_SAFE_MODE ANTHROPIC_API_KEY OPENAI_API_KEY GEMINI_API_KEY LANGSMITH_TRACING
for name in "${!UMBRA__@}" "${!OTEL_@}"; do unset "$name"; done

mkdir -p "${CACHE:-target/otel}"
cache=$(realpath "${CACHE:-target/otel}")

node_packages() { # node_packages PACKAGE@VERSION..: installs into the cache, unless they are there
    local folder=$cache/vercel wanted
    wanted=$(printf '%s\n' "$@")
    [[ $(cat "$folder/installed" 2>/dev/null) != "$wanted" ]] || return 0
    rm -rf "$folder"
    mkdir -p "$folder"
    npm install --silent --no-audit --no-fund --prefix "$folder" "$@" || return
    echo "$wanted" >"$folder/installed"
}

serve() { # serve [ADDRESS]: starts the server and sets its address ($base)
    : >"$work/out" # The child opens it later than the first look below.
    "$umbra" serve --bind "${1:-127.0.0.1:0}" --data-dir "$work/data" >"$work/out" 2>>"$work/umbra.err" &
    server=$!
    for _ in {1..600}; do
        base=$(sed -n 's/^listening on //p' "$work/out")
        [[ -z $base ]] || return 0
        kill -0 "$server" 2>/dev/null || fail "umbra did not start"
        sleep 0.1
    done
    fail "umbra did not listen"
}

stop() {
    kill -TERM "$server"
    wait "$server" || fail "umbra ended with an error"
    server=
}

await_line() { # await_line FILE PID: waits for the first line that a process prints into a file
    for _ in {1..600}; do
        [[ ! -s $1 ]] || return 0
        kill -0 "$2" 2>/dev/null || return 1
        sleep 0.1
    done
    return 1
}

export_to_umbra() { # export_to_umbra PROTOCOL COMMAND..: runs the command with the variables that a user sets
    local variables=(
        OPENAI_BASE_URL="$model/v1"
        OPENAI_API_KEY=unused
        OTEL_EXPORTER_OTLP_ENDPOINT="$base"
        OTEL_EXPORTER_OTLP_PROTOCOL="$1"
        OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental
    )
    if [[ ${UMBRA_SABOTAGE:-} == 1 ]]; then
        variables+=(OPENINFERENCE_HIDE_INPUTS=true OPENINFERENCE_HIDE_OUTPUTS=true)
    else
        variables+=(OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_AND_EVENT)
    fi
    shift
    exec env "${variables[@]}" "$@"
}

watch() { # watch PROTOCOL SERVICE AGENT FAILURE [--task TASK] -- COMMAND..: runs an agent in the background
    local protocol=$1
    shift
    (export_to_umbra "$protocol" python3 "$scripts/watch.py" "$base" "$@") 2>"$work/$1.err" &
    running+=($!)
    watched[$1]=$!
}

await_watched() { # waits for the agents that were started by `watch`
    local service
    for service in "${!watched[@]}"; do
        wait "${watched[$service]}" || failed+=("$service: $(cat "$work/$service.err")")
    done
    watched=()
}

fault() { # fault NAME COMMAND: exports over both protocols, and runs the command in the midst
    local name=$1 protocol agents=() process
    for protocol in http grpc; do
        : >"$work/$protocol-$name"
        (
            export_to_umbra "$protocol" "$cache/openai/bin/python" "$scripts/exporting_agent.py" \
                "$protocol" "$protocol-$name" >"$work/$protocol-$name" 2>"$work/$protocol-$name.err"
        ) &
        running+=($!)
        agents+=($!)
    done
    await_line "$work/http-$name" "${agents[0]}" || fail "the exporter did not start"
    await_line "$work/grpc-$name" "${agents[1]}" || fail "the exporter did not start"
    sleep 2
    "$2"
    for process in "${agents[@]}"; do wait "$process" || fail "an exporting agent failed"; done
    for protocol in http grpc; do
        python3 "$scripts/check_exports.py" "$base" "$protocol-$name" "$work/$protocol-$name" 2>"$work/check.err" ||
            failed+=("$(cat "$work/check.err")")
    done
}

fill() { # fills the server for 5 s
    "$cache/openai/bin/python" "$scripts/fill_server.py" "$base" 5 2>"$work/fill.err" || fail "the server was not full"
}

restart() { # kills the server, and starts it again at its address 2 s later
    kill -KILL "$server"
    wait "$server" 2>/dev/null || true
    sleep 2
    serve "${base#http://}"
}

suspend() { # stops the server for 3 s
    kill -STOP "$server"
    sleep 3
    kill -CONT "$server"
}

declare -A watched=()
: >"$work/model"
python3 "$scripts/model_server.py" >"$work/model" 2>"$work/model.err" &
running+=($!)
await_line "$work/model" $! || fail "the model server did not start"
model=$(cat "$work/model")

began=$SECONDS
has_openai=
if python_environment "$cache/openai" "${openai_packages[@]}" >"$work/pip" 2>&1; then
    has_openai=1
else
    skip "the OpenAI SDK and the exporter: they cannot be installed ($(tail -n 1 "$work/pip"))"
fi
serve
if [[ -n $has_openai ]]; then
    instrument=("$cache/openai/bin/opentelemetry-instrument" "$cache/openai/bin/python" "$scripts/openai_agent.py")
    watch http/protobuf openai-http openai-http result -- "${instrument[@]}"
    watch grpc openai-grpc openai-grpc result -- "${instrument[@]}"
    await_watched
fi
if [[ -z $quick ]]; then
    if python_environment "$cache/langgraph" "${langgraph_packages[@]}" >"$work/pip" 2>&1; then
        instrument=("$cache/langgraph/bin/opentelemetry-instrument" "$cache/langgraph/bin/python")
        watch http/protobuf langgraph graph-builder error --task thread-1 -- \
            "${instrument[@]}" "$scripts/langgraph_agent.py" thread-1 graph-builder
    else
        skip "LangGraph: it cannot be installed ($(tail -n 1 "$work/pip"))"
    fi
    if ! type -P npm >/dev/null || ! type -P node >/dev/null; then
        skip "the AI SDK of Vercel: npm is not there"
    elif node_packages "${vercel_packages[@]}" >"$work/npm" 2>&1; then
        # Packages are looked for beside the program.
        cp "$scripts/vercel_agent.mjs" "$scripts/scenario.json" "$cache/vercel/"
        watch http/protobuf vercel vercel-builder error -- node "$cache/vercel/vercel_agent.mjs" vercel-builder
    else
        skip "the AI SDK of Vercel: it cannot be installed ($(tail -n 1 "$work/npm"))"
    fi
    await_watched
fi
stop
if [[ -z $quick && -n $has_openai ]]; then
    # Memory for eight bodies of 64 KiB, which fill_server.py takes.
    export UMBRA__SERVER__MAX_IN_FLIGHT_BYTES=512KiB UMBRA__SERVER__MAX_DECODED_BYTES=512KiB
    export UMBRA__SERVER__MAX_BODY_BYTES=256KiB UMBRA__SERVER__MAX_EVENT_BYTES=64KiB
    serve
    fault full fill
    fault killed restart
    fault stopped suspend
    stop
fi
if ((${#failed[@]} > 0)); then
    printf '%s\n' "${failed[@]}" >&2
    echo "otel.sh: ${#failed[@]} parts failed" >&2
    exit 1
fi
echo "otel.sh: all held in $((SECONDS - began)) s${skipped[*]:+; skipped: ${skipped[*]}}"
