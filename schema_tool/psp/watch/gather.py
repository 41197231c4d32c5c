"""Asks servers how they are: all at once, read-only, within a time limit. A silent one stops no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from psp.output import PspError
from psp.primary import members
from psp.sql_files import read_sql
from psp.watch.combine import Told, combine
from psp.watch.model import Server, View
from psp.whose import whose

ANSWER_MAX_S = 5.0
STATEMENT_MAX_MS = 3000
_SHOWN = ("host", "hostaddr", "port", "user", "dbname", "service")
# No name is looked up before: the database's own search_path may show a function of its owner's.
_SETTINGS = (
    "SET LOCAL search_path = pg_catalog, pg_temp",
    f"SET LOCAL statement_timeout = {STATEMENT_MAX_MS}",
    "SET LOCAL jit = off",  # to compile these statements takes seconds
)


class Source:
    """One server. Its connection stays open between looks; it has a thread of its own for each look.

    `start` and `wait` are for one thread. A look that hangs is left alone,
    and no other begins before it has ended.
    """

    def __init__(self, dsn: str) -> None:
        parts = conninfo_to_dict(dsn)
        shown: dict[str, Any] = {name: parts[name] for name in _SHOWN if parts.get(name)}
        self._dsn = dsn
        self._conninfo = make_conninfo("", **shown)
        self._connection: psycopg.Connection[Any] | None = None
        self._thread: threading.Thread | None = None
        self._told = Told(Server(self._conninfo, error="no answer yet"))
        self._last = Server(self._conninfo)

    def start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._look, daemon=True, name="psp watch")
            self._thread.start()

    def wait(self, deadline: float) -> Told:
        """What it has told, or that it has not by `deadline` (of time.monotonic)."""
        assert self._thread is not None
        self._thread.join(max(deadline - time.monotonic(), 0))
        if self._thread.is_alive():
            return Told(self._failed(f"no answer within {ANSWER_MAX_S:g} s"))
        return self._told

    def _failed(self, error: str) -> Server:
        """The one that it was when it last answered."""
        return Server(self._conninfo, self._last.kind, self._last.name, " ".join(error.split()))

    def _look(self) -> None:
        try:
            told = self._ask()
            self._last = told.server
        except Exception as error:  # of any kind: otherwise the last answer would pass for this one
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            told = Told(self._failed(str(error) or type(error).__name__))
        self._told = told

    def _ask(self) -> Told:
        if self._connection is None:
            self._connection = psycopg.connect(
                self._dsn, connect_timeout=3, tcp_user_timeout=5000, application_name="psp watch"
            )
            self._connection.read_only = True
        connection = self._connection
        with connection.transaction():
            for setting in _SETTINGS:
                connection.execute(setting)
            here = whose(connection)
            if here.is_dangerous:
                raise PspError(
                    f"schema psp belongs to {here.owner}, no superuser: name user={here.owner} in its address"
                )
            if here.kind == "primary":
                return Told(Server(self._conninfo, "primary", "primary"), _ask_primary(connection))
            if here.kind == "semi-primary":
                facts = _ask_semi_primary(connection)
                return Told(Server(self._conninfo, "semi-primary", facts["status"]["name"]), facts)
        raise PspError("this database is neither a semi-primary nor a primary")


def _ask_primary(connection: psycopg.Connection[Any]) -> dict[str, Any]:
    conflicts = connection.execute(read_sql("primary/command/watch_conflicts.sql")).fetchall()
    return {**members.read(connection), "conflicts": [row[0] for row in conflicts]}


def _ask_semi_primary(connection: psycopg.Connection[Any]) -> dict[str, Any]:
    row = connection.execute(read_sql("semi_primary/command/watch.sql")).fetchone()
    facts: dict[str, Any] = row[0] if row else {}
    if not facts or facts["status"] is None:
        raise PspError("this semi-primary has no status yet")
    if facts["sees_jobs"]:
        facts["jobs"] = [
            job for (job,) in connection.execute(read_sql("semi_primary/command/watch_jobs.sql"))
        ]
    return facts


def look(sources: Sequence[Source]) -> View:
    """One look at all of them."""
    deadline = time.monotonic() + ANSWER_MAX_S
    for source in sources:
        source.start()
    told = [source.wait(deadline) for source in sources]
    return combine(told, datetime.now(UTC))
