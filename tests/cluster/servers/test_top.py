"""psp top at a cluster: a hot key, a semi-primary that is cut off, one that waits for a lock."""

import shutil

import psycopg
from psp.cluster.local import LocalCluster
from psp.waiting import wait_until
from psp.watch import gather
from psp.watch.headline import headline
from psp.watch.model import View

from tests.cluster.commit.test_lost_keys import lose
from tests.cluster.support import WAIT_S, connect, execute, wait_for_row


def sources(cluster: LocalCluster) -> list[gather.Source]:
    return [gather.Source(dsn) for dsn in (cluster.primary_dsn, *(sp.admin_dsn for sp in cluster.sps))]


def test_a_hot_key_and_who_lost_it(cluster: LocalCluster) -> None:
    sps = cluster.sps[:2]
    execute(sps[0], "INSERT INTO account VALUES (7301, 'hot', NULL, 100)")
    wait_for_row(sps[1], "SELECT 1 FROM account WHERE id = 7301")
    winner, loser = lose(sps, "UPDATE account SET balance = balance + %s WHERE id = 7301", [(1,), (2,)])
    watched = sources(cluster)

    def is_told() -> bool:
        keys = gather.look(watched).hot_within(60)
        return any(
            key.key == "(id)=(7301)" and loser.name in key.losers and winner.name in key.winners
            for key in keys
        )

    wait_until("psp top to tell the key", is_told, WAIT_S)
    made = gather.look(watched)
    assert headline(made).sentence == "Everybody can write."
    assert [zone.state for zone in made.zones] == ["streaming"] * 3


def test_the_free_space_of_the_primarys_disk(cluster: LocalCluster) -> None:
    (source, *_) = sources(cluster)

    def found() -> tuple[int, int] | None:
        primary = gather.look([source]).primary
        assert primary is not None
        free, size = primary.disk_free_bytes, primary.disk_bytes
        return (free, size) if free is not None and size is not None else None

    free, size = wait_until("psp-primary to tell it", found, WAIT_S)
    with psycopg.connect(cluster.primary_dsn) as connection:
        (folder,) = connection.execute("SELECT current_setting('data_directory')").fetchone() or ("",)
    assert 0 < free < size == shutil.disk_usage(folder).total


def test_one_that_is_cut_off(cluster: LocalCluster) -> None:
    name = cluster.sps[2].name
    watched = sources(cluster)
    cluster.stop(name, "daemon", "immediate")

    def found() -> View | None:
        made = gather.look(watched)
        zone = next(z for z in made.zones if z.name == name)
        return made if zone.state == "stopped" and zone.is_connected is False else None

    made = wait_until("the primary to miss it", found, WAIT_S)
    assert headline(made).sentence == f"{name} cannot write."
    cluster.stop(name, "postgres", "immediate")

    made = gather.look(watched)
    server = made.servers[3]
    assert server.name == name and server.error
    assert {z.name: z.state for z in made.zones}[name] == "silent"
    assert len([z for z in made.zones if z.can_commit]) == 2


def test_who_keeps_a_semi_primary_from_applying(cluster: LocalCluster) -> None:
    near, far = cluster.sps[:2]
    execute(near, "INSERT INTO account VALUES (7302, 'locked', NULL, 1)")
    wait_for_row(far, "SELECT 1 FROM account WHERE id = 7302")
    watched = sources(cluster)
    with connect(far, application_name="in the way") as blocker:
        blocker.execute("LOCK TABLE account IN SHARE MODE")
        execute(near, "UPDATE account SET balance = 2 WHERE id = 7302")

        def is_told() -> bool:
            zone = next(z for z in gather.look(watched).zones if z.name == far.name)
            return any(b.application == "in the way" and not b.waits for b in zone.blockers)

        wait_until("psp top to tell who is in the way", is_told, WAIT_S)
        blocker.rollback()
