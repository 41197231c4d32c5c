"""The daemon and its server on two hosts that have addresses of IPv6 only."""

import socket

import pytest

from tests.cluster.elsewhere.clusters import far_cluster
from tests.cluster.elsewhere.places import Ipv6
from tests.cluster.support import as_admin, execute, settle, wait_for_row


def has_ipv6() -> bool:
    """Whether something can listen there: containers often have none."""
    try:
        with socket.create_server((Ipv6.daemon_address, 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not has_ipv6(), reason="needs ::1, the loopback address of IPv6")
def test_commits_go_both_ways() -> None:
    with far_cluster("CREATE TABLE item (id int PRIMARY KEY, told text)", Ipv6()) as cluster:
        execute(cluster.far, "INSERT INTO item VALUES (1, 'far')")
        wait_for_row(cluster.near, "SELECT 1 FROM item WHERE told = 'far'")
        execute(cluster.near, "INSERT INTO item VALUES (2, 'near')")
        wait_for_row(cluster.far, "SELECT 1 FROM item WHERE told = 'near'")
        told = execute(as_admin(cluster.far), "SELECT hook_conninfo FROM psp.identity")[0][0]
        assert "host=::1 " in told.replace("'", "") and "sslmode=verify-full" in told
        settle(cluster)
