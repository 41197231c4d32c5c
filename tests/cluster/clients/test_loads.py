"""Third-party load generators, unchanged, on two SPs at once; the tables are compared afterwards."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from psp.cluster import growth
from psp.cluster.local import LocalCluster, Options, Zone
from psp.paths import postgres_program
from psycopg.conninfo import conninfo_to_dict

from tests.cluster.sites import Sites

LOAD_S = 4
SITES = ("north", "south")
# Where the sites are in each other's way nobody knows how long a number of transactions takes.
LENGTHS = {
    "tpcb-like": ("-T", str(LOAD_S)),
    "simple-update": ("-t", "100"),
    "select-only": ("-t", "500"),
}


def pgbench(cluster: LocalCluster, name: str, *arguments: str) -> list[str]:
    """The command of a pgbench run at an SP."""
    return [str(postgres_program("pgbench")), *arguments, cluster.sp(name).dsn]


def sysbench(cluster: LocalCluster, name: str, *arguments: str) -> list[str]:
    """The command of sysbench's own oltp_read_write at an SP."""
    parts = conninfo_to_dict(cluster.sp(name).dsn)
    return [
        "sysbench", "oltp_read_write", "--db-driver=pgsql",
        f"--pgsql-host={parts.get('host') or '127.0.0.1'}",
        f"--pgsql-port={parts['port']}", f"--pgsql-user={parts['user']}", f"--pgsql-db={parts['dbname']}",
        "--tables=2", "--table-size=1000", *arguments,
    ]  # fmt: skip


def run_all(commands: Sequence[list[str]]) -> list[str]:
    """Runs the commands at the same time; all must succeed. Returns what they printed."""
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for command in commands
    ]
    outputs = []
    for process, command in zip(running, commands, strict=True):
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, f"{command[0]} ended with {process.returncode}:\n{output[-3000:]}"
        outputs.append(output)
    return outputs


@contextmanager
def adopted(*prepare: list[str], cluster: LocalCluster) -> Iterator[Sites]:
    """Prepares the first SP's plain database with the tool itself, adopts it, and compares at the end."""
    for command in prepare:
        run_all([command])
    growth.adopt(cluster)
    sites = Sites(cluster)
    yield sites
    sites.close()
    sites.assert_same()


@pytest.fixture
def plain() -> Iterator[LocalCluster]:
    """Two SPs whose databases are not under psp yet.

    Neither pgbench nor sysbench retries 57014: even a slow machine's transactions have time to end.
    """
    options = Options(sp_options={"conflict_grace_ms": 60_000})
    with LocalCluster.temporary([Zone(name) for name in SITES], options) as cluster:
        yield cluster


def transactions(output: str) -> int:
    found = re.search(r"number of transactions actually processed: (\d+)", output)
    assert found, output
    return int(found[1])


def test_pgbench(plain: LocalCluster) -> None:
    """pgbench's history table has no primary key: adoption adds a column."""
    initialise = pgbench(plain, "north", "-i", "-s", "2", "-q", "-I", "dtgvp")
    run_all([initialise])
    growth.adopt(plain, add_keys=True)
    sites = Sites(plain)
    done = 0
    for mode in ("simple", "extended", "prepared"):
        for script, length in LENGTHS.items():
            load = ["-n", "-M", mode, "-b", script, "-c", "4", "-j", "1", *length, "--max-tries=100"]
            outputs = run_all([pgbench(plain, name, *load) for name in SITES])
            # Two branches are two hot rows: most attempts of one site may lose (pgbench counts them as failed
            # and goes on), but the load as a whole must get on.
            assert sum(transactions(output) for output in outputs) > 0, outputs
            if script != "select-only":
                done += sum(transactions(output) for output in outputs)
    assert sites.rows("south", "SELECT count(*) FROM pgbench_history") == [(done,)]
    # TPC-B's own condition: every table tells the same total.
    totals = sites.rows(
        "north",
        "SELECT (SELECT sum(delta) FROM pgbench_history), (SELECT sum(abalance) FROM pgbench_accounts)",
    )
    assert totals[0][0] == totals[0][1]
    sites.close()
    sites.assert_same()


@pytest.mark.skipif(shutil.which("sysbench") is None, reason="sysbench is not installed")
def test_sysbench_oltp_read_write(plain: LocalCluster) -> None:
    # Ignored errors are the ones that sysbench retries by itself.
    load = ["--threads=4", f"--time={2 * LOAD_S}", "--report-interval=0", "run"]
    with adopted(sysbench(plain, "north", "prepare"), cluster=plain):
        outputs = run_all([sysbench(plain, name, *load) for name in SITES])
        for output in outputs:
            found = re.search(r"transactions:\s+(\d+)", output)
            assert found and int(found[1]) > 0, output
