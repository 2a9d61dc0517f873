#!/bin/sh
# What the image of Postgres does at its start: makes the data folder the first time, then runs the server.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  umask 077
  mkdir -p "$PGDATA"
  printf '%s' "$POSTGRES_PASSWORD" >"$PGDATA/../.password"
  "$POSTGRES_PROGRAMS/initdb" --pgdata="$PGDATA" --username="$POSTGRES_USER" --pwfile="$PGDATA/../.password" \
    --auth-local=trust --auth-host=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8 >/dev/null
  rm "$PGDATA/../.password"
  printf 'host all all all scram-sha-256\n' >>"$PGDATA/pg_hba.conf"
  "$POSTGRES_PROGRAMS/pg_ctl" --pgdata="$PGDATA" --wait -o "-c listen_addresses=''" start >/dev/null
  "$POSTGRES_PROGRAMS/psql" --username="$POSTGRES_USER" --dbname=postgres --quiet --command="CREATE DATABASE \"$POSTGRES_DB\""
  "$POSTGRES_PROGRAMS/pg_ctl" --pgdata="$PGDATA" --wait --mode=fast stop >/dev/null
fi
exec "$POSTGRES_PROGRAMS/postgres" -D "$PGDATA" -c listen_addresses='*' "$@"
