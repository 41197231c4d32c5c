"""Which primary a semi-primary follows, and why it waits."""

from typing import LiteralString

import psycopg
from psp.cluster.local import SpNode

NEWEST: LiteralString = "SELECT history FROM psp.epochs ORDER BY {} DESC LIMIT 1"


def last_error(sp: SpNode) -> str:
    """Also of a daemon that has ended."""
    with psycopg.connect(sp.admin_dsn) as connection:
        row = connection.execute("SELECT status ->> 'last_error' FROM psp.daemon_status").fetchone()
    return str(row[0]) if row else ""


def follows(sp: SpNode, primary_dsn: str) -> bool:
    """The primary's last start is the last one that the semi-primary has noted."""
    with psycopg.connect(primary_dsn) as primary, psycopg.connect(sp.admin_dsn) as connection:
        begun = primary.execute(NEWEST.format("epoch")).fetchone()
        return begun == connection.execute(NEWEST.format("place")).fetchone()
