#!/usr/bin/env bash
# Writes the generated files of the Python client: models.py from openapi/umbra.json, and _sync/ from _async/, with
# the tests of both.
#   clients/python/generate.sh           writes them
#   clients/python/generate.sh --check   fails if the files in the repository differ
# Needs python3 with pip. CACHE: a folder that keeps the generator (else target/client_models).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

generator_version=0.89.0
root=$(realpath ../..)
generator=${CACHE:-$root/target/client_models}/python-$generator_version
package=src/umbra_shadow
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

[[ -d $generator/datamodel_code_generator ]] ||
    python3 -m pip install --quiet --disable-pip-version-check --target "$generator" "datamodel-code-generator==$generator_version"

bases='{
  "Ruling": "umbra_shadow._model.Judgement", "TurnAnswer": "umbra_shadow._model.Judgement",
  "MessageAnswer": "umbra_shadow._model.Judgement", "ToolName": "umbra_shadow._model.NamedTool",
  "PatternsFound": "umbra_shadow._model.SidecarAnswer", "History": "umbra_shadow._model.SidecarAnswer"}'
python3 tools/prune_openapi.py "$root/openapi/umbra.json" >"$work/openapi.json"
(cd "$work" && PYTHONPATH=$generator python3 -m datamodel_code_generator \
    --input openapi.json --input-file-type openapi --output models.py --ignore-pyproject --formatters builtin \
    --target-python-version 3.10 --output-model-type pydantic_v2.BaseModel --disable-timestamp --use-double-quotes \
    --base-class umbra_shadow._model.Model --base-class-map "$bases" --collapse-root-models \
    --enum-field-as-literal all --use-one-literal-as-default --strict-nullable --use-default-kwarg \
    --use-schema-description --use-field-description --use-single-line-docstring \
    --custom-file-header '"""Requests and answers of the API, generated from `openapi/umbra.json` by `scripts/client_models.sh`."""')
python3 tools/make_sync.py "$package/_async" "$work/_sync"
python3 tools/make_sync.py tests/test_async_api.py "$work/test_sync_api.py"

if [[ ${1:-} == --check ]]; then
    diff -u "$package/models.py" "$work/models.py" && diff -ru --exclude=__pycache__ "$package/_sync" "$work/_sync" &&
        diff -u tests/test_sync_api.py "$work/test_sync_api.py" ||
        { echo "generated files differ: run clients/python/generate.sh" >&2; exit 1; }
else
    cp "$work/models.py" "$package/models.py"
    cp "$work/test_sync_api.py" tests/
    rm -f "$package/_sync/"*.py
    cp "$work/_sync/"*.py "$package/_sync/"
fi
