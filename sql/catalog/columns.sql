-- The columns of the application's tables. leaves: the scalar types that the column's type is made of.
, own_columns AS (
    SELECT a.* FROM own_relations o JOIN pg_catalog.pg_attribute a ON a.attrelid = o.relation
     WHERE o.kind IN ('r', 'p', 'f') AND a.attnum > 0 AND NOT a.attisdropped
), own_types AS MATERIALIZED (
    SELECT f.type, ARRAY(
               SELECT jsonb_build_object('is_builtin', t.oid < 16384, 'name', format_type(t.oid, -1), 'kind', t.typtype,
                                         'has_binary', t.typsend <> 0 AND t.typreceive <> 0)
                 FROM unnest(f.leaves) l JOIN pg_catalog.pg_type t ON t.oid = l ORDER BY t.oid) AS leaves
      FROM type_facts f WHERE f.type IN (SELECT atttypid FROM own_columns)
)
SELECT a.attrelid::int8 AS table_oid, a.attnum::int AS number, a.attname AS name,
       format_type(a.atttypid, a.atttypmod) AS type_name, a.attnotnull AS not_null, a.attidentity::text AS identity,
       a.attgenerated <> '' AS generated, t.leaves
  FROM own_columns a JOIN own_types t ON t.type = a.atttypid
 ORDER BY a.attrelid, a.attnum
