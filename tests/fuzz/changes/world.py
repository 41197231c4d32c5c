"""Two semi-primaries whose roles change the schema, and how they are compared."""

from typing import Any, Self

import psycopg
from psp.cluster import growth, verify
from psp.cluster.local import LocalCluster, SpNode, Zone
from psp.output import PspError
from psp.schema.native.capture import use
from psp.waiting import WaitTimeout

from tests.fuzz.changes.steps import SCHEMAS, Role
from tests.fuzz.changes.ways_out import end_what_was_set_aside
from tests.fuzz.dumps import differing_dumps
from tests.fuzz.health import Watch
from tests.fuzz.world import OPTIONS

# What is there before adoption: what triggers write.
BASE = """
CREATE SCHEMA base;
GRANT USAGE ON SCHEMA base TO PUBLIC;
CREATE TABLE base.trail (n uuid PRIMARY KEY DEFAULT gen_random_uuid(), what text);
CREATE TABLE base.counter (id int PRIMARY KEY, n int);
INSERT INTO base.counter VALUES (1, 0);
CREATE UNLOGGED TABLE base.aside (what text);
GRANT ALL ON base.trail, base.counter, base.aside TO PUBLIC;
"""
ROLES = "CREATE ROLE ann LOGIN; CREATE ROLE ben LOGIN; CREATE ROLE cid LOGIN; GRANT ann, ben, cid TO app"
FRESH = "; ".join(
    f'CREATE SCHEMA "{name}"; GRANT ALL ON SCHEMA "{name}" TO PUBLIC, ann, ben, cid' for name in SCHEMAS
)
PUBLICATIONS = "SELECT 'DROP PUBLICATION ' || quote_ident(pubname) FROM pg_publication"
REMAINS = """
    SELECT concat('DROP SCHEMA ', quote_ident(nspname), ' CASCADE') FROM pg_namespace
     WHERE nspname IN ('here', 'Over there', 'New schema', 'new_schema', 'new;schema')
    UNION ALL
    SELECT concat(
               'DROP ', CASE relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'TABLE' END,
                  ' ', c.oid::regclass, ' CASCADE')
      FROM pg_class c
     WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm') AND NOT relispartition
"""
RELEASED = "UPDATE psp.semi_primaries SET released_at = now() WHERE name = 'joined' AND released_at IS NULL"
OPTIONS_OF_SESSIONS = (
    "-c statement_timeout=10s -c lock_timeout=1s -c search_path=here,public -c psp.hold_timeout=1s"
)


class World:
    """Servers and sessions: one of each role, semi-primary and number."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[int, Role, int], psycopg.Connection[Any]] = {}
        self._start()

    def _start(self) -> None:
        self.cluster = LocalCluster.temporary([Zone("sp1"), Zone("sp2")], OPTIONS)
        try:
            for sp in self.cluster.sps:
                _make_roles(sp)
            with psycopg.connect(self.cluster.sps[0].dsn) as connection:
                connection.execute(BASE)
            growth.adopt(self.cluster)
            for sp in self.cluster.sps:
                with psycopg.connect(sp.admin_dsn) as admin:
                    admin.execute("GRANT EXECUTE ON FUNCTION psp.ddl(text) TO app, ann, ben")
            with psycopg.connect(self.cluster.sps[1].admin_dsn) as connection:
                use(connection, "sql")
        except BaseException:
            self.close()
            raise

    def session(self, sp: int, role: Role, number: int) -> psycopg.Connection[Any]:
        """Opened when it is first used in a case."""
        found = self._sessions.get((sp, role, number))
        if found is None or found.closed:
            name = self.cluster.sps[sp].name
            dsn = self.cluster.server(name).dsn(self.cluster.state.database, role)
            found = psycopg.connect(
                dsn, autocommit=True, connect_timeout=10, prepare_threshold=None, options=OPTIONS_OF_SESSIONS
            )
            self._sessions[sp, role, number] = found
        return found

    def begin(self) -> None:
        """Empty schemas at all servers. By force only what is at one server alone."""
        self.end_sessions()
        try:
            self._clear()
        except (psycopg.Error, PspError, WaitTimeout):
            self.close()
            self._start()
            self._clear()

    def _clear(self) -> None:
        self.settle()
        for sp in self.cluster.sps:
            with psycopg.connect(sp.admin_dsn, autocommit=True) as admin:
                _run_all(admin, PUBLICATIONS)
        app = self.session(0, "app", 0)
        _run_all(app, REMAINS)
        app.execute(FRESH)
        app.execute("DELETE FROM base.trail; UPDATE base.counter SET n = 0")
        self.settle()
        self.end_sessions()

    def settle(self) -> None:
        """Waits until all semi-primaries have everything. PspError: one has stopped."""
        with Watch(self.cluster) as watch:
            watch.wait_applied()

    def differences(self) -> str:
        """What is not the same at all servers, but for what is told to be set aside; empty: nothing."""
        try:
            self._end_what_was_set_aside()
            found = verify.verify(self.cluster)
        except (psycopg.Error, PspError) as error:
            return f"the servers cannot be compared: {error}"
        parts = [f"rows of {name}" for name in found.differing()]
        parts += [
            f"{d.kind} {d.name}: {d.shown()}" for d in found.schema_differences if "local_" not in d.name
        ]
        return "\n".join(parts) or differing_dumps({sp.name: sp.admin_dsn for sp in self.cluster.sps})

    def _end_what_was_set_aside(self) -> None:
        with Watch(self.cluster, self.cluster.sps[:2]) as watch:
            sessions = {sp.name: self.session(n, "app", 0) for n, sp in enumerate(self.cluster.sps[:2])}
            end_what_was_set_aside(dict(watch.sps), sessions)
        self.settle()

    def join(self) -> str:
        """One more joins for a while: what is not the same there."""
        joined = self.cluster.add_zone(Zone("joined"))
        _make_roles(joined)
        try:
            growth.adopt(self.cluster)
            return self.differences()
        except PspError as problem:
            return str(problem)
        finally:
            with psycopg.connect(self.cluster.primary_dsn) as primary:
                primary.execute(RELEASED)
            self.cluster.remove_zone(joined.name)

    def end_sessions(self) -> None:
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    def close(self) -> None:
        """Removes everything."""
        self.end_sessions()
        self.cluster.down()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _make_roles(sp: SpNode) -> None:
    with psycopg.connect(sp.admin_dsn) as admin:
        admin.execute(ROLES)
        admin.execute("GRANT CREATE ON DATABASE app TO ann, ben")


def _run_all(connection: psycopg.Connection[Any], query: str) -> None:
    """What the query makes, as statements."""
    for (statement,) in connection.execute(query.encode()).fetchall():
        connection.execute(statement.encode())
