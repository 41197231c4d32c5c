"""What captures rows at a semi-primary in native mode; by SQL a transaction costs several times as much."""

import psycopg

WORDS = {"module": "the server module", "sql": "SQL"}


def captured_by(dsn: str) -> str:
    """`the server module` or `SQL`; by a connection that may read psp's tables."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT capture FROM psp.identity").fetchone()
    assert row is not None
    return WORDS[row[0]]
