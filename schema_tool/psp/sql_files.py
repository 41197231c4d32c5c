"""The files of sql/, in which @NAME@ stands for a number of sql/constants.txt."""

import re
from collections.abc import Callable
from functools import cache

import jinja2

from psp.output import PspError
from psp.paths import sql_dir

_CONSTANT = re.compile(r"@([A-Z_]+)@")


@cache
def _constants() -> dict[str, int]:
    lines = (sql_dir() / "constants.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split() for line in lines if line[:1].isalpha())
    return {name: int(value) for name, value in pairs}


def constant(name: str) -> int:
    """A number that the SQL and the daemons have too. PspError: there is none of that name."""
    found = _constants().get(name)
    if found is None:
        raise PspError(f"{sql_dir() / 'constants.txt'} has no {name}")
    return found


def fill_constants(sql: str) -> str:
    """The SQL with a number for each @NAME@."""
    return _CONSTANT.sub(lambda found: str(constant(found[1])), sql)


def read_sql(file: str) -> bytes:
    """The statements of a file such as `catalog/server_facts.sql`, as psycopg takes them."""
    return fill_constants((sql_dir() / file).read_text(encoding="utf-8")).encode()


FACTS = (
    "own_relations", "plain_types", "type_facts", "column_facts", "index_facts", "index_column_facts",
    "foreign_key_column_facts", "trigger_facts", "key_facts",
)  # fmt: skip
"""The queries of sql/facts, in an order in which each uses those before it. They name one another bare."""


def read_sql_with_facts(file: str) -> bytes:
    """A query that uses the facts of sql/facts, in a database that does not have them as views."""
    parts = [f"{name} AS NOT MATERIALIZED (\n{_fact(name)})" for name in FACTS]
    return b"WITH " + ",\n".join(parts).encode() + b"\n" + read_sql(file)


def fact_views() -> str:
    """The same facts as views of schema psp; leaves search_path = pg_catalog, pg_temp."""
    statements = [f"CREATE VIEW psp.{name} AS\n{_fact(name)};\n" for name in FACTS]
    path = "SET LOCAL search_path = pg_catalog, {}pg_temp;\n"
    return "".join([path.format("psp, "), *statements, path.format("")])


def _fact(name: str) -> str:
    return read_sql(f"facts/{name}.sql").decode()


class SqlLoader(jinja2.FileSystemLoader):
    """The templates of some folders of sql/."""

    def __init__(self, *folders: str) -> None:
        super().__init__([sql_dir(folder) for folder in folders])

    def get_source(
        self, environment: jinja2.Environment, template: str
    ) -> tuple[str, str, Callable[[], bool]]:
        source, file, is_current = super().get_source(environment, template)
        return fill_constants(source), file, is_current
