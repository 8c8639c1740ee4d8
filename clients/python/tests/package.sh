#!/usr/bin/env bash
# Builds the wheel, installs it alone into a fresh environment, checks it, and runs each Python snippet of README.md
# against a server.
# UMBRA: the server's program, else one of the repository's target/.
# FRAMEWORKS=1 installs LangChain as well, for the snippet that needs it. ALL=1 takes each Python from 3.10 to 3.14 that
# is installed, else python3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
package=$PWD
# Packages there would hide what the wheel does not bring.
unset PYTHONPATH
export PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
if [[ -n ${UMBRA:-} ]]; then
    UMBRA=$(realpath "$UMBRA")
    export UMBRA
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The server's Postgres may run as another user.
chmod 755 "$work"

declare -A pythons=()
candidates=(python3)
if [[ -n ${ALL:-} ]]; then candidates=(python3.{10..14} "$HOME"/.pyenv/versions/3.1[0-4].*/bin/python3); fi
for python in "${candidates[@]}"; do
    version=$("$python" -c 'import ensurepip, sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
    pythons[$version]=$python
done
((${#pythons[@]})) || { echo "no Python with venv: ${candidates[*]}" >&2; exit 1; }

# A copy, since a build leaves files in the folder.
mkdir "$work/source" "$work/project"
cp -r pyproject.toml README.md src "$work/source"
cd "$work/project"
for version in $(printf '%s\n' "${!pythons[@]}" | sort -V); do
    echo "== Python $version"
    venv=$work/venv-$version
    "${pythons[$version]}" -m venv "$venv"
    [[ -d $work/dist ]] || "$venv/bin/pip" wheel --quiet --no-deps --wheel-dir "$work/dist" "$work/source"
    wheel=$(echo "$work"/dist/umbra_shadow-*.whl)
    "$venv/bin/pip" install --quiet "$wheel${FRAMEWORKS:+[langchain]}"
    "$venv/bin/python" "$package/tests/check_package.py" "$wheel"
done
echo "package.sh: all held"
