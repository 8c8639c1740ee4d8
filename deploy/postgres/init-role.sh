#!/usr/bin/env bash
# Makes the role that Umbra connects as, which may do nothing but what it owns, and its database. The image of Postgres
# runs this once, when it has made its data directory.
set -euo pipefail

umbra_password_file=${UMBRA_PASSWORD_FILE:-/run/secrets/umbra_password}
export umbra_password_file
# psql reads the file itself, so the password stands in no list of processes.
psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --username="${POSTGRES_USER:-postgres}" --dbname="${POSTGRES_DB:-postgres}" <<'SQL'
\set password `cat "$umbra_password_file"`
CREATE ROLE umbra LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'password';
CREATE DATABASE umbra OWNER umbra;
REVOKE ALL ON DATABASE umbra FROM PUBLIC;
SQL
