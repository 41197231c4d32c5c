"""What the tests of Multi-Record Values share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from psp.cluster.daemons import write_config
from psp.servers.processes import ProcessName

from tests.sql.databases import Pair
from tests.sql.mrv.daemons import QUICK, Daemon, MakeDaemon


@pytest.fixture
def daemon(pair: Pair, tmp_path: Path) -> Iterator[MakeDaemon]:
    """daemon(name, key=value, …): started; ended after the test."""
    made: list[Daemon] = []

    def make_daemon(name: str = "one", **options: object) -> Daemon:
        config = tmp_path / f"{name}.yaml"
        write_config(config, {"database": pair.dsn, "log_level": "debug", **QUICK, **options})
        made.append(Daemon(ProcessName(tmp_path, name, "mrv"), config))
        made[-1].start()
        return made[-1]

    yield make_daemon
    for each in made:
        each.kill()
