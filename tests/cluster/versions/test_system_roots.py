"""Since PostgreSQL 16 a server knows a daemon on another host by the authorities that its system trusts."""

from collections.abc import Iterator

import pytest
from psp import paths
from psp.cluster import daemons
from psp.schema.native.capture import CaptureChoice, use

from tests.cluster.elsewhere.clusters import FarCluster, far_cluster
from tests.cluster.support import (
    CONNECTION_FAILURE,
    as_admin,
    connect,
    execute,
    raises,
    settle,
    wait_for_row,
)

TRUSTED = "SSL_CERT_FILE"
"""Tells OpenSSL, also that of a server, what the system trusts."""


@pytest.fixture(scope="module", params=[16, 18])
def cluster(request: pytest.FixtureRequest) -> Iterator[FarCluster]:
    with far_cluster("CREATE TABLE item (id int PRIMARY KEY)", None, request.param) as made:
        config = {**made.sp_config("far"), "hook_root_certificate": "system"}
        made.stop("far", "daemon")
        daemons.start_daemon(made.state.directory, "far", daemons.SP_BINARY, config)
        yield made


@pytest.fixture(params=["sql", "module"])
def capture(cluster: FarCluster, request: pytest.FixtureRequest) -> CaptureChoice:
    choice: CaptureChoice = request.param
    if choice == "module" and paths.module_dir(cluster.server("far").version) is None:
        pytest.skip("it needs the server module, which is not built")
    return choice


def restart_server(cluster: FarCluster) -> None:
    cluster.server("far").stop()
    cluster.server("far").start()


def test_it_checks_the_daemons_certificate(
    cluster: FarCluster, capture: CaptureChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    far, near = cluster.far, cluster.near
    restart_server(cluster)
    with connect(as_admin(far)) as connection:
        assert use(connection, capture) == capture
    with raises(CONNECTION_FAILURE) as caught:
        execute(far, "INSERT INTO item VALUES (1)")
    assert "certificate verify failed" in (caught[0].diag.message_detail or "")
    monkeypatch.setenv(TRUSTED, str(cluster.tls / "root.crt"))
    restart_server(cluster)
    execute(far, "INSERT INTO item VALUES (1)")
    wait_for_row(near, "SELECT 1 FROM item")
    execute(near, "DELETE FROM item")
    settle(cluster)
