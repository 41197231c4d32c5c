#!/bin/sh
# Runs the primary's integration test on a throw-away PostgreSQL cluster, which is removed afterwards.
# Usage: primary/run_integration_test.sh BUILD_DIR [test arguments …]
set -eu
build=$1
shift
pg_bin=${PG_BIN:-/usr/lib/postgresql/15/bin}
port=${PSP_TEST_PORT:-5612}
dir=$(mktemp -d "${TMPDIR:-/tmp}/psp-primary-test.XXXXXX")

# PostgreSQL refuses to run as root.
as_postgres() {
    if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi
}
clean_up() {
    as_postgres "$pg_bin/pg_ctl" -D "$dir/data" -m immediate -s stop || true
    rm -rf "$dir"
}
trap clean_up EXIT INT TERM

[ "$(id -u)" != 0 ] || chown postgres "$dir"
as_postgres "$pg_bin/initdb" -D "$dir/data" -A trust -N -U postgres >"$dir/initdb.log"
as_postgres "$pg_bin/pg_ctl" -D "$dir/data" -l "$dir/server.log" -s -w \
    -o "-p $port -k $dir -c listen_addresses=127.0.0.1 -c fsync=off" start
PSP_TEST_PRIMARY_DSN="host=127.0.0.1 port=$port user=postgres" "$build/bin/tests/primary_integration_test" "$@"
