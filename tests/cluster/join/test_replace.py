"""A new server takes the place of a lost one, which does not come back."""

from contextlib import suppress
from typing import LiteralString

import pytest
from psp.cluster import daemons, verify
from psp.cluster.local import LocalCluster, SpNode, Zone
from psp.output import PspError
from psp.primary import members
from psp.schema.join import Replaces, prepare_join
from psp.waiting import wait_until

from tests.cluster.support import WAIT_S, adopted_pair, as_admin, execute, settle, wait_for_commits

SCHEMA = "CREATE TABLE item (id serial PRIMARY KEY, note text)"
ADD: LiteralString = "INSERT INTO item (note) VALUES ('added') RETURNING id"
ITEMS: LiteralString = "SELECT id FROM item ORDER BY id"


def add(sp: SpNode, count: int) -> list[int]:
    return [execute(sp, ADD)[0][0] for _ in range(count)]


def is_connected(cluster: LocalCluster, name: str) -> bool:
    told = members.gather(cluster.primary_dsn)["semi_primaries"]
    return any(one["is_connected"] for one in told if one["name"] == name)


def test_what_the_lost_one_had_is_there_and_no_number_is_drawn_twice() -> None:
    with adopted_pair([SCHEMA]) as cluster:
        north, south = cluster.sps
        numbers = add(north, 10) + add(south, 10)
        settle(cluster)
        cluster.add_zone(Zone("spare"))
        spare = cluster.sp("spare")
        with pytest.raises(PspError, match="north is connected"):
            prepare_join(spare.admin_dsn, cluster.primary_dsn, "north", replaces=Replaces.LOST)

        numbers += add(north, 10)
        cluster.kill("north")
        cluster.server("north").stop("immediate")
        wait_until("the primary to notice", lambda: not is_connected(cluster, "north"), WAIT_S)
        prepare_join(spare.admin_dsn, cluster.primary_dsn, "north", replaces=Replaces.LOST)
        config = {**cluster.sp_config("spare"), "name": "north"}
        daemons.start_daemon(cluster.state.directory, "spare", daemons.SP_BINARY, config)
        can_commit: LiteralString = "SELECT psp.can_commit()"
        wait_until("the copy", lambda: execute(as_admin(spare), can_commit) == [(True,)], WAIT_S)
        numbers += add(spare, 10) + add(south, 10)
        assert len(set(numbers)) == 50

        cluster.server("north").start()
        with suppress(PspError):  # it may end before it is ready
            cluster.start("north", "daemon")
        wait_until("it to end", lambda: not cluster.is_running("north", "daemon"), WAIT_S)
        log = cluster.state.directory / "north" / f"{daemons.SP_BINARY}.log"
        assert "semi-primary 1 was released" in log.read_text()
        wait_for_commits(spare)
        dsns = {sp.name: sp.admin_dsn for sp in (spare, south)}
        assert verify.verify_servers(cluster.primary_dsn, dsns, WAIT_S).consistent
        for sp in (spare, south):
            assert [number for (number,) in execute(sp, ITEMS)] == sorted(numbers)
