"""What the server module knows of a DDL statement that runs: its text, and whether a text means the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psp import paths
from psp.servers.pgserver import PgServer

from tests.sql.databases import Pair, adopted_pair, one

pytestmark = pytest.mark.skipif(
    paths.module_dir(paths.server_version()) is None, reason="it needs the server module, which is not built"
)

SAMPLES = Path(__file__).resolve().parents[3] / "semi_primary" / "hook_server" / "statement_kinds.json"

TELL = """
SET psp.schema_changes = local;
CREATE TABLE public.item (id int PRIMARY KEY);
CREATE FUNCTION public.tell() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE
    found CONSTANT text := psp.text_of_message();
BEGIN
    RAISE INFO '%', found;
    RAISE INFO '%', psp.reads_the_same(found, psp.noted_settings());
    RAISE INFO '%', psp.reads_the_same('SELECT 1', psp.noted_settings());
    RAISE INFO '%', psp.reads_the_same(found || ';' || found, psp.noted_settings());
END $$;
"""


@pytest.fixture(scope="module")
def app(server: PgServer) -> Pair:
    pair = adopted_pair(server, TELL, capture="module")
    # Behind psp_note_statement, and before the guard.
    pair.run("CREATE EVENT TRIGGER psp_note_told ON ddl_command_start EXECUTE FUNCTION public.tell()")
    return pair


@pytest.fixture
def connection(app: Pair) -> Iterator[psycopg.Connection[Any]]:
    with app.rolled_back() as connection:
        yield connection


@pytest.fixture
def told(connection: psycopg.Connection[Any]) -> list[str]:
    found: list[str] = []

    def note(notice: psycopg.errors.Diagnostic) -> None:
        if notice.severity == "INFO":
            found.append(str(notice.message_primary))

    connection.add_notice_handler(note)
    return found


@pytest.mark.parametrize("around", ["{}", "SELECT 1; {}; SELECT 2", "/* ; */ {} -- ; \n"])
def test_every_kind_of_statement(connection: psycopg.Connection[Any], told: list[str], around: str) -> None:
    """PostgreSQL reads its text once more as the same statement."""
    seen = 0
    for sample in json.loads(SAMPLES.read_text())["run"]:
        if sample["kind"] != "ddl":
            continue
        told.clear()
        try:
            with connection.transaction():
                connection.execute(around.format(sample["statement"]).encode())
        except psycopg.Error:  # PostgreSQL or the guard refuses it here
            pass
        if told:
            assert told[1:4] == ["t", "f", "f"], sample
            assert told[0] == sample["statement"].strip().rstrip(";").strip()
            seen += 1
    assert seen > 90


def test_a_statement_in_code(connection: psycopg.Connection[Any], told: list[str]) -> None:
    """It is no part of the client's message."""
    connection.execute("DO $$ BEGIN EXECUTE 'CREATE TEMP TABLE own (id int)'; END $$")
    assert told[0] == "<NULL>"


def test_a_text_is_read_under_the_settings_that_are_given(
    app: Pair, connection: psycopg.Connection[Any]
) -> None:
    connection.execute(
        "CREATE OR REPLACE FUNCTION public.tell() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE INFO '%', psp.reads_the_same(current_query(), "
        "psp.noted_settings() || current_setting('app.more')::jsonb); END $$"
    )
    told: list[str] = []
    connection.add_notice_handler(lambda notice: told.append(str(notice.message_primary)))
    for more, statement, answer in (
        ('{"standard_conforming_strings": "off"}', r"COMMENT ON TABLE item IS 'a\\b'", "f"),
        ('{"standard_conforming_strings": "off"}', "COMMENT ON TABLE item IS U&'a'", "f"),
        ('{"datestyle": "ISO, DMY"}', "CREATE TEMP TABLE t AS SELECT '01/02/2020'::date", "f"),
        ('{"datestyle": "ISO, DMY"}', "SELECT '01/02/2020'::date INTO TEMP t", "f"),
        ('{"datestyle": "ISO, DMY"}', "CREATE TEMP TABLE t (d date DEFAULT '01/02/2020')", "t"),
        ('{"array_nulls": "off"}', "CREATE TEMP TABLE t AS SELECT '{null}'::text[]", "f"),
        ('{"search_path": "pg_catalog"}', "CREATE TEMP TABLE t AS SELECT * FROM item", "f"),
        ('{"search_path": "public"}', "CREATE TEMP TABLE t AS SELECT * FROM item", "t"),
        ('{"timezone": "Asia/Tokyo"}', "CREATE TEMP TABLE t AS SELECT '2020-01-01'::timestamptz", "f"),
    ):
        with connection.transaction(force_rollback=True):
            told.clear()
            connection.execute("SELECT set_config('app.more', %s, true)", [more])
            connection.execute(statement.encode())
            assert told[:1] == [answer], statement


def test_the_module_is_given_up_without_its_file(server: PgServer) -> None:
    """Nobody could run DDL before."""
    pair = adopted_pair(server, "CREATE TABLE item (id int PRIMARY KEY)", capture="module")
    pair.run("UPDATE pg_proc SET probin = 'psp_is_gone' WHERE probin = 'psp_capture'")
    with pair.connect() as connection:
        with pytest.raises(psycopg.errors.UndefinedFile), connection.transaction():
            connection.execute("CREATE TEMP TABLE own (id int)")
        connection.execute("SELECT psp.use_capture('sql')")
        connection.execute("CREATE TEMP TABLE own (id int)")
        assert (
            one(connection, "SELECT count(*) FROM pg_event_trigger WHERE evtname = 'psp_note_statement'") == 0
        )
