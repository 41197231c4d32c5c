"""What views mode needs to know about a table beyond psp.schema.model: owner, rights, defaults …"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row

from psp.schema.model import Table

_DETAILS = """
SELECT pg_get_userbyid(c.relowner)::text AS owner, c.relrowsecurity AS row_security,
       ARRAY(SELECT r.rulename::text FROM pg_rewrite r WHERE r.ev_class = c.oid) AS rules,
       ARRAY(SELECT DISTINCT coalesce(v.oid::regclass::text, f.oid::regprocedure::text)
             FROM pg_depend d
             LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
             LEFT JOIN pg_class v ON v.oid = r.ev_class AND v.oid <> c.oid
             LEFT JOIN pg_proc f ON d.classid = 'pg_proc'::regclass AND f.oid = d.objid
             WHERE ((d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid)
                    OR (d.refclassid = 'pg_type'::regclass AND d.refobjid = c.reltype))
               AND coalesce(v.oid, f.oid) IS NOT NULL ORDER BY 1) AS dependents,
       ARRAY(WITH RECURSIVE made_of(type) AS (  -- arrays, domains, ranges, rows of other tables
                 SELECT c.reltype
                 UNION
                 SELECT coalesce(r.reltype, d.objid) FROM made_of m
                 JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = m.type
                     AND (d.classid = 'pg_type'::regclass
                          OR d.classid = 'pg_class'::regclass AND d.objsubid > 0)
                 LEFT JOIN pg_class r ON d.classid = 'pg_class'::regclass AND r.oid = d.objid)
             SELECT format('%%s.%%I', a.attrelid::regclass, a.attname)
             FROM made_of m
             JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = m.type
                 AND d.classid = 'pg_class'::regclass
             JOIN pg_class r ON r.oid = d.objid AND r.relkind IN ('r', 'p', 'm', 'f')
             JOIN pg_attribute a ON a.attrelid = d.objid AND a.attnum = d.objsubid AND a.attnum > 0
             ORDER BY 1) AS row_columns,
       ARRAY(SELECT p.pubname::text
             FROM pg_publication_tables p JOIN pg_namespace n ON n.nspname = p.schemaname
             WHERE n.oid = c.relnamespace AND p.tablename = c.relname ORDER BY 1) AS publications,
       ARRAY(SELECT format('%%I on %%s', k.conname, k.conrelid::regclass)
             FROM pg_constraint k JOIN pg_class r ON r.oid = k.conrelid
             WHERE k.contype = 'f' AND k.conparentid = 0 AND k.confrelid = c.oid AND r.relpersistence <> 'p'
             ORDER BY 1) AS local_keys,
       ARRAY(SELECT t::text FROM unnest(ARRAY[c.relname || '_persistent', c.relname || '_temp']) t
             WHERE octet_length(t) > 63 OR EXISTS (SELECT FROM pg_class o WHERE o.relname = t
                                                      AND o.relnamespace = c.relnamespace)) AS bad_names,
       EXISTS (SELECT FROM pg_depend d
               LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
               JOIN pg_proc f
                 ON f.oid = CASE WHEN d.refclassid = 'pg_proc'::regclass THEN d.refobjid ELSE o.oprcode END
               WHERE f.pronamespace <> 'pg_catalog'::regnamespace AND (d.classid, d.objid) IN (
                   SELECT 'pg_constraint'::regclass, k.oid FROM pg_constraint k WHERE k.conrelid = c.oid
                   UNION ALL SELECT 'pg_attrdef'::regclass, e.oid FROM pg_attrdef e WHERE e.adrelid = c.oid
                   UNION ALL SELECT 'pg_class'::regclass, i.indexrelid FROM pg_index i
                   WHERE i.indrelid = c.oid
               )) AS functions
FROM pg_class c WHERE c.oid = %s
"""

# An identity column's sequence is found by its dependency; pg_get_serial_sequence would want quoting.
_DEFAULTS = """
SELECT a.attname::text AS name, pg_get_expr(d.adbin, d.adrelid) AS expression,
       (SELECT s.objid::regclass::text FROM pg_depend s
        WHERE a.attidentity <> '' AND s.classid = 'pg_class'::regclass AND s.refclassid = 'pg_class'::regclass
           AND s.refobjid = a.attrelid AND s.refobjsubid = a.attnum AND s.deptype = 'i') AS sequence
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
"""

# In the order in which they stand: granted in it again, they come out the same.
_GRANTS = """
SELECT x.grantee_name, x.privilege, x.grantable, x.column_name FROM (
    SELECT a.grantee, a.privilege_type, a.is_grantable, NULL::text, 0 AS number, a.n
    FROM pg_class c, aclexplode(c.relacl) WITH ORDINALITY a(grantor, grantee, privilege_type, is_grantable, n)
    WHERE c.oid = %(oid)s AND a.grantee <> c.relowner
    UNION ALL
    SELECT a.grantee, a.privilege_type, a.is_grantable, t.attname::text, t.attnum, a.n
    FROM pg_attribute t JOIN pg_class c ON c.oid = t.attrelid,
         aclexplode(t.attacl) WITH ORDINALITY a(grantor, grantee, privilege_type, is_grantable, n)
    WHERE t.attrelid = %(oid)s AND NOT t.attisdropped
) g(grantee, privilege, grantable, column_name, number, n)
CROSS JOIN LATERAL (SELECT CASE WHEN g.grantee = 0 THEN NULL ELSE pg_get_userbyid(g.grantee)::text END,
                           g.privilege, g.grantable, g.column_name)
           x(grantee_name, privilege, grantable, column_name)
ORDER BY g.number, g.n
"""

# pg_get_constraintdef's text is what pg_dump writes, too. A constraint's comment is not the index's.
_UNIQUES = """
SELECT i.relname::text AS name, pg_get_indexdef(i.oid) AS index_definition,
       k.conname::text AS constraint_name,
       pg_get_constraintdef(k.oid) AS constraint_definition,
       CASE WHEN k.oid IS NULL THEN obj_description(i.oid, 'pg_class')
            ELSE obj_description(k.oid, 'pg_constraint') END AS comment,
       x.indisreplident AS replica_identity, x.indisclustered AS clustered
FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
LEFT JOIN pg_constraint k ON k.conindid = x.indexrelid AND k.conrelid = x.indrelid AND k.contype = 'u'
WHERE x.indrelid = %s AND x.indisunique AND NOT x.indisprimary ORDER BY i.relname
"""

_FOREIGN_KEYS = """
SELECT k.conname::text AS name, pg_get_constraintdef(k.oid) AS definition,
       obj_description(k.oid, 'pg_constraint') AS comment
FROM pg_constraint k WHERE k.conrelid = %s AND k.contype = 'f' ORDER BY k.conname
"""

_INVALID_CHECKS = """
SELECT k.conname::text AS name, pg_get_expr(k.conbin, k.conrelid) AS expression,
       pg_get_constraintdef(k.oid) AS definition, obj_description(k.oid, 'pg_constraint') AS comment
FROM pg_constraint k WHERE k.conrelid = %s AND k.contype = 'c' AND NOT k.convalidated ORDER BY k.conname
"""

_SCHEMA = """
SELECT pg_get_userbyid(nspowner)::text AS owner FROM pg_namespace WHERE nspname = %s
"""

# Without the owner's own, which every schema has.
_SCHEMA_GRANTS = """
SELECT CASE WHEN a.grantee = 0 THEN NULL ELSE pg_get_userbyid(a.grantee)::text END, a.privilege_type,
       a.is_grantable, NULL
FROM pg_namespace n, aclexplode(n.nspacl) WITH ORDINALITY a(grantor, grantee, privilege_type, is_grantable, n)
WHERE n.nspname = %s AND a.grantee <> n.nspowner ORDER BY a.n
"""


@dataclass(frozen=True)
class Grant:
    grantee: str | None  # None: PUBLIC
    privilege: str
    grantable: bool
    column: str | None


@dataclass(frozen=True)
class Unique:
    """A secondary unique index, and the constraint that made it, if any."""

    name: str
    index_definition: str
    constraint_name: str | None
    constraint_definition: str | None
    comment: str | None
    replica_identity: bool
    clustered: bool


@dataclass(frozen=True)
class ForeignKeyDefinition:
    name: str
    definition: str
    comment: str | None


@dataclass(frozen=True)
class InvalidCheck:
    """A CHECK that is NOT VALID: rows of the table may break it."""

    name: str
    expression: str
    definition: str
    comment: str | None


@dataclass(frozen=True)
class Details:
    owner: str
    row_security: bool
    rules: list[str]
    dependents: list[str]  # views and functions
    row_columns: list[str]  # whose types have the table's row type in them
    publications: list[str]
    local_keys: list[str]  # foreign keys of tables that stay local: unlogged ones
    bad_names: list[str]  # T_persistent, T_temp, if they cannot be had
    functions: bool  # whether CHECKs, generated columns or indexes call functions that are not PostgreSQL's
    defaults: dict[str, str]
    sequences: dict[str, str]  # of identity columns, quoted
    grants: list[Grant]
    uniques: list[Unique]
    foreign_keys: list[ForeignKeyDefinition]
    invalid_checks: list[InvalidCheck]


def read_schema(connection: psycopg.Connection[Any], name: str) -> tuple[str, list[Grant]]:
    """A schema's owner, and what others may do there."""
    row = connection.execute(_SCHEMA, (name,)).fetchone()
    assert row is not None
    return row[0], [Grant(*grant) for grant in connection.execute(_SCHEMA_GRANTS, (name,)).fetchall()]


def read_details(connection: psycopg.Connection[Any], table: Table) -> Details:
    """Must run with search_path = pg_catalog, so that all names come out qualified."""
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(_DETAILS, (table.oid,)).fetchone()
        assert row is not None
        defaults = cursor.execute(_DEFAULTS, (table.oid,)).fetchall()
        uniques = cursor.execute(_UNIQUES, (table.oid,)).fetchall()
        foreign_keys = cursor.execute(_FOREIGN_KEYS, (table.oid,)).fetchall()
        invalid_checks = cursor.execute(_INVALID_CHECKS, (table.oid,)).fetchall()
    grants = connection.execute(_GRANTS, {"oid": table.oid}).fetchall()
    return Details(
        **row,
        defaults={d["name"]: d["expression"] for d in defaults if d["expression"] is not None},
        sequences={d["name"]: d["sequence"] for d in defaults if d["sequence"] is not None},
        grants=[Grant(*grant) for grant in grants],
        uniques=[Unique(**unique) for unique in uniques],
        foreign_keys=[ForeignKeyDefinition(**key) for key in foreign_keys],
        invalid_checks=[InvalidCheck(**check) for check in invalid_checks],
    )
