#!/bin/sh
# with_postgres.sh COMMAND [ARGUMENT…]: runs the command beside a throw-away PostgreSQL, which is removed afterwards.
# The command finds it by PSP_TEST_DSN (a superuser's connection) and may put sockets into PSP_TEST_DIR. The server
# listens in that folder only, so any number of them run side by side. PSP_TEST_MODULE: a server module that it is to find.
set -eu
pg_bin=${PSP_PG_BIN:-/usr/lib/postgresql/15/bin}
dir=$(mktemp -d "${TMPDIR:-/tmp}/psp-test.XXXXXX")

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
as_postgres "$pg_bin/initdb" -D "$dir/data" -A trust -N -U postgres -E UTF8 >"$dir/initdb.log"
options="-p 5432 -k $dir -c listen_addresses= -c fsync=off"
if [ -n "${PSP_TEST_MODULE:-}" ]; then
    mkdir "$dir/lib"
    cp "$PSP_TEST_MODULE" "$dir/lib"
    chmod -R a+rX "$dir/lib"
    # This folder comes first: the server's own may have the module of an installed psp.
    # shellcheck disable=SC2016 # pg_ctl's shell takes the backslash away, and PostgreSQL replaces $libdir
    options="$options -c dynamic_library_path=$dir/lib:"'\$libdir'
fi
as_postgres "$pg_bin/pg_ctl" -D "$dir/data" -l "$dir/server.log" -s -w -o "$options" start
export PSP_TEST_DSN="host=$dir port=5432 user=postgres" PSP_TEST_DIR="$dir"
"$@"
