"""COMMIT of an adopted database that no daemon has served yet: nothing is sent anywhere."""

from __future__ import annotations

import psycopg
import pytest
from psp.paths import module_dir, server_version
from psp.schema.native.capture import CaptureChoice
from psp.servers.pgserver import PgServer

from tests.sql.databases import adopted_pair

NOBODY_SERVES = "psp: no psp-semi-primary has served this database yet, the transaction is rolled back"
CHOICES: list[CaptureChoice] = ["sql"] if module_dir(server_version()) is None else ["sql", "module"]


@pytest.mark.parametrize("capture", CHOICES)
def test_commit_is_refused_before_a_connection_is_made(server: PgServer, capture: CaptureChoice) -> None:
    """Without an address libpq would go to its default one, where another server may listen."""
    pair = adopted_pair(server, "CREATE TABLE t (id int PRIMARY KEY)", capture=capture)
    with pair.connect() as connection:
        assert pair.uses_module == (capture == "module")
        connection.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(psycopg.OperationalError) as refused:
            connection.commit()
        with pytest.raises(psycopg.OperationalError) as unknown:
            connection.execute("SELECT psp.outcome(gen_random_uuid())")
    for error in (refused, unknown):
        said = error.value.diag
        assert (said.sqlstate, said.message_primary) == ("08006", NOBODY_SERVES)
        assert said.message_detail is None
        assert said.message_hint is not None and "Start psp-semi-primary" in said.message_hint
