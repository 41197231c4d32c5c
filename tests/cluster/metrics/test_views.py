"""The metrics of a semi-primary in views mode, whose commits come from clients' sessions."""

from functools import partial

from psp.cluster.local import LocalCluster
from psp.waiting import wait_until

from tests.cluster.metrics.reading import documented, get, samples, types
from tests.cluster.support import WAIT_S
from tests.cluster.wire import commits

STAGES = ("check", "network", "queue", "certify", "answer")


def test_commits_of_clients_are_timed(views_cluster: LocalCluster) -> None:
    north = views_cluster.sps[0]
    wait_until("a commit", partial(commits, north), WAIT_S)
    before = samples(views_cluster, north.name)
    assert commits(north)
    after = samples(views_cluster, north.name)
    keys = [f'psp_commit_stage_seconds_count{{stage="{stage}"}}' for stage in STAGES]
    for key in [*keys, 'psp_commit_seconds_count{outcome="committed"}', "psp_commits_total"]:
        assert after[key] == before[key] + 1, key
    assert types(views_cluster, north.name) == documented(north.name)
    assert get(views_cluster, north.name, "/health") == (200, "ok\n")
