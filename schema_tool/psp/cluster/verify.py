"""Whether all SPs and the primary hold the same rows, and all SPs have the same schema.

Of the schema that is what psp keeps the same: schemas.py. What else differs is told, too: obstacles.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import typer
from psycopg.rows import scalar_row
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from psp.cluster import obstacles, schemas
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster
from psp.cluster.sums import Definitions, Sums, TableSum, primary_sums, read_sp
from psp.output import PspError, console, print_json, table
from psp.problems import Problem, problem_table
from psp.sessions import open_session
from psp.waiting import WaitTimeout, wait_until

_PUBLISHED_SQL = """
    SELECT greatest((SELECT truncated_t FROM psp.log_start), (SELECT max(global_t) FROM psp.replication_log))
"""


@dataclass(frozen=True)
class Verification:
    """The sums of every table at every node, by the table's name, and where the SPs' schemas differ.

    Not `drained`: the streams did not come to rest.
    """

    drained: bool
    nodes: dict[str, dict[str, TableSum]]
    schema_differences: list[schemas.Difference]
    obstacles: list[Problem]
    """What may be local, and could stop a coming schema change."""

    @property
    def tables(self) -> list[str]:
        """Every table that any node knows."""
        return sorted({name for sums in self.nodes.values() for name in sums})

    def differing(self) -> list[str]:
        """The tables whose rows are not the same everywhere."""
        return [name for name in self.tables if len({sums.get(name) for sums in self.nodes.values()}) > 1]

    @property
    def consistent(self) -> bool:
        """Whether every node holds the same rows of every table, and every SP has the same schema."""
        return self.drained and not self.differing() and not self.schema_differences

    def as_dict(self) -> dict[str, Any]:
        """For --json and results files."""
        nodes = {
            node: {name: {"rows": s.rows, "checksum": str(s.checksum)} for name, s in sums.items()}
            for node, sums in self.nodes.items()
        }
        return {
            "consistent": self.consistent,
            "drained": self.drained,
            "differing": self.differing(),
            "schema_differences": [difference.as_dict() for difference in self.schema_differences],
            "obstacles": [problem.as_dict() for problem in self.obstacles],
            "nodes": nodes,
        }


def verify(cluster: LocalCluster, timeout_s: float = 60) -> Verification:
    """Waits for the streams to drain and compares. Writers should pause: rows that move differ."""
    return verify_servers(cluster.primary_dsn, _adopted(cluster), timeout_s)


def verify_servers(primary_dsn: str, sp_dsns: Mapping[str, str], timeout_s: float = 60) -> Verification:
    """The same for servers anywhere; `sp_dsns`: each SP's name and a superuser's connection to it."""
    try:
        wait_servers_drained(primary_dsn, sp_dsns, timeout_s)
        drained = True
    except WaitTimeout:
        drained = False
    sps: dict[str, _Sp] = {}
    for name, dsn in sp_dsns.items():
        with _reaching(name):
            sps[name] = _read_sp(dsn, primary_dsn)
    definitions = _definitions_of_today(sps.values())
    with _reaching(PRIMARY):
        sums = {PRIMARY: primary_sums(primary_dsn, definitions)}
    sums |= {name: sp.sums for name, sp in sps.items()}
    servers = {name: sp.server for name, sp in sps.items()}
    return Verification(
        drained,
        _by_name(sums, definitions),
        schemas.compare({name: server.schema or {} for name, server in servers.items()}),
        obstacles.compare(servers),
    )


@dataclass(frozen=True)
class _Sp:
    """What one SP has: the tables as it knows them, their rows, its schema."""

    catalog_version: int
    definitions: Definitions
    sums: Sums
    server: obstacles.Server


def _read_sp(dsn: str, primary_dsn: str) -> _Sp:
    """In one snapshot."""
    with open_session(dsn, row_factory=scalar_row) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        version: Any = connection.execute("SELECT catalog_version FROM psp.identity").fetchone()
        return _Sp(version, *read_sp(connection, primary_dsn), obstacles.read_server(connection, True))


def _definitions_of_today(sps: Iterable[_Sp]) -> Definitions:
    """As the SP with the newest catalog has them; tables that it lacks as any other has them."""
    found: Definitions = {}
    for sp in sorted(sps, key=lambda sp: sp.catalog_version):
        found |= sp.definitions
    return found


def _by_name(nodes: Mapping[str, Sums], definitions: Definitions) -> dict[str, dict[str, TableSum]]:
    """With the tables' names in place of their numbers, which stay where a name does not tell the table."""
    names: dict[int, str] = {}
    for table_id in sorted({table_id for sums in nodes.values() for table_id in sums}):
        label = definitions[table_id].label if table_id in definitions else "not at any semi-primary:"
        is_plain = table_id in definitions and label not in names.values()
        names[table_id] = label if is_plain else f"{label} table {table_id}"
    return {
        node: {names[table_id]: found for table_id, found in sums.items()} for node, sums in nodes.items()
    }


@contextmanager
def _reaching(name: str) -> Iterator[None]:
    try:
        yield
    except psycopg.OperationalError as error:
        raise PspError(f"{name} cannot be reached: {str(error).strip()}") from error


def published(primary_dsn: str) -> int:
    """The number up to which the primary has published everything that it has decided."""
    return _number(primary_dsn, _PUBLISHED_SQL)


def wait_drained(cluster: LocalCluster, timeout_s: float = 60) -> None:
    """Waits until every SP has applied everything that the primary had published when this was called."""
    wait_servers_drained(cluster.primary_dsn, _adopted(cluster), timeout_s)


def wait_servers_drained(primary_dsn: str, sp_dsns: Mapping[str, str], timeout_s: float = 60) -> None:
    """The same for servers anywhere."""
    with _reaching(PRIMARY):
        upto = published(primary_dsn)
    for name, dsn in sp_dsns.items():

        def look(dsn: str = dsn) -> bool:
            return _number(dsn, "SELECT watermark FROM psp.watermark") >= upto

        with _reaching(name):
            wait_until(f"{name} to apply everything up to {upto}", look, timeout_s)


def _adopted(cluster: LocalCluster) -> dict[str, str]:
    found = {sp.name: sp.admin_dsn for sp in cluster.sps if cluster.state.node(sp.name).adopted}
    if not found:
        raise PspError("no SP of this cluster is under psp yet", "psp cluster adopt")
    return found


def named(sp_dsns: Iterable[str]) -> dict[str, str]:
    """SPs anywhere, by the names that they have in their cluster."""
    found = {}
    for dsn in sp_dsns:
        try:
            name = _value(dsn, "SELECT name FROM psp.identity")
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            name = None
        if name is None:
            raise PspError(
                f"no semi-primary's database: {dsn}", "name those that psp schema adopt or join has made"
            )
        found[name] = dsn
    return found


def _value(dsn: str, statement: str) -> Any:
    with open_session(dsn, row_factory=scalar_row) as connection:
        return connection.execute(statement).fetchone()


def _number(dsn: str, statement: str) -> int:
    return int(_value(dsn, statement))


def show(result: Verification, json: bool) -> None:
    """Prints it; ends the command with code 1 if anything differs."""
    if json:
        print_json(result.as_dict())
    else:
        console.print(_render(result))
    if not result.consistent:
        raise typer.Exit(1)


def _render(result: Verification) -> Group:
    """For people: one line for each table, the differing ones marked."""
    differing = set(result.differing())
    rows = []
    for name in result.tables:
        counts = [sums[name].rows if name in sums else None for sums in result.nodes.values()]
        rows.append((escape(name), *counts, "DIFFERS" if name in differing else "same"))
    parts: list[RenderableType] = [
        table(None, ("table", *(f"{node} rows" for node in result.nodes), "checksums"), rows)
    ]
    if result.schema_differences:
        parts.append(schemas.show(result.schema_differences))
    told = [problem for problem in result.obstacles if problem.severity != "note"]
    if told:
        parts.append(Text("Not the same everywhere; coming schema changes could stop at one server:"))
        parts.append(problem_table(told))
    if notes := len(result.obstacles) - len(told):
        parts.append(Text(f"{notes} more that differ and stop nothing are listed by psp schema check."))
    parts.append(_verdict(result))
    return Group(*parts)


def _verdict(result: Verification) -> Text:
    if not result.drained:
        return Text("The streams did not come to rest in time.", style="red")
    if result.differing():
        return Text("The nodes do not hold the same rows.", style="red")
    if result.schema_differences:
        return Text("The SPs do not have the same schema.", style="red")
    if not result.tables:
        return Text("There are no tables to compare.")
    return Text("The primary and all SPs hold the same rows. All SPs have the same schema.", style="green")
