"""What the tests of this folder share."""

from __future__ import annotations

from typing import LiteralString

from psp.cluster.local import LocalCluster
from psp.waiting import wait_until
from psycopg.conninfo import conninfo_to_dict

from tests.cluster.support import WAIT_S, execute, retry


def url_of(pair: LocalCluster, number: int) -> str:
    """What stands behind the driver's name in a URL."""
    parts = conninfo_to_dict(pair.sps[number].dsn)
    return f"{parts['user']}@127.0.0.1:{parts['port']}/{parts['dbname']}"


def wait_for(pair: LocalCluster, query: LiteralString, rows: list[tuple[object, ...]]) -> None:
    """At each SP."""
    for sp in pair.sps:
        wait_until(query, lambda sp=sp: execute(sp, query) == rows, WAIT_S)  # type: ignore[misc]


def wait_for_units(pair: LocalCluster, names: list[str]) -> None:
    """At each SP: these are committed, each once, and the counter has counted them."""
    wait_for(pair, 'SELECT name FROM unit ORDER BY name COLLATE "C"', [(name,) for name in sorted(names)])
    wait_for(pair, "SELECT value FROM counter", [(len(names),)])


def rival(pair: LocalCluster) -> None:
    """The other SP changes the counter's row; it may have to see first what was committed before."""
    retry(lambda: execute(pair.sps[1], "UPDATE counter SET value = value"))
