# shellcheck shell=bash
# Virtual environments of Python packages, for the tests with third-party programs: sourced in the repository's folder.
# uv makes them, in seconds, and shares the files of a package among them.

# Makes a virtual environment with these packages, unless it is there: python_environment FOLDER PACKAGE==VERSION..
python_environment() {
    local folder=$1 uv=$PWD/target/tools/uv wanted
    shift
    wanted=$(printf '%s\n' "$@")
    [[ $(cat "$folder/wanted" 2>/dev/null) != "$wanted" ]] || return 0
    mkdir -p "$uv"
    (
        # Scripts run beside each other: one of them installs uv.
        flock 9
        [[ -x $uv/bin/uv ]] || python3 -m pip install --quiet --disable-pip-version-check --target "$uv" uv==0.13.9
    ) 9>"$uv/lock" || return
    rm -rf "$folder"
    UV_CACHE_DIR=$uv/cache "$uv/bin/uv" venv --quiet --python "$(type -P python3)" "$folder" &&
        UV_CACHE_DIR=$uv/cache "$uv/bin/uv" pip install --quiet --python "$folder/bin/python" "$@" &&
        echo "$wanted" >"$folder/wanted"
}
