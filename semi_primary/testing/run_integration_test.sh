#!/bin/sh
# run_integration_test.sh TEST [ARGUMENT…], to be run by tools/with_postgres.sh: adopts a small database, of which each
# test gets a copy, and runs the test's binary.
set -eu
root=$(dirname "$0")/../..
psp=$(command -v psp || echo "$root/.venv/bin/psp")
pg_bin=${PG_BIN:-/usr/lib/postgresql/15/bin}

for database in primary adopted; do
    "$pg_bin/createdb" --maintenance-db "$PSP_TEST_DSN dbname=postgres" "$database"
done
"$pg_bin/psql" -qX -d "$PSP_TEST_DSN dbname=adopted" -v ON_ERROR_STOP=1 <<'SQL'
CREATE ROLE owner;
CREATE TABLE item (id integer PRIMARY KEY, stock integer NOT NULL, name text UNIQUE);
ALTER TABLE item OWNER TO owner;
INSERT INTO item SELECT n, 0, 'item ' || n FROM generate_series(1, 5) n;
SQL
"$psp" primary init "$PSP_TEST_DSN dbname=primary" >/dev/null
"$psp" schema adopt "$PSP_TEST_DSN dbname=adopted" --primary-dsn "$PSP_TEST_DSN dbname=primary" --name one --yes \
    2>"$PSP_TEST_DIR/adopt.log" || { cat "$PSP_TEST_DIR/adopt.log" >&2; exit 1; }
"$@"
