"""Which statements fire ddl_command_end: the hook server's list is PostgreSQL's.

The hook server's own test (message_statements_test.cc) reads the same samples.
"""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
from psp.servers.pgserver import PgServer

SAMPLES = Path(__file__).resolve().parents[3] / "semi_primary" / "hook_server" / "statement_kinds.json"

# The extension's own statements fire it, too.
FIRED = """
CREATE FUNCTION fired() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE INFO 'fired %', tg_tag;
END $$;
CREATE EVENT TRIGGER fired ON ddl_command_end EXECUTE FUNCTION fired();
"""


def test_the_server_agrees(server: PgServer) -> None:
    server.create_database("kinds")
    notices: list[str] = []
    with psycopg.connect(server.dsn("kinds"), autocommit=True) as connection:
        connection.execute(FIRED)
        connection.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
        for sample in json.loads(SAMPLES.read_text())["run"]:
            notices.clear()
            connection.execute(sample["statement"].encode())
            # From PostgreSQL 17 on REINDEX fires, too; psp.on_statement_start does not count it.
            fired = [n for n in notices if n.startswith("fired ") and n != "fired REINDEX"]
            if sample["statement"].startswith("CREATE EXTENSION"):
                fired = fired[-1:]
            assert fired != [] if sample["kind"] == "ddl" else fired == [], sample
            assert len(fired) <= 1, sample
