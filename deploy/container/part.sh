#!/bin/bash
# part PART [OPTIONS]: one part of a cluster in a container, in the foreground (README.md).
set -euo pipefail

programs=/usr/lib/postgresql/15/bin
data=/var/lib/postgresql/data
# Shared by a PostgreSQL server and the daemon beside it: PostgreSQL's socket, and the one where commits arrive.
sockets=/var/run/postgresql

# USER COMMAND...: in the place of this shell.
become() { exec setpriv --reuid="$1" --regid="$(id -g "$1")" --init-groups --no-new-privs "${@:2}"; }

# The daemons log in by their system user, everybody else by a password.
make_server() {
    install -d -m 700 -o postgres -g postgres "$data"
    local password
    password=$(mktemp)
    chown postgres "$password"
    printf '%s\n' "${POSTGRES_PASSWORD:?}" >"$password"
    (become postgres "$programs/initdb" --pgdata="$data" --encoding=UTF8 --locale=C.UTF-8 --auth-local=peer --auth-host=scram-sha-256 \
        --pwfile="$password")
    rm "$password"
    sed -i '1i local all psp_primary,psp_semi_primary peer map=psp' "$data/pg_hba.conf"
    echo 'host all all all scram-sha-256' >>"$data/pg_hba.conf"
    printf 'psp psp %s\n' psp_primary psp_semi_primary >>"$data/pg_ident.conf"
}

postgres() {
    [ -s "$data/PG_VERSION" ] || make_server
    install -d -m 1777 "$sockets"
    become postgres "$programs/postgres" -D "$data" -c listen_addresses='*' -c unix_socket_directories="$sockets" "$@"
}

primary() {
    become psp psp-primary --database "host=$sockets dbname=psp user=psp_primary" --listen tcp://0.0.0.0:5610 "$@"
}

# NAME DATABASE PRIMARY_HOST
semi_primary() {
    become psp psp-semi-primary --name "$1" --database "host=$sockets dbname=$2 user=psp_semi_primary" \
        --primary "tcp://$3:5610" --hook_listen "unix:$sockets/.s.PGSQL.5640" "${@:4}"
}

# HOST ONE_WAY_MS: a line to the primary at HOST, as long as an ocean is wide.
line() {
    become nobody psp-georelay --listen 0.0.0.0:5610 --target "$1:5610" --one-way-ms "$2"
}

# DATABASE HOST...: makes a cluster of the servers at these hosts, or what is missing of it. /roles.sql goes to each server.
# The first host's database is made by /schema.sql and adopted, the others join.
setup() {
    export PGUSER=postgres PGPASSWORD=${POSTGRES_PASSWORD:?}
    local database=$1 primary_dsn="host=primary-db dbname=psp" host dsn
    for host in primary-db "${@:2}"; do
        until "$programs/pg_isready" --quiet --host="$host" --timeout=60; do sleep 1; done
    done
    make_database primary-db psp
    has_psp primary-db psp || psp primary init "$primary_dsn"
    for host in "${@:2}"; do
        dsn="host=$host dbname=$database"
        if [ "$host" = "$2" ]; then
            make_database "$host" "$database" --file=/roles.sql --file=/schema.sql
            has_psp "$host" "$database" || psp schema adopt "$dsn" --primary-dsn "$primary_dsn" --name "${host%-db}" --yes
        else
            make_database "$host" "$database" --file=/roles.sql
            has_psp "$host" "$database" || psp schema join "$dsn" --primary-dsn "$primary_dsn" --name "${host%-db}"
        fi
    done
}

# HOST DATABASE [--file=FILE ...]: with all that is in the files, or not at all.
make_database() {
    [ "$(ask "$1" postgres "SELECT count(*) FROM pg_database WHERE datname = '$2'")" = 0 ] || return 0
    "$programs/createdb" --host="$1" "$2"
    if ! psql --no-psqlrc --quiet --single-transaction --set=ON_ERROR_STOP=1 --host="$1" --dbname="$2" "${@:3}" </dev/null; then
        "$programs/dropdb" --host="$1" "$2"
        return 1
    fi
}

has_psp() { [ "$(ask "$1" "$2" "SELECT count(*) FROM pg_namespace WHERE nspname = 'psp'")" = 1 ]; }

ask() { psql --no-psqlrc --tuples-only --no-align --host="$1" --dbname="$2" --command="$3"; }

case "${1-}" in
    postgres | primary | line | setup) "$@" ;;
    semi-primary) semi_primary "${@:2}" ;;
    psp | psql) exec "$@" ;;
    *)
        echo "usage: part postgres | primary | semi-primary NAME DATABASE PRIMARY_HOST | line HOST ONE_WAY_MS | setup DATABASE HOST... | psp ... | psql ..." >&2
        exit 2
        ;;
esac
