#!/usr/bin/env bash
# Makes the secrets of docker-compose.yml in ./secrets (or the given folder). Existing secrets are kept.
# Only the owner can enter the folder. All can read the files, since the containers' users do not exist on the host.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
dir=${1:-secrets}

random() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }
keep() { # keep NAME TEXT: writes the file unless it exists
    if [[ -s $dir/$1 ]]; then
        echo "kept  $dir/$1"
    else
        printf '%s\n' "$2" >"$dir/$1"
        chmod 444 "$dir/$1"
        echo "made  $dir/$1"
    fi
}

mkdir -p "$dir"
chmod 700 "$dir"
keep postgres_password "$(random)"
keep umbra_password "$(random)"
keep database_url "postgres://umbra:$(cat "$dir/umbra_password")@postgres:5432/umbra"
keep admin_key "umbra_sk_$(random)"
