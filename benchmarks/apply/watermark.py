"""What one look at W costs: in a fresh database, after many moves, and while a long snapshot is open."""

from typing import Any

import psycopg

from benchmarks.overhead import cpu

READS = 100_000
READS_IN_LONG_SNAPSHOT = 100
MOVES = 20_000
MOVES_BETWEEN_CLEANINGS = 100  # the daemon cleans about once a second

# Each look in a snapshot of its own, as each COMMIT takes one.
_READ_SQL = """
DO $$ BEGIN
    FOR n IN 1..{reads} LOOP
        PERFORM watermark FROM psp.watermark;
    END LOOP;
END $$
"""

# One transaction for each move, as the apply worker does it.
_MOVE_SQL = """
DO $$
DECLARE
    w bigint := (SELECT watermark FROM psp.watermark);
BEGIN
    FOR n IN 1..{moves} LOOP
        PERFORM psp.end_batch(w, w + 1, false, false);
        w := w + 1;
        IF n % {between} = 0 THEN
            PERFORM psp.forget_watermarks();
        END IF;
        COMMIT;
    END LOOP;
END $$
"""


def reading(dsn: str) -> dict[str, float]:
    """Microseconds of CPU of one look. Nobody else may move W meanwhile: no daemon runs."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE psp.watermarks")
        fresh = _read_us(connection, READS)
        _move(connection)
        found = {"fresh": fresh, "after_moves": _read_us(connection, READS)}
        with psycopg.connect(dsn) as long:
            long.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            long.execute("SELECT watermark FROM psp.watermark")
            _move(connection)
            found["long_snapshot_open"] = _read_us(connection, READS)
            found["in_the_long_snapshot"] = _read_us(long, READS_IN_LONG_SNAPSHOT)
    return found


def _move(connection: psycopg.Connection[Any]) -> None:
    connection.execute(_MOVE_SQL.format(moves=MOVES, between=MOVES_BETWEEN_CLEANINGS).encode())


def _read_us(connection: psycopg.Connection[Any], reads: int) -> float:
    backend = connection.info.backend_pid
    before_s = cpu.times(backend).own_s
    connection.execute(_READ_SQL.format(reads=reads).encode())
    return (cpu.times(backend).own_s - before_s) / reads * 1e6
