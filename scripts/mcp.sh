#!/usr/bin/env bash
# Tests the MCP proxy between third-party clients and servers: the official Python client (both generations of the
# protocol) and the inspector's command line, before server-filesystem and server-everything, over standard input and
# output and over HTTP. In shadow, reads give real results, writes give stubs or refusals, and the folder stays the same
# byte for byte; live, files are written. At last the checks of shadow run against a live server, and must fail there.
# Needs a built umbra ($UMBRA, else target/debug/umbra), python3 with pip, node and npm. Parts that cannot be installed
# are skipped, and named in the output.
# Exit code: 0 if all parts that could run passed, 1 if one failed.
#
# UMBRA: the binary. CACHE: a folder that keeps the clients and servers (else target/mcp).
# UMBRA_SABOTAGE=1: the server runs live where it should be in shadow, and the script must fail.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh

client_version=2.3.0
server_version=2026.8.31
# The last version for node 20. The inspector recognizes an HTTP address by its ending, /mcp.
inspector_version=0.15.0
umbra=$(realpath "${UMBRA:-target/debug/umbra}")
scripts=$PWD/scripts

work=$(mktemp -d)
server=
skipped=()
finish() {
    local status=$?
    if [[ -n $server ]]; then
        kill -TERM "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    if ((status != 0)) && [[ -s $work/err ]]; then tail -n 20 "$work/err" >&2; fi
    rm -rf "$work"
    exit $((status == 0 ? 0 : 1))
}
trap finish EXIT
trap 'exit 1' INT TERM

fail() {
    echo "mcp.sh: $*" >&2
    exit 1
}

skip() {
    echo "mcp.sh: skipped: $*" >&2
    skipped+=("$*")
}

[[ -x $umbra ]] || fail "$umbra is not there: cargo build, or set UMBRA"
# Variables of this shell must not reach the servers.
unset DATABASE_URL AGENT_SAFE_MODE ANTHROPIC_API_KEY OPENAI_API_KEY GEMINI_API_KEY
for name in "${!UMBRA__@}"; do unset "$name"; done

cache=${CACHE:-target/mcp}
mkdir -p "$cache"
cache=$(realpath "$cache")
bin=$cache/node_modules/.bin

packages() { # packages NAME@VERSION..: installs the packages into the cache
    npm install --silent --no-save --no-audit --no-fund --prefix "$cache" "$@" >"$work/npm" 2>&1
}
servers=("@modelcontextprotocol/server-filesystem@$server_version" "@modelcontextprotocol/server-everything@$server_version")
if ! type -P npm >/dev/null || ! type -P node >/dev/null; then
    skip "everything: npm is not there, and the servers come from it"
    exit 0
fi
if [[ ! -x $bin/mcp-server-filesystem || ! -x $bin/mcp-server-everything || ! -x $bin/mcp-inspector ]]; then
    if ! packages "${servers[@]}" "@modelcontextprotocol/inspector@$inspector_version"; then
        skip "everything: npm installs no servers ($(tail -n 1 "$work/npm"))"
        exit 0
    fi
fi

python=$cache/venv/bin/python
if ! python_environment "$cache/venv" "mcp==$client_version" >"$work/pip" 2>&1; then
    skip "the Python client: it cannot be installed ($(tail -n 1 "$work/pip"))"
    python=
fi

folder=$work/folder
mkdir -p "$folder/sub"
echo 'what was there' >"$folder/a.txt"
echo 'as well' >"$folder/sub/b.txt"
# Names, contents and times of modification of all files.
state() { (cd "$folder" && find . -printf '%p %y %T@\n' | sort && find . -type f -print0 | sort -z | xargs -0 sha256sum); }
before=$(state)

# The effects of all other tools come from the servers' own annotations.
cat >"$work/tools.yaml" <<YAML
effects:
  - {tool: everything.echo, effect: read}
  - {tool: everything.trigger-long-running-operation, effect: read}
YAML
cat >"$work/umbra.yaml" <<YAML
tools: {path: $work/tools.yaml}
storage: {data_dir: $work/data}
artifacts: {enabled: false}
mcp:
  profiles:
    mcp:
      agent: inspector
      upstreams:
        files: {command: [$bin/mcp-server-filesystem, $folder], trusted: true}
    files:
      agent: writer
      upstreams:
        files: {command: [$bin/mcp-server-filesystem, $folder], trusted: true}
    bare:
      agent: newcomer
      upstreams:
        mcp: {command: [$bin/mcp-server-filesystem, $folder]}
    both:
      agent: writer
      upstreams:
        files: {command: [$bin/mcp-server-filesystem, $folder], trusted: true}
        everything: {command: [$bin/mcp-server-everything], trusted: true}
    few:
      agent: writer
      select: {limit: 3, always_include: [everything.echo]}
      upstreams:
        files: {command: [$bin/mcp-server-filesystem, $folder], trusted: true}
        everything: {command: [$bin/mcp-server-everything], trusted: true}
YAML
# A script without options: the inspector would take the proxy's options for its own.
printf '#!/bin/sh\nexec "%s" --config "%s" mcp --profile mcp --agent inspector\n' "$umbra" "$work/umbra.yaml" >"$work/proxy"
chmod +x "$work/proxy"

serve() { # serve MODE: starts the server, shadow or live; sets its address ($base) and the stdio proxies' mode ($mode)
    mode=$1
    [[ ${UMBRA_SABOTAGE:-} != 1 ]] || mode=live
    : >"$work/out" # The child opens it later than the first look below.
    within "$umbra" --config "$work/umbra.yaml" serve --bind 127.0.0.1:0 >"$work/out" 2>"$work/err" &
    server=$!
    for _ in {1..600}; do
        base=$(sed -n 's/^listening on //p' "$work/out")
        [[ -z $base ]] || return 0
        kill -0 "$server" 2>/dev/null || fail "umbra did not start"
        sleep 0.1
    done
    fail "umbra did not listen"
}

within() { # within COMMAND..: runs the command in $mode
    if [[ $mode == shadow ]]; then exec env AGENT_SAFE_MODE=1 "$@"; else exec "$@"; fi
}

stop() {
    kill -TERM "$server"
    wait "$server" || fail "umbra ended with an error"
    server=
}

official() { # official PART: runs a part of mcp_client.py, with the Python client
    (within timeout 60 "$python" "$scripts/mcp_client.py" "$1" "$umbra" "$work/umbra.yaml" "$base" "$folder")
}

inspect() { # inspect TARGET.. OPTION..: runs the inspector's command line and prints its output
    (within timeout 30 "$bin/mcp-inspector" --cli "$@" 2>"$work/inspector.err") || {
        tail -n 20 "$work/inspector.err" >&2
        return 1
    }
}

inspector() { # inspector WIRE TARGET..: tests listing, reading and writing by the inspector over one transport
    local wire=$1 listed read wrote
    shift
    listed=$(inspect "$@" --method tools/list) || fail "inspector, $wire: it lists nothing"
    grep -q '"write_file"' <<<"$listed" || fail "inspector, $wire: it misses write_file: $listed"
    read=$(inspect "$@" --method tools/call --tool-name read_text_file --tool-arg "path=$folder/a.txt") ||
        fail "inspector, $wire: it cannot read"
    grep -q 'what was there' <<<"$read" || fail "inspector, $wire: it does not read the real file: $read"
    wrote=$(inspect "$@" --method tools/call --tool-name write_file --tool-arg "path=$folder/$wire.txt" --tool-arg content=x) ||
        fail "inspector, $wire: its write has no answer"
    if [[ $expected == shadow ]]; then
        # The stub follows the tool's own output schema, since there is no contract.
        grep -q '"dev.umbra/shadow"' <<<"$wrote" || fail "inspector, $wire: its write is not marked as a stub: $wrote"
    else
        [[ -e $folder/$wire.txt ]] || fail "inspector, $wire: nothing was written: $wrote"
    fi
    echo "$expected: inspector, $wire: held"
}

part() { # part EXPECTED: runs every test once; EXPECTED is shadow or live
    expected=$1
    [[ -z $python ]] || official "$expected" || fail "the Python client, $expected"
    inspector stdio "$work/proxy"
    inspector http "$base/mcp/mcp" --transport http
}

echo "== shadow"
serve shadow
part shadow
[[ $(state) == "$before" ]] || fail "the folder has changed in shadow"
stop
echo "== live"
serve live
part live
after=$(state)
[[ $after != "$before" ]] || fail "nothing was written live"
if [[ -n $python ]]; then
    echo "== the checks of the shadow, where it is live"
    if official shadow >"$work/tried" 2>&1; then fail "they hold although files are written"; fi
    grep -q AssertionError "$work/tried" || fail "they end otherwise than by what they check: $(tail -n 3 "$work/tried")"
fi
stop
echo "mcp.sh: all held${skipped[*]:+; skipped: ${skipped[*]}}"
