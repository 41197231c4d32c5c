"""Whether all SPs and the primary hold the same rows: a count and a checksum for each table.

An SP's checksum is computed from its tables, as an application reads them; the primary's from the images in
psp.data. A checksum is the sum of a 64-bit hash of each row's image, so the order of rows does not matter.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
import typer
from psycopg import sql
from psycopg.rows import dict_row, scalar_row
from rich.console import Group
from rich.text import Text

from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster
from psp.output import PspError, console, print_json, table
from psp.sql_files import read_sql
from psp.waiting import WaitTimeout, wait_until

# How the capture functions write values that are captured as text (sql/native/install/capture.sql).
_TEXT_SETTINGS = (
    "SET datestyle = 'ISO, MDY'; SET intervalstyle = 'postgres'; SET extra_float_digits = 1; "
    "SET bytea_output = 'hex'; SET search_path = pg_catalog"
)

_FORMS: Mapping[str, LiteralString] = {
    "binary": "r.{}",
    "text": "r.{}::text",
    "output": "CASE WHEN num_nulls(r.{0}) = 0 THEN concat(r.{0}) END",
}

_PRIMARY_SQL = """
    SELECT t.schema_name, t.table_name, count(d.image) AS rows,
           coalesce(sum(hash_record_extended(ROW(d.image), 0)), 0) AS checksum
      FROM psp.tables t
      LEFT JOIN psp.data d ON d.table_id = t.table_id AND NOT d.deleted
     GROUP BY t.table_id HAVING t.schema_name <> 'psp' OR count(d.image) > 0
     ORDER BY t.schema_name, t.table_name
"""

_PUBLISHED_SQL = """
    SELECT greatest((SELECT truncated_t FROM psp.log_start), (SELECT max(global_t) FROM psp.replication_log))
"""


@dataclass(frozen=True)
class TableSum:
    """What one server holds of one table."""

    rows: int
    checksum: int


Sums = dict[str, TableSum]


@dataclass(frozen=True)
class Verification:
    """The sums of every table at every node; not `drained`: the streams did not come to rest."""

    drained: bool
    nodes: dict[str, Sums]

    @property
    def tables(self) -> list[str]:
        """Every table that any node knows."""
        return sorted({name for sums in self.nodes.values() for name in sums})

    def differing(self) -> list[str]:
        """The tables that are not the same everywhere."""
        return [name for name in self.tables if len({sums.get(name) for sums in self.nodes.values()}) > 1]

    @property
    def consistent(self) -> bool:
        """Whether every node holds the same rows of every table."""
        return self.drained and not self.differing()

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
            "nodes": nodes,
        }


def verify(cluster: LocalCluster, timeout_s: float = 60) -> Verification:
    """Waits for the streams to drain and compares. Writers should pause: rows that move differ."""
    return verify_servers(cluster.primary_dsn, _adopted(cluster), timeout_s)


def verify_servers(primary_dsn: str, sp_dsns: Mapping[str, str], timeout_s: float = 60) -> Verification:
    """The same for servers anywhere; `sp_dsns`: each SP's name and a superuser's connection to it."""
    try:
        _wait_drained(primary_dsn, sp_dsns, timeout_s)
        drained = True
    except WaitTimeout:
        drained = False
    with _reaching(PRIMARY):
        nodes = {PRIMARY: primary_sums(primary_dsn)}
    for name, dsn in sp_dsns.items():
        with _reaching(name):
            nodes[name] = sp_sums(dsn)
    return Verification(drained, nodes)


@contextmanager
def _reaching(name: str) -> Iterator[None]:
    try:
        yield
    except psycopg.OperationalError as error:
        raise PspError(f"{name} cannot be reached: {str(error).strip()}") from error


def wait_drained(cluster: LocalCluster, timeout_s: float = 60) -> None:
    """Waits until every SP has applied everything that the primary had published when this was called."""
    _wait_drained(cluster.primary_dsn, _adopted(cluster), timeout_s)


def _wait_drained(primary_dsn: str, sp_dsns: Mapping[str, str], timeout_s: float) -> None:
    with _reaching(PRIMARY):
        published = _number(primary_dsn, _PUBLISHED_SQL)
    for name, dsn in sp_dsns.items():

        def look(dsn: str = dsn) -> bool:
            return _number(dsn, "SELECT watermark FROM psp.watermark") >= published

        with _reaching(name):
            wait_until(f"{name} to apply everything up to {published}", look, timeout_s)


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


def primary_sums(dsn: str) -> Sums:
    """From the images that the primary keeps."""
    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        rows = connection.execute(_PRIMARY_SQL).fetchall()
    return {_label(row): TableSum(row["rows"], int(row["checksum"])) for row in rows}


def sp_sums(dsn: str) -> Sums:
    """From the tables themselves, in one snapshot."""
    sums = {}
    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute(_TEXT_SETTINGS)
        catalog = connection.execute(read_sql("catalog/captured_columns.sql")).fetchall()
        for entry in catalog:
            row = connection.execute(_table_query(entry)).fetchone()
            assert row is not None
            if entry["schema_name"] != "psp" or row["rows"] > 0:  # psp.schema_history: only if there are any
                sums[_label(entry)] = TableSum(row["rows"], int(row["checksum"]))
    return sums


def _table_query(entry: dict[str, Any]) -> sql.Composed:
    """Count and checksum of a table at an SP; the image is the one that the capture triggers make."""
    values = [
        sql.SQL(_FORMS[form]).format(sql.Identifier(name))
        for name, form in zip(entry["names"], entry["forms"], strict=True)
    ]
    return sql.SQL(
        "SELECT count(*) AS rows,"
        " coalesce(sum(hash_record_extended(ROW(record_send(ROW({}))), 0)), 0) AS checksum FROM {} r"
    ).format(sql.SQL(", ").join(values), sql.Identifier(entry["schema_name"], entry["table_name"]))


def _label(row: dict[str, Any]) -> str:
    return f"{row['schema_name']}.{row['table_name']}"


def _value(dsn: str, statement: str) -> Any:
    with psycopg.connect(dsn, row_factory=scalar_row) as connection:
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
        rows.append((name, *counts, "DIFFERS" if name in differing else "same"))
    overview = table(None, ("table", *(f"{node} rows" for node in result.nodes), "checksums"), rows)
    if result.consistent and not result.tables:
        verdict = Text("There are no tables to compare.")
    elif result.consistent:
        verdict = Text("The primary and all SPs hold the same rows.", style="green")
    elif not result.drained:
        verdict = Text("The streams did not come to rest in time.", style="red")
    else:
        verdict = Text("The nodes do not hold the same rows.", style="red")
    return Group(overview, verdict)
