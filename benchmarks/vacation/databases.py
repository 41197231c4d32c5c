"""Vacation's databases: plain, or with what the thesis makes Multi-Record Values."""

from pathlib import Path

import psycopg
from psp.mrv.create import Options, create
from psp.servers.pgserver import PgServer
from psycopg import sql

FOLDER = Path(__file__).parent
KINDS = ("car", "flight", "room")
COLUMNS = ("numfree", "numtotal", "price")
# On every database alike. Rows of one statement are then locked in the order in which it names them. Sessions
# plan each statement once, not again for the first five times: all that is asked for is found by its key.
SETTINGS = {
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
}


def make(server: PgServer, name: str, rows: int, records: int | None) -> str:
    """A loaded database, each value of COLUMNS in `records` (None: plain tables). Returns its DSN."""
    server.create_database(name)
    dsn = server.dsn(name)
    with psycopg.connect(dsn) as connection:
        connection.execute((FOLDER / "schema.sql").read_bytes())
        for statement in (FOLDER / "load.sql").read_text().split(";\n"):
            if statement.strip():
                connection.execute(statement.encode(), {"rows": rows})
    if records is not None:
        for kind in KINDS:
            for column in COLUMNS:
                # 100 more stay in one record, where 100 fewer find them: parts would lock half of them.
                options = Options(records=records, max=max(64, records), spread_from="none")
                create(dsn, f"{kind}_reservation.{column}", options, _silent)
    with psycopg.connect(dsn) as connection:
        for setting, value in SETTINGS.items():
            connection.execute(
                sql.SQL("ALTER DATABASE {} SET {} = {}").format(
                    sql.Identifier(name), sql.SQL(setting), sql.Literal(value)
                )
            )
    return dsn


def _silent(_: str) -> None: ...


def violations(dsn: str) -> int:
    """How many items do not have as many free units as their total less their reservations."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute((FOLDER / "check.sql").read_bytes()).fetchone()
    assert row is not None
    return int(row[0])
