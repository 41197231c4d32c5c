"""The migrations of Django's own applications, forwards at one SP and backwards at the other one."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from psp.cluster.local import LocalCluster, SpNode
from psycopg.conninfo import conninfo_to_dict

from tests.cluster.schema_changes.statements import changing_pair, exists
from tests.cluster.support import connect, execute, settle

ROOT = Path(__file__).parents[3]


@pytest.fixture
def pair() -> Iterator[LocalCluster]:
    with changing_pair("CREATE TABLE other (id int PRIMARY KEY)") as cluster:
        yield cluster


def migrate(sp: SpNode, *target: str) -> None:
    """What `manage.py migrate` does."""
    place = conninfo_to_dict(sp.dsn)
    environment = {
        "PGHOST": str(place["host"]),
        "PGPORT": str(place["port"]),
        "PGDATABASE": str(place["dbname"]),
        "PGUSER": str(place["user"]),
        "DJANGO_SETTINGS_MODULE": "tests.cluster.schema_changes.django_settings",
    }
    subprocess.run(
        [sys.executable, "-m", "django", "migrate", *target, "--skip-checks", "--no-input"],
        cwd=ROOT,
        env={**os.environ, **environment},
        check=True,
    )


def test_migrations_of_django(pair: LocalCluster) -> None:
    north, south = pair.sps
    migrate(north)
    settle(pair)
    with connect(south) as connection:
        connection.execute(
            "INSERT INTO auth_user (username, password, is_superuser, first_name, last_name, email, "
            "is_staff, is_active, date_joined) SELECT 'user ' || n, '', false, '', '', '', "
            "false, true, '2020-01-01' FROM generate_series(1, 50) n"
        )
    migrate(south, "contenttypes", "0001")  # the newer migrations of auth go with it
    settle(pair)
    assert execute(north, "SELECT count(*) FROM auth_user") == [(50,)]
    migrate(north)
    settle(pair)
    migrate(south, "auth", "zero")
    settle(pair)
    assert not exists(north, "auth_user")
