#!/usr/bin/env bash
# Creates the role that Umbra connects as, without rights beyond its own objects, and its database. The image of
# Postgres runs this script once, after it has created its data directory.
set -euo pipefail

umbra_password_file=${UMBRA_PASSWORD_FILE:-/run/secrets/umbra_password}
export umbra_password_file
# psql reads the file itself, so that no list of processes shows the password.
psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --username="${POSTGRES_USER:-postgres}" --dbname="${POSTGRES_DB:-postgres}" <<'SQL'
\set password `cat "$umbra_password_file"`
CREATE ROLE umbra LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'password';
CREATE DATABASE umbra OWNER umbra;
REVOKE ALL ON DATABASE umbra FROM PUBLIC;
SQL
