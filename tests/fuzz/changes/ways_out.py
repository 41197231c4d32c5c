"""What refused rows of others, and was set aside, is ended as documented: then nothing may differ."""

from typing import Any

import psycopg

from tests.fuzz.health import Connection

# Statements that go with the stream, from the server that has set something aside.
_ENDING = """
    SELECT DISTINCT format('ALTER %s DROP CONSTRAINT %I',
                           CASE k.contypid WHEN 0 THEN 'TABLE ' || k.conrelid::regclass::text
                                           ELSE 'DOMAIN ' || k.contypid::regtype::text END, k.conname)
      FROM psp.set_aside_objects a JOIN pg_constraint k ON k.oid = a.object
     WHERE a.class = 'pg_constraint'::regclass
    UNION ALL
    SELECT DISTINCT format('DROP PUBLICATION %I', p.pubname)
      FROM psp.set_aside_objects a JOIN pg_publication p ON p.oid = a.object
     WHERE a.class = 'pg_publication'::regclass
    UNION ALL
    SELECT DISTINCT format('ALTER TABLE %s REPLICA IDENTITY DEFAULT', a.object::regclass)
      FROM psp.set_aside_objects a WHERE a.class = 'pg_class'::regclass AND a.what LIKE '%replica identity%'
    UNION ALL
    SELECT format('ALTER TABLE %s ENABLE %s TRIGGER %I', t.relation::regclass,
                  CASE t.enabled WHEN 'A' THEN 'ALWAYS' ELSE 'REPLICA' END, t.name)
      FROM psp.triggers_aside t
      JOIN pg_trigger g ON (g.tgrelid, g.tgname) = (t.relation, t.name) AND g.tgenabled <> t.enabled
"""
_LOST = """
    SELECT DISTINCT format('%I.%I', n.nspname, l.name)
      FROM psp.lost_indexes l JOIN pg_class t ON t.oid = l.relation
      JOIN pg_namespace n ON n.oid = t.relnamespace
     WHERE l.name !~ '^local_'
"""


def end_what_was_set_aside(
    admins: dict[str, Connection], sessions: dict[str, psycopg.Connection[Any]]
) -> None:
    """`admins`: a superuser's, `sessions`: those of who may change all objects; by server."""
    for name, admin in admins.items():
        for (statement,) in admin.execute(_ENDING).fetchall():
            sessions[name].execute(statement.encode())
        for (index,) in admin.execute(_LOST).fetchall():
            _drop_elsewhere(index, [sessions[other] for other in admins if other != name])
        admin.execute("DELETE FROM psp.lost_indexes")


def _drop_elsewhere(index: str, others: list[psycopg.Connection[Any]]) -> None:
    """The first one that has it drops it everywhere."""
    for session in others:
        if session.execute("SELECT to_regclass(%s)", (index,)).fetchall() != [(None,)]:
            session.execute(f"DROP INDEX {index}".encode())
            return
