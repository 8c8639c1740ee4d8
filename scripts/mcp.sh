#!/usr/bin/env bash
# Puts the MCP proxy between clients and servers that are not ours: the official Python client (both generations of the
# protocol) and the inspector's command line, before server-filesystem and server-everything, over standard input and output
# and over HTTP. In shadow reads come back real, writes come back stubbed, and the folder is the same byte for byte
# afterwards; live it is written to. Needs a built umbra ($UMBRA, else target/debug/umbra), python3 with pip, and npm.
# Exit code: 0 all held, 1 something did not, or nothing could be run.
#
# UMBRA: the binary. CACHE: a folder to keep the clients and servers in (else they are installed anew).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

client_version=2.3.0
server_version=2026.8.31
inspector_version=2.12.0
umbra=$(realpath "${UMBRA:-target/debug/umbra}")
scripts=$PWD/scripts

work=$(mktemp -d)
server=
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

[[ -x $umbra ]] || fail "$umbra is not there: cargo build, or set UMBRA"
type -P npm >/dev/null || fail "npm is not there"
unset DATABASE_URL AGENT_SAFE_MODE ANTHROPIC_API_KEY OPENAI_API_KEY GEMINI_API_KEY
for name in "${!UMBRA__@}"; do unset "$name"; done

cache=${CACHE:-$work/cache}
mkdir -p "$cache"
if [[ ! -x $cache/venv/bin/python ]]; then
    # Debian has python3 without ensurepip; then venv comes from PyPI as well.
    python3 -m venv "$cache/venv" 2>/dev/null || {
        rm -rf "$cache/venv"
        python3 -m pip install --quiet --target "$work/virtualenv" virtualenv
        PYTHONPATH=$work/virtualenv python3 -m virtualenv --quiet "$cache/venv"
    }
fi
"$cache/venv/bin/python" -m pip install --quiet --disable-pip-version-check "mcp==$client_version"
if [[ ! -d $cache/node_modules/@modelcontextprotocol/inspector ]]; then
    npm install --silent --no-save --prefix "$cache" "@modelcontextprotocol/server-filesystem@$server_version" \
        "@modelcontextprotocol/server-everything@$server_version" "@modelcontextprotocol/inspector@$inspector_version" >/dev/null
fi
bin=$cache/node_modules/.bin

folder=$work/folder
mkdir -p "$folder/sub"
echo 'what was there' >"$folder/a.txt"
echo 'as well' >"$folder/sub/b.txt"
# Names, bytes, and when they were written.
state() { (cd "$folder" && find . -printf '%p %y %T@\n' | sort && find . -type f -print0 | sort -z | xargs -0 sha256sum); }
before=$(state)

# The servers' own annotations say the rest.
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
    files:
      agent: writer
      upstreams:
        files: {command: [$bin/mcp-server-filesystem, $folder], trusted: true}
    both:
      agent: writer
      upstreams:
        files: {command: [$bin/mcp-server-filesystem, $folder], trusted: true}
        everything: {command: [$bin/mcp-server-everything], trusted: true}
YAML

serve() { # serve NAME=VALUE..: starts the server with these variables; its address is in $base
    env "$@" "$umbra" --config "$work/umbra.yaml" serve --bind 127.0.0.1:0 >"$work/out" 2>"$work/err" &
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

inspect() { # inspect TARGET.. -- METHOD..: the inspector's command line; prints what it prints
    env AGENT_SAFE_MODE="${safe:-}" "$bin/mcp-inspector" --cli "$@" 2>"$work/inspector.err" || {
        cat "$work/inspector.err" >&2
        return 1
    }
}

serve AGENT_SAFE_MODE=1
echo "== shadow"
AGENT_SAFE_MODE=1 "$cache/venv/bin/python" "$scripts/mcp_client.py" shadow "$umbra" "$work/umbra.yaml" "$base" "$folder"
[[ $(state) == "$before" ]] || fail "the folder has changed in shadow"
safe=1
listed=$(inspect "$umbra" --config "$work/umbra.yaml" mcp --profile files --method tools/list) || fail "the inspector lists nothing"
grep -q '"write_file"' <<<"$listed" || fail "the inspector misses write_file: $listed"
read=$(inspect "$base/mcp/files" --transport http --method tools/call --tool-name read_text_file \
    --tool-arg "path=$folder/a.txt") || fail "the inspector cannot read"
grep -q 'what was there' <<<"$read" || fail "the inspector does not read the real file: $read"
inspect "$base/mcp/files" --transport http --method tools/call --tool-name write_file \
    --tool-arg "path=$folder/c.txt" --tool-arg content=x >"$work/written" || true
[[ $(state) == "$before" ]] || fail "the inspector has changed the folder in shadow"
stop

serve UMBRA=live
echo "== live"
"$cache/venv/bin/python" "$scripts/mcp_client.py" live "$umbra" "$work/umbra.yaml" "$base" "$folder"
[[ $(state) != "$before" ]] || fail "nothing was written live"
stop
echo "mcp.sh: all held"
