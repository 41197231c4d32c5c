-- How values of each type travel.
--   encoding    text if an image would hold OIDs that another database does not share. Arrays and composites embed OIDs in their
--               values, and record_send writes each column's type OID: so types that users make (enums, domains, extensions'
--               types) go as text, too, and built-in types whose binary form loses something (xml) or is not accepted everywhere
--               (some releases refuse that of an empty tsquery)
--   plain_encoding  that of the type under all domains
--   checked_as  as which type a value's text is read where it is written; null if it is always accepted. Functions can make
--               values that their own type does not read, such as circle(point(0, 0), -1). One that others would refuse must be
--               refused here. Only built-in types: a cast of others may be a user's function
--   by_output   the text is what the output function gives, not a cast: a user may have made casts of the type (its own, or that under a
--               domain), and that of char takes blanks off
--   leaves      the scalar types that it is made of
-- (OFFSET 0, here and in other facts: each row is looked up by an index. PostgreSQL would join with all types.)
SELECT p.type, p.plain, format_type(p.plain, p.modifier) AS plain_type,
       CASE WHEN p.is_shared AND i.is_binary THEN 'binary' ELSE 'text' END AS encoding,
       CASE WHEN i.is_binary THEN 'binary' ELSE 'text' END AS plain_encoding,
       CASE WHEN p.plain < 16384 AND NOT i.has_users AND NOT i.is_read_as_text
            THEN 'pg_catalog.' || format_type(p.plain, -1) END AS checked_as,
       p.plain >= 16384 OR p.plain = 'bpchar'::regtype AS by_output, i.has_enum, i.leaves
  FROM plain_types p
 CROSS JOIN LATERAL (
    WITH RECURSIVE inside(type) AS (
        SELECT p.plain
        UNION
        SELECT part.type
          FROM inside CROSS JOIN LATERAL (SELECT * FROM pg_catalog.pg_type t WHERE t.oid = inside.type OFFSET 0) t
         CROSS JOIN LATERAL (
            SELECT t.typbasetype WHERE t.typtype = 'd'
            UNION ALL SELECT t.typelem WHERE t.typsubscript = 'pg_catalog.array_subscript_handler'::regproc
            UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a
                       WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
            UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE t.typtype = 'r' AND r.rngtypid = t.oid
            UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE t.typtype = 'm' AND r.rngmultitypid = t.oid
         ) part(type)
    ), kinds AS (
        SELECT t.oid, t.typtype AS kind, t.typarray <> 0 AS has_array,
               t.typsubscript = 'pg_catalog.array_subscript_handler'::regproc AS is_array,
               t.typtype IN ('b', 'e', 'p') AND t.typsubscript <> 'pg_catalog.array_subscript_handler'::regproc AS is_leaf,
               -- Every value's binary form is accepted by every server, and gives the same value.
               t.oid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'oid'::regtype, 'float4'::regtype,
                         'float8'::regtype, 'numeric'::regtype, 'money'::regtype, 'bool'::regtype, 'text'::regtype,
                         'varchar'::regtype, 'bpchar'::regtype, 'name'::regtype, '"char"'::regtype, 'bytea'::regtype,
                         'json'::regtype, 'jsonb'::regtype, 'uuid'::regtype, 'date'::regtype, 'time'::regtype,
                         'timetz'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype, 'interval'::regtype,
                         'inet'::regtype, 'cidr'::regtype, 'macaddr'::regtype, 'macaddr8'::regtype, 'bit'::regtype,
                         'varbit'::regtype, 'pg_lsn'::regtype, 'point'::regtype, 'lseg'::regtype, 'box'::regtype,
                         'tid'::regtype, 'xid'::regtype, 'xid8'::regtype, 'cid'::regtype) AS is_safe
          FROM inside CROSS JOIN LATERAL (SELECT * FROM pg_catalog.pg_type t WHERE t.oid = inside.type OFFSET 0) t
    )
    SELECT bool_and(oid < 16384 AND has_array AND NOT is_array AND kind <> 'c' AND (is_safe OR NOT is_leaf)) AS is_binary,
           coalesce(bool_or(oid >= 16384) FILTER (WHERE is_leaf), false) AS has_users,
           coalesce(bool_and(is_safe OR oid = 'tsquery'::regtype) FILTER (WHERE is_leaf), true) AS is_read_as_text,
           coalesce(bool_or(kind = 'e'), false) AS has_enum,
           coalesce(array_agg(oid ORDER BY oid) FILTER (WHERE is_leaf), '{}') AS leaves
      FROM kinds) i
