"""Whether all SPs and the primary hold the same rows: a count and a checksum for each table.

An SP's checksum is computed from its tables, as an application reads them; the primary's from the images in
psp.data. A checksum is the sum of a 64-bit hash of each row's image, so the order of rows does not matter.
"""

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row, scalar_row
from rich.console import Group
from rich.text import Text

from psp.cluster.local import PRIMARY, LocalCluster, SpNode
from psp.output import PspError, table
from psp.waiting import WaitTimeout, wait_until

# How the capture functions write values that are captured as text (sql/native/capture.sql.j2).
_TEXT_SETTINGS = (
    "SET datestyle = 'ISO, MDY'; SET intervalstyle = 'postgres'; SET extra_float_digits = 1; "
    "SET bytea_output = 'hex'; SET search_path = pg_catalog"
)

_PRIMARY_SQL = """
    SELECT t.schema_name, t.table_name, count(d.image) AS rows,
           coalesce(sum(hash_record_extended(ROW(d.image), 0)), 0) AS checksum
      FROM psp.tables t
      LEFT JOIN psp.data d ON d.table_id = t.table_id AND NOT d.deleted
     GROUP BY t.table_id ORDER BY t.schema_name, t.table_name
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
        return self.drained and bool(self.tables) and not self.differing()

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
    try:
        wait_drained(cluster, timeout_s)
        drained = True
    except WaitTimeout:
        drained = False
    return Verification(drained, checksums(cluster))


def wait_drained(cluster: LocalCluster, timeout_s: float = 60) -> None:
    """Waits until every SP has applied everything that the primary had published when this was called."""
    published = _value(cluster.primary_dsn, _PUBLISHED_SQL)
    for sp in _adopted(cluster):

        def look(sp: SpNode = sp) -> bool:
            return bool(_value(sp.admin_dsn, "SELECT watermark FROM psp.watermark") >= published)

        wait_until(f"{sp.name} to apply everything up to {published}", look, timeout_s)


def checksums(cluster: LocalCluster) -> dict[str, Sums]:
    """The sums of the primary and of every SP, as they are now."""
    nodes = {PRIMARY: primary_sums(cluster.primary_dsn)}
    for sp in _adopted(cluster):
        nodes[sp.name] = sp_sums(sp.admin_dsn)
    return nodes


def _adopted(cluster: LocalCluster) -> list[SpNode]:
    found = [sp for sp in cluster.sps if cluster.state.node(sp.name).adopted]
    if not found:
        raise PspError("no SP of this cluster is under psp yet", "psp cluster adopt")
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
        catalog = connection.execute("SELECT schema_name, table_name, columns FROM psp.tables").fetchall()
        for entry in catalog:
            row = connection.execute(_table_query(entry)).fetchone()
            assert row is not None
            sums[_label(entry)] = TableSum(row["rows"], int(row["checksum"]))
    return sums


def _table_query(entry: dict[str, Any]) -> sql.Composed:
    """Count and checksum of a table at an SP; the image is the one that the capture triggers make."""
    values = [
        sql.SQL("r.{}::text" if c["encoding"] == "text" else "r.{}").format(sql.Identifier(c["name"]))
        for c in entry["columns"]
    ]
    return sql.SQL(
        "SELECT count(*) AS rows,"
        " coalesce(sum(hash_record_extended(ROW(record_send(ROW({}))), 0)), 0) AS checksum FROM {} r"
    ).format(sql.SQL(", ").join(values), sql.Identifier(entry["schema_name"], entry["table_name"]))


def _label(row: dict[str, Any]) -> str:
    return f"{row['schema_name']}.{row['table_name']}"


def _value(dsn: str, statement: str) -> int:
    with psycopg.connect(dsn, row_factory=scalar_row) as connection:
        value = connection.execute(statement).fetchone()
    assert value is not None
    return int(value)


def render(result: Verification) -> Group:
    """For people: one line for each table, the differing ones marked."""
    differing = set(result.differing())
    rows = []
    for name in result.tables:
        counts = [sums[name].rows if name in sums else None for sums in result.nodes.values()]
        rows.append((name, *counts, "DIFFERS" if name in differing else "same"))
    overview = table(None, ("table", *(f"{node} rows" for node in result.nodes), "checksums"), rows)
    if result.consistent:
        verdict = Text("The primary and all SPs hold the same rows.", style="green")
    elif not result.drained:
        verdict = Text("The streams did not come to rest in time.", style="red")
    else:
        verdict = Text("The nodes do not hold the same rows.", style="red")
    return Group(overview, verdict)
