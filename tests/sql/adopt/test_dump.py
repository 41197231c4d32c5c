"""pg_dump by the owner of an adopted database, who is no superuser, and its restore (docs/operating.md)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import psycopg
from psp.paths import client_program, server_version
from psp.schema.dump import portable
from psycopg.conninfo import make_conninfo

from tests.sql.databases import APPLICATION, Pair

SCHEMA = f"""
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO {APPLICATION}', current_database()); END $$;
SET ROLE {APPLICATION};
CREATE SCHEMA own;
CREATE TABLE own.t (id serial PRIMARY KEY, s text UNIQUE);
CREATE FUNCTION own.note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER noted AFTER INSERT ON own.t FOR EACH ROW EXECUTE FUNCTION own.note();
CREATE VIEW own.shown AS SELECT id FROM own.t;
INSERT INTO own.t (s) VALUES ('a'), ('b');
"""


def run(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [str(client_program(program, server_version())), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def documented_filter() -> str:
    """The pattern of the lines that a restore leaves out."""
    text = (Path(__file__).parents[3] / "docs" / "operating.md").read_text()
    found = re.search(r"pg_restore --list shop\.dump \| grep -vE '(.*)' >shop\.list", text)
    assert found is not None
    return found[1]


def test_the_owner_dumps_and_restores_a_plain_database(pair: Pair, tmp_path: Path) -> None:
    pair.run(SCHEMA)
    pair.adopt()
    dump, listing = tmp_path / "shop.dump", tmp_path / "shop.list"
    dsn = make_conninfo(pair.dsn, user=APPLICATION)
    run("pg_dump", "--format=custom", "--exclude-schema=psp", f"--file={dump}", dsn)
    entries = run("pg_restore", "--list", str(dump)).splitlines()
    kept = [line for line in entries if not re.search(documented_filter(), line)]
    listing.write_text("\n".join(kept))
    restored = f"{pair.name}_restored"
    pair.server.create_database(restored, APPLICATION)
    target = make_conninfo(pair.server.dsn(restored), user=APPLICATION)
    run("pg_restore", "--exit-on-error", f"--use-list={listing}", f"--dbname={target}", str(dump))
    with psycopg.connect(target) as connection:
        assert connection.execute(
            "SELECT id, s FROM own.t JOIN own.shown USING (id) ORDER BY 1"
        ).fetchall() == [
            (1, "a"),
            (2, "b"),
        ]
        connection.execute("INSERT INTO own.t (s) VALUES ('c'); CREATE TABLE own.u (a int)")
        triggers = connection.execute("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal").fetchall()
        assert triggers == [("noted",)]


def test_a_stored_schema_has_nothing_that_only_newer_servers_know() -> None:
    body = "CREATE FUNCTION f() AS 'SET transaction_timeout = 0;\n\\restrict stays';\n"
    dumped = (
        "\\restrict key\nSET idle_in_transaction_session_timeout = 0;\nSET transaction_timeout = 0;\n"
        + body
        + "\\unrestrict key\n"
    )
    assert portable(dumped) == "SET idle_in_transaction_session_timeout = 0;\n" + body


def test_a_stored_schema_has_no_numbers_of_columns() -> None:
    """An older minor version of pg_dump prints those that newer servers give."""
    column = "ALTER TABLE ONLY public.t ALTER COLUMN"
    dumped = (
        f"{column} a SET (pg_attver=26506304);\n"
        f"{column} b SET (pg_attver=1, n_distinct=5);\n"
        f"{column} c SET (n_distinct=5);\n"
    )
    assert portable(dumped) == f"{column} b SET (n_distinct=5);\n{column} c SET (n_distinct=5);\n"
