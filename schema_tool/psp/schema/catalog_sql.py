"""The catalog queries. Each leaves out system schemas, psp, temporary objects and extensions' objects."""

_OWN_SCHEMAS = r"""n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'psp')"""

_NOT_OF_EXTENSION = """NOT EXISTS (SELECT FROM pg_catalog.pg_depend e
    WHERE e.classid = 'pg_catalog.pg_class'::regclass AND e.objid = c.oid AND e.deptype = 'e')"""

_OWN_TABLES = f"""c.relkind IN ('r', 'p', 'f') AND {_OWN_SCHEMAS} AND {_NOT_OF_EXTENSION}"""

DATABASE = """
SELECT current_database() AS name, current_setting('server_version_num')::int AS version
"""

# tree: the table and its partitions at every level, from the top. parents: of INHERITS.
RELATIONS = f"""
SELECT c.oid::int8 AS oid, n.nspname AS schema, c.relname AS name, c.relkind::text AS kind,
       c.relpersistence::text AS persistence, c.relispartition AS is_partition,
       c.relforcerowsecurity AS row_security_forced, c.reltuples::int8 AS rows_estimate,
       pg_catalog.pg_table_size(c.oid) AS bytes,
       CASE WHEN c.relkind = 'p' THEN
           ARRAY(SELECT t.relid::oid::int8 FROM pg_catalog.pg_partition_tree(c.oid) t
                 ORDER BY t.level, t.relid::oid)
            ELSE ARRAY[c.oid::int8] END AS tree,
       ARRAY(SELECT pn.nspname || '.' || p.relname FROM pg_catalog.pg_inherits i
             JOIN pg_catalog.pg_class p ON p.oid = i.inhparent
             JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace
             WHERE i.inhrelid = c.oid AND NOT c.relispartition ORDER BY i.inhseqno) AS parents,
       ARRAY(SELECT k::int FROM pg_catalog.pg_partitioned_table p, pg_catalog.unnest(p.partattrs::int2[]) k
             WHERE p.partrelid = c.oid) AS partition_columns,
       ARRAY(SELECT k.conname FROM pg_catalog.pg_constraint k
             WHERE k.conrelid = c.oid AND k.contype = 'c' AND (
                 k.conbin::text ~ 'SQLVALUEFUNCTION'  -- current_timestamp, current_user and their like
                 OR EXISTS (
                     SELECT FROM pg_catalog.regexp_matches(k.conbin::text, ':(op)?funcid (\\d+)', 'g') m
                     JOIN pg_catalog.pg_proc f ON f.oid = m[2]::oid
                     WHERE f.provolatile = 'v'
                        OR f.proname IN ('now', 'statement_timestamp', 'transaction_timestamp',
                                         'current_setting')))
             ORDER BY k.conname) AS unsteady_checks,
       ARRAY(SELECT k.conname FROM pg_catalog.pg_constraint k
             WHERE k.conrelid = c.oid AND k.contype = 'c' AND NOT k.convalidated
             ORDER BY k.conname) AS invalid_checks
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE {_OWN_TABLES}
ORDER BY n.nspname, c.relname
"""

COLUMNS = f"""
SELECT a.attrelid::int8 AS table_oid, a.attnum::int AS number, a.attname AS name,
       a.atttypid::int8 AS type_oid,
       pg_catalog.format_type(a.atttypid, a.atttypmod) AS type_name, a.atttypmod AS type_modifier,
       a.attnotnull AS not_null, a.attidentity::text AS identity, a.attgenerated <> '' AS generated
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE {_OWN_TABLES} AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum
"""

# Every type of a column of a table or index, and every type inside it.
TYPES = f"""
WITH RECURSIVE used(oid) AS (
    SELECT a.atttypid FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'f', 'i', 'I') AND {_OWN_SCHEMAS} AND a.attnum > 0 AND NOT a.attisdropped
    UNION
    SELECT inside.oid FROM used JOIN pg_catalog.pg_type t ON t.oid = used.oid
    CROSS JOIN LATERAL (
        SELECT t.typbasetype WHERE t.typtype = 'd'
        UNION ALL SELECT t.typelem WHERE t.typsubscript = 'pg_catalog.array_subscript_handler'::regproc
        UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a
                  WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
        UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE t.oid IN (r.rngtypid, r.rngmultitypid)
    ) inside(oid)
)
SELECT t.oid::int8 AS oid, pg_catalog.format_type(t.oid, -1) AS name, t.typtype::text AS kind,
       t.typbasetype::int8 AS base,
       CASE WHEN t.typtype = 'd' THEN pg_catalog.format_type(t.typbasetype, t.typtypmod) END AS base_name,
       CASE WHEN t.typsubscript = 'pg_catalog.array_subscript_handler'::regproc
            THEN t.typelem::int8 ELSE 0 END AS element,
       ARRAY(SELECT a.atttypid::int8 FROM pg_catalog.pg_attribute a
             WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
             UNION ALL
             SELECT r.rngsubtype::int8 FROM pg_catalog.pg_range r WHERE t.oid IN (r.rngtypid, r.rngmultitypid)
       ) AS parts,
       t.typsend <> 0::oid AND t.typreceive <> 0::oid AS has_binary, t.typarray <> 0::oid AS has_array
FROM used JOIN pg_catalog.pg_type t ON t.oid = used.oid
"""

# `referenced`: an index, or the constraint that made it, depends on each column that it uses. Variable 0 is
# the whole row. `user_functions`: an operator stands for its function; PostgreSQL's own leave no dependency.
INDEXES = f"""
SELECT i.indexrelid::int8 AS oid, i.indrelid::int8 AS table_oid, ic.relname AS name,
       i.indisprimary AS primary,
       i.indisunique AS unique, i.indisexclusion AS exclusion,
       pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS predicate,
       i.indnullsnotdistinct AS nulls_not_distinct, NOT i.indimmediate AS deferrable,
       ic.relispartition AS attached,
       ARRAY(SELECT k::int FROM pg_catalog.unnest(i.indkey[:i.indnkeyatts - 1]) k WHERE k > 0
             UNION
             SELECT d.refobjsubid FROM pg_catalog.pg_depend d
             WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = i.indexrelid
               AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = i.indrelid
               AND d.refobjsubid > 0
             ORDER BY 1) AS referenced,
       COALESCE(i.indexprs::text ~ ':varattno 0 ', false) OR COALESCE(i.indpred::text ~ ':varattno 0 ', false)
           AS whole_row,
       ARRAY(SELECT DISTINCT f.oid::regprocedure::text FROM pg_catalog.pg_depend d
             LEFT JOIN pg_catalog.pg_operator o
               ON d.refclassid = 'pg_catalog.pg_operator'::regclass AND o.oid = d.refobjid
             JOIN pg_catalog.pg_proc f
               ON f.oid = CASE WHEN d.refclassid = 'pg_catalog.pg_proc'::regclass
                               THEN d.refobjid ELSE o.oprcode END
             JOIN pg_catalog.pg_roles r ON r.oid = f.proowner
             WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = i.indexrelid AND NOT r.rolsuper
             ORDER BY 1) AS user_functions
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class ic ON ic.oid = i.indexrelid
JOIN pg_catalog.pg_class c ON c.oid = i.indrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE {_OWN_TABLES} AND (i.indisunique OR i.indisexclusion)
ORDER BY ic.relname
"""

# Support function 4 of a btree operator class tells whether equal values have equal bytes. The two that
# PostgreSQL has say: always, or (strings) if the collation is deterministic. The hash function is taken from
# the hash operator class that has the same equality operator.
INDEX_COLUMNS = f"""
SELECT i.indexrelid::int8 AS index_oid, i.indkey[k.n - 1]::int AS number,
       pg_catalog.pg_get_indexdef(i.indexrelid, k.n, false) AS definition,
       a.atttypid::int8 AS type_oid, pg_catalog.format_type(a.atttypid, a.atttypmod) AS type_name,
       a.atttypmod AS type_modifier,
       COALESCE(equal.proname = 'btequalimage' OR
                (equal.proname = 'btvarstrequalimage' AND COALESCE(l.collisdeterministic, true)), false)
           AS equal_image,
       CASE WHEN NOT l.collisdeterministic
            THEN pg_catalog.quote_ident(ln.nspname) || '.' || pg_catalog.quote_ident(l.collname)
            END AS collation,
       CASE WHEN l.collname <> 'default'
            THEN pg_catalog.quote_ident(ln.nspname) || '.' || pg_catalog.quote_ident(l.collname)
            END AS index_collation,
       (SELECT pg_catalog.format('OPERATOR(%I.%s)', qn.nspname, q.oprname)
        FROM pg_catalog.pg_amop b JOIN pg_catalog.pg_operator q ON q.oid = b.amopopr
        JOIN pg_catalog.pg_namespace qn ON qn.oid = q.oprnamespace
        WHERE b.amopfamily = o.opcfamily AND b.amoplefttype = o.opcintype
          AND b.amoprighttype = o.opcintype AND b.amopstrategy = 3
          AND o.opcmethod = (SELECT oid FROM pg_catalog.pg_am WHERE amname = 'btree')) AS equality,
       (SELECT pg_catalog.quote_ident(fn.nspname) || '.' || pg_catalog.quote_ident(f.proname)
        FROM pg_catalog.pg_amop b
        JOIN pg_catalog.pg_amop h ON h.amopopr = b.amopopr AND h.amopstrategy = 1
        JOIN pg_catalog.pg_am ham ON ham.oid = h.amopmethod AND ham.amname = 'hash'
        JOIN pg_catalog.pg_amproc p ON p.amprocfamily = h.amopfamily AND p.amprocnum = 2
             AND p.amproclefttype = h.amoplefttype AND p.amprocrighttype = h.amoplefttype
        JOIN pg_catalog.pg_proc f ON f.oid = p.amproc
        JOIN pg_catalog.pg_namespace fn ON fn.oid = f.pronamespace
        WHERE b.amopfamily = o.opcfamily AND b.amoplefttype = o.opcintype
          AND b.amoprighttype = o.opcintype AND b.amopstrategy = 3
        LIMIT 1) AS hash_function
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class c ON c.oid = i.indrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL pg_catalog.generate_series(1, i.indnkeyatts) k(n)
-- A column of an index on "char" or name has another type than the table's column: take the table's.
JOIN pg_catalog.pg_attribute a
  ON (a.attrelid, a.attnum) = CASE WHEN i.indkey[k.n - 1] > 0 THEN (i.indrelid, i.indkey[k.n - 1])
                                   ELSE (i.indexrelid, k.n::int2) END
JOIN pg_catalog.pg_opclass o ON o.oid = i.indclass[k.n - 1]
LEFT JOIN pg_catalog.pg_amproc ep ON ep.amprocfamily = o.opcfamily AND ep.amproclefttype = o.opcintype
     AND ep.amprocrighttype = o.opcintype AND ep.amprocnum = 4
     AND o.opcmethod = (SELECT oid FROM pg_catalog.pg_am WHERE amname = 'btree')
LEFT JOIN pg_catalog.pg_proc equal ON equal.oid = ep.amproc
LEFT JOIN pg_catalog.pg_collation l ON l.oid = i.indcollation[k.n - 1]
LEFT JOIN pg_catalog.pg_namespace ln ON ln.oid = l.collnamespace
WHERE {_OWN_TABLES} AND (i.indisunique OR i.indisexclusion)
ORDER BY i.indexrelid, k.n
"""

TRIGGERS = f"""
SELECT t.tgrelid::int8 AS table_oid, t.tgname AS name, t.tgenabled::text AS enabled
FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_proc f ON f.oid = t.tgfoid JOIN pg_catalog.pg_namespace fn ON fn.oid = f.pronamespace
WHERE {_OWN_TABLES} AND NOT t.tgisinternal AND t.tgparentid = 0::oid AND fn.nspname <> 'psp'
ORDER BY t.tgname
"""

FOREIGN_KEYS = """
SELECT k.conname AS name, k.conrelid::int8 AS table_oid, k.confrelid::int8 AS parent_oid,
       k.confdeltype IN ('c', 'n', 'd') OR k.confupdtype IN ('c', 'n', 'd') AS has_action
FROM pg_catalog.pg_constraint k WHERE k.contype = 'f' AND k.conparentid = 0::oid
ORDER BY k.conname
"""

SEQUENCES = f"""
SELECT c.oid::int8 AS oid, n.nspname AS schema, c.relname AS name, s.seqstart AS start, s.seqmin AS minimum,
       s.seqmax AS maximum, s.seqincrement AS increment, s.seqcycle AS cycle,
       (SELECT ARRAY[tn.nspname, t.relname, a.attname]::text[] FROM pg_catalog.pg_depend d
        JOIN pg_catalog.pg_class t ON t.oid = d.refobjid
        JOIN pg_catalog.pg_namespace tn ON tn.oid = t.relnamespace
        JOIN pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
        WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid
          AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.deptype IN ('a', 'i')) AS owner
FROM pg_catalog.pg_sequence s JOIN pg_catalog.pg_class c ON c.oid = s.seqrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE {_OWN_SCHEMAS} AND {_NOT_OF_EXTENSION} AND c.relpersistence <> 't'
ORDER BY n.nspname, c.relname
"""
