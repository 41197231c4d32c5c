"""What the primary forgets of its decisions, and when."""

from uuid import UUID, uuid4

import psycopg
from conftest import Pair
from psp.paths import sql_dir

PURGE = (sql_dir("primary") / "purge_tx_log.sql").read_text().replace("$1", "60")


def decided(connection: psycopg.Connection[tuple[object, ...]], global_t: int | None, age_s: int) -> UUID:
    tx_id = uuid4()
    connection.execute(
        "INSERT INTO psp.tx_log (tx_id, sp_id, global_t, decided_at) "
        "VALUES (%s, 1, %s, now() - make_interval(secs => %s))",
        (tx_id, global_t, age_s),
    )
    return tx_id


def test_old_decisions_go_but_not_those_whose_semi_primary_may_still_ask(
    pair: Pair,
) -> None:
    with psycopg.connect(pair.primary_dsn) as connection:
        connection.execute("UPDATE psp.log_start SET truncated_t = 10")
        gone = {decided(connection, 10, 61), decided(connection, None, 61)}
        kept = {
            decided(connection, 11, 61),
            decided(connection, 10, 59),
            decided(connection, None, 59),
        }
        connection.execute(PURGE.encode())
        left = {row[0] for row in connection.execute("SELECT tx_id FROM psp.tx_log").fetchall()}
    assert left == kept
    assert not left & gone
