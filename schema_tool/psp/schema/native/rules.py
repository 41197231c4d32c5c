"""What stands in the way of adoption in native mode."""

from __future__ import annotations

from collections.abc import Iterator

from psp.problems import Problem, sort
from psp.schema.model import Database
from psp.schema.rules import check_cluster, check_table
from psp.schema.server import ServerFacts


def check(database: Database, facts: ServerFacts, slots: int, add_keys: bool) -> list[Problem]:
    """All problems, errors first. With `add_keys`, tables that can be given a primary key need none."""
    found = [*check_cluster(database, facts, slots), *_dblink(database, facts)]
    found += [p for table in database.tables for p in check_table(database, table, add_keys)]
    return sort(found)


def _dblink(database: Database, facts: ServerFacts) -> Iterator[Problem]:
    where = f"database {database.name}"
    if not facts.dblink_schema and not facts.dblink_available:
        yield Problem("error", where, "the extension dblink is not available",
                      "install PostgreSQL's contrib modules (Debian: postgresql-contrib)")  # fmt: skip
    if facts.dblink_public and not facts.adopted:
        yield Problem("error" if facts.superuser else "warning", where,
                      "every role may execute dblink's functions: it can talk to the daemon's port, and by "
                      "opening a connection in place of psp's end its own COMMITs with an error",
                      "REVOKE EXECUTE on dblink's functions FROM PUBLIC, or DROP EXTENSION dblink: psp then "
                      "installs it for itself only")  # fmt: skip
