"""Vacation's databases: plain, or with what the thesis makes Multi-Record Values."""

from pathlib import Path

import psycopg
from psp.cluster.pgserver import PgServer
from psp.mrv.create import Options, create
from psycopg import sql

FOLDER = Path(__file__).parent
KINDS = ("car", "flight", "room")
COLUMNS = ("numfree", "numtotal", "price")
# Rows of one statement are then locked in the order in which it names them, on every database alike.
IN_ORDER = ("enable_hashjoin", "enable_mergejoin", "enable_seqscan")


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
                create(
                    dsn,
                    f"{kind}_reservation.{column}",
                    Options(records=records, max=max(64, records)),
                    _silent,
                )
    with psycopg.connect(dsn) as connection:
        for setting in IN_ORDER:
            connection.execute(
                sql.SQL("ALTER DATABASE {} SET {} = off").format(sql.Identifier(name), sql.SQL(setting))
            )
    return dsn


def _silent(_: str) -> None: ...


def violations(dsn: str) -> int:
    """How many items do not have as many free units as their total less their reservations."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute((FOLDER / "check.sql").read_bytes()).fetchone()
    assert row is not None
    return int(row[0])
