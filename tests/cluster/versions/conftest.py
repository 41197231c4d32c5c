"""The PostgreSQL servers that `make versions` fetches."""

import os
from collections.abc import Iterator

import pytest
from psp import paths

VERSIONS = ("14", "16", "17", "18")


@pytest.fixture(scope="module", autouse=True)
def servers() -> Iterator[None]:
    """The programs of all versions can be found."""
    fetched = paths.binary("psp-primary").parents[1] / "postgres"
    for version in VERSIONS:
        found = (fetched / version).is_dir()
        assert found, f"PostgreSQL {version} is not in {fetched}: make versions fetches it"
    folders = [f"{fetched}/{version}/bin" for version in VERSIONS]
    configured = os.environ.get("PSP_PG_BIN")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PSP_PG_BIN", os.pathsep.join([configured, *folders] if configured else folders))
        yield
